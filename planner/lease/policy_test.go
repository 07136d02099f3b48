package lease

import (
	"context"
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
