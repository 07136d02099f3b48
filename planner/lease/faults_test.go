package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

// faults are solvers that answer as broken solvers do (cases 40 and 41); each spoils the true answer of a small program.
var faults = map[string]milp.Solver{
	"error": func(context.Context, *milp.Model, milp.Limits) (milp.Solution, error) {
		return milp.Solution{}, errors.New("solver crashed: exit 139")
	},
	"empty solution": spoil(func(s *milp.Solution) { s.X = nil }),
	"truncated":      spoil(func(s *milp.Solution) { s.X = s.X[:len(s.X)/2] }),
	"infeasible as optimal": spoil(func(s *milp.Solution) {
		for i := range s.X {
			s.X[i] = 1
		}
	}),
	"not quite integer": spoil(func(s *milp.Solution) {
		for i := range s.X {
			if s.X[i] == 1 {
				s.X[i] = 0.9999994
			}
		}
	}),
	"a little negative": spoil(func(s *milp.Solution) {
		for i := range s.X {
			if s.X[i] == 0 {
				s.X[i] = -1e-9
			}
		}
	}),
	"not a number":    spoil(func(s *milp.Solution) { s.X[0] = math.NaN() }),
	"bound too low":   spoil(func(s *milp.Solution) { s.Bound = s.Objective - 1e6 }),
	"bound no number": spoil(func(s *milp.Solution) { s.Bound = math.NaN() }),
	"infeasible, it says": func(context.Context, *milp.Model, milp.Limits) (milp.Solution, error) {
		return milp.Solution{Status: milp.Infeasible, Bound: math.Inf(-1)}, nil
	},
	"time limit without incumbent": func(context.Context, *milp.Model, milp.Limits) (milp.Solution, error) {
		return milp.Solution{Status: milp.TimeLimit, Bound: math.Inf(1)}, nil
	},
	"wrong status": spoil(func(s *milp.Solution) { s.Status = milp.Infeasible }),
}

func spoil(how func(*milp.Solution)) milp.Solver {
	return func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
		s, err := bruteSolver(ctx, m, lim)
		if err == nil && len(s.X) > 0 {
			how(&s)
		}
		return s, err
	}
}

// tiny is a snapshot in which no greedy candidate is proven: of the six GPUs beside a strict job and one that runs, greedy gives four to the job that
// earns most per GPU, the optimum three to each of the other two.
func tiny() planner.Snapshot {
	return plantest.Snapshot(plantest.Nodes(1, 10), plantest.Running(plantest.Job(1, 5, planner.Shape{2}), at(node("a000", 2))),
		plantest.Strict(plantest.Job(2, 4, planner.Shape{2}), 6), plantest.Job(3, 4, planner.Shape{4}), plantest.Job(4, 6, planner.Shape{3}), plantest.Job(5, 6, planner.Shape{3}))
}

// TestTiny: the solver is needed here, and finds more than greedy does.
func TestTiny(t *testing.T) {
	greedy, exact := New(Config{}, nil).Plan(context.Background(), tiny()), New(Config{}, bruteSolver).Plan(context.Background(), tiny())
	if exact.Candidate != "rounded" && exact.Candidate != "milp" && exact.Candidate != "second" || exact.Objective < greedy.Objective+0.05 {
		t.Errorf("%s earns %g, greedy %g", exact.Candidate, exact.Objective, greedy.Objective)
	}
}

// TestFaultySolver: every fault ends in a plan that Check accepts, no worse than greedy, and the next round is normal.
func TestFaultySolver(t *testing.T) {
	s := tiny()
	want := New(Config{}, nil).Plan(context.Background(), s)
	for name, solver := range faults {
		t.Run(name, func(t *testing.T) {
			broken := true
			p := New(Config{}, func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
				if broken {
					return solver(ctx, m, lim)
				}
				return bruteSolver(ctx, m, lim)
			})
			plan := p.Plan(context.Background(), s)
			if v := planner.Check(s, plan); len(v) > 0 || plan.Candidate == "fallback" {
				t.Fatalf("%v %v", v, plan.Scores)
			}
			if plan.Objective < want.Objective-1e-9 {
				t.Errorf("objective %g, greedy %g", plan.Objective, want.Objective)
			}
			if math.IsNaN(plan.Solver.Gap) || math.IsNaN(plan.Solver.Bound) || math.IsInf(plan.Solver.Bound, 0) || math.IsInf(plan.Solver.Gap, 0) {
				t.Errorf("stats that no JSON holds: %+v", plan.Solver)
			}
			broken = false
			if next := p.Plan(context.Background(), s); next.Solver.Status != "optimal" {
				t.Errorf("next round: %+v", next.Solver)
			}
		})
	}
}

// TestSolverIsLeftAlone: after three failures in a row the solver rests, and comes back.
func TestSolverIsLeftAlone(t *testing.T) {
	asked := 0
	p := New(Config{}, func(context.Context, *milp.Model, milp.Limits) (milp.Solution, error) {
		asked++
		return milp.Solution{}, errors.New("crashed")
	})
	var got []string
	for range failuresToRest + roundsOfRest + 1 {
		before := asked
		plan := p.Plan(context.Background(), tiny())
		got = append(got, fmt.Sprint(plan.Solver.Status, " ", asked > before))
	}
	var want []string
	for range failuresToRest {
		want = append(want, "failed true")
	}
	for range roundsOfRest {
		want = append(want, "skipped false")
	}
	if d := cmp.Diff(append(want, "failed true"), got); d != "" {
		t.Error(d)
	}
}

// TestExactPlansAreFeasible is the greedy property with the solver's candidates.
func TestExactPlansAreFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		if len(s.Jobs) > 6 {
			s.Jobs = s.Jobs[:6]
		}
		p := New(Config{}, bruteSolver)
		p.Reset(New(Config{}, nil).Plan(context.Background(), s))
		plan := p.robust(context.Background(), s)
		for _, v := range planner.Check(s, plan) {
			t.Errorf("%v", v)
		}
		if plan.Solver.Status == "failed" {
			t.Errorf("solver: %+v", plan.Solver)
		}
		first, _ := New(Config{}, bruteSolver).best(context.Background(), s)
		greedy, _ := New(Config{}, nil).best(context.Background(), s)
		if first.Objective < greedy.Objective-1e-9 {
			t.Errorf("objective %g below greedy %g", first.Objective, greedy.Objective)
		}
	})
}
