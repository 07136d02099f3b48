package lease

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

// TestDoingNothingIsFeasible: whatever the snapshot, the model lets everybody stay as they are. Otherwise a solver finds it infeasible, and the round is left
// to the candidates without one.
func TestDoingNothingIsFeasible(t *testing.T) {
	draw := func(t *rapid.T) planner.Snapshot {
		if rapid.Bool().Draw(t, "plain") {
			return drawGranted(t)
		}
		return plantest.DrawSnapshot(t)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := newInstance(draw(t), Config{}.filled())
		pr := in.program()
		m := pr.m
		m.ColLo = slices.Clone(m.ColLo)
		for ji := range in.jobs {
			if j := &in.jobs[ji]; pr.first[ji] >= 0 {
				stay := j.base
				for ci, c := range j.cols {
					if c.kind == keep && c.tier < 0 && c.rank >= 0 {
						stay = ci
					}
				}
				m.ColLo[pr.column(ji, stay)] = 1
			}
		}
		if sol, _ := bruteSolver(context.Background(), &m, milp.Limits{}); sol.Status != milp.Optimal { // some rows have columns of their own
			t.Error(sol.Status)
		}
	})
}

// TestQuotaOfAJobWithoutAChoice: a job that can only wait holds nothing of its account's quota, whatever its first column is. (It was counted as
// started, which made the model infeasible.)
func TestQuotaOfAJobWithoutAChoice(t *testing.T) {
	mid := plantest.Running(plantest.Job(1, 9, planner.Shape{1}), at(node("a000", 1)))
	mid.LeaseUntil = plantest.Now.Add(5 * 60e9)
	s := plantest.Snapshot(plantest.Nodes(1, 4), mid, plantest.Job(2, 9, planner.Shape{4}), plantest.Job(3, 9, planner.Shape{2}), plantest.Job(4, 5, planner.Shape{2}))
	for i := range s.Jobs {
		s.Jobs[i].Account = "bio"
	}
	s.Accounts = []planner.Account{{Name: "bio", MaxGPUs: 4}}
	plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
	if plan.Solver.Status != "optimal" {
		t.Errorf("the solver said %q", plan.Solver.Status)
	}
	if d := cmp.Diff([]string{"1 keep mid-lease", "2 wait quota", "3 wait quota", "4 start starts"}, told(plan)); d != "" {
		t.Error(d)
	}
}

// TestTwoMovesAtOnce: a job may move to where another moves away from, which the search for places finds although the nodes offer the same.
func TestTwoMovesAtOnce(t *testing.T) {
	runs := func(id, gpus int, units float64, n string) planner.Job {
		j := plantest.Running(plantest.Job(id, units, planner.Shape{gpus}), at(node(n, gpus)))
		j.Estimate.Resume = planner.Exactly(10)
		return j
	}
	s := plantest.Snapshot(plantest.Nodes(3, 4), runs(1, 1, 1.5, "a000"), runs(2, 1, 1.5, "a000"), runs(3, 2, 1.5, "a001"), runs(4, 2, 2, "a002"),
		plantest.Job(5, 1, planner.Shape{3}), plantest.Job(6, 1, planner.Shape{3}))
	in := newInstance(s, Config{}.filled())
	starts, opt := []int{4, 5, 3}, func(ji int) option { return in.jobs[ji].opts[0] }
	f := newFloor(in)
	found, ok := f.fitAll(starts, opt)
	if !ok {
		t.Fatal("no places found on three empty nodes")
	}
	if home := planner.Placement(in.jobs[3].Current); found[2].String() == home.String() {
		t.Errorf("job 4 moves to %v, where it is", home)
	}
}
