package bridge

import (
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// Estimator says what to expect of a job. Parts without one use what the bridge itself has learnt, an [estimator.Fabric].
type Estimator interface {
	Estimate(id slurm.JobID, j estimator.Job, now time.Time) planner.Estimate
}

// estimate refreshes what is believed of our jobs: of all of them, or only of those of which nothing is known yet. A job of which nothing new has become
// known keeps its estimate, less the iterations done since: an estimate costs a fit of several models, and thousands of jobs wait.
func (b *Bridge) estimate(now time.Time, all bool) {
	for _, id := range b.ids() {
		rec := b.records[id]
		known := len(rec.Estimate.Speeds) > 0
		if !rec.Phase.Ours() || !all && known {
			continue
		}
		if known && !rec.news(now, b.cfg.Unit) {
			rec.Estimate.Iterations = less(rec.Estimate.Iterations, rec.Iter-rec.basis.iter)
			rec.basis.iter = rec.Iter
			rec.Estimate.Unsaved = rec.unsaved(now).Seconds()
			continue
		}
		job := b.estimatorJob(now, rec)
		if b.parts.Estimator != nil {
			rec.Estimate = b.parts.Estimator.Estimate(id, job, now)
		} else {
			rec.Estimate = b.fabric.Estimate(job, now)
		}
		rec.basis = rec.basisNow(now)
	}
}

// basis is what the estimate of a record was made from.
type basis struct {
	at                                    time.Time
	restart                               int
	samples, resumes, checkpoints, points int
	measured                              int   // iterations of the newest sample
	left                                  int64 // iterations believed to be left
	iter                                  int64 // iterations done, as far as they were taken off
}

func (r *Record) basisNow(now time.Time) basis {
	b := basis{at: now, restart: r.Restart, samples: len(r.Samples), resumes: len(r.Resumes), checkpoints: len(r.Checkpoints),
		points: len(r.Curve), iter: r.Iter, left: int64(r.Estimate.Iterations.Mid)}
	if n := len(r.Samples); n > 0 {
		b.measured = r.Samples[n-1].N
	}
	return b
}

// An estimate is made anew when its newest sample has grown by half, its curve by a tenth, when half of the iterations that it saw are done, and after an
// hour's worth of units at the latest (or a quarter of the job's age: what was learnt from others in the meantime changes little for a job that waits).
const (
	sampleGrowth = 1.5
	curveGrowth  = 1.1
	oldestUnits  = 12
	oldestShare  = 4
)

// news reports whether so much has become known of a job that its estimate must be made anew.
func (r *Record) news(now time.Time, unit time.Duration) bool {
	was, is := r.basis, r.basisNow(now)
	switch {
	case was.restart != is.restart, was.samples != is.samples, was.resumes != is.resumes, was.checkpoints != is.checkpoints:
		return true
	case float64(is.measured) >= sampleGrowth*float64(was.measured) && is.measured > was.measured:
		return true
	case float64(is.points) >= curveGrowth*float64(was.points) && is.points > was.points:
		return true
	case is.left < was.left/2:
		return true
	}
	return now.Sub(was.at) >= max(oldestUnits*unit, now.Sub(r.FirstSubmit)/oldestShare)
}

// less takes iterations off an interval.
func less(i planner.Interval, done int64) planner.Interval {
	if done <= 0 {
		return i
	}
	d := float64(done)
	return planner.Interval{Low: max(i.Low-d, 0), Mid: max(i.Mid-d, 1), High: max(i.High-d, 1)}
}

// estimatorJob is what the estimator may know of a job.
func (b *Bridge) estimatorJob(now time.Time, rec *Record) estimator.Job {
	o, w := rec.Original, rec.Wish
	shapes := b.shapes(rec, slurm.Job{})
	j := estimator.Job{
		Class: planner.Class(w.Class), Requested: shapes[0], Candidates: shapes,
		Scale: estimator.Scale(w.Batch), Done: rec.Iter, RanSeconds: rec.ranSeconds(now), Samples: rec.Samples, Curve: rec.Curve,
		Resumes: rec.Resumes, Checkpoints: rec.Checkpoints, RestoreHint: w.Restore.Seconds(), LimitSeconds: o.TimeLimit.Seconds(),
		Lease: b.cfg.Unit, GradBytes: rec.GradBytes, UnsavedSeconds: rec.unsaved(now).Seconds(),
		Stop: stopOf(w),
	}
	if n := len(w.Tiers); n > 0 {
		j.Deadline = w.Tiers[n-1].At
		j.Lease *= time.Duration(b.cfg.SLOUnits)
	}
	return j
}

func stopOf(w comment.Wish) estimator.Stop {
	s := estimator.Stop{Max: w.Max, Milestones: w.Milestones, EpochIters: w.Epoch}
	switch w.Stop.Kind {
	case "iters":
		s.Kind, s.Iterations = estimator.Iterations, w.Stop.Iterations
	case "metric":
		s.Kind, s.Metric, s.Up, s.Target = estimator.Metric, w.Stop.Metric, w.Stop.Op == ">=", w.Stop.Target
	}
	return s
}

// ranSeconds is the time on GPUs so far at the requested shape's pace, about: profile runs are left out.
func (r *Record) ranSeconds(now time.Time) float64 {
	g := max(r.Original.GPUs, 1)
	s := r.GPUSeconds / float64(g)
	if r.Phase == Running && !r.Run.Start.IsZero() {
		s += max(now.Sub(r.Run.Start).Seconds(), 0)
	}
	return s
}
