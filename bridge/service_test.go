package bridge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/topology"
)

// TestService: whether, when and why not a node takes new work, as the plan sees it (cases 21, 23 and 51).
func TestService(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := &Bridge{cfg: Defaults()}
	maint := slurm.Reservation{Name: "maint", Start: at.Add(72 * time.Hour), End: at.Add(80 * time.Hour), Nodes: []string{"n1"}}
	course := slurm.Reservation{Name: "course", Start: at.Add(-time.Hour), End: at.Add(time.Hour), Nodes: []string{"n1"}}
	over := slurm.Reservation{Name: "over", Start: at.Add(-3 * time.Hour), End: at.Add(-time.Hour), Nodes: []string{"n1"}}
	other := slurm.Reservation{Name: "other", Start: at.Add(-time.Hour), Nodes: []string{"n2"}}
	idle := func(usable bool, flags ...string) slurm.Node {
		return slurm.Node{Name: "n1", State: slurm.NodeIdle, Usable: usable, Flags: flags}
	}
	with := func(n slurm.Node, reason string) slurm.Node {
		n.Reason = reason
		return n
	}
	for _, c := range []struct {
		name string
		node slurm.Node
		res  []slurm.Reservation
		want planner.Node
	}{
		{"up", idle(true), nil, planner.Node{Usable: true}},
		{"asleep", idle(false, "POWERED_DOWN"), nil, planner.Node{Usable: true, Wake: 5 * time.Minute, Why: "powered down"}},
		{"waking", idle(false, "POWERING_UP"), nil, planner.Node{Usable: true, Wake: 5 * time.Minute, Why: "powering up"}},
		{"falling asleep", idle(false, "POWERING_DOWN"), nil, planner.Node{Usable: true, Wake: 5*time.Minute + 30*time.Second, Why: "powering down"}},
		{"asleep and drained", with(idle(false, "DRAIN", "POWERED_DOWN"), "fan"), nil, planner.Node{Why: "drained: fan"}},
		{"case 21", with(idle(false, "DRAIN"), "gres/gpu count reported lower than configured (3 < 4)"), nil,
			planner.Node{Why: "drained: gres/gpu count reported lower than configured (3 < 4)"}},
		{"maintenance", idle(false, "MAINTENANCE"), nil, planner.Node{Why: "in maintenance"}},
		{"down", slurm.Node{Name: "n1", State: slurm.NodeDown}, nil, planner.Node{Why: "down"}},
		{"not understood", slurm.Node{Name: "n1", State: slurm.NodeIdle, Odd: []string{"state"}}, nil, planner.Node{Why: "its record is not understood: state"}},
		{"reserved now", idle(true, "RESERVED"), []slurm.Reservation{course, maint}, planner.Node{Why: "reserved: course until 2026-11-30T13:00:00Z"}},
		{"reserved, nobody knows by whom", idle(true, "RESERVED"), nil, planner.Node{Why: "reserved: by a reservation that could not be read"}},
		{"case 51: reserved in three days", idle(true), []slurm.Reservation{maint}, planner.Node{Usable: true, ClosesIn: 72 * time.Hour, ClosedFor: "reservation maint"}},
		{"no longer, or another", idle(true), []slurm.Reservation{other, over}, planner.Node{Usable: true}},
		{"drained wins over reserved", idle(false, "DRAIN", "RESERVED"), []slurm.Reservation{course}, planner.Node{Why: "drained"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := planner.Node{Name: "n1", Usable: c.node.Usable}
			b.serviceOf(&got, &c.node)
			closingsOf(at, c.res).apply(at, &got)
			reservedNow(&got, &c.node)
			c.want.Name = "n1"
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWiring: the site's file decides where a node hangs, else the node's own record; GPUs in use are told only when all of them are.
func TestWiring(t *testing.T) {
	net, err := topology.Parse("SwitchName=s0 Nodes=n1\nSwitchName=r Switches=s0\n")
	if err != nil {
		t.Fatal(err)
	}
	gpu := func(used int, indices ...int) []slurm.GPUs {
		return []slurm.GPUs{{Type: "v", Count: 8, Used: used, UsedIndices: indices}}
	}
	for _, c := range []struct {
		name string
		node slurm.Node
		want planner.Node
	}{
		{"by the file", slurm.Node{Name: "n1", Topology: "tree:other"}, planner.Node{Switch: "s0", Above: []string{"r"}}},
		{"by its record", slurm.Node{Name: "n2", Topology: "block:b1:b1..b2"}, planner.Node{Switch: "b1", Above: []string{"b1..b2"}}},
		{"nobody knows", slurm.Node{Name: "n2"}, planner.Node{}},
		{"in use", slurm.Node{Name: "n2", GPUs: gpu(2, 1, 4)}, planner.Node{Busy: []int{1, 4}}},
		{"in use, half of it told", slurm.Node{Name: "n2", GPUs: gpu(2, 1)}, planner.Node{}},
		{"two types", slurm.Node{Name: "n2", GPUs: append(gpu(1, 1), gpu(1, 1)...)}, planner.Node{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &Bridge{cfg: Defaults()}
			b.cfg.Network = net
			var got planner.Node
			b.wiringOf(&got, &c.node)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
