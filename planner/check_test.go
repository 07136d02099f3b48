package planner_test

import (
	"strings"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/plantest"
)

func on(parts ...planner.Share) planner.Placement { return planner.NewPlacement(parts...) }

func at(node string, gpus int) planner.Share { return planner.Share{Node: node, GPUs: gpus} }

// world is a snapshot with one job of every kind and a plan for it that breaks nothing:
// 1 runs 2 GPUs on a000, 2 runs mid-lease on a000, 3 waits (2x2 or 4), 4 is leaving a001, 5 is foreign, 6 is blocked, 7 cannot be preempted.
func world() (planner.Snapshot, planner.Plan) {
	nodes := plantest.Nodes(4, 4)
	nodes[2].GPUType, nodes[3].Usable, nodes[3].Why = "v", false, "drained"
	one, two := planner.Shape{1}, planner.Shape{2}
	mid := plantest.Running(plantest.Job(2, 3, one), on(at("a000", 1)))
	mid.LeaseUntil = plantest.Now.Add(5 * time.Minute)
	leaving := plantest.Running(plantest.Job(4, 3, planner.Shape{4}), on(at("a001", 4)))
	leaving.State = planner.Leaving
	foreign := plantest.Job(5, 3, one)
	foreign.Foreign = true
	blocked := plantest.Job(6, 3, one)
	blocked.Blocked = "held"
	fixed := plantest.Running(plantest.Job(7, 3, one), on(at("a003", 1)))
	fixed.Preemptible = false
	s := plantest.Snapshot(nodes, plantest.Running(plantest.Job(1, 3, two), on(at("a000", 2))), mid,
		plantest.Job(3, 3, planner.Shape{4}, planner.Shape{2, 2}), leaving, foreign, blocked, fixed)
	lease := plantest.Now.Add(5 * time.Minute)
	e := func(i, rank int, d planner.Decision, p planner.Placement) planner.Entry {
		en := planner.Entry{Run: s.Jobs[i].Run, Decision: d, Placement: p, Rank: rank, Tier: -1}
		if d != planner.Wait && d != planner.Stop {
			en.LeaseUntil = lease
		}
		return en
	}
	p := planner.Plan{Schema: 1, Now: s.Now, Unit: s.Unit, Entries: []planner.Entry{
		e(0, 3, planner.Keep, s.Jobs[0].Current), e(1, 4, planner.Keep, mid.Current), e(2, 0, planner.Start, on(at("a001", 4))),
		e(3, 2, planner.Wait, nil), e(4, 1, planner.Start, on(at("a000", 1))), e(5, 5, planner.Wait, nil), e(6, 6, planner.Keep, fixed.Current)}}
	for _, en := range p.Entries {
		if len(en.Placement) > 0 {
			p.Leases = append(p.Leases, planner.Lease{Run: en.Run, From: s.Now, Until: lease, Placement: en.Placement})
		}
	}
	return s, p
}

func TestCheck(t *testing.T) {
	stop := func(e *planner.Entry) { e.Decision, e.Placement, e.LeaseUntil = planner.Stop, nil, time.Time{} }
	for _, c := range []struct {
		name   string
		change func(*planner.Snapshot, *planner.Plan)
		want   string // part of the first violation; empty: none
	}{
		{"a good plan", func(*planner.Snapshot, *planner.Plan) {}, ""},
		{"a job starts anew where it runs", func(_ *planner.Snapshot, p *planner.Plan) {
			p.Entries[0].Decision, p.Entries[0].Anew = planner.Move, true
		}, ""},
		{"a job is kept, anew", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[0].Anew = true }, "cannot be anew"},
		{"a job moves elsewhere, anew", func(_ *planner.Snapshot, p *planner.Plan) {
			p.Entries[0].Decision, p.Entries[0].Placement, p.Entries[0].Anew = planner.Move, on(at("a001", 2)), true
		}, "cannot be anew"},
		{"an entry is missing", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries = p.Entries[1:] }, "6 entries for 7 jobs"},
		{"entries in another order", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[0], p.Entries[1] = p.Entries[1], p.Entries[0] }, "is not for job"},
		{"made for another time", func(_ *planner.Snapshot, p *planner.Plan) { p.Now = p.Now.Add(1) }, "another time"},
		{"mid-lease job stopped", func(_ *planner.Snapshot, p *planner.Plan) { stop(&p.Entries[1]); p.Leases = nil }, "may only be kept (mid-lease)"},
		{"unpreemptible job stopped", func(_ *planner.Snapshot, p *planner.Plan) { stop(&p.Entries[6]); p.Leases = nil }, "may only be kept (no-preempt)"},
		{"running job left out", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[0].Decision = planner.Wait }, "wait of a running job"},
		{"leaving job started", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[3].Decision = planner.Start }, "start of a job that is leaving"},
		{"blocked job started", func(_ *planner.Snapshot, p *planner.Plan) {
			p.Entries[5].Decision, p.Entries[5].Placement, p.Entries[5].LeaseUntil = planner.Start, on(at("a002", 1)), p.Entries[0].LeaseUntil
		}, "start of a blocked job"},
		{"foreign job stopped", func(s *planner.Snapshot, p *planner.Plan) {
			s.Jobs[0].Foreign = true
			stop(&p.Entries[0])
			p.Leases = nil
		}, "may only be kept"},
		{"unknown decision", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[2].Decision = "dance" }, "dance of a waiting job"},
		{"shape not in the list", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[2].Placement = on(at("a001", 3)); p.Leases = nil }, "not one of its shapes"},
		{"no such node", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[2].Placement = on(at("zz", 4)); p.Leases = nil }, "no such node"},
		{"node not usable", func(s *planner.Snapshot, p *planner.Plan) { s.Nodes[1].Usable, s.Nodes[1].Why = false, "down" }, "not usable: down"},
		{"wrong partition", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.Partition = "gpu" }, `not in partition "gpu"`},
		{"missing feature", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.Features = []string{"ib"} }, `lacks feature "ib"`},
		{"excluded node", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.Exclude = []string{"a001"} }, "is excluded"},
		{"not among the allowed", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.Only = []string{} }, "not among the nodes allowed"},
		{"wrong GPU type", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.GPUType = "v" }, `type "", not "v"`},
		{"two GPU types", func(_ *planner.Snapshot, p *planner.Plan) {
			p.Entries[2].Placement = on(at("a001", 2), at("a002", 2))
			p.Leases = nil
		}, `mixes GPU types`},
		{"a node twice", func(_ *planner.Snapshot, p *planner.Plan) {
			p.Entries[2].Placement = on(at("a001", 2), at("a001", 2))
			p.Leases = nil
		}, "named twice"},
		{"too many nodes", func(s *planner.Snapshot, p *planner.Plan) {
			s.Jobs[2].Needs.MaxNodes = 1
			s.Nodes[2].GPUType = ""
			p.Entries[2].Placement = on(at("a001", 2), at("a002", 2))
			p.Leases = nil
		}, "at most 1"},
		{"GPUs twice", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[4].Placement = on(at("a001", 1)); p.Leases = nil }, "5 GPUs used"},
		{"a victim's GPUs once", func(_ *planner.Snapshot, p *planner.Plan) {
			stop(&p.Entries[0])
			p.Leases = nil
		}, ""},
		{"others count", func(s *planner.Snapshot, _ *planner.Plan) { s.Nodes[1].OtherGPUs = 1 }, "held by others"},
		{"CPUs", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.CPUsPerGPU = 9 }, "36 CPUs used"},
		{"memory", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[2].Needs.MemPerNodeMB = 1 << 20 }, "MB used"},
		{"exclusive", func(s *planner.Snapshot, _ *planner.Plan) { s.Jobs[4].Needs.Exclusive = true }, "for itself"},
		{"a snapshot's own overload is nobody's fault", func(s *planner.Snapshot, p *planner.Plan) {
			s.Nodes[3].GPUs = 0
		}, ""},
		{"keep elsewhere", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[0].Placement = on(at("a002", 2)) }, "although it runs at"},
		{"move to the same place", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[0].Decision = planner.Move }, "move to where it runs"},
		{"lease shorter than a unit", func(s *planner.Snapshot, p *planner.Plan) { p.Entries[2].LeaseUntil = s.Now.Add(time.Minute) }, "shorter than a unit"},
		{"running lease cut", func(s *planner.Snapshot, p *planner.Plan) { p.Entries[1].LeaseUntil = s.Now.Add(time.Hour) }, "changes its end"},
		{"ranks", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[0].Rank = 0 }, "rank 0 given twice"},
		{"budget", func(s *planner.Snapshot, p *planner.Plan) {
			s.MaxPreemptions = 1
			stop(&p.Entries[0])
			p.Entries[1].Decision = planner.Stop
			s.Jobs[1].LeaseUntil = s.Now
			stop(&p.Entries[1])
			p.Leases = nil
		}, "2 preemptions where at most 1"},
		{"waiting with a place", func(_ *planner.Snapshot, p *planner.Plan) { p.Entries[3].Placement = on(at("a001", 4)) }, "wait with a placement"},
		{"lease plan over capacity", func(s *planner.Snapshot, p *planner.Plan) {
			p.Leases = append(p.Leases, planner.Lease{Run: s.Jobs[5].Run, From: s.Now.Add(time.Minute), Until: s.Now.Add(2 * time.Minute), Placement: on(at("a001", 1))})
		}, "in the lease plan"},
		{"lease plan against the decision", func(_ *planner.Snapshot, p *planner.Plan) { p.Leases[2].Placement = on(at("a002", 4)) }, "the lease plan starts with"},
		{"half a gang", func(_ *planner.Snapshot, p *planner.Plan) { p.Leases[2].Placement = on(at("a001", 2)) }, "not one of its shapes"},
		{"two leases at once", func(s *planner.Snapshot, p *planner.Plan) {
			l := p.Leases[2]
			l.From = l.From.Add(time.Minute)
			p.Leases = append(p.Leases, l)
		}, "two leases at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := world()
			c.change(&s, &p)
			got := planner.Check(s, p)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("unexpected: %v", got)
			case c.want != "" && (len(got) == 0 || !strings.Contains(got[0].Error(), c.want)):
				t.Errorf("got %v, want %q first", got, c.want)
			}
		})
	}
}

func TestLeaseEnd(t *testing.T) {
	now := plantest.Now
	for _, c := range []struct {
		name     string
		off      time.Duration
		units    int
		end      time.Duration // from now's boundary
		boundary time.Duration
	}{
		{"at a boundary", 0, 1, 5 * time.Minute, 5 * time.Minute},
		{"a little late", 10 * time.Second, 1, 5 * time.Minute, 5 * time.Minute},
		{"a little early", -10 * time.Second, 2, 10 * time.Minute, 5 * time.Minute},
		{"in between: longer, never shorter", 2 * time.Minute, 1, 10 * time.Minute, 5 * time.Minute},
		{"two units in between", 2 * time.Minute, 2, 15 * time.Minute, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := now.Add(c.off)
			if got := planner.LeaseEnd(from, 5*time.Minute, c.units).Sub(now); got != c.end {
				t.Errorf("lease ends at %v, want %v", got, c.end)
			}
			if got := planner.NextBoundary(from, 5*time.Minute).Sub(now); got != c.boundary {
				t.Errorf("next boundary at %v, want %v", got, c.boundary)
			}
		})
	}
}
