package bridge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// madeFrom is what an estimate was made from: as long as it stays the same, only time and progress have to be brought up to date.
type madeFrom struct {
	input estimateInput
	lore  versions
	iter  int64
	point int64 // iteration of the newest report then
}

// estimateInput is what of a job an estimate depends on.
type estimateInput struct {
	shapes                    shapeKey
	samples, last             int   // number, and doublings of the newest one's iterations in quarters
	newest                    int64 // when the newest sample began
	points                    int
	point                     int64 // iteration of the newest one, of a long curve in steps of its sixty-fourth part
	met                       bool  // the newest one reaches the target
	resumes, checkpoints      int
	grad, bytes, limit, ran   float64
	resume, checkpoint, batch float64
}

// longCurve is how many reports a curve has at least that is fitted anew only when it has grown by one part in as many. A fit takes milliseconds.
const longCurve = 64

// input sums up a job.
func (b *Bridge) input(now time.Time, rec *Record) estimateInput {
	in := estimateInput{shapes: b.shapeKeyOf(rec), samples: len(rec.Samples), points: len(rec.Curve), point: rec.newestPoint(), met: rec.metTarget(), resumes: len(rec.Resumes), checkpoints: len(rec.Checkpoints),
		grad: rec.GradBytes, bytes: rec.CheckpointBytes, limit: rec.Original.TimeLimit.Seconds()}
	if n := len(rec.Samples); n > 0 {
		s := &rec.Samples[n-1]
		in.last, in.newest, in.batch = quarters(s.N), s.At.UnixNano(), s.Batch
	}
	if in.points > longCurve { // one report more says little, and a job of weeks sends thousands
		in.points, in.point = longCurve+1, int64(longCurve*math.Log(float64(max(in.point, 1))))
	}
	if n := len(rec.Resumes); n > 0 {
		in.resume = rec.Resumes[n-1].Seconds
	}
	if n := len(rec.Checkpoints); n > 0 {
		in.checkpoint = rec.Checkpoints[n-1].Seconds
	}
	if in.samples == 0 || rec.Wish.Stop.Kind == "" { // then the time that it has run is part of the answer
		in.ran = math.Round(8 * math.Log2(60+rec.ranSeconds(now)))
	}
	return in
}

// quarters is four times the binary logarithm of a count, rounded down.
func quarters(n int) int {
	if n = max(n, 1); n < len(fewQuarters) {
		return int(fewQuarters[n])
	}
	return logQuarters(n)
}

func logQuarters(n int) int { return int(4 * math.Log2(float64(n))) }

// fewQuarters are those of the counts that nearly all samples have: every job is asked for its own in every round.
var fewQuarters = func() (out [4096]uint8) {
	for n := 1; n < len(out); n++ {
		out[n] = uint8(logQuarters(n))
	}
	return out
}()

// maxStale bounds the estimates that are made anew in one unit only because the lore has grown, and those whose costs are in one round.
const maxStale = 64

// estimate refreshes what the estimator believes of our jobs: in a round of all of them, else only of those of which nothing is known yet. What has not changed is brought up to
// date; the lore of other jobs reaches a job after a few units at the latest.
func (b *Bridge) estimate(now time.Time, round bool) {
	if round {
		for _, rec := range b.known() {
			if rec.Phase == Running {
				b.compareRuns(now, rec)
			}
		}
		if b.parts.Estimator == nil { // another one knows, and learns, by itself
			b.learn(now)
		}
	}
	renewed := 0
	for _, rec := range b.inTurn(round) {
		if !rec.Phase.Ours() || !round && len(rec.Estimate.Speeds) > 0 {
			continue
		}
		in := b.input(now, rec)
		behind := b.behind(rec)
		switch {
		case len(rec.Estimate.Speeds) == 0 || in != rec.made.input || rec.overran():
			b.fit(now, rec, in)
			continue
		case behind && b.lore.concerns(rec) && b.lore.refits < maxStale:
			b.lore.refits++
			b.fit(now, rec, in)
			b.lore.turn = rec.Job
			continue
		case behind && !b.lore.concerns(rec) && renewed < maxStale:
			renewed++
			b.refreshCosts(now, rec)
			b.lore.turn = rec.Job
			b.advance(now, rec, in.shapes, true)
			continue
		}
		b.advance(now, rec, in.shapes, false)
	}
	if round && !b.cfg.NoForecasts {
		b.forecasts(now)
	}
}

// behind reports whether the lore has grown since the estimate was made.
func (b *Bridge) behind(rec *Record) bool {
	return b.parts.Estimator == nil && rec.made.lore != b.lore.version
}

// inTurn are the records in order; in a round they begin after the one that the lore reached last.
func (b *Bridge) inTurn(round bool) []*Record {
	all := b.known()
	i, _ := slices.BinarySearchFunc(all, b.lore.turn, func(r *Record, id slurm.JobID) int { return cmp.Compare(r.Job, id+1) })
	if !round || i == 0 || i == len(all) {
		return all
	}
	b.turned = append(append(b.turned[:0], all[i:]...), all[:i]...)
	return b.turned
}

// advance brings an estimate up to date of which nothing but time and progress has changed; shapes is the job's key, and grown says that the lore has changed as well.
func (b *Bridge) advance(now time.Time, rec *Record, shapes shapeKey, grown bool) {
	more := rec.Iter - rec.made.iter
	if more == 0 && !grown && !rec.Phase.OnGPUs() && rec.Estimate.Unsaved == 0 && len(rec.Wish.Tiers) == 0 { // nothing counts down
		return
	}
	j := estimator.Job{Class: planner.Class(rec.Wish.Class), Requested: b.shapesBy(rec, shapes)[0], UnsavedSeconds: rec.unsaved(now).Seconds()}
	b.lease(rec, &j)
	rec.Estimate = b.lore.fabric.Advance(rec.Estimate, j, more, now)
	rec.made.iter = rec.Iter
	rec.neverSuspended()
}

// untold is a job's estimate at an instant between two reports: a running job is taken to have gone on at its speed since the last one, but no longer than its reports are apart, for one that
// has fallen silent may hang. What it repeats after a resume is not counted, and an estimate that follows from the time that the job has run already is not corrected.
func (b *Bridge) untold(now time.Time, rec *Record) planner.Estimate {
	e, run := rec.Estimate, &rec.Run
	if b.parts.Estimator != nil || rec.Phase != Running || run.Every <= 0 || rec.made.input.ran > 0 {
		return e
	}
	v, ok := e.SpeedOf(rec.Placement.Shape())
	if !ok || !(v.Mid > 0) || math.IsInf(v.Mid, 0) {
		return e
	}
	done := v.Mid * min(max(now.Sub(run.LastAt), 0), run.Every).Seconds()
	done = max(done-float64(rec.Iter-run.LastIter), 0)
	e.Iterations = e.Iterations.Less(done)
	return e
}

// refreshCosts renews what suspending costs, when nothing else of an estimate can have changed.
func (b *Bridge) refreshCosts(now time.Time, rec *Record) {
	rec.Estimate.Resume, rec.Estimate.Checkpoint = b.fits().Costs(b.estimatorJob(now, rec))
	rec.made.lore = b.lore.version
}

// fit makes an estimate anew.
func (b *Bridge) fit(now time.Time, rec *Record, in estimateInput) {
	j := b.estimatorJob(now, rec)
	if b.parts.Estimator != nil {
		rec.Estimate = b.parts.Estimator.Estimate(rec.Job, j, now)
	} else {
		rec.Estimate = b.fits().Estimate(b.prime(now, rec, j), now)
	}
	rec.made = madeFrom{in, b.lore.version, rec.Iter, rec.newestPoint()}
	rec.neverSuspended()
}

// newestPoint is the iteration of the newest report of the metric, 0 without one.
func (r *Record) newestPoint() int64 {
	if n := len(r.Curve); n > 0 {
		return r.Curve[n-1].Iter
	}
	return 0
}

// overran reports whether a job with a long curve has passed the iteration at which it was to meet its target, has not met it, and has reported since: an estimate of nothing left
// must not stand until the curve has grown by its sixty-fourth part, for in a job of weeks that is hours.
func (r *Record) overran() bool {
	return len(r.Curve) > longCurve && r.newestPoint() != r.made.point && r.Estimate.Iterations.Mid <= float64(r.Iter-r.made.iter) && metAt(r) == 0
}

// neverSuspended takes the suspensions out of the estimate of a job that cannot be preempted.
func (r *Record) neverSuspended() {
	if r.Wish.Ckpt.None || r.NoPreempt != "" {
		r.Estimate.Suspensions = 0
	}
}

// leftFrom is what a leftTime was derived from.
type leftFrom struct {
	made        madeFrom
	iterations  planner.Interval
	suspensions float64
	shape       string
}

// leftTime is the run time that a job needs from an instant on, in seconds: the three sources of error combined, further resumes and checkpoints included.
type leftTime struct {
	planner.Interval
	quantile float64 // the one that deadlines are planned on
	at       time.Time
	of       leftFrom
}

// derive combines an estimate for the shape that the job holds, or would get.
func (b *Bridge) derive(now time.Time, rec *Record) (leftTime, bool) {
	shape := rec.Estimate.Speeds[0].Shape
	if len(rec.Placement) > 0 && rec.Phase == Running {
		if s := rec.Placement.Shape(); len(s) > 0 {
			if _, ok := rec.Estimate.SpeedOf(s); ok {
				shape = s
			}
		}
	}
	e := b.untold(now, rec)
	of := leftFrom{rec.made, e.Iterations, e.Suspensions, shape.String()}
	if rec.left.of == of && !rec.left.at.IsZero() { // a waiting job, mostly
		l := rec.left
		l.at = now
		return l, true
	}
	d, ok := estimator.DurationOf(e, shape)
	if !ok {
		return leftTime{}, false
	}
	return leftTime{d.Interval(), d.Quantile(b.cfg.Quantile), now, of}, true
}

// leftOf is the run time that the job needs from now on: combined anew in each round, and counted down between rounds while it runs.
func (b *Bridge) leftOf(now time.Time, rec *Record) (leftTime, bool) {
	if len(rec.Estimate.Speeds) == 0 {
		return leftTime{}, false
	}
	begun := rec.Phase == Running && rec.Run.Start.After(rec.left.at) // what it waited does not count
	if rec.left.at.IsZero() || rec.left.at.Before(b.rounded) || begun {
		l, ok := b.derive(now, rec)
		if !ok {
			return l, false
		}
		rec.left = l
	}
	l := rec.left
	if rec.Phase == Running {
		ran := max(now.Sub(l.at).Seconds(), 0)
		l.Interval, l.quantile = l.Less(ran), max(l.quantile-ran, 0)
	}
	return l, true
}

// finish is when the job is expected to end, and the 80 % interval of that; zero when it waits and the plan does not reach that far.
func (r *Record) finish(now time.Time, left leftTime) (mid, low, high time.Time) {
	mid = r.Target.Finish                               // with the waiting that the plan foresees
	if !mid.IsZero() && r.Class() == planner.Profiler { // the plan ends the step that measures it; the job's own work comes after
		mid = mid.Add(planner.Seconds(left.Mid))
	}
	if r.Phase == Running {
		if run := now.Add(planner.Seconds(left.Mid)); run.After(mid) || r.Target.Decision == planner.Keep {
			mid = run
		}
	}
	if s := r.Target.StartBy; mid.IsZero() && !s.IsZero() && !r.Phase.OnGPUs() { // it starts within the plan's horizon and ends beyond: from then on by itself
		mid = s.Add(planner.Seconds(left.Mid))
	}
	if mid.IsZero() {
		return mid, mid, mid
	}
	low, high = mid.Add(-planner.Seconds(left.Mid-left.Low)), mid.Add(planner.Seconds(left.High-left.Mid))
	if low.Before(now) {
		low = now
	}
	return mid, low, high
}

// maxForecasts bounds those kept of one job; when there are more, every second one goes.
const maxForecasts = 32

// forecasts writes down, once a round, what is forecast of the running jobs: of each when a unit and a sixteenth of what was forecast before have passed.
func (b *Bridge) forecasts(now time.Time) {
	for _, rec := range b.known() {
		if rec.Phase != Running || rec.Run.Start.IsZero() || len(rec.Estimate.Speeds) == 0 {
			continue
		}
		ran := rec.heldSeconds(now)
		n := len(rec.Forecasts)
		if n > 0 && ran-rec.Forecasts[n-1].Ran < max(b.cfg.Unit.Seconds(), (rec.Forecasts[n-1].Ran+rec.Forecasts[n-1].Left.Mid)/16) {
			continue
		}
		left, ok := b.derive(now, rec)
		if !ok {
			continue
		}
		rec.left = left
		finish, _, _ := rec.finish(now, left)
		f := estimator.Forecast{Job: planner.JobID(rec.Job), Class: planner.Class(rec.Wish.Class), GPUs: rec.Placement.GPUs(), At: now, Left: left.Interval, Ran: ran, Finish: finish}
		if n > 0 && estimator.Jump(rec.Forecasts[n-1], f) {
			b.counts.Jumps++
			old := rec.Forecasts[n-1]
			rec.note(now, "estimate-jump", fmt.Sprintf("run time in all %s s, %s s before (80 %%: %s to %s s): %s", trim(math.Round(ran+left.Mid)),
				trim(math.Round(old.Ran+old.Left.Mid)), trim(math.Round(old.Ran+old.Left.Low)), trim(math.Round(old.Ran+old.Left.High)), rec.Estimate.Basis))
		}
		rec.keepForecast(f)
	}
}

// keepForecast adds one; lists that a published view holds are never written to.
func (r *Record) keepForecast(f estimator.Forecast) {
	if len(r.Forecasts) >= maxForecasts {
		thin := make([]estimator.Forecast, 0, maxForecasts)
		for i := 0; i < len(r.Forecasts); i += 2 {
			thin = append(thin, r.Forecasts[i])
		}
		r.Forecasts = thin
	}
	r.Forecasts = append(r.Forecasts, f)
	r.dirty = true
}

// ForecastReport scores the forecasts of the jobs that completed at or after since; those of jobs that go on are counted as pending, those of jobs that failed or were
// cancelled say nothing.
func (v *View) ForecastReport(since time.Time) estimator.ForecastReport {
	var fs []estimator.Forecast
	var done []estimator.Finished
	for _, j := range v.Jobs {
		switch {
		case j.Phase == Completed && !j.Ended.Before(since):
			done = append(done, estimator.Finished{Job: planner.JobID(j.ID), Ran: j.Held, At: j.Ended})
		case !j.Phase.Ours():
			continue
		}
		fs = append(fs, j.Forecasts...)
	}
	return estimator.ScoreForecasts(fs, done)
}
