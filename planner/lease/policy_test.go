package lease

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestGreedyPlansAreFeasible holds the first invariant on anything that the field may send.
func TestGreedyPlansAreFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		p := New(Config{}, nil)
		plan := p.robust(context.Background(), s)
		for _, v := range planner.Check(s, plan) {
			t.Errorf("%v", v)
		}
		for _, e := range plan.Entries {
			if e.Reason.Code == "" || e.Reason.Text == "" {
				t.Errorf("job %s: no reason", e.Run)
			}
		}
		if d := cmp.Diff(plan, New(Config{}, nil).robust(context.Background(), s)); d != "" {
			t.Errorf("not deterministic: %s", d)
		}
		for _, v := range planner.Check(s, Fallback(s)) {
			t.Errorf("fallback: %v", v)
		}
	})
}

// TestNoVictimInVain: whoever is stopped could not have stayed beside those who start.
func TestNoVictimInVain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		plan := New(Config{}, nil).Plan(context.Background(), s)
		plan.Leases = nil
		for i := range plan.Entries {
			e := plan.Entries[i]
			if e.Decision != planner.Stop {
				continue
			}
			plan.Entries[i].Decision, plan.Entries[i].Placement = planner.Keep, s.Jobs[i].Current
			plan.Entries[i].LeaseUntil = planner.LeaseEnd(s.Now, s.Unit, 2)
			if v := planner.Check(s, plan); len(v) == 0 {
				t.Errorf("job %s is stopped in vain", e.Run)
			}
			plan.Entries[i] = e
		}
	})
}

// TestPlanOfPlan: case 44: once a plan is carried out, planning again at the same moment stops and moves nobody.
func TestPlanOfPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		p := New(Config{}, nil)
		first := p.Plan(context.Background(), s)
		s.Jobs = slices.Clone(s.Jobs)
		for i := range s.Jobs {
			j, e := &s.Jobs[i], first.Entries[i]
			switch e.Decision {
			case planner.Start, planner.Move, planner.Keep:
				j.State, j.Started, j.Current, j.LeaseUntil = planner.Running, true, e.Placement, e.LeaseUntil
			case planner.Stop:
				j.State, j.Current = planner.Waiting, nil
			}
		}
		second := p.Plan(context.Background(), s)
		for i, e := range second.Entries {
			if e.Decision == planner.Stop || e.Decision == planner.Move || s.Jobs[i].State == planner.Running && e.Decision != planner.Keep {
				t.Errorf("job %s: %s after %s", e.Run, e.Decision, first.Entries[i].Decision)
			}
		}
	})
}
