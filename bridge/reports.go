package bridge

import (
	"math"
	"slices"
	"strconv"
	"time"

	"unisched/estimator"
	"unisched/hooks/progress"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// takeReports folds what the nodes sent into the records. Reports are hostile: they count only for the run that Slurm shows, from the user that owns the
// job; lines may come twice and in any order.
//
// It is called twice in a cycle: before Slurm's news is followed, since a job's last words explain how it ended, and after it, for the runs that
// are new. What it could not place the first time it gives back.
func (b *Bridge) takeReports(now time.Time, reports []progress.JobReport) (left []progress.JobReport) {
	for _, r := range reports {
		rec := b.records[slurm.JobID(r.Job)]
		if rec == nil || rec.UID != int64(r.UID) || !(rec.Phase.Ours() || rec.Phase.Ended()) ||
			r.Restart != rec.Restart && r.Restart != rec.Restart-1 || r.Restart == rec.Restart && !rec.hasRun() {
			left = append(left, r)
			continue
		}
		if r.Restart == rec.Restart {
			rec.measure(now, r.Usage)
		}
		for _, raw := range r.Lines {
			line, err := progress.Parse(raw)
			if err != nil {
				continue
			}
			if r.Restart == rec.Restart {
				rec.take(now, line)
			} else {
				rec.takeLate(line)
			}
		}
	}
	return left
}

// Bounds of the reports that wait for their run to be shown: in all, and in bytes of lines, in all and of one job. A user can write as if the next run of a job had begun,
// for as long as this one lasts.
const (
	maxEarly         = 10000
	maxEarlyBytes    = 64 << 20
	maxEarlyJobBytes = 1 << 20
)

// stillEarly picks the reports of runs that Slurm is about to show: a job may speak before the next look at Slurm sees it running.
func (b *Bridge) stillEarly(left []progress.JobReport) []progress.JobReport {
	var out []progress.JobReport
	total, ofJob := 0, map[int64]int{}
	for _, r := range left {
		rec := b.records[slurm.JobID(r.Job)]
		if rec == nil || rec.UID != int64(r.UID) || !rec.Phase.Ours() || r.Restart < rec.Restart || r.Restart > rec.Restart+1 || len(out) >= maxEarly {
			continue
		}
		size := 256 // of the report itself
		for _, l := range r.Lines {
			size += len(l)
		}
		if total+size > maxEarlyBytes || ofJob[r.Job]+size > maxEarlyJobBytes {
			continue
		}
		total += size
		ofJob[r.Job] += size
		out = append(out, r)
	}
	return out
}

// hasRun reports whether the run that the record is about was seen on GPUs: the first lines of a run that Slurm has not shown yet wait for it.
func (r *Record) hasRun() bool { return r.Phase.OnGPUs() || r.Phase.Ended() }

// take folds one line into the record. Iteration counts only rise: steps repeated after a resume do not count twice.
func (r *Record) take(now time.Time, l progress.Line) {
	at := l.Time
	if at.IsZero() || at.After(now.Add(5*time.Second)) || at.Before(r.Run.Start.Add(-time.Minute)) {
		at = now
	}
	run := &r.Run
	if run.Ready.IsZero() {
		run.Ready = at
		r.dirty = true
		first := l.Iter
		if l.Kind == progress.Ready || l.HasIter {
			run.FirstIter = first
			r.resumed(now, at, first)
		}
	}
	if l.GradBytes > 0 {
		r.GradBytes = float64(l.GradBytes)
	}
	if l.Batch > 0 {
		r.Batch = float64(l.Batch)
	}
	if l.Kind == progress.Checkpoint && l.Bytes > 0 {
		r.CheckpointBytes = float64(l.Bytes)
	}
	if l.HasIter {
		r.advance(at, l.Iter)
	}
	switch l.Kind {
	case progress.Checkpoint:
		if at.After(run.CheckpointAt) || l.Iter > run.SavedIter {
			run.CheckpointAt, run.SavedIter = at, l.Iter
			r.Saved = max(r.Saved, l.Iter)
			r.dirty = true
		}
	case progress.Signal:
		run.Heard = true
	case progress.Done:
		run.Done, r.dirty = true, true
	case progress.Progress:
		r.curvePoint(l)
	}
}

// takeLate takes what arrives of a run that is over: the checkpoint that it wrote last.
func (r *Record) takeLate(l progress.Line) {
	if l.Kind == progress.Checkpoint {
		r.Saved = max(r.Saved, l.Iter)
		r.dirty = true
	}
	if l.HasIter && r.Run.Ready.IsZero() { // before the next run has said where it begins
		r.Iter = max(r.Iter, l.Iter)
	}
}

// resumed notes what the first sign of a run tells: how long the start took, and whether iterations were lost.
func (r *Record) resumed(now, at time.Time, first int64) {
	if r.Restart == 0 || r.Run.Start.IsZero() || r.Run.Rejoined {
		return
	}
	r.Run.Rejoined = true
	if lost := r.Iter - first; lost > 0 {
		r.LostIters += lost
	}
	if d := at.Sub(r.Run.Start).Seconds(); d >= 0 {
		r.Resumes = keep(r.Resumes, maxSR, estimator.SRSample{GPUs: r.Placement.GPUs(), Nodes: len(r.Placement), Seconds: d, Bytes: r.CheckpointBytes})
		r.Taught.ResumesDue++
	}
	r.Returns = keep(r.Returns, maxSR, Return{Run: r.Restart, At: at, Reached: r.Iter, Saved: r.Saved, Resumed: first})
	r.note(now, "resumed", "at iteration "+itoa(first)+", the checkpoint was of "+itoa(r.Saved))
}

// advance moves the steady stretch of iterations that the speed is measured on.
func (r *Record) advance(at time.Time, iter int64) {
	run := &r.Run
	if run.FirstAt.IsZero() || iter < run.LastIter && run.LastIter == run.FirstIter {
		run.FirstAt, run.FirstIter, run.LastAt, run.LastIter = at, iter, at, iter
	}
	if iter > run.LastIter && !at.Before(run.LastAt) {
		run.Every = max(at.Sub(run.LastAt), run.Every/8*7) // a checkpoint's line may follow another within a second
		run.LastIter, run.LastAt = iter, at
		r.sample()
	}
	r.Iter = max(r.Iter, iter)
}

// sample keeps one speed sample per run, grown as the run goes on.
func (r *Record) sample() {
	run := r.Run
	n, d := run.LastIter-run.FirstIter, run.LastAt.Sub(run.FirstAt).Seconds()
	if n < 2 || d <= 0 || len(r.Placement) == 0 {
		return
	}
	s := estimator.Sample{Shape: r.Placement.Shape(), Batch: r.Batch, IterTime: d / float64(n), N: int(min(n, math.MaxInt32)), At: run.FirstAt, Profile: run.Profile}
	if i := len(r.Samples) - 1; i >= 0 && r.Samples[i].At.Equal(s.At) {
		r.Samples[i] = s
		return
	}
	r.Samples = keep(r.Samples, maxSamples, s)
}

// curvePoint keeps the target metric, thinned to every second point when full.
func (r *Record) curvePoint(l progress.Line) {
	if r.Wish.Stop.Metric == "" || !l.HasIter {
		return
	}
	i := slices.IndexFunc(l.Metrics, func(m progress.Metric) bool { return m.Name == r.Wish.Stop.Metric })
	if i < 0 {
		return
	}
	if slices.ContainsFunc(r.Curve, func(p estimator.Point) bool { return p.Iter == l.Iter }) {
		return
	}
	if len(r.Curve) >= maxCurve {
		thin := r.Curve[:0]
		for k := 0; k < len(r.Curve); k += 2 {
			thin = append(thin, r.Curve[k])
		}
		r.Curve = thin
	}
	r.Curve = append(r.Curve, estimator.Point{Iter: l.Iter, Epoch: l.Epoch, Value: l.Metrics[i].Value})
}

// canBeSignalled reports whether a signal is safe: the job has shown a sign of life after its handlers were installed.
func (r *Record) canBeSignalled() bool { return !r.Run.Ready.IsZero() }

// measured reports whether a profile step has shown enough, or will not show more.
func (r *Record) measured(now time.Time, step time.Duration) bool {
	run := r.Run
	if run.Ready.IsZero() {
		return now.Sub(run.Start) > 10*step // it never says anything: give up, it is not signalled either
	}
	return now.Sub(run.Ready) >= step && (run.LastIter-run.FirstIter >= 3 || now.Sub(run.Ready) >= 3*step)
}

// unsaved is the run time since the last confirmed checkpoint.
func (r *Record) unsaved(now time.Time) time.Duration {
	if !r.Phase.OnGPUs() || r.Run.Start.IsZero() {
		return 0
	}
	since := r.Run.Start
	if r.Run.CheckpointAt.After(since) {
		since = r.Run.CheckpointAt
	}
	return max(now.Sub(since), 0)
}

// estimatorJob is what the estimator may know of a job.
func (b *Bridge) estimatorJob(now time.Time, rec *Record) estimator.Job {
	o, w := rec.Original, rec.Wish
	shapes := b.shapesOf(rec)
	j := estimator.Job{
		Class: planner.Class(w.Class), Requested: shapes[0], Candidates: shapes,
		Scale: estimator.Scale(w.Batch), Done: rec.Iter, RanSeconds: rec.ranSeconds(now), Samples: rec.Samples, Curve: rec.Curve,
		Resumes: rec.Resumes, Checkpoints: rec.Checkpoints, RestoreHint: w.Restore.Seconds(), LimitSeconds: o.TimeLimit.Seconds(),
		GradBytes: rec.GradBytes, CheckpointBytes: rec.CheckpointBytes, UnsavedSeconds: rec.unsaved(now).Seconds(),
		Stop: stopOf(w), Kinds: rec.kinds(), WindowSeconds: rec.window(),
	}
	b.lease(rec, &j)
	return j
}

// lease fills in the length of the job's leases and its last deadline.
func (b *Bridge) lease(rec *Record, j *estimator.Job) {
	j.Lease = b.cfg.Unit
	if n := len(rec.Wish.Tiers); n > 0 {
		j.Deadline = rec.Wish.Tiers[n-1].At
		j.Lease *= time.Duration(b.cfg.SLOUnits)
	}
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

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func trim(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
