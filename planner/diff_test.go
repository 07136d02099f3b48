package planner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
)

func TestDiff(t *testing.T) {
	t0 := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	at := func(m int) time.Time { return t0.Add(time.Duration(m) * time.Minute) }
	on := func(n string, g int) planner.Placement {
		return planner.NewPlacement(planner.Share{Node: n, GPUs: g})
	}
	e := func(job planner.JobID, d planner.Decision, p planner.Placement, tier, start, finish int) planner.Entry {
		x := planner.Entry{Run: planner.Run{Job: job}, Decision: d, Placement: p, Tier: tier, Reason: planner.Reason{Code: string(d)}}
		if start > 0 {
			x.StartBy = at(start)
		}
		if finish > 0 {
			x.Finish = at(finish)
		}
		return x
	}
	before := planner.Plan{ID: "a", Now: t0, Unit: 5 * time.Minute, Entries: []planner.Entry{
		e(1, planner.Keep, on("n1", 4), 0, 0, 60), e(2, planner.Wait, nil, -1, 10, 0), e(3, planner.Wait, nil, 0, 20, 40), e(4, planner.Keep, on("n2", 4), -1, 0, 30),
		e(5, planner.Wait, nil, -1, 30, 90), e(6, planner.Wait, nil, -1, 15, 45), e(7, planner.Keep, on("n3", 2), -1, 0, 50), e(8, planner.Keep, on("n3", 2), -1, 0, 50),
	}}
	after := planner.Plan{ID: "b", Now: at(5), Unit: 5 * time.Minute, Entries: []planner.Entry{
		e(1, planner.Keep, on("n1", 4), 0, 0, 62), e(2, planner.Start, on("n2", 4), -1, 5, 0), e(3, planner.Wait, nil, -1, 50, 80), e(4, planner.Stop, nil, -1, 0, 0),
		e(5, planner.Wait, nil, -1, 45, 105), e(6, planner.Wait, nil, -1, 8, 45), e(7, planner.Move, on("n4", 2), -1, 0, 50), e(9, planner.Wait, nil, -1, 30, 60),
	}}
	type line struct {
		Job   planner.JobID
		Kind  string
		Shift time.Duration
	}
	var got []line
	d := planner.Diff(before, after)
	for _, c := range d.Changes {
		got = append(got, line{c.Job, c.Kind, c.Shift})
	}
	want := []line{{3, planner.ChangeLost, 30 * time.Minute}, {2, planner.ChangeStarts, 0}, {4, planner.ChangeStops, 0}, {7, planner.ChangePlace, 0}, {9, planner.ChangeNew, 0},
		{8, planner.ChangeGone, 0}, {5, planner.ChangeLater, 15 * time.Minute}, {6, planner.ChangeEarlier, -7 * time.Minute}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d.Before.ID != "a" || d.After.ID != "b" || d.After.Jobs != 8 {
		t.Errorf("%+v %+v", d.Before, d.After)
	}
	if back := planner.Diff(before, before); len(back.Changes) != 0 {
		t.Errorf("a plan differs from itself: %+v", back.Changes)
	}
}
