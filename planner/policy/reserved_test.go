package policy

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// Whatever the snapshot, planner.Check has nothing to say, the same snapshot gives the same plan, and nobody is started on the other side's nodes.
func TestReservedKeepsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		if rapid.Bool().Draw(t, "no grants") {
			s.Accounts = nil
		}
		n := rapid.IntRange(0, len(s.Nodes)+1).Draw(t, "reserved")
		p := NewReserved(n, Options{}).Plan(context.Background(), s)
		for _, v := range planner.Check(s, p) {
			t.Errorf("%v", v)
		}
		if d := cmp.Diff(p, NewReserved(n, Options{}).Plan(context.Background(), s)); d != "" {
			t.Errorf("two plans: %s", d)
		}
		if p.Candidate != "reserved" {
			return
		}
		for i, e := range p.Entries {
			if e.Decision != planner.Start || s.Jobs[i].Foreign {
				continue
			}
			for _, sh := range e.Placement {
				k := nodeIndex(s, sh.Node)
				if in := k < n; in != s.Jobs[i].Class.SLO() {
					t.Errorf("job %s of class %s starts on node %d, %d are reserved", e.Run, s.Jobs[i].Class, k, n)
				}
			}
		}
	})
}

func nodeIndex(s planner.Snapshot, name string) int {
	for i, n := range s.Nodes {
		if n.Name == name {
			return i
		}
	}
	return -1
}

// A hand-worked round: with one of two nodes reserved, a best-effort job waits although the reserved node is empty, and the deadline job goes there.
func TestReservedByHand(t *testing.T) {
	s := plantest.Snapshot(plantest.Nodes(2, 4), plantest.Job(1, 5, planner.Shape{4}), plantest.Job(2, 5, planner.Shape{4}))
	p := NewReserved(1, Options{}).Plan(context.Background(), s)
	got := []planner.Decision{p.Entries[0].Decision, p.Entries[1].Decision}
	if d := cmp.Diff([]planner.Decision{planner.Start, planner.Wait}, got); d != "" {
		t.Error(d)
	}
	s.Jobs[1] = plantest.Strict(s.Jobs[1], 10)
	p = NewReserved(1, Options{}).Plan(context.Background(), s)
	want := []planner.Placement{{{Node: s.Nodes[1].Name, GPUs: 4}}, {{Node: s.Nodes[0].Name, GPUs: 4}}}
	if d := cmp.Diff(want, []planner.Placement{p.Entries[0].Placement, p.Entries[1].Placement}); d != "" {
		t.Error(d)
	}
}
