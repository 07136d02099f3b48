// Package progress holds the one parser of the progress lines that training jobs write, and the signed wire form in
// which a node sends them to the daemon. It refuses to trust its input: lines and reports come from users' jobs and
// from the network, so bytes, counts, depth and number ranges are bounded, and nothing here panics or reads a clock,
// a file or the network. The node watcher (hooks/cmd/unisched-node), the daemon's node listener and the tests call it.
// It uses the standard library only.
package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"time"
)

// Bounds on one line. A longer or richer line is refused or cut, never an excuse to allocate.
const (
	MaxLineBytes   = 4096    // bytes of one line without its newline
	MaxMetrics     = 16      // metrics kept of one line, in the order written
	MaxNameBytes   = 64      // bytes of a metric's name
	MaxIter        = 1 << 53 // iterations; larger ones do not survive JSON readers that use doubles
	maxReasonBytes = 64
)

// ErrLine is wrapped by every error that Parse returns.
var ErrLine = errors.New("progress line")

// Kind says what a line reports. A line has exactly one kind.
type Kind uint8

// The kinds of line. Progress is the plain {"iter":N} line, with or without metrics.
const (
	Progress   Kind = iota + 1 // training reached iteration Iter
	Ready                      // signal handlers are installed; Iter (if any) is where this run starts
	Checkpoint                 // a checkpoint (of iteration Iter, if known) is safe on disk
	Done                       // the job met its own stop criterion at Iter
	Signal                     // the signal named in Line.Signal reached the job
)

var kindNames = map[Kind]string{Progress: "iter", Ready: "ready", Checkpoint: "checkpoint", Done: "done", Signal: "signal"}

// String returns the member name that marks the kind, or "invalid".
func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return "invalid"
}

// Metric is one named, finite value.
type Metric struct {
	Name  string
	Value float64
}

// Line is one parsed progress line. Absent optional members are zero; Iter and Epoch have their own flags because zero
// is a meaningful value for them.
type Line struct {
	Kind     Kind
	Iter     int64 // iterations completed since the very first start of the job, 0..MaxIter
	HasIter  bool
	Epoch    float64
	HasEpoch bool
	Metrics  []Metric // sorted by name, each name once

	Resumed   bool    // ready: the run continues from a checkpoint
	GradBytes int64   // ready: bytes of gradients exchanged per iteration
	Batch     int64   // ready: samples per GPU and iteration
	Bytes     int64   // checkpoint: size on disk
	Seconds   float64 // checkpoint: time spent writing it
	Reason    string  // done: "target", "iters", ...; at most 64 bytes of [A-Za-z0-9_.:-]
	Signal    string  // signal: name without SIG, for example "USR1"

	Time    time.Time // when the job wrote it ("t"), zero when absent; the job's clock, so never trusted for deadlines
	Dropped int       // members left out: metrics that are not finite numbers, foreign members, more than MaxMetrics
}

// Parse reads one line without its newline. Values that are not finite numbers (NaN, Infinity, null, strings) cost
// only their own metric, which is counted in Dropped; a bad kind, iteration or shape is an error that wraps [ErrLine].
func Parse(b []byte) (Line, error) {
	if len(b) > MaxLineBytes {
		return Line{}, fmt.Errorf("%w: %d bytes, at most %d", ErrLine, len(b), MaxLineBytes)
	}
	members, err := flatObject(b)
	if err != nil {
		return Line{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	var l Line
	if err := l.setKind(members); err != nil {
		return Line{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	for _, m := range members {
		if err := l.setMember(m); err != nil {
			return Line{}, fmt.Errorf("%w: %w", ErrLine, err)
		}
	}
	if !l.HasIter && l.Kind == Progress {
		return Line{}, fmt.Errorf("%w: no iter", ErrLine)
	}
	sort.Slice(l.Metrics, func(i, j int) bool { return l.Metrics[i].Name < l.Metrics[j].Name })
	return l, nil
}

// member is one name and value of a flat object. The value is a json.Number, string, bool or nil; nested values are
// skipped and marked as such.
type member struct {
	name   string
	value  any
	nested bool
}

// flatObject splits b into its members in the order written. Doubled names and anything after the object are errors:
// two readers of such a line could disagree.
func flatObject(b []byte) ([]member, error) {
	if out, ok := plainObject(b); ok {
		return out, nil
	}
	return anyObject(b)
}

// anyObject is flatObject for every line.
func anyObject(b []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(bareNaNToNull(b)))
	dec.UseNumber()
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var out []member
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)} // inside an object the decoder only yields string names
		if seen[m.name] {
			return nil, fmt.Errorf("member %.64q twice", m.name)
		}
		seen[m.name] = true
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		if m.value, m.nested, err = scalar(raw); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the object")
	}
	return out, nil
}

func scalar(raw json.RawMessage) (v any, nested bool, err error) {
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return nil, true, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, false, err
}

// bareNaNToNull replaces the bare words that Python's json module writes for values JSON does not have, so that one
// diverged loss does not cost the iteration count of its line.
func bareNaNToNull(b []byte) []byte {
	if !bytes.ContainsAny(b, "NIni") {
		return b
	}
	words := []string{"-Infinity", "Infinity", "NaN", "-inf", "inf", "nan"}
	out := make([]byte, 0, len(b)+8)
	inString := false
scan:
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case inString && c == '\\' && i+1 < len(b):
			out = append(out, c, b[i+1])
			i += 2
			continue
		case c == '"':
			inString = !inString
		case !inString:
			for _, w := range words {
				if bytes.HasPrefix(b[i:], []byte(w)) {
					out = append(out, "null"...)
					i += len(w)
					continue scan
				}
			}
		}
		out = append(out, c)
		i++
	}
	return out
}

// setKind finds the one kind marker. {"ready":false} marks nothing, so it is refused instead of guessed at.
func (l *Line) setKind(members []member) error {
	for _, m := range members {
		k := Kind(0)
		switch m.name {
		case "ready":
			k = Ready
		case "checkpoint":
			k = Checkpoint
		case "done":
			k = Done
		case "signal":
			k = Signal
			s, ok := m.value.(string)
			if !ok || !validSignal(s) {
				return errors.New("signal: want a name such as USR1")
			}
			l.Signal = s
		default:
			continue
		}
		if k != Signal && m.value != true {
			return fmt.Errorf("%s: want true", m.name)
		}
		if l.Kind != 0 {
			return fmt.Errorf("both %s and %s", l.Kind, k)
		}
		l.Kind = k
	}
	if l.Kind == 0 {
		l.Kind = Progress
	}
	return nil
}

func (l *Line) setMember(m member) error {
	switch m.name {
	case "ready", "checkpoint", "done", "signal":
		return nil
	case "iter":
		n, err := integer(m.value)
		if err != nil {
			return fmt.Errorf("iter: %w", err)
		}
		l.Iter, l.HasIter = n, true
		return nil
	case "epoch":
		if v, ok := finite(m.value); ok && v >= 0 {
			l.Epoch, l.HasEpoch = v, true
			return nil
		}
	case "t":
		if v, ok := finite(m.value); ok && v >= 0 && v < 1e10 { // 1e10 s is the year 2286
			l.Time = time.UnixMicro(int64(math.Round(v * 1e6))).UTC()
			return nil
		}
	case "resumed", "reason", "grad_bytes", "batch", "bytes", "seconds":
		if l.setDetail(m) {
			return nil
		}
		if _, isNumber := finite(m.value); isNumber && l.Kind == Progress {
			return l.addMetric(m) // a metric that happens to be called "batch" or "bytes"
		}
	default:
		return l.addMetric(m)
	}
	l.Dropped++
	return nil
}

// setDetail takes the optional members that belong to one kind of line. It reports false when the member does not
// belong to this kind or has a wrong value.
func (l *Line) setDetail(m member) bool {
	n, err := integer(m.value)
	isInt := err == nil
	v, isNumber := finite(m.value)
	s, isString := m.value.(string)
	switch {
	case m.name == "resumed" && l.Kind == Ready:
		l.Resumed = m.value == true
		return l.Resumed || m.value == false
	case m.name == "grad_bytes" && l.Kind == Ready && isInt:
		l.GradBytes = n
	case m.name == "batch" && l.Kind == Ready && isInt:
		l.Batch = n
	case m.name == "bytes" && l.Kind == Checkpoint && isInt:
		l.Bytes = n
	case m.name == "seconds" && l.Kind == Checkpoint && isNumber && v >= 0:
		l.Seconds = v
	case m.name == "reason" && l.Kind == Done && isString && len(s) <= maxReasonBytes && validWord(s, ":"):
		l.Reason = s
	default:
		return false
	}
	return true
}

// addMetric keeps a finite number under a plain name and counts everything else as dropped.
func (l *Line) addMetric(m member) error {
	v, ok := finite(m.value)
	if m.nested || !ok || len(m.name) > MaxNameBytes || !validWord(m.name, "") || len(l.Metrics) >= MaxMetrics {
		l.Dropped++
		return nil
	}
	l.Metrics = append(l.Metrics, Metric{Name: m.name, Value: v})
	return nil
}

// integer accepts 0..MaxIter, also written as 1200.0 or 1.2e3.
func integer(v any) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, errors.New("want a number")
	}
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil && i >= 0 && i <= MaxIter {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || f < 0 || f > MaxIter {
		return 0, fmt.Errorf("want an integer from 0 to 2^53")
	}
	return int64(f), nil
}

func finite(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, false
	}
	return f + 0, true // + 0 turns -0 into 0, which re-encodes to the same text
}

func validWord(s, extra string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		case len(extra) > 0 && bytes.IndexByte([]byte(extra), c) >= 0:
		default:
			return false
		}
	}
	return len(s) > 0
}

// validSignal accepts names such as USR1 or RTMIN+3, without SIG, at most 16 bytes.
func validSignal(s string) bool {
	if len(s) == 0 || len(s) > 16 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '-' {
			return false
		}
	}
	return true
}
