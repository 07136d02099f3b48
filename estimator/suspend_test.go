package estimator

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
)

func TestResumeCostGrowsWithScale(t *testing.T) {
	cost := func(g int, gb float64, others int) float64 {
		return 8*(1+0.5*math.Log2(float64(g))) + 2*gb*(1+0.5*float64(others))
	}
	var fab Fabric
	for i := range 12 {
		g, gb, others := 1+i%2, 0.5+float64(i%3), i%4
		fab = fab.Learn(Outcome{NewResumes: []SRSample{{GPUs: g, Nodes: 1, Bytes: gb * 1e9, Seconds: cost(g, gb, others), AtOnce: others}}}, now)
	}
	for _, g := range []int{1, 2, 4, 8, 16} {
		j := Job{Requested: planner.Even(max(1, g/4), min(g, 4)), CheckpointBytes: 1e9}
		got, want := fab.Estimate(j, now).Resume, cost(g, 1, 0)
		if math.Abs(got.Mid-want) > 5 || got.Low > want || got.High < want {
			t.Errorf("%d GPUs: %+v, want %.1f s", g, got, want)
		}
	}
	j := Job{Requested: planner.Shape{1}, Resumes: []SRSample{{GPUs: 1, Nodes: 1, Seconds: 60}, {GPUs: 1, Nodes: 1, Seconds: 62}, {GPUs: 1, Nodes: 1, Seconds: 61}}}
	if got := fab.Estimate(j, now).Resume; math.Abs(got.Mid-61) > 8 {
		t.Errorf("a job of 61 s on a cluster of 10 s: %+v", got)
	}
	j = Job{Requested: planner.Shape{1}, RestoreHint: 200}
	if got := (Fabric{}).Estimate(j, now).Resume; got.Mid < 100 || got.Mid > 220 {
		t.Errorf("declared 200 s: %+v", got)
	}
}

func TestSuspensions(t *testing.T) {
	hour := planner.Estimate{Speeds: []planner.ShapeSpeed{{Shape: planner.Shape{1}, Speed: planner.Exactly(1)}}, Iterations: planner.Exactly(3600)}
	calm := Fabric{BestEffortLeases: 400, BestEffortCuts: 40}
	for _, c := range []struct {
		name string
		fab  Fabric
		job  Job
		want float64
	}{
		{"best effort, nothing measured", Fabric{}, Job{Class: planner.BestEffort, Lease: 5 * time.Minute}, 0.5 * 11},
		{"best effort, measured", calm, Job{Class: planner.BestEffort, Lease: 5 * time.Minute}, 44. / 408 * 11},
		{"strict, 6 of 12 slots", Fabric{}, Job{Class: planner.Strict, Lease: 10 * time.Minute, Deadline: now.Add(2 * time.Hour)}, 6*7./12 - 1},
		{"strict, no slack", Fabric{}, Job{Class: planner.Strict, Lease: 10 * time.Minute, Deadline: now.Add(time.Hour)}, 0},
		{"strict, too late", Fabric{}, Job{Class: planner.Strict, Lease: 10 * time.Minute, Deadline: now.Add(-time.Hour)}, 0},
		{"one lease", Fabric{}, Job{Class: planner.BestEffort, Lease: 2 * time.Hour}, 0},
		{"no lease known", Fabric{}, Job{Class: planner.BestEffort}, 0},
	} {
		c.job.Requested = planner.Shape{1}
		if got := c.fab.suspensions(c.job, hour, now); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestDurationIsNoSumOfWorstCases(t *testing.T) {
	s := planner.Shape{4}
	e := planner.Estimate{
		Speeds:     []planner.ShapeSpeed{{Shape: s, Speed: planner.Interval{Low: 0.8, Mid: 1, High: 1.25}}},
		Iterations: planner.Interval{Low: 8000, Mid: 10000, High: 12500}, Resume: planner.Exactly(100), Checkpoint: planner.Exactly(10), Suspensions: 3,
	}
	d, ok := DurationOf(e, s)
	if !ok {
		t.Fatal("no duration")
	}
	i := d.Interval()
	worst := 12500/0.8 + 330
	if !(i.Low < i.Mid && i.Mid < i.High) || math.Abs(i.Mid/10330-1) > 0.05 || i.High > 0.95*worst || i.High < 12500 {
		t.Errorf("%+v, worst cases together %.0f", i, worst)
	}
	if again, _ := DurationOf(e, s); again.Interval() != i {
		t.Error("two answers to one question")
	}
	if _, ok := DurationOf(e, planner.Shape{8}); ok {
		t.Error("a duration for a shape that the estimate does not list")
	}
}

func TestScoreForecasts(t *testing.T) {
	at := func(m int) time.Time { return now.Add(time.Duration(m) * time.Minute) }
	fs := []Forecast{
		{Job: 1, Class: planner.Strict, GPUs: 4, At: at(0), Ran: 0, Left: planner.Interval{Low: 900, Mid: 1100, High: 1300}, Finish: at(25)},
		{Job: 1, Class: planner.Strict, GPUs: 4, At: at(8), Ran: 500, Left: planner.Interval{Low: 400, Mid: 450, High: 480}},
		{Job: 2, Class: planner.BestEffort, GPUs: 16, At: at(0), Ran: 250, Left: planner.Interval{Low: 100, Mid: 1500, High: 1600}},
		{Job: 2, Class: planner.BestEffort, GPUs: 16, At: at(9), Ran: 750, Left: planner.Interval{Low: 2000, Mid: 2500, High: 2600}},
		{Job: 3, Class: planner.BestEffort, GPUs: 1, At: at(1), Ran: 10, Left: planner.Exactly(5)},
		{Job: 4, Class: planner.Soft, GPUs: 1, At: at(1), Ran: 10, Left: planner.Exactly(math.NaN())},
	}
	rep := ScoreForecasts(fs, []Finished{{Job: 1, Ran: 1000, At: at(20)}, {Job: 2, Ran: 1250}, {Job: 4, Ran: math.Inf(1)}})
	if rep.Jumps != 1 || rep.Pending != 2 {
		t.Errorf("jumps %d, pending %d", rep.Jumps, rep.Pending)
	}
	find := func(by, value string) ForecastGroup {
		for _, g := range rep.Groups {
			if g.By == by && g.Value == value {
				return g
			}
		}
		t.Fatalf("no group %s %s", by, value)
		return ForecastGroup{}
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if g := find("class", "strict"); g.N != 2 || !near(g.Error, 0.1) || !near(g.Bias, 0) || !near(g.Coverage, 0.5) || g.FinishN != 1 || !near(g.FinishError, 0.25) {
		t.Errorf("%+v", g)
	}
	if d := cmp.Diff(find("gpus", "16").N, 2); d != "" {
		t.Error(d)
	}
	if g := find("age", "50%"); g.N != 2 {
		t.Errorf("%+v", g)
	}
}
