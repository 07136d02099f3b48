package lease

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestLimitsOfAJob: what a job's own limits and chances mean for its lease, its work and its reward.
func TestLimitsOfAJob(t *testing.T) {
	four := planner.Shape{4}
	plan := func(jobs ...planner.Job) planner.Plan {
		return New(Config{}, bruteSolver).Plan(context.Background(), plantest.Snapshot(plantest.Nodes(1, 4), jobs...))
	}
	t.Run("a lease ends before the time limit", func(t *testing.T) {
		j := plantest.Strict(plantest.Job(1, 20, four), 40)
		j.Estimate.Checkpoint = planner.Exactly(60)
		j.TimeLeft = 10 * time.Minute
		if got, want := plan(j).Entries[0].LeaseUntil, plantest.Now.Add(5*time.Minute); !got.Equal(want) {
			t.Errorf("lease until %v, want %v", got, want)
		}
		j.TimeLeft = 11 * time.Minute
		if got, want := plan(j).Entries[0].LeaseUntil, plantest.Now.Add(10*time.Minute); !got.Equal(want) {
			t.Errorf("lease until %v, want %v", got, want)
		}
	})
	t.Run("runs that end at a limit cost resumes", func(t *testing.T) {
		j := plantest.Job(1, 20, four)
		j.Estimate.Resume = planner.Exactly(150)
		j.TimeLeft = 25 * time.Minute // 5 units: four further resumes of half a unit
		s := plantest.Snapshot(plantest.Nodes(1, 4), j)
		x, _ := Explain(s, plan(j), j.Run, Config{})
		if x.UnitsLeft != 22 {
			t.Errorf("%g units left, want 22", x.UnitsLeft)
		}
	})
	t.Run("a target that is hardly reached earns less", func(t *testing.T) {
		likely, doubtful := plantest.Strict(plantest.Job(2, 4, four), 5), plantest.Strict(plantest.Job(1, 4, four), 5)
		doubtful.Estimate.Reaches = 0.3
		if d := cmp.Diff([]string{"1 wait outbid", "2 start starts"}, told(plan(doubtful, likely))); d != "" {
			t.Error(d)
		}
	})
	t.Run("any of several features", func(t *testing.T) {
		j := plantest.Job(1, 4, four)
		j.Needs.AnyFeature = []string{"h100", "h200"}
		s := plantest.Snapshot(plantest.Nodes(2, 4), j)
		s.Nodes[0].Features, s.Nodes[1].Features = []string{"a100"}, []string{"ib", "h200"}
		p := New(Config{}, nil).Plan(context.Background(), s)
		if got := p.Entries[0].Placement.String(); got != "a001:4" {
			t.Errorf("placed at %q", got)
		}
		p.Entries[0].Placement = at(node("a000", 4))
		p.Leases = nil
		if len(planner.Check(s, p)) == 0 {
			t.Error("Check accepts a node without any of the features")
		}
	})
	t.Run("the account's weight decides between equals", func(t *testing.T) {
		poor, rich := plantest.Job(1, 4, four), plantest.Job(2, 4, four)
		rich.Weight = 1.5
		if d := cmp.Diff([]string{"1 wait outbid", "2 start starts"}, told(plan(poor, rich))); d != "" {
			t.Error(d)
		}
	})
}
