package lease

import (
	"context"
	"errors"
	"math"
	"testing"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

// TestTrust: a tier counts with its chance of being met; what the later ones are worth comes on top.
func TestTrust(t *testing.T) {
	soft := func(due ...float64) planner.Job {
		j := plantest.Strict(plantest.Job(1, 94, planner.Shape{1}), due[0])
		j.Class = planner.Soft
		for k, d := range due[1:] {
			j.Tiers = append(j.Tiers, planner.Tier{At: plantest.Strict(j, d).Tiers[0].At, Value: []float64{50, 20}[k]})
		}
		return j
	}
	for _, c := range []struct {
		name string
		job  planner.Job
		want float64 // of the first tier's value, when the job starts now; one standard deviation is (94 + 6) / 20 = 5 units
	}{
		{"no slack", soft(94), 0.5},
		{"one deviation", soft(99), 0.8413},
		{"two", soft(104), 0.9772},
		{"ample", soft(200), 1},
		{"no slack, half the value a deviation later", soft(94, 99), 0.5 + 0.5*0.3413},
		{"three tiers", soft(94, 99, 104), 0.5 + 0.5*0.3413 + 0.2*0.1359},
	} {
		in := newInstance(plantest.Snapshot(plantest.Nodes(1, 1), c.job), Config{}.filled())
		j := &in.jobs[0]
		w := way{kind: start, finish: 94}
		if got := in.trust(j, w, 0); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %.4f, want %.4f", c.name, got, c.want)
		}
	}
}

// TestLuckIsPlannedFor: a job whose slack is no more than what a run is usually late goes before a best-effort job that would be done sooner, one with time to
// spare after it; one that is expected a deviation late is still tried, one that is expected two late is not.
func TestLuckIsPlannedFor(t *testing.T) {
	for _, c := range []struct {
		name string
		due  float64
		want string
	}{
		{"two deviations", 23, "1 start a000:4; 2 wait "},
		{"ten", 33, "1 wait ; 2 start a000:4"},
		{"a deviation too late", 19.2, "1 start a000:4; 2 wait "},
		{"two too late", 17.6, "1 wait ; 2 start a000:4"},
	} {
		s := plantest.Snapshot(plantest.Nodes(1, 4), plantest.Strict(plantest.Job(1, 20, planner.Shape{4}), c.due), plantest.Job(2, 4, planner.Shape{4}))
		if got := placed(New(Config{}, bruteSolver).Plan(context.Background(), s)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestAlone: a job as large as the cluster that has little time to spare stops a best-effort job at once, rather than wait for as long as that may just do:
// the margins of the rows, which such a job cannot keep, are not held against one that nobody with a deadline is in the way of.
func TestAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		due  float64
		want string
	}{
		{"little time", 7.2, "1 stop ; 2 start a000:4"},
		{"a lot", 30, "1 keep a000:4; 2 wait "},
	} {
		s := plantest.Snapshot(plantest.Nodes(1, 4), plantest.Running(plantest.Job(1, 30, planner.Shape{4}), at(node("a000", 4))),
			plantest.Strict(plantest.Job(2, 5.9, planner.Shape{4}), c.due))
		s.Jobs[0].LeaseUntil = s.Now
		if got := placed(New(Config{}, bruteSolver).Plan(context.Background(), s)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestNothingToSearch: where a candidate reaches the ceiling no solver is asked, and the plan says that it cannot be beaten.
func TestNothingToSearch(t *testing.T) {
	s := plantest.Snapshot(plantest.Nodes(1, 4), plantest.Running(plantest.Job(1, 50, planner.Shape{4}), at(node("a000", 4))),
		plantest.Strict(plantest.Job(2, 4, planner.Shape{4}), 12), plantest.Job(3, 3, planner.Shape{2}))
	s.Jobs[0].LeaseUntil = s.Now.Add(s.Unit)
	plan := New(Config{}, func(context.Context, *milp.Model, milp.Limits) (milp.Solution, error) {
		t.Error("the solver was asked")
		return milp.Solution{}, errors.New("crashed")
	}).Plan(context.Background(), s)
	if plan.Solver.Status != "optimal" || plan.Solver.Gap > 1e-3 || plan.Solver.Bound < plan.Objective || len(plan.Scores) != 1 {
		t.Errorf("%+v, scores %v", plan.Solver, plan.Scores)
	}
}
