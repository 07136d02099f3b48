package lease

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestPlacesTogether: jobs of several nodes go under the smallest switch, or into the smallest block, that can hold them, and shares where GPUs are
// free together.
func TestPlacesTogether(t *testing.T) {
	// Eight nodes of 4 GPUs, two under each leaf, two leaves under each half.
	wired := func() []planner.Node {
		nodes := plantest.Nodes(8, 4)
		for i := range nodes {
			nodes[i].Switch, nodes[i].Above = fmt.Sprint("s", i/2), []string{fmt.Sprint("half", i/4), "root"}
		}
		return nodes
	}
	flat := func() []planner.Node { return plantest.Nodes(8, 4) }
	hold := func(id, gpus int, n string) planner.Job {
		j := plantest.Running(plantest.Job(id, 50, planner.Shape{gpus}), at(node(n, gpus)))
		j.Preemptible = false
		return j
	}
	pair, quad := plantest.Job(1, 9, planner.Shape{4, 4}), plantest.Job(1, 9, planner.Shape{4, 4, 4, 4})
	for _, c := range []struct {
		name  string
		nodes func() []planner.Node
		jobs  []planner.Job
		tweak func([]planner.Node)
		want  string
	}{
		{"anywhere on a flat network", flat, []planner.Job{pair, hold(2, 4, "a001"), hold(3, 4, "a002")}, nil, "a000:4,a003:4"},
		{"under one leaf", wired, []planner.Job{pair, hold(2, 4, "a001"), hold(3, 4, "a002")}, nil, "a004:4,a005:4"},
		{"under one half when no leaf will do", wired, []planner.Job{pair, hold(2, 4, "a001"), hold(3, 4, "a003"), hold(4, 4, "a005"), hold(5, 1, "a006")}, nil, "a000:4,a002:4"},
		{"the half that is fuller", wired, []planner.Job{pair, hold(2, 2, "a001"), hold(3, 2, "a003"), hold(4, 1, "a005"), hold(5, 1, "a007")}, nil, "a000:4,a002:4"},
		{"a wide one under one half", wired, []planner.Job{quad, hold(2, 1, "a001")}, nil, "a004:4,a005:4,a006:4,a007:4"},
		{"across all when it must", wired, []planner.Job{quad, hold(2, 1, "a001"), hold(3, 1, "a004")}, nil, "a000:4,a002:4,a003:4,a005:4"},
		{"shares where GPUs are free together", flat, []planner.Job{plantest.Job(1, 9, planner.Shape{2}), hold(2, 2, "a000"), hold(3, 2, "a001")},
			func(nodes []planner.Node) { nodes[0].Busy, nodes[1].Busy = []int{0, 2}, []int{2, 3} }, "a001:2"},
		{"what is known of a node that changes counts no longer", flat, []planner.Job{plantest.Job(1, 9, planner.Shape{2}), hold(2, 2, "a000")},
			func(nodes []planner.Node) { nodes[0].Busy = []int{0, 1, 2} }, "a000:2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := c.nodes()
			if c.tweak != nil {
				c.tweak(nodes)
			}
			s := plantest.Snapshot(nodes, c.jobs...)
			plan := New(Config{}, nil).Plan(context.Background(), s)
			if d := cmp.Diff(c.want, plan.Entries[0].Placement.String()); d != "" {
				t.Error(d)
			}
		})
	}
}
