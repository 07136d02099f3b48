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

// estimatorJob is what the estimator may know of a job.
func (b *Bridge) estimatorJob(now time.Time, rec *Record) estimator.Job {
	o, w := rec.Original, rec.Wish
	shapes := b.shapes(rec, slurm.Job{})
	j := estimator.Job{
		Class: planner.Class(w.Class), Requested: shapes[0], Candidates: shapes,
		Scale: estimator.Scale(w.Batch), Done: rec.Iter, RanSeconds: rec.ranSeconds(now), Samples: rec.Samples, Curve: rec.Curve,
		Resumes: rec.Resumes, Checkpoints: rec.Checkpoints, RestoreHint: w.Restore.Seconds(), LimitSeconds: o.TimeLimit.Seconds(),
		Lease: b.cfg.Unit, GradBytes: rec.GradBytes, CheckpointBytes: rec.CheckpointBytes, UnsavedSeconds: rec.unsaved(now).Seconds(),
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
