package comment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The ranges of the numbers that a user may write.
const (
	maxIterations = int64(1e12)
	maxGPUs       = 16384
	maxCounts     = 16 // different GPU counts
	maxTiers      = 8
	maxMilestones = 32
	maxEpochs     = 1_000_000
	maxValue      = 1e9
	maxRestore    = 24 * time.Hour
	maxAhead      = 3660 * 24 * time.Hour
)

// reader puts one value into the wish.
type reader func(w *Wish, v string, c Context) *problem

// keys are the known keys in the order of the documentation.
var keys = []string{"class", "deadline", "deadlines", "stop", "max", "gpus", "batch",
	"parallel", "ckpt", "restore", "milestones", "epoch", "profile"}

var readers = map[string]reader{
	"class":     readClass,
	"deadline":  readDeadline,
	"deadlines": readDeadlines,
	"stop":      readStop,
	"max":       func(w *Wish, v string, _ Context) (p *problem) { w.Max, p = integer(v, 1, maxIterations); return },
	"gpus":      readGPUs,
	"batch":     func(w *Wish, v string, _ Context) *problem { return choose(&w.Batch, v, LocalBatch, GlobalBatch) },
	"parallel": func(w *Wish, v string, _ Context) *problem {
		return choose(&w.Parallel, v, DataParallel, FixedParallel)
	},
	"ckpt":       readCkpt,
	"restore":    readRestore,
	"milestones": readMilestones,
	"epoch":      func(w *Wish, v string, _ Context) (p *problem) { w.Epoch, p = integer(v, 1, maxIterations); return },
	"profile":    func(w *Wish, v string, _ Context) *problem { return choose(&w.Profile, v, ProfileAuto, ProfileSkip) },
}

// Signals are the signals that ckpt takes. KILL is none of them.
var Signals = []string{"USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "CONT"}

func readClass(w *Wish, v string, _ Context) *problem {
	return choose(&w.Class, v, Strict, Soft, BestEffort)
}

// choose sets dst to the one of the words that v is.
func choose[T ~string](dst *T, v string, words ...T) *problem {
	names := make([]string, len(words))
	for i, word := range words {
		if T(v) == word {
			*dst = word
			return nil
		}
		names[i] = string(word)
	}
	return &problem{reason: fmt.Sprintf("%s is none of %s", quote(v), strings.Join(names, ", ")), suggest: nearest(v, names)}
}

func readDeadline(w *Wish, v string, c Context) *problem {
	at, p := moment(v, c)
	if p != nil {
		return p
	}
	w.Tiers = []Tier{{At: at, Value: FullValue}}
	return nil
}

func readDeadlines(w *Wish, v string, c Context) *problem {
	items := strings.Split(v, "/")
	if len(items) > maxTiers {
		return &problem{reason: fmt.Sprintf("%d deadlines, at most %d", len(items), maxTiers)}
	}
	var tiers []Tier
	start := 0
	for i, item := range items {
		colon := strings.LastIndexByte(item, ':')
		if colon < 0 {
			return &problem{at: start, reason: "expected time:value", suggest: "now+6h:100"}
		}
		at, p := moment(item[:colon], c)
		if p != nil {
			p.at += start
			return p
		}
		value, ok := number(item[colon+1:])
		if !ok || value <= 0 || value > maxValue {
			return &problem{at: start + colon + 1, reason: fmt.Sprintf("%s is no value from above 0 to %g", quote(item[colon+1:]), maxValue)}
		}
		if i > 0 && !at.After(tiers[i-1].At) {
			return &problem{at: start, reason: "times must rise"}
		}
		if i > 0 && value >= tiers[i-1].Value {
			return &problem{at: start + colon + 1, reason: "values must fall"}
		}
		tiers = append(tiers, Tier{At: at, Value: value})
		start += len(item) + 1
	}
	w.Tiers = tiers
	return nil
}

func readStop(w *Wish, v string, _ Context) *problem {
	if rest, ok := strings.CutPrefix(v, "iters:"); ok {
		n, p := integer(rest, 1, maxIterations)
		if p != nil {
			p.at += len("iters:")
			return p
		}
		w.Stop = Stop{Kind: StopIters, Iterations: n}
		return nil
	}
	rest, ok := strings.CutPrefix(v, "metric:")
	if !ok {
		return &problem{reason: quote(v) + " is neither iters:N nor metric:NAME>=X", suggest: "iters:90000"}
	}
	for _, op := range []Op{AtLeast, AtMost} {
		name, target, ok := strings.Cut(rest, string(op))
		if !ok {
			continue
		}
		if !metricName(name) {
			return &problem{at: len("metric:"), reason: quote(name) + " is no metric name (letters, digits, _ . -, at most 64)"}
		}
		x, ok := number(target)
		if !ok {
			return &problem{at: len("metric:") + len(name) + len(op), reason: quote(target) + " is not a number"}
		}
		w.Stop = Stop{Kind: StopMetric, Metric: name, Op: op, Target: x}
		return nil
	}
	return &problem{at: len("metric:"), reason: "a metric target needs >= or <=", suggest: "metric:val_acc>=0.92"}
}

func metricName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

func readGPUs(w *Wish, v string, _ Context) *problem {
	if lo, hi, ok := strings.Cut(v, "-"); ok {
		a, p := integer(lo, 1, maxGPUs)
		if p != nil {
			return p
		}
		b, p := integer(hi, a, maxGPUs)
		if p != nil {
			p.at += len(lo) + 1
			return p
		}
		w.GPUs = nil
		for n := int64(1); n <= b; n *= 2 {
			if n >= a {
				w.GPUs = append(w.GPUs, int(n))
			}
		}
		if len(w.GPUs) == 0 {
			return &problem{reason: "no power of two lies in the range", suggest: lo}
		}
		return nil
	}
	counts, p := rising(v, maxGPUs, maxCounts)
	if p != nil {
		return p
	}
	w.GPUs = counts
	return nil
}

func readMilestones(w *Wish, v string, _ Context) (p *problem) {
	w.Milestones, p = rising(v, maxEpochs, maxMilestones)
	return p
}

// rising reads "2/4/8".
func rising(v string, most int64, length int) ([]int, *problem) {
	items := strings.Split(v, "/")
	if len(items) > length {
		return nil, &problem{reason: fmt.Sprintf("%d numbers, at most %d", len(items), length)}
	}
	var out []int
	at := 0
	for _, item := range items {
		n, p := integer(item, 1, most)
		if p != nil {
			p.at += at
			return nil, p
		}
		if len(out) > 0 && int(n) <= out[len(out)-1] {
			return nil, &problem{at: at, reason: "numbers must rise"}
		}
		out = append(out, int(n))
		at += len(item) + 1
	}
	return out, nil
}

func readCkpt(w *Wish, v string, _ Context) *problem {
	if v == "none" {
		w.Ckpt = Ckpt{None: true}
		return nil
	}
	var c Ckpt
	name, at := v, 0
	if rest, ok := strings.CutPrefix(name, "B:"); ok {
		c.BatchOnly, name, at = true, rest, 2
	}
	if before, code, ok := strings.Cut(name, "+"); ok {
		n, p := integer(code, 1, 255)
		if p != nil {
			p.at += at + len(before) + 1
			return p
		}
		name, c.Exit = before, int(n)
	}
	if name == "none" {
		return &problem{reason: "none stands alone", suggest: "none"}
	}
	if !slices.Contains(Signals, name) {
		return &problem{at: at, reason: quote(name) + " is none of " + strings.Join(Signals, ", "),
			suggest: nearest(strings.TrimPrefix(strings.ToUpper(name), "SIG"), Signals)}
	}
	c.Signal = name
	w.Ckpt = c
	return nil
}

func readRestore(w *Wish, v string, _ Context) *problem {
	d, p := duration(v, maxRestore)
	if p != nil {
		return p
	}
	w.Restore = d
	return nil
}

func integer(v string, least, most int64) (int64, *problem) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || v[0] < '0' || v[0] > '9' || n < least || n > most {
		return 0, &problem{reason: fmt.Sprintf("%s is no whole number from %d to %d", quote(v), least, most)}
	}
	return n, nil
}

// number reads a finite decimal number.
func number(v string) (float64, bool) {
	if strings.Trim(v, "0123456789+-.eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(v, 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}
