// Package planner holds the words of planning as plain values: jobs and runs, shapes and placements, estimates, the
// snapshot that a plan is made from, the plan itself, and [Check], the only judge of whether a plan is feasible.
//
// It refuses to do anything impure: no clock, file, network, goroutine, logger, environment or global randomness, and it
// knows nothing of Slurm. The bridge builds snapshots and carries plans out; policies (planner/lease, planner/policy) turn
// one into the other; the simulator and offline replay call the very same code.
package planner

import (
	"cmp"
	"fmt"
	"time"
)

// JobID is the scheduler's number of a job (Slurm's raw job id).
type JobID int64

// Run is a job together with its restart count. Every decision and action names a Run, never a bare job, so that
// nothing decided about one run can hit the next.
type Run struct {
	Job     JobID `json:"job"`
	Restart int   `json:"restart"`
}

func (r Run) String() string { return fmt.Sprintf("%d.%d", r.Job, r.Restart) }

// Compare orders runs by job, then restart: the total order wherever nothing else decides.
func (r Run) Compare(o Run) int {
	if c := cmp.Compare(r.Job, o.Job); c != 0 {
		return c
	}
	return cmp.Compare(r.Restart, o.Restart)
}

// Class is the latency demand of a job.
type Class string

// The four classes of the UniSched paper (section 1: strict SLO, soft SLO, best effort, profiler).
const (
	Strict     Class = "strict"
	Soft       Class = "soft"
	BestEffort Class = "besteffort"
	Profiler   Class = "profiler"
)

// SLO reports whether the class carries deadlines.
func (c Class) SLO() bool { return c == Strict || c == Soft }

// Tier is one deadline of an SLO job and what meeting it is worth, on the scale 0..100 of the paper. A strict job has one tier
// of value 100; a soft job has up to eight with rising times and falling values.
type Tier struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// Interval is a quantity with its 80 % interval: Low <= Mid <= High. The unit is that of the field that holds it.
type Interval struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

// Exactly is an Interval without width.
func Exactly(v float64) Interval { return Interval{v, v, v} }

// Less is what is left of the quantity when d of it is done: never below 0.
func (i Interval) Less(d float64) Interval {
	return Interval{max(i.Low-d, 0), max(i.Mid-d, 0), max(i.High-d, 0)}
}

// At returns the value at quantile q, linear between Low (0.1), Mid (0.5) and High (0.9) and flat beyond.
func (i Interval) At(q float64) float64 {
	switch {
	case q <= 0.1:
		return i.Low
	case q <= 0.5:
		return i.Low + (i.Mid-i.Low)*(q-0.1)/0.4
	case q <= 0.9:
		return i.Mid + (i.High-i.Mid)*(q-0.5)/0.4
	default:
		return i.High
	}
}
