package lease

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestWakingNodes: nodes that are powered down are used last, by whoever can wait for them.
func TestWakingNodes(t *testing.T) {
	four, two := planner.Shape{4}, planner.Shape{2}
	asleep := func(names ...string) func(*planner.Snapshot) {
		return func(s *planner.Snapshot) {
			for i := range s.Nodes {
				if strings.Contains(strings.Join(names, " "), s.Nodes[i].Name) {
					s.Nodes[i].Wake, s.Nodes[i].Why = 10*time.Minute, "powered down"
				}
			}
		}
	}
	running := plantest.Running(plantest.Job(1, 50, four), at(node("a000", 4)))
	for _, c := range []struct {
		name  string
		jobs  []planner.Job
		tweak func(*planner.Snapshot)
		want  []string
	}{
		{"the one that is up first", []planner.Job{plantest.Job(1, 9, two)}, asleep("a000"), []string{"start a001:2"}},
		{"even where it breaks a larger block", []planner.Job{plantest.Job(1, 9, two), plantest.Running(plantest.Job(2, 9, two), at(node("a000", 2)))},
			asleep("a000"), []string{"start a001:2", "keep a000:2"}},
		{"then the one asleep", []planner.Job{running, plantest.Job(2, 9, four)}, asleep("a001"), []string{"keep a000:4", "start a001:4"}},
		{"both onto the one that is woken", []planner.Job{plantest.Job(1, 9, two), plantest.Job(2, 9, two)}, asleep("a000", "a001"), []string{"start a000:2", "start a000:2"}},
		{"a deadline that can wait for it", []planner.Job{running, plantest.Strict(plantest.Job(2, 4, four), 7)}, asleep("a001"), []string{"keep a000:4", "start a001:4"}},
		{"a deadline that cannot takes the other", []planner.Job{running, plantest.Strict(plantest.Job(2, 4, four), 5)}, asleep("a001"),
			[]string{"stop", "start a000:4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plantest.Snapshot(plantest.Nodes(2, 4), c.jobs...)
			c.tweak(&s)
			plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
			var got []string
			for _, e := range plan.Entries {
				got = append(got, strings.TrimSpace(string(e.Decision)+" "+e.Placement.String()))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n%+v", d, plan.Scores)
			}
		})
	}
}

// TestForecastWaitsForNodes: what starts on a sleeping node ends later by the time that it takes to wake, and the reason says so.
func TestForecastWaitsForNodes(t *testing.T) {
	s := plantest.Snapshot(plantest.Nodes(1, 4), plantest.Job(1, 3, planner.Shape{2}), plantest.Job(2, 9, planner.Shape{4}))
	s.Nodes[0].Wake = 10 * time.Minute
	plan := New(Config{}, nil).Plan(context.Background(), s)
	if got, want := plan.Entries[0].Finish, plantest.Now.Add(25*time.Minute); !got.Equal(want) {
		t.Errorf("ends at %v, want %v", got, want)
	}
	if got, want := plan.Entries[1].Finish, plantest.Now.Add(70*time.Minute); !got.Equal(want) { // who comes later finds it awake
		t.Errorf("the second ends at %v, want %v", got, want)
	}
	if d := cmp.Diff("gets a000:2; a000 must be powered up first, within 10m0s", plan.Entries[0].Reason.Text); d != "" {
		t.Error(d)
	}
}

// TestClosedNodes: case 51: whoever could still run when a reservation begins does not start on its nodes, and the reason names it; so it does drained and
// reserved nodes.
func TestClosedNodes(t *testing.T) {
	short, long := plantest.Job(1, 9, planner.Shape{4}), plantest.Job(2, 9, planner.Shape{4})
	short.Needs.Limit = 2 * time.Hour
	s := plantest.Snapshot(plantest.Nodes(3, 4), short, long)
	s.Nodes[0].ClosesIn, s.Nodes[0].ClosedFor = 72*time.Hour, "reservation maint"
	s.Nodes[1].Usable, s.Nodes[1].Why = false, "drained: bad GPU"
	s.Nodes[2].Usable, s.Nodes[2].Why = false, "reserved: course"
	plan := New(Config{}, nil).Plan(context.Background(), s)
	if d := cmp.Diff([]string{"1 start starts", "2 wait full"}, told(plan)); d != "" {
		t.Error(d)
	}
	want := "the nodes that could hold it are not usable or are held by others now (a000 is closed in 72h0m0s (reservation maint), within the job's time limit, " +
		"a001: drained: bad GPU, a002: reserved: course)"
	if d := cmp.Diff(want, plan.Entries[1].Reason.Text); d != "" {
		t.Error(d)
	}
	if !plan.Entries[1].StartBy.IsZero() {
		t.Errorf("a start is promised: %v", plan.Entries[1].StartBy)
	}
	plan.Entries[1] = plan.Entries[0]
	plan.Entries[1].Run, plan.Entries[1].Rank = s.Jobs[1].Run, 1
	plan.Entries[0].Decision, plan.Entries[0].Placement, plan.Leases = planner.Wait, nil, nil
	if v := planner.Check(s, plan); len(v) != 1 || !strings.Contains(v[0].What, "closed in") {
		t.Errorf("Check says %v", v)
	}
}
