package progress

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// JSON returns the line in its one canonical form, always valid JSON and at most MaxLineBytes long: the kind's marker,
// iter, epoch, details, metrics by name, t. Parse(l.JSON()) gives l again, apart from Dropped. Writers use it for what
// they append, the watcher for what it sends, so that a daemon never sees the user's own bytes.
func (l Line) JSON() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLine, err)
	}
	b := []byte{'{'}
	key := func(name string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, '"', ':')
	}
	switch l.Kind {
	case Ready, Checkpoint, Done:
		key(l.Kind.String())
		b = append(b, "true"...)
	case Signal:
		key("signal")
		b = strconv.AppendQuote(b, l.Signal)
	}
	if l.HasIter {
		key("iter")
		b = strconv.AppendInt(b, l.Iter, 10)
	}
	if l.HasEpoch {
		key("epoch")
		b = appendFloat(b, l.Epoch)
	}
	if l.Resumed {
		key("resumed")
		b = append(b, "true"...)
	}
	if l.Reason != "" {
		key("reason")
		b = strconv.AppendQuote(b, l.Reason)
	}
	for _, d := range []struct {
		name string
		n    int64
	}{{"grad_bytes", l.GradBytes}, {"batch", l.Batch}, {"bytes", l.Bytes}} {
		if d.n != 0 {
			key(d.name)
			b = strconv.AppendInt(b, d.n, 10)
		}
	}
	if l.Seconds != 0 {
		key("seconds")
		b = appendFloat(b, l.Seconds)
	}
	for _, m := range l.Metrics {
		key(m.Name)
		b = appendFloat(b, m.Value)
	}
	if !l.Time.IsZero() {
		key("t")
		b = strconv.AppendFloat(b, float64(l.Time.UnixMicro())/1e6, 'f', 6, 64)
	}
	return append(b, '}'), nil
}

func (l Line) check() error {
	switch {
	case kindNames[l.Kind] == "":
		return errors.New("no kind")
	case !l.HasIter && l.Kind == Progress:
		return errors.New("no iter")
	case l.Iter < 0 || l.Iter > MaxIter:
		return errors.New("iter out of range")
	case len(l.Metrics) > MaxMetrics:
		return fmt.Errorf("%d metrics, at most %d", len(l.Metrics), MaxMetrics)
	case l.Kind == Signal && !validSignal(l.Signal):
		return errors.New("signal: want a name such as USR1")
	case l.Reason != "" && (len(l.Reason) > maxReasonBytes || !validWord(l.Reason, ":")):
		return errors.New("reason: want at most 64 bytes of letters, digits and _.:-")
	case !isFinite(l.Epoch) || l.Epoch < 0 || !isFinite(l.Seconds) || l.Seconds < 0:
		return errors.New("epoch or seconds not finite or negative")
	}
	for i, m := range l.Metrics {
		if i > 0 && m.Name <= l.Metrics[i-1].Name {
			return errors.New("metrics not sorted or doubled")
		}
		if !isFinite(m.Value) || len(m.Name) > MaxNameBytes || !validWord(m.Name, "") || reserved(l.Kind, m.Name) {
			return fmt.Errorf("metric %.64q: want a plain name and a finite value", m.Name)
		}
	}
	return nil
}

// reserved says whether a metric of this name would be read back as something else.
func reserved(k Kind, name string) bool {
	switch name {
	case "ready", "checkpoint", "done", "signal", "iter", "epoch", "t":
		return true
	case "resumed", "reason", "grad_bytes", "batch", "bytes", "seconds":
		return k != Progress
	}
	return false
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func appendFloat(b []byte, f float64) []byte {
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}
