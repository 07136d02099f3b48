package bridge

import (
	"cmp"
	"fmt"
	"time"

	"unisched/hooks/progress"
	"unisched/planner"
)

// What a job says of its progress decides how long it is expected to run, and among best-effort jobs the short ones go first: whoever claims to be nearly done jumps the
// queue. Claims are therefore held against what can be seen from outside: the iterations that the job declared, the time that its own claims foretold, and, where nodes
// measure it, whether its GPUs work. A job whose claims do not hold is planned by the time limit that it declared to Slurm, which it cannot lie about without being ended
// by it. Nothing is stopped or ended for a doubt.

// Doubts is what is held against the claims of the run in progress.
type Doubts struct {
	// Foretold is the least run time of this run, in seconds, that the job's claims foretold: what it had run, and the iterations that it said were left at the pace that it said.
	Foretold float64 `json:"foretold_s,omitempty"`
	// What the nodes measured of its GPUs since Since: GPU-seconds, and how busy they were in them. SinceIter is the iteration at that time.
	Since     time.Time `json:"since,omitzero"`
	SinceIter int64     `json:"since_iter,omitempty"`
	Seconds   float64   `json:"gpu_seconds,omitempty"`
	Busy      float64   `json:"busy_gpu_seconds,omitempty"`
	// Looks counts those figures, Idle the times in a row in which nothing trained by them although iterations were reported.
	Looks int `json:"gpu_looks,omitempty"`
	Idle  int `json:"idle_stretches,omitempty"`
	// Stalled says that its users were told of a stall.
	Stalled bool `json:"stalled,omitempty"`
}

// Bounds of the judgement.
const (
	tooLong    = 2    // times what its claims foretold
	idleGPU    = 0.02 // mean utilisation at which nothing trains
	fullGPU    = 0.9
	leastClaim = time.Minute // of reported iterations that foretell anything
	doubtUnit  = 2           // units of grace, and of looking at GPUs
	leastLooks = 30          // figures of GPUs in one stretch: each is of a moment
	idleDoubt  = 4           // idle stretches in a row: a job that computes for 8 % of the time has all of them by chance once in 20,000 times
)

// measure takes in what a node measured of the job's GPUs.
func (r *Record) measure(now time.Time, u *progress.Usage) {
	if u == nil || !r.Phase.OnGPUs() {
		return
	}
	d := &r.Doubts
	if d.Since.IsZero() {
		d.Since, d.SinceIter = now, r.Run.LastIter
		return // the first figures may be of the time before
	}
	d.Seconds += u.Seconds * float64(u.GPUs)
	d.Busy += u.Seconds * float64(u.GPUs) * u.Busy
	d.Looks++
}

// doubt holds the claims of the running jobs against what was seen, once a round.
func (b *Bridge) doubt(now time.Time) {
	for _, rec := range b.known() {
		if rec.Phase != Running || rec.Run.Start.IsZero() {
			continue
		}
		b.doubtGPUs(now, rec)
		if rec.Doubted != "" || rec.made.input.samples == 0 {
			continue
		}
		if why := b.doubtClaims(now, rec); why != "" {
			b.disbelieve(now, rec, why)
		}
	}
}

// disbelieve notes why the job's claims are not planned with any more.
func (b *Bridge) disbelieve(now time.Time, rec *Record, why string) {
	rec.Doubted = why
	b.counts.Doubted++
	rec.note(now, "progress-doubted", why+": planned by its time limit from now on")
	b.log(now, "warn", "progress-doubted", rec.Job, "%s", why)
	b.rouse("a job's progress is doubted")
}

// doubtClaims says which claim does not hold, "" for none.
func (b *Bridge) doubtClaims(now time.Time, rec *Record) string {
	declared := cmp.Or(rec.Wish.Stop.Iterations, rec.Wish.Max)
	if declared > 0 && float64(rec.Iter) > float64(declared)*(1+slackIters)+1 {
		return fmt.Sprintf("it reports iteration %d of %d and trains on", rec.Iter, declared)
	}
	n := len(rec.Samples)
	if rec.Wish.Stop.Iterations <= 0 || n == 0 || !rec.Samples[n-1].At.Equal(rec.Run.FirstAt) { // when a metric's target is reached is our own guess
		return ""
	}
	d, ran, claim := &rec.Doubts, now.Sub(rec.Run.Start).Seconds(), rec.Samples[n-1]
	if float64(claim.N)*claim.IterTime < leastClaim.Seconds() {
		return ""
	}
	if total := ran + float64(max(rec.Wish.Stop.Iterations-rec.Iter, 0))*claim.IterTime; d.Foretold == 0 || total < d.Foretold {
		d.Foretold, rec.dirty = total, true
	}
	if ran > tooLong*d.Foretold+(doubtUnit*b.cfg.Unit).Seconds() {
		return fmt.Sprintf("by its own reports this run would have ended within %s, and it has run for %s", Span(planner.Seconds(d.Foretold)), Span(planner.Seconds(ran)))
	}
	return ""
}

// doubtGPUs compares progress and the work of the GPUs, where it is measured: iterations without work are doubted, work without iterations is a stall.
func (b *Bridge) doubtGPUs(now time.Time, rec *Record) {
	d := &rec.Doubts
	gpus := float64(max(rec.Placement.GPUs(), 1))
	if d.Since.IsZero() || d.Seconds < gpus*(doubtUnit*b.cfg.Unit).Seconds() || d.Looks < leastLooks {
		return
	}
	busy, more := d.Busy/d.Seconds, rec.Run.LastIter-d.SinceIter
	over := Span(planner.Seconds(d.Seconds / gpus))
	if more > 0 && busy < idleGPU {
		d.Idle++
	} else {
		d.Idle = 0
	}
	switch {
	case d.Idle >= idleDoubt && rec.Doubted == "":
		b.disbelieve(now, rec, fmt.Sprintf("it reports %d iterations in the last %s, in which its GPUs were busy for %.1f %% of the time, as in %d such stretches before", more, over,
			100*busy, idleDoubt-1))
	case more <= 0 && busy >= fullGPU && !rec.Run.Ready.IsZero() && !d.Stalled:
		d.Stalled = true
		b.counts.Stalls++
		text := fmt.Sprintf("no iteration in %s, with its GPUs busy for %.0f %% of the time: a hang in communication looks like this", over, 100*busy)
		rec.note(now, "stalled", text)
		b.log(now, "warn", "stalled", rec.Job, "%s", text)
	case more > 0:
		d.Stalled = false
	}
	d.Since, d.SinceIter, d.Seconds, d.Busy, d.Looks = now, rec.Run.LastIter, 0, 0, 0
	rec.dirty = true
}

// mayEvict reports whether the site wants a job preempted that declared a checkpoint signal and has shown no sign of life for a whole lease: it is requeued, not signalled,
// since a signal might kill it for good.
func (b *Bridge) mayEvict(rec *Record) bool {
	lease := time.Duration(b.cfg.SLOUnits) * b.cfg.Unit
	return b.cfg.Unconfirmed == Evict && rec.Phase == Running && b.seen.At.Sub(rec.Run.Start) >= max(lease, b.cfg.CheckpointTimeout) || b.cfg.Unconfirmed == Evict && rec.Phase == Checkpointing
}

// doubted is the estimate of a job whose claims do not hold: it takes what its time limit leaves it, or as long again as it has run already, whichever is longer.
func (r *Record) doubted(e planner.Estimate, now time.Time) planner.Estimate {
	if r.Doubted == "" || r.slo() || len(e.Speeds) == 0 {
		return e
	}
	ran := r.heldSeconds(now)
	left := max(ran, r.Original.TimeLimit.Seconds()-ran, 60)
	n := left * e.Speeds[0].Speed.Mid
	e.Iterations = planner.Interval{Low: n / 2, Mid: n, High: 2 * n}
	e.Basis = "its time limit, since its progress is doubted"
	return e
}
