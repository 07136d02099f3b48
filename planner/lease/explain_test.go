package lease

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

func TestExplain(t *testing.T) {
	four := planner.Shape{4}
	s := plantest.Snapshot(plantest.Nodes(1, 4), plantest.Running(plantest.Job(1, 10, four), at(node("a000", 4))),
		plantest.Job(2, 20, four, planner.Shape{2, 2}), plantest.Job(3, 20, planner.Shape{8}))
	plan := New(Config{}, nil).Plan(context.Background(), s)
	got, ok := Explain(s, plan, planner.Run{Job: 2}, Config{})
	want := Explanation{Run: planner.Run{Job: 2}, UnitsLeft: 20, Ways: []Way{
		{Decision: planner.Start, Shape: "4", Speed: 1, Tier: -1, Reward: 0.05, Left: 19, Breaks: []string{"4 more GPUs free", "1 more blocks of 4 GPUs on one node"}},
		{Decision: planner.Wait, Tier: -1, Left: 20, Chosen: true},
	}, ToRun: []string{"4 more GPUs free", "1 more blocks of 4 GPUs on one node"}}
	if d := cmp.Diff(want, got); d != "" || !ok {
		t.Error(ok, d)
	}
	never, _ := Explain(s, plan, planner.Run{Job: 3}, Config{})
	if d := cmp.Diff([]string{"no set of nodes of this cluster can hold any of its shapes"}, never.ToRun); d != "" {
		t.Error(d)
	}
	if _, ok := Explain(s, plan, planner.Run{Job: 99}, Config{}); ok {
		t.Error("a job that is not there was explained")
	}
}

// TestExplainAnything: every job of every plan has an explanation with exactly one chosen way.
func TestExplainAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		plan := New(Config{}, nil).Plan(context.Background(), s)
		for _, e := range plan.Entries {
			x, ok := Explain(s, plan, e.Run, Config{})
			chosen := 0
			for _, w := range x.Ways {
				if w.Chosen {
					chosen++
				}
			}
			if !ok || chosen != 1 || (len(x.ToRun) > 0) != (e.Decision == planner.Wait || e.Decision == planner.Stop) {
				t.Errorf("%s: %v %d %v %+v", e.Run, ok, chosen, e.Decision, x)
			}
		}
	})
}
