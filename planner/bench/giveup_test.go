package bench

import (
	"context"
	"testing"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/plantest"
	"unisched/planner/reward"
)

// TestGivingUp: on one node and on two, with more deadlines than can be met, plans made anew each round earn more over two hours when what to give up is
// searched for by playing out.
func TestGivingUp(t *testing.T) {
	solve := solver(t)
	for _, nodes := range []int{1, 2} {
		with, without := 0.0, 0.0
		for seed := uint64(1); seed <= 12; seed++ {
			s := paperInstance(seed)
			s = plantest.Snapshot(plantest.Nodes(nodes, 8), s.Jobs[:min(len(s.Jobs), 8*nodes+2)]...)
			on, off := generous(), generous()
			off.NoGiveUp = true
			a, b := finished(t, s, lease.New(on, solve)), finished(t, s, lease.New(off, solve))
			with, without = with+a, without+b
			if a != b {
				t.Logf("seed %d, %d nodes: %.0f with the search, %.0f without", seed, nodes, a, b)
			}
		}
		if t.Logf("%d nodes: %.0f with the search, %.0f without", nodes, with, without); with <= without {
			t.Error("too little")
		}
	}
}

// finished plays a policy over the horizon and returns what the jobs that ended earned: a deadline its value, a best-effort job 1.
func finished(t *testing.T, s planner.Snapshot, p *lease.Policy) float64 {
	w := plantest.NewWorld(s)
	for range slots {
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0.0
	for _, j := range s.Jobs {
		switch end := w.Finished[j.Run.Job]; {
		case end.IsZero():
		case !j.Class.SLO():
			sum++
		case !end.After(j.Tiers[0].At):
			sum += reward.Default().Tier(j.Tiers[0].Value)
		}
	}
	return sum
}
