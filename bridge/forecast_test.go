package bridge

import (
	"testing"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// The estimate of a job is made anew with each report of a short curve, of a long one only when it has grown by a sixty-fourth; never is it missed that the target is met.
func TestLongCurvesAreFittedSeldom(t *testing.T) {
	b := &Bridge{}
	rec := &Record{}
	rec.Wish.Stop = comment.Stop{Kind: comment.StopMetric, Metric: "acc", Op: comment.AtLeast, Target: 0.9}
	var last estimateInput
	fits := 0
	report := func(iter int64, v float64) bool {
		rec.Curve = append(rec.Curve, estimator.Point{Iter: iter, Value: v})
		in := b.input(time.Time{}, rec)
		anew := in != last
		last = in
		if anew {
			fits++
		}
		return anew
	}
	for i := int64(1); i <= 64; i++ {
		if !report(100*i, 0.5) {
			t.Fatalf("report %d made no fit", i)
		}
	}
	for i := int64(65); i <= 2000; i++ {
		report(100*i, 0.6)
	}
	if fits < 64+150 || fits > 64+230 { // 64 ln(2000/64) = 220
		t.Errorf("2,000 reports made %d fits", fits)
	}
	if !report(200_001, 0.91) {
		t.Error("the report that meets the target made no fit")
	}
}

// told is an estimator that says what it was told to, and counts how often it was asked.
type told struct {
	left  float64
	asked int
}

func (o *told) Estimate(slurm.JobID, estimator.Job, time.Time) planner.Estimate {
	o.asked++
	return planner.Estimate{Iterations: planner.Exactly(o.left), Speeds: []planner.ShapeSpeed{{Shape: planner.Shape{1}, Speed: planner.Exactly(1)}}}
}

// Between two reports a job is taken to go on at its speed, for as long as its reports are apart.
func TestGoesOnBetweenReports(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := &Bridge{}
	rec := &Record{Phase: Running, Placement: planner.NewPlacement(planner.Share{Node: "n1", GPUs: 1}), Estimate: (&told{left: 1000}).Estimate(0, estimator.Job{}, at)}
	rec.Estimate.Iterations.Low = 50
	rec.Run.Start = at
	left := func(after time.Duration) planner.Interval { return b.untold(at.Add(after), rec).Iterations }
	if got := left(time.Hour); got != rec.Estimate.Iterations {
		t.Errorf("before the first report: %v left", got)
	}
	for i, s := range []time.Duration{10, 20, 120, 121} { // the last one is of a checkpoint
		rec.advance(at.Add(s*time.Second), int64(10*(i+1)))
	}
	for after, want := range map[time.Duration]planner.Interval{
		100 * time.Second: {Low: 50, Mid: 1000, High: 1000}, // a clock that is behind
		121 * time.Second: {Low: 50, Mid: 1000, High: 1000},
		181 * time.Second: {Low: 0, Mid: 940, High: 940},
		time.Hour:         {Low: 0, Mid: 912.5, High: 912.5}, // silent: seven eighths of 100 s
	} {
		if got := left(after); got != want {
			t.Errorf("after %v: %v left, want %v", after, got, want)
		}
	}
	if rec.Estimate.Iterations.Mid != 1000 {
		t.Error("the estimate itself was changed")
	}
	rec.Iter = 70
	if got := left(181 * time.Second); got.Mid != 970 {
		t.Errorf("30 of them were done before: %v left", got)
	}
	rec.Iter = 1000
	if got := left(time.Hour); got.Mid != 1000 {
		t.Errorf("it only repeats what was done before: %v left", got)
	}
	rec.Iter = 40
	rec.made.input = b.input(at, rec)
	if got := left(181 * time.Second); got.Mid != 1000 {
		t.Errorf("estimated by the time that it has run: %v left", got)
	}
	rec.made = madeFrom{}
	rec.Phase = Waiting
	if got := left(181 * time.Second); got.Mid != 1000 {
		t.Errorf("it waits: %v left", got)
	}
	rec.Phase, b.parts.Estimator = Running, &told{}
	if got := left(181 * time.Second); got.Mid != 1000 {
		t.Errorf("whoever knows by himself is not corrected: %v left", got)
	}
}

// What a job has done since its last report is not counted twice, as time that it has held GPUs and as iterations left: it would be late by its own silence.
func TestNotLateByItsSilence(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := &Bridge{}
	rec := &Record{Phase: Running, FirstSubmit: at, Placement: planner.NewPlacement(planner.Share{Node: "n1", GPUs: 1})}
	rec.Run.Start = at
	rec.Wish.Tiers = []comment.Tier{{At: at.Add(1100 * time.Second), Value: 1}}
	for _, done := range []int64{0, 240, 480} {
		rec.advance(at.Add(time.Duration(done)*time.Second), done)
	}
	rec.Estimate = (&told{left: 1000 - 480}).Estimate(0, estimator.Job{}, at)
	if why := b.neverInTime(at.Add(700*time.Second), rec); why != "" {
		t.Errorf("it takes 1,000 s and has 1,100: %s", why)
	}
	rec.Estimate.Iterations = planner.Exactly(800)
	if b.neverInTime(at.Add(700*time.Second), rec) == "" {
		t.Error("it takes 1,280 s and has 1,100, and nobody minds")
	}
}

// A job that goes on past where its curve was to meet the target is estimated anew with its next report, however long the curve: an estimate of nothing left would let others have its GPUs.
func TestOverrunCurvesAreFittedAtOnce(t *testing.T) {
	o := &told{left: 300}
	rec := &Record{Job: 7, Phase: Waiting}
	rec.Wish.Stop = comment.Stop{Kind: comment.StopMetric, Metric: "acc", Op: comment.AtLeast, Target: 0.9}
	b := &Bridge{parts: Parts{Estimator: o}, records: map[slurm.JobID]*Record{7: rec}}
	b.cfg.NoForecasts = true
	step := func(v float64) int {
		rec.Iter += 100
		rec.Curve = append(rec.Curve, estimator.Point{Iter: rec.Iter, Value: v})
		before := o.asked
		b.estimate(time.Time{}, true)
		return o.asked - before
	}
	for range 1000 {
		step(0.5)
	}
	if o.asked < 64+300 { // three reports and it should have been over
		t.Errorf("1,000 reports of a job that always has three to go made %d estimates", o.asked)
	}
	o.left = 0
	step(0.95)
	met := o.asked
	for range 10 { // less than a sixty-fourth
		step(0.95)
	}
	if o.asked > met+1 {
		t.Errorf("10 reports after the target was met made %d estimates", o.asked-met)
	}
}

// Of slow iterations the first two minutes are too few to compare: the run waits until it has shown enough.
func TestSlowRunsAreCompared(t *testing.T) {
	run := func(at time.Duration, n int) estimator.Sample {
		return estimator.Sample{Shape: planner.Shape{2}, IterTime: 60, N: n, At: time.Unix(1e9, 0).Add(at)}
	}
	b := &Bridge{}
	rec := &Record{Samples: []estimator.Sample{run(0, 100), run(24*time.Hour, 3)}}
	b.compareRuns(time.Time{}, rec)
	rec.Samples[1] = run(24*time.Hour, 30)
	b.compareRuns(time.Time{}, rec)
	b.compareRuns(time.Time{}, rec)
	if n := b.lore.fabric.Luck.Pairs; n != 1 || rec.Taught.Pairs != 1 {
		t.Errorf("learnt %v pairs, counted %d", n, rec.Taught.Pairs)
	}
}

// Nobody speaks for the cluster: neither one job nor all jobs of one user; and a run's beginning is not held against a long run.
func TestLuckIsBounded(t *testing.T) {
	run := func(at time.Duration, n int) estimator.Sample {
		return estimator.Sample{Shape: planner.Shape{2}, IterTime: 1, N: n, At: time.Unix(1e9, 0).Add(at)}
	}
	b := &Bridge{}
	now := time.Unix(2e9, 0)
	rec := &Record{Samples: []estimator.Sample{run(0, 10000), run(time.Hour, 600)}}
	if b.compareRuns(now, rec); rec.Taught.Pairs != 0 {
		t.Error("ten minutes were held against three hours")
	}
	rec.Samples[1].N = 1800
	if b.compareRuns(now, rec); rec.Taught.Pairs != 1 {
		t.Error("half an hour was not compared")
	}
	for i := range 50 {
		rec.Samples = append(rec.Samples, run(time.Duration(i+2)*time.Hour, 2000))
		b.compareRuns(now, rec)
	}
	if rec.Taught.Pairs != maxPairs {
		t.Errorf("one job taught %d pairs", rec.Taught.Pairs)
	}
	for range 50 {
		b.compareRuns(now, &Record{Samples: []estimator.Sample{run(0, 500), run(time.Hour, 500)}})
	}
	before := b.lore.fabric.Luck.Pairs
	for range 50 {
		b.compareRuns(now, &Record{Samples: []estimator.Sample{run(0, 500), run(time.Hour, 500)}})
	}
	if got := b.lore.fabric.Luck.Pairs; before+50 <= got || got > maxUserPairs {
		t.Errorf("one user taught %v pairs in a day", got)
	}
	b.compareRuns(now.Add(24*time.Hour), &Record{Samples: []estimator.Sample{run(0, 500), run(time.Hour, 500)}})
	if b.lore.fabric.Luck.Pairs != maxUserPairs+1 {
		t.Errorf("and %v by the next", b.lore.fabric.Luck.Pairs)
	}
}
