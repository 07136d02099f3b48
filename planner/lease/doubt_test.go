package lease

import (
	"math"
	"testing"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestDoubt: what an estimate does not know for sure keeps deadlines open that its middle misses; what is known exactly has only the luck of a run.
func TestDoubt(t *testing.T) {
	const due = 80.0
	job := func(speed, iters planner.Interval) planner.Job {
		j := plantest.Strict(plantest.Job(1, 100, planner.Shape{1}), due)
		work := j.Estimate.Iterations.Mid
		unit := j.Estimate.Speeds[0].Speed.Mid
		j.Estimate.Iterations = planner.Interval{Low: work * iters.Low, Mid: work * iters.Mid, High: work * iters.High}
		j.Estimate.Speeds = []planner.ShapeSpeed{{Shape: planner.Shape{1}, Speed: planner.Interval{Low: unit * speed.Low, Mid: unit * speed.Mid, High: unit * speed.High}}}
		return j
	}
	one := planner.Exactly(1)
	for _, c := range []struct {
		name         string
		speed, iters planner.Interval
		want         bool // the deadline is counted on
	}{
		{"known exactly, a fifth too late", one, one, false},
		{"the speed is a guess that may be half as fast again", planner.Interval{Low: 0.6, Mid: 1, High: 1.6}, one, true},
		{"the iterations are a guess", one, planner.Interval{Low: 0.5, Mid: 1, High: 2}, true},
		{"a guess, but a narrow one", planner.Interval{Low: 0.98, Mid: 1, High: 1.02}, one, false},
		{"its middle meets it, though it may take four times as long", one, planner.Interval{Low: 0.68, Mid: 0.7, High: 3}, true},
		{"the same of its speed", planner.Interval{Low: 0.33, Mid: 1.4, High: 1.45}, one, true},
		{"the middle of its iterations is over, though it may go on for long", one, planner.Interval{High: 4}, true},
		{"its middle just misses it, and it is hardly ever shorter", one, planner.Interval{Low: 0.96, Mid: 0.98, High: 3}, false},
		{"may take longer, not shorter", one, planner.Interval{Low: 1, Mid: 1, High: 3}, false},
	} {
		in := newInstance(plantest.Snapshot(plantest.Nodes(1, 1), job(c.speed, c.iters)), Config{}.filled())
		if got := in.jobs[0].alive; got != c.want {
			t.Errorf("%s: alive is %v, want %v", c.name, got, c.want)
		}
	}
	for luck, want := range map[float64]bool{0: false, 0.01: false, 0.3: true, 2: false, -1: false, math.NaN(): false, math.Inf(1): false} { // 2 and what follows are no measurements
		s := plantest.Snapshot(plantest.Nodes(1, 1), job(one, one))
		s.Luck = luck
		if got := newInstance(s, Config{}.filled()).jobs[0].alive; got != want {
			t.Errorf("known exactly, a fifth too late, where runs differ by %v: alive is %v, want %v", luck, got, want)
		}
	}
	unlucky := plantest.Snapshot(plantest.Nodes(1, 1), job(one, one))
	unlucky.Luck = 0.3
	if newInstance(unlucky, Config{FixedRisk: true}.filled()).jobs[0].alive {
		t.Error("a fixed risk gives way to the luck of the snapshot")
	}
	for _, bad := range []planner.Interval{{}, planner.Exactly(math.NaN()), planner.Exactly(math.Inf(1)), {Low: -1, Mid: 1, High: math.Inf(1)}, {Low: math.NaN(), Mid: 1, High: math.NaN()}} {
		for _, j := range []planner.Job{job(bad, one), job(one, bad)} {
			in := newInstance(plantest.Snapshot(plantest.Nodes(1, 1), j), Config{}.filled())
			d := in.jobs[0].doubt
			if !(d.below >= 0) || !(d.above >= 0) || !(d.ahead >= 0) || math.IsInf(d.below+d.above+d.ahead, 0) {
				t.Errorf("estimate %v gives doubt %+v", j.Estimate, d)
			}
			for _, c := range in.jobs[0].cols {
				if math.IsNaN(c.obj) || math.IsInf(c.obj, 0) {
					t.Errorf("estimate %v gives a column of %v", j.Estimate, c.obj)
				}
			}
		}
	}
}
