package policy

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

// At the end of a lease of 20 minutes whoever runs starts anew where he is, best effort too, and pays a resume for it; in between, and in the sticky form,
// nobody does. A job that cannot be preempted is left alone, and so is the best in rank where the budget of preemptions does not cover all.
func TestChronusStartsAnewAtEachLease(t *testing.T) {
	world := func() *plantest.World {
		fixed := plantest.Job(3, 40, planner.Shape{1})
		fixed.Preemptible = false
		return plantest.NewWorld(plantest.Snapshot(plantest.Nodes(1, 4), plantest.Job(1, 30, planner.Shape{2}), plantest.Strict(plantest.Job(2, 30, planner.Shape{1}), 60), fixed))
	}
	for _, c := range []struct {
		policy string
		budget int
		want   map[planner.JobID]int
	}{
		{"chronus", 0, map[planner.JobID]int{1: 2, 2: 2}},
		{"chronus", 1, map[planner.JobID]int{2: 2}},
		{"chronus-sticky", 0, map[planner.JobID]int{}},
	} {
		w := world()
		w.MaxPreemptions = c.budget
		p, anew := make1(t, c.policy, Options{}), map[planner.JobID]int{}
		for range 12 {
			now := w.Now
			plan, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) })
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range plan.Entries {
				if !e.Anew {
					continue
				}
				anew[e.Run.Job]++
				if at := now.Truncate(20 * time.Minute); !at.Equal(now) {
					t.Errorf("%s starts anew at %s", e.Run, now.Format(time.TimeOnly))
				}
			}
		}
		if d := cmp.Diff(c.want, anew); d != "" {
			t.Errorf("%s with a budget of %d: jobs that start anew in an hour (-want +got):\n%s", c.policy, c.budget, d)
		}
	}
}
