package policy

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

// At the end of a lease of 20 minutes whoever runs in the leftover starts anew where he is and pays a resume for it; in between, and in the sticky form,
// nobody does. Whoever has the next lease runs on: job 2, which has all from the second on and stops job 4. A job that cannot be preempted is left alone,
// and so is the best in rank where the budget of preemptions does not cover all.
func TestChronusStartsAnewAtEachLease(t *testing.T) {
	world := func() *plantest.World {
		fixed := plantest.Job(3, 40, planner.Shape{1})
		fixed.Preemptible = false
		return plantest.NewWorld(plantest.Snapshot(plantest.Nodes(1, 4), plantest.Job(1, 30, planner.Shape{2}), plantest.Strict(plantest.Job(2, 30, planner.Shape{1}), 40), fixed,
			plantest.Job(4, 80, planner.Shape{1})))
	}
	for _, c := range []struct {
		policy string
		budget int
		want   map[planner.JobID]int
	}{
		{"chronus", 0, map[planner.JobID]int{1: 2}},
		{"chronus", 1, map[planner.JobID]int{1: 1}},
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

// Between two looks of five minutes what has become free goes to the largest job that waits, and not to one that came since.
func TestChronusFillsTheOtherWayRound(t *testing.T) {
	w := plantest.NewWorld(plantest.Snapshot(plantest.Nodes(1, 1), plantest.Job(1, 0.4, planner.Shape{1}), plantest.Job(2, 1, planner.Shape{1}), plantest.Job(3, 2, planner.Shape{1})))
	w.Unit = time.Minute
	p := make1(t, "chronus", Options{ChronusTick: 5 * time.Minute})
	for minute := range 3 {
		if minute == 1 {
			w.Add(plantest.Job(4, 9, planner.Shape{1}))
		}
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	want := map[planner.JobID]time.Time{1: plantest.Now, 3: plantest.Now.Add(2 * time.Minute)}
	if d := cmp.Diff(want, w.Began); d != "" {
		t.Errorf("first starts (-want +got):\n%s", d)
	}
}

// A job that has run for longer than its estimate goes to the head of the leftover, however much is left of it.
func TestChronusOverrunGoesFirst(t *testing.T) {
	s := plantest.Snapshot(plantest.Nodes(1, 1), plantest.Job(1, 2, planner.Shape{1}), plantest.Job(2, 0.1, planner.Shape{1}))
	for _, c := range []struct {
		name     string
		attained time.Duration
		want     []planner.Decision
	}{
		{"as thought", 8 * time.Minute, []planner.Decision{planner.Wait, planner.Start}},
		{"longer than thought", 12 * time.Minute, []planner.Decision{planner.Start, planner.Wait}},
	} {
		p := make1(t, "chronus", Options{})
		p.Plan(context.Background(), s)
		later := s
		later.Now = s.Now.Add(20 * time.Minute)
		later.Jobs = []planner.Job{plantest.Job(1, 30, planner.Shape{1}), plantest.Job(2, 0.1, planner.Shape{1})}
		later.Jobs[0].Attained = c.attained.Seconds()
		var got []planner.Decision
		for _, e := range p.Plan(context.Background(), later).Entries {
			got = append(got, e.Decision)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}
