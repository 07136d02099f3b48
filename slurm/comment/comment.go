// Package comment reads what a user writes for UniSched into sbatch's
// --comment: the token "unisched:key=value,key=value" among foreign text, or
// the member "unisched" of a JSON object. It is pure: the current time, the
// site's zone and the job's request are arguments. It refuses to guess; every
// part that it cannot read is an error that names the byte, the key and what
// to write instead, and the job is then left to plain Slurm. The bridge and
// the lint and parse commands call it.
package comment

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxBytes is sbatch's own limit of a comment.
const MaxBytes = 1024

// Class is a job's latency demand.
type Class string

// The classes. BestEffort is the default.
const (
	Strict     Class = "strict"
	Soft       Class = "soft"
	BestEffort Class = "besteffort"
)

// Tier is what finishing by an instant is worth.
type Tier struct {
	At    time.Time // in the site's zone
	Value float64   // > 0; the only tier of a strict job has FullValue
}

// FullValue is the value of a strict job's deadline.
const FullValue = 100.0

// StopKind is the form of the stop criterion.
type StopKind string

// The stop criteria. StopNone is the default: the job ends by itself.
const (
	StopNone   StopKind = "none"
	StopIters  StopKind = "iters"
	StopMetric StopKind = "metric"
)

// Op is the direction of a metric target.
type Op string

// A metric target is reached at or above, or at or below, its value.
const (
	AtLeast Op = ">="
	AtMost  Op = "<="
)

// Stop is when the job is done.
type Stop struct {
	Kind       StopKind
	Iterations int64  // StopIters
	Metric     string // StopMetric: [A-Za-z0-9_.-]{1,64}
	Op         Op
	Target     float64 // finite
}

// Batch is what stays fixed when the number of GPUs changes.
type Batch string

// LocalBatch keeps the batch per GPU, GlobalBatch the sum over the GPUs.
const (
	LocalBatch  Batch = "local"
	GlobalBatch Batch = "global"
)

// Parallel is how the job uses several GPUs.
type Parallel string

// DataParallel jobs may run on other counts, FixedParallel jobs never.
const (
	DataParallel  Parallel = "dp"
	FixedParallel Parallel = "fixed"
)

// Profile says whether the job may be measured first.
type Profile string

// The choices of profile.
const (
	ProfileAuto Profile = "auto"
	ProfileSkip Profile = "skip"
)

// Ckpt is how the job is asked to save its state. None means that it cannot
// be: such a job is never preempted and never profiled.
type Ckpt struct {
	None      bool
	Signal    string // "USR1", without SIG; "" when None
	BatchOnly bool   // only the batch shell gets the signal
	Exit      int    // exit code after a saved checkpoint, 0 = the site's
}

// Wish is what the user wrote, with defaults filled in. Zero numbers mean not
// given.
type Wish struct {
	Class Class
	// Tiers are by rising time and falling value; empty for best effort.
	Tiers []Tier
	Stop  Stop
	Max   int64 // iterations at most, for a metric target
	// GPUs are the allowed totals, rising; empty when nothing was written and
	// the request has none. Several make the job elastic.
	GPUs       []int
	Batch      Batch
	Parallel   Parallel
	Ckpt       Ckpt
	Restore    time.Duration // known resume cost, 0 = to be measured
	Milestones []int         // epochs of learning-rate drops, rising
	Epoch      int64         // iterations per epoch
	Profile    Profile
}

// Elastic says that the job may run on several GPU counts.
func (w Wish) Elastic() bool { return len(w.GPUs) > 1 }

// Context is what the meaning of a comment depends on.
type Context struct {
	// Now is the instant against which a deadline is in the past: the
	// admission, for a job that was admitted earlier.
	Now time.Time
	// Zone reads times without a zone; nil is UTC.
	Zone *time.Location
	// First is the job's first submission, from which "now+6h" counts; zero
	// means Now.
	First time.Time
	// RequestGPUs is what sbatch asked for, the default of gpus.
	RequestGPUs int
}

// ErrNone is returned for a comment that holds no part for UniSched.
var ErrNone = errors.New("comment: nothing for unisched")

// Error says what is wrong with a comment, and where.
type Error struct {
	Offset  int    // byte of the comment
	Key     string // "" when it is not about one key
	Reason  string
	Suggest string // what to write instead, "" when nothing is near
}

// Error is one printable line; text of the comment is quoted.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "comment: byte %d: ", e.Offset)
	if e.Key != "" {
		fmt.Fprintf(&b, "%s: ", clip(e.Key))
	}
	b.WriteString(e.Reason)
	if e.Suggest != "" {
		fmt.Fprintf(&b, "; try %s", e.Suggest)
	}
	return b.String()
}

// Parse reads the comment s. The error is ErrNone when there is no part for
// UniSched, else an *Error.
func Parse(s string, c Context) (Wish, error) {
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	if c.First.IsZero() {
		c.First = c.Now
	}
	fields, at, err := find(s)
	if err != nil {
		return Wish{}, err
	}
	w := Wish{Class: BestEffort, Stop: Stop{Kind: StopNone}, Batch: LocalBatch,
		Parallel: DataParallel, Ckpt: Ckpt{None: true}, Profile: ProfileAuto}
	if c.RequestGPUs > 0 {
		w.GPUs = []int{c.RequestGPUs}
	}
	seen := map[string]field{}
	for _, f := range fields {
		read, ok := readers[f.key]
		if !ok {
			return Wish{}, &Error{Offset: f.keyAt, Key: f.key, Reason: "unknown key", Suggest: nearest(f.key, keys)}
		}
		if _, double := seen[f.key]; double {
			return Wish{}, &Error{Offset: f.keyAt, Key: f.key, Reason: "is written twice"}
		}
		seen[f.key] = f
		if bad := read(&w, f.value, c); bad != nil {
			return Wish{}, f.wrong(bad)
		}
	}
	if err := consistent(w, seen, at); err != nil {
		return Wish{}, err
	}
	return w, nil
}

// consistent judges the keys together. at is the offset of the whole part.
func consistent(w Wish, seen map[string]field, at int) error {
	wrong := func(key, reason, suggest string) error {
		if f, ok := seen[key]; ok {
			return &Error{Offset: f.keyAt, Key: key, Reason: reason, Suggest: suggest}
		}
		return &Error{Offset: at, Key: key, Reason: reason, Suggest: suggest}
	}
	_, deadline := seen["deadline"]
	_, deadlines := seen["deadlines"]
	switch {
	case deadline && deadlines:
		return wrong("deadlines", "deadline and deadlines exclude each other", "")
	case w.Class == Strict && deadlines:
		return wrong("deadlines", "class=strict takes one deadline", "class=soft")
	case w.Class == Strict && !deadline:
		return wrong("class", "strict needs deadline", "deadline=now+6h")
	case w.Class == Soft && !deadlines:
		return wrong("class", "soft needs deadlines", "deadlines=now+6h:100/now+9h:20")
	case w.Class == BestEffort && deadline:
		return wrong("deadline", "besteffort jobs have no deadline", "class=strict")
	case w.Class == BestEffort && deadlines:
		return wrong("deadlines", "besteffort jobs have no deadlines", "class=soft")
	case w.Stop.Kind == StopMetric && w.Max == 0:
		return wrong("stop", "a metric target needs max", "max=90000")
	case w.Stop.Kind != StopMetric && w.Max != 0:
		return wrong("max", "only a metric target takes max", "stop=iters:"+fmt.Sprint(w.Max))
	case w.Parallel == FixedParallel && w.Elastic():
		return wrong("gpus", "parallel=fixed runs on one GPU count", "")
	}
	return nil
}

// Echo writes a wish as lines for people, with absolute instants and their
// zone.
func Echo(w Wish) string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s"+format+"\n", append([]any{key}, args...)...)
	}
	line("class", "%s", w.Class)
	for _, t := range w.Tiers {
		if w.Class == Strict {
			line("deadline", "%s", instant(t.At))
		} else {
			line("deadline", "%s worth %g", instant(t.At), t.Value)
		}
	}
	switch w.Stop.Kind {
	case StopIters:
		line("stop", "after %d iterations", w.Stop.Iterations)
	case StopMetric:
		line("stop", "%s %s %g, at most %d iterations", w.Stop.Metric, w.Stop.Op, w.Stop.Target, w.Max)
	}
	if len(w.GPUs) > 0 {
		line("gpus", "%s", joinInts(w.GPUs, " or "))
	}
	line("batch", "%s", w.Batch)
	line("parallel", "%s", w.Parallel)
	line("ckpt", "%s", w.Ckpt)
	if w.Restore > 0 {
		line("restore", "%s", w.Restore)
	}
	if len(w.Milestones) > 0 {
		line("milestones", "%s", joinInts(w.Milestones, ", "))
	}
	if w.Epoch > 0 {
		line("epoch", "%d iterations", w.Epoch)
	}
	line("profile", "%s", w.Profile)
	return b.String()
}

// String is the form that a user writes.
func (c Ckpt) String() string {
	if c.None {
		return "none"
	}
	s := c.Signal
	if c.BatchOnly {
		s = "B:" + s
	}
	if c.Exit != 0 {
		s += fmt.Sprintf("+%d", c.Exit)
	}
	return s
}

func instant(t time.Time) string { return t.Format("2006-01-02 15:04:05 -07:00 (MST)") }

func joinInts(ns []int, sep string) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, sep)
}
