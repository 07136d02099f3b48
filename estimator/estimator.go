// Package estimator turns what was measured of a training job into what planning needs: seconds per iteration on every shape,
// iterations left until the stop criterion, and the cost of suspending and resuming, each with an 80 % interval.
//
// It refuses to do anything impure: no clock, file, network, goroutine, logger, environment or global randomness. What is learnt from all jobs of
// a cluster is a value, [Fabric], which callers store and pass back. It never panics on what jobs report: numbers that make no sense
// are dropped, and an estimate from nothing is wide rather than missing. The bridge, the simulator and the eval commands call it.
package estimator

import (
	"math"
	"time"

	"unisched/planner"
)

// Sample is one measurement of the step time: a profile step, or a stretch of a real lease.
type Sample struct {
	Shape planner.Shape `json:"shape"`
	// Batch is the local batch size (samples per GPU and iteration); 0 is unknown.
	Batch float64 `json:"batch,omitempty"`
	// IterTime is the mean time of one iteration in seconds, StdErr the standard error of that mean (0: unknown), N the iterations measured.
	IterTime float64   `json:"iter_time_s"`
	StdErr   float64   `json:"std_err_s,omitempty"`
	N        int       `json:"n,omitempty"`
	At       time.Time `json:"at,omitzero"`
	// Profile is true for a profile step, Past for a measurement of an earlier job of the same kind (see [Past]).
	Profile bool `json:"profile,omitempty"`
	Past    bool `json:"past,omitempty"`
}

// Point is one report of the target metric.
type Point struct {
	Iter  int64   `json:"iter"`
	Epoch float64 `json:"epoch,omitempty"`
	Value float64 `json:"value"`
}

// StopKind says what ends a job.
type StopKind string

// The stop criteria. NoStop jobs declare nothing: only a time limit or a declared duration bounds them.
const (
	NoStop     StopKind = ""
	Iterations StopKind = "iterations"
	Metric     StopKind = "metric"
)

// Stop is the declared end of a job.
type Stop struct {
	Kind StopKind `json:"kind,omitempty"`
	// Iterations is the declared count (Iterations), Max the user's maximum (Metric).
	Iterations int64 `json:"iterations,omitempty"`
	Max        int64 `json:"max,omitempty"`
	// Metric ends the job when the named value is >= Target (Up) or <= Target (not Up).
	Metric string  `json:"metric,omitempty"`
	Up     bool    `json:"up,omitempty"`
	Target float64 `json:"target,omitempty"`
	// Milestones are the epochs of learning-rate drops, EpochIters the iterations per epoch (0: unknown; then taken from the curve).
	Milestones []int `json:"milestones,omitempty"`
	EpochIters int64 `json:"epoch_iters,omitempty"`
}

// SRSample is one measured checkpoint or resume.
type SRSample struct {
	GPUs  int `json:"gpus"`
	Nodes int `json:"nodes"`
	// Bytes is the size of the checkpoint (0: unknown), Seconds what it took, AtOnce how many others ran at the same time on the shared storage.
	Bytes   float64 `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds"`
	AtOnce  int     `json:"at_once,omitempty"`
}

// Scale says which batch size stays fixed when the GPU count changes.
type Scale string

// LocalBatch keeps samples per GPU, GlobalBatch samples per iteration.
const (
	LocalBatch  Scale = "local"
	GlobalBatch Scale = "global"
)

// Job is all that the estimator may know of one job.
type Job struct {
	Class     planner.Class `json:"class,omitempty"`
	Requested planner.Shape `json:"requested"`
	// Candidates are the shapes that planning asks about (Requested is always answered too).
	Candidates []planner.Shape `json:"candidates,omitempty"`
	Scale      Scale           `json:"scale,omitempty"`
	Stop       Stop            `json:"stop"`
	// Done is the largest iteration reported so far (progress is a maximum: steps repeated after a resume do not count twice).
	Done int64 `json:"done,omitempty"`
	// RanSeconds is how long the job has held GPUs so far, all runs together (0: unknown or never).
	RanSeconds  float64    `json:"ran_s,omitempty"`
	Samples     []Sample   `json:"samples,omitempty"`
	Curve       []Point    `json:"curve,omitempty"`
	Resumes     []SRSample `json:"resumes,omitempty"`
	Checkpoints []SRSample `json:"checkpoints,omitempty"`
	// PastEnds are the iterations at which earlier jobs of the same kind met the same stop criterion.
	PastEnds []int64 `json:"past_ends,omitempty"`
	// RestoreHint is the user's own word on the cost of a resume, in seconds (0: none).
	RestoreHint float64 `json:"restore_hint_s,omitempty"`
	// LimitSeconds is the time limit of the job, DeclaredSeconds the user's own word on its whole run time at Requested (0: none).
	LimitSeconds float64 `json:"limit_s,omitempty"`
	// WindowSeconds is the time from the submission to the last deadline (0: none). Kinds name those that the job is likely to be like (its user, its name), general before special.
	WindowSeconds   float64  `json:"window_s,omitempty"`
	Kinds           []string `json:"kinds,omitempty"`
	DeclaredSeconds float64  `json:"declared_s,omitempty"`
	// Lease is the length of this class's lease; Deadline the last one that is still worth something (zero: none).
	Lease    time.Duration `json:"lease_ns,omitempty"`
	Deadline time.Time     `json:"deadline,omitzero"`
	// GradBytes is the size of the gradients exchanged per iteration, CheckpointBytes that of a checkpoint (0: unknown).
	GradBytes       float64 `json:"grad_bytes,omitempty"`
	CheckpointBytes float64 `json:"checkpoint_bytes,omitempty"`
	// UnsavedSeconds is the run time since the last confirmed checkpoint; it is passed through.
	UnsavedSeconds float64 `json:"unsaved_s,omitempty"`
}

// Bounds on what is read of one job, so that an estimate stays cheap whatever a job reports.
const (
	maxSamples = 128  // of an estimate, the newest
	maxLearn   = 2048 // of a lesson, which is learnt once per job
	maxCurve   = 4096
	maxShapes  = 64
	maxIters   = 1e15
)

// Fallback run time of a job of which nothing is known, in seconds: the 80 % range of the public Philly and Helios traces is about
// one minute to one day; an estimate errs on the side of minutes to a day.
var unknownRun = planner.Interval{Low: 300, Mid: 7200, High: 86400}

// Estimate answers for one job. It never fails: Basis says where the numbers come from, and a job of which nothing is known gets the interval that
// its time limit allows. now is only used to count the lease slots before the deadline.
func (f Fabric) Estimate(j Job, now time.Time) planner.Estimate { return f.Ready().Estimate(j, now) }

// Estimate is [Fabric.Estimate] without the work that is the same for every job.
func (r *Ready) Estimate(j Job, now time.Time) planner.Estimate {
	f := r.fabric
	est := planner.Estimate{Reaches: 1, Unsaved: finiteOr(j.UnsavedSeconds, 0)}
	post, speeds, ok := f.single(&r.prior, j)
	if !ok {
		post = f.speed(&r.prior, j, maxSamples)
		speeds = post.speeds(j)
	}
	est.Speeds = speeds
	left := f.iterationsLeft(j)
	est.Iterations, est.Reaches = left.iters, left.reaches
	by := ""
	if !post.measured || !left.known {
		by = f.fromTime(j, &est, post, left)
	}
	est.Resume, est.Checkpoint = r.Costs(j)
	est.Suspensions = f.suspensions(j, est, now)
	est.Basis = basis(j, post, left, by)
	settle(&est)
	return est
}

// Bounds of what an estimate may say, far outside of anything real: they keep the arithmetic of callers finite.
const (
	minSpeed, maxSpeed = 1e-9, 1e9 // iterations per second
	maxSeconds         = 1e9       // about 30 years
)

// settle forces an estimate into its bounds and its order.
func settle(e *planner.Estimate) {
	for i := range e.Speeds {
		e.Speeds[i].Speed = bounded(e.Speeds[i].Speed, minSpeed, maxSpeed)
	}
	e.Iterations = bounded(e.Iterations, 0, maxIters)
	e.Resume, e.Checkpoint = bounded(e.Resume, 0, maxSeconds), bounded(e.Checkpoint, 0, maxSeconds)
	e.Suspensions = min(max(e.Suspensions, 0), 1e6)
	e.Unsaved = min(e.Unsaved, maxSeconds)
	e.Reaches = min(max(e.Reaches, 0), 1)
}

// bounded clamps an interval into [lo, hi] and restores Low <= Mid <= High; NaN becomes the nearest bound.
func bounded(i planner.Interval, lo, hi float64) planner.Interval {
	clamp := func(v, whenNaN float64) float64 {
		if math.IsNaN(v) {
			return whenNaN
		}
		return min(max(v, lo), hi)
	}
	i.Mid = clamp(i.Mid, lo)
	i.Low, i.High = min(clamp(i.Low, lo), i.Mid), max(clamp(i.High, hi), i.Mid)
	return i
}

// fromTime fills in what neither samples nor declarations give, from what is known about the run time. When the speed is unknown, the run time divided by the
// iterations left gives it; when the iterations are unknown, the run time times the speed gives them; when both are, an iteration is one second
// at the requested shape.
func (f Fabric) fromTime(j Job, est *planner.Estimate, post speedPosterior, left iterations) (basis string) {
	run, by := f.timeLeft(j)
	ref, ok := est.SpeedOf(j.Requested)
	if !ok || !(ref.Mid > 0) {
		ref = est.Speeds[0].Speed
	}
	switch {
	case post.measured: // iterations unknown
		est.Iterations = planner.Interval{Low: run.Low * ref.Mid, Mid: run.Mid * ref.Mid, High: run.High * ref.Mid}
	case left.known: // speed unknown: scale all shapes so that the requested one takes the run time
		n := max(est.Iterations.Mid, 1)
		for i, s := range est.Speeds {
			rel := s.Speed.Mid / ref.Mid
			est.Speeds[i].Speed = planner.Interval{Low: rel * n / run.High, Mid: rel * n / run.Mid, High: rel * n / run.Low}
		}
	default:
		est.Iterations = run
		for i, s := range est.Speeds {
			est.Speeds[i].Speed = planner.Interval{Low: s.Speed.Low / ref.Mid, Mid: s.Speed.Mid / ref.Mid, High: s.Speed.High / ref.Mid}
			if s.Shape.Equal(j.Requested) {
				est.Speeds[i].Speed = planner.Exactly(1)
			}
		}
	}
	return by
}

// timeLeft is the run time left at the requested shape from declarations and from what others took, in seconds, and which of them spoke ("": the job's own declarations, or nothing).
func (f Fabric) timeLeft(j Job) (left planner.Interval, by string) {
	limit := min(finiteOr(j.LimitSeconds, 0), maxSeconds)
	ran := min(finiteOr(j.RanSeconds, 0), maxSeconds)
	total, by, known := f.runTime(j)
	switch d := min(finiteOr(j.DeclaredSeconds, 0), maxSeconds); {
	case d > 0: // users err both ways; the limit still holds
		total, by = planner.Interval{Low: 0.5 * d, Mid: d, High: 1.5 * d}, ""
	case known:
		if ran > total.Mid { // it has outlived the half of its like
			left = planner.Interval{Low: 0.1 * ran, Mid: max(total.High-ran, 0.3*ran), High: max(total.High, 3*ran)}
			if limit > 0 {
				most := max(limit-ran, 1)
				left = planner.Interval{Low: min(left.Low, most), Mid: min(left.Mid, most), High: min(left.High, most)}
			}
			return left, by
		}
	case limit > 0:
		total = planner.Interval{Low: 0.05 * limit, Mid: 0.5 * limit, High: limit}
	default:
		total = unknownRun
		if ran > total.Mid { // the longer a job has run, the longer it will: the past is the best guess of the future
			return planner.Interval{Low: 0.1 * ran, Mid: ran, High: 10 * ran}, ""
		}
	}
	if limit > 0 {
		total.Mid, total.High = min(total.Mid, limit), min(total.High, limit)
		total.Low = min(total.Low, total.Mid)
	}
	least := 0.02 * total.High // a job that outlived its declaration is believed to be near its end
	high := max(total.High-ran, least)
	mid := total.Mid - ran
	age := min(ran/max(total.Mid, 1), 1) // the longer it has run, the less what was said before counts
	mid = max(mid, 0.25*high*age)
	mid = min(max(mid, least/2), high)
	low := min(max(total.Low-ran, 0.2*mid*age), mid)
	return planner.Interval{Low: low, Mid: mid, High: high}, by
}

// finiteOr returns v when it is a finite number >= 0, else d.
func finiteOr(v, d float64) float64 {
	if v >= 0 && v <= math.MaxFloat64 {
		return v
	}
	return d
}
