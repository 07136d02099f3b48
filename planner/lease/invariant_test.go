package lease

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

// drawCrowd draws more tight deadlines than four GPUs can meet.
func drawCrowd(t *rapid.T) planner.Snapshot {
	var jobs []planner.Job
	for i := range rapid.IntRange(2, 5).Draw(t, "jobs") {
		units := rapid.Float64Range(2, 10).Draw(t, "units")
		j := plantest.Job(i+1, units, planner.Shape{rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus")})
		if rapid.IntRange(0, 3).Draw(t, "strict") > 0 {
			j = plantest.Strict(j, units*rapid.Float64Range(1.1, 1.8).Draw(t, "due")+1)
		}
		jobs = append(jobs, j)
	}
	return plantest.Snapshot(plantest.Nodes(1, 4), jobs...)
}

// TestNoLateJobCouldBeAdded: a strict job that the plan does not count on cannot be: with every other SLO job at its tier or better, and everybody
// else free to do anything, no choice of the model gives it one.
func TestNoLateJobCouldBeAdded(t *testing.T) {
	late := 0
	untilSeen(t, &late, "no late job was drawn", func(t *rapid.T) {
		s := drawCrowd(t)
		plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
		in := newInstance(s, Config{}.filled())
		for ji := range in.jobs {
			if !in.jobs[ji].alive || plan.Entries[ji].Tier >= 0 {
				continue
			}
			late++
			pr := in.program()
			m := pr.m
			m.ColHi = slices.Clone(m.ColHi)
			for k := range in.jobs {
				for ci, c := range in.jobs[k].cols {
					need := k == ji || plan.Entries[k].Tier >= 0
					if pr.first[k] >= 0 && in.jobs[k].alive && need && (c.tier < 0 || k != ji && c.tier > plan.Entries[k].Tier) {
						if c.rank >= 0 {
							m.ColHi[pr.column(k, ci)] = 0
						}
					}
				}
			}
			sol, _ := bruteSolver(context.Background(), &m, milp.Limits{})
			if len(sol.X) == 0 {
				continue
			}
			if r := in.pack("added", pr.choice(sol.X)); len(r.misfits) == 0 && r.obj > plan.Objective+1e-6 {
				t.Errorf("job %s could have been met: objective %.3f instead of %.3f", in.jobs[ji].Run, r.obj, plan.Objective)
			}
		}
	})
}

// TestCachedPlanIsExecutable: whatever the last plan was, three rounds without a solver pass Check, with the
// last plan among their candidates.
func TestCachedPlanIsExecutable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		broken := false
		p := New(Config{}, func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
			if broken {
				return milp.Solution{Bound: math.Inf(1)}, errors.New("solver killed")
			}
			return bruteSolver(ctx, m, lim)
		})
		w := plantest.NewWorld(drawPlain(t))
		for round := range 4 {
			broken = round > 0
			before := len(p.Last().Leases)
			plan, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) })
			if err != nil {
				t.Fatal(err)
			}
			if plan.Candidate == "fallback" {
				t.Errorf("round %d: %v", round, plan.Scores)
			}
			if broken && !slices.ContainsFunc(plan.Scores, func(c planner.Score) bool { return c.Candidate == "last" }) && before > 0 {
				t.Errorf("round %d: the last plan was no candidate: %v", round, plan.Scores)
			}
		}
	})
}

// untilSeen checks a property until what it is about has been seen once: a short run draws so little that it may miss it.
func untilSeen(t *testing.T, seen *int, otherwise string, check func(*rapid.T)) {
	t.Helper()
	for range 50 {
		rapid.Check(t, check)
		if *seen > 0 || t.Failed() {
			return
		}
	}
	t.Error(otherwise)
}
