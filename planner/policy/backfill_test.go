package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// arrival is a job of minutes: number, submission, GPUs, duration.
func arrival(id, submit, gpus, minutes int) Arrival {
	return Arrival{Run: planner.Run{Job: planner.JobID(id)}, Submit: plantest.Now.Add(time.Duration(submit) * time.Minute), Shapes: []planner.Shape{{gpus}},
		Duration: time.Duration(minutes) * time.Minute}
}

// TestBackfillByHand compares with schedules worked out on paper: start and finish in minutes, by job.
func TestBackfillByHand(t *testing.T) {
	limited := func(a Arrival, minutes int) Arrival { a.Limit = time.Duration(minutes) * time.Minute; return a }
	for _, c := range []struct {
		name         string
		nodes        []planner.Node
		arrivals     []Arrival
		reservations int
		want         [][2]int
	}{
		{name: "alone", nodes: plantest.Nodes(1, 4), arrivals: []Arrival{arrival(1, 5, 4, 10)}, want: [][2]int{{5, 15}}},
		{name: "first come, first served", nodes: plantest.Nodes(1, 4),
			arrivals: []Arrival{arrival(1, 0, 4, 10), arrival(2, 1, 4, 10), arrival(3, 2, 4, 10)}, want: [][2]int{{0, 10}, {10, 20}, {20, 30}}},
		// 2 GPUs free beside job 1 until 10; job 2 is reserved at 10; job 3 (8 min) ends by then and slips in, job 4 (9 min, at 2) would not.
		{name: "a hole is filled when nobody waits longer", nodes: plantest.Nodes(1, 4),
			arrivals: []Arrival{arrival(1, 0, 2, 10), arrival(2, 1, 4, 10), arrival(3, 2, 1, 8), arrival(4, 2, 1, 9)},
			want:     [][2]int{{0, 10}, {10, 20}, {2, 10}, {20, 29}}},
		// Job 4 delays only job 3's reservation: EASY lets it in, conservative does not.
		{name: "EASY protects the first only", nodes: plantest.Nodes(1, 4), reservations: 1,
			arrivals: []Arrival{arrival(1, 0, 3, 10), arrival(2, 1, 2, 10), arrival(3, 2, 3, 10), arrival(4, 3, 1, 30)},
			want:     [][2]int{{0, 10}, {10, 20}, {20, 30}, {3, 33}}},
		{name: "conservative protects all", nodes: plantest.Nodes(1, 4),
			arrivals: []Arrival{arrival(1, 0, 3, 10), arrival(2, 1, 2, 10), arrival(3, 2, 4, 10), arrival(4, 3, 1, 30)},
			want:     [][2]int{{0, 10}, {10, 20}, {20, 30}, {30, 60}}},
		// Planned on limits: job 1 ends early and job 2 moves up; job 3 could not know.
		{name: "limits, not durations, hold reservations", nodes: plantest.Nodes(1, 2),
			arrivals: []Arrival{limited(arrival(1, 0, 1, 5), 60), arrival(2, 1, 2, 10), limited(arrival(3, 2, 1, 10), 70)}, want: [][2]int{{0, 5}, {5, 15}, {15, 25}}},
		{name: "shares lie on one node", nodes: plantest.Nodes(2, 4),
			arrivals: []Arrival{arrival(1, 0, 3, 10), arrival(2, 0, 3, 10), arrival(3, 0, 2, 5)}, want: [][2]int{{0, 10}, {0, 10}, {10, 15}}},
		{name: "what fits nowhere is told so", nodes: plantest.Nodes(1, 2), arrivals: []Arrival{arrival(1, 0, 4, 10), arrival(2, 0, 2, 10)},
			want: [][2]int{{-1, -1}, {0, 10}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			slices.Reverse(c.arrivals) // order of the list means nothing
			var got [][2]int
			for _, o := range Backfill(c.nodes, c.arrivals, c.reservations) {
				if o.Start.IsZero() {
					got = append(got, [2]int{-1, -1})
					continue
				}
				got = append(got, [2]int{int(o.Start.Sub(plantest.Now).Minutes()), int(o.Finish.Sub(plantest.Now).Minutes())})
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBackfillNeverOverbooks holds capacity at every start, and that every job that fits an empty cluster runs.
func TestBackfillNeverOverbooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := plantest.Nodes(rapid.IntRange(1, 3).Draw(t, "nodes"), 4)
		var as []Arrival
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			as = append(as, arrival(i+1, rapid.IntRange(0, 30).Draw(t, "submit"), rapid.IntRange(1, 4).Draw(t, "gpus"), rapid.IntRange(1, 30).Draw(t, "minutes")))
		}
		out := Backfill(nodes, as, rapid.IntRange(0, 3).Draw(t, "reservations"))
		if len(out) != len(as) {
			t.Fatalf("%d outcomes for %d arrivals", len(out), len(as))
		}
		for i, o := range out {
			if o.Run != as[i].Run || len(o.Placement) == 0 || o.Start.Before(as[i].Submit) || o.Finish.Sub(o.Start) != as[i].Duration {
				t.Fatalf("job %s: %+v", as[i].Run, o)
			}
			used := 0
			for _, x := range out {
				if !x.Start.After(o.Start) && x.Finish.After(o.Start) {
					used += x.Placement.On(o.Placement[0].Node)
				}
			}
			if used > 4 {
				t.Fatalf("%d GPUs of %s used at %v", used, o.Placement[0].Node, o.Start)
			}
		}
	})
}
