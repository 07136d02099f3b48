package policy

import (
	"cmp"
	"context"
	"slices"

	"unisched/planner"
)

// reserved is what a site does without a scheduler of deadlines: some nodes are set apart for jobs with deadlines, which are served there by earliest deadline
// first, and all others share the rest under FIFO with backfill. Neither side ever uses the other's nodes. Jobs that are being measured belong to the rest. Where accounts are
// granted quotas, which count over both sides, or a job holds nodes of both, it is EDF on all nodes.
type reserved struct {
	nodes     int
	slo, rest Policy
}

// NewReserved makes earliest deadline first on a fixed reservation of the first nodes by name. It is none of Names: how large the reservation is belongs to the site.
func NewReserved(nodes int, o Options) Policy {
	o = o.filled()
	o.ProfileNodes = 0
	return &reserved{max(nodes, 0), newEDF(o), newBackfill(o)}
}

func (p *reserved) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	if len(s.Accounts) > 0 { // quotas count over both sides
		return p.slo.Plan(ctx, s)
	}
	n := min(p.nodes, len(s.Nodes))
	apart := make(map[string]bool, n) // lookup only
	for _, x := range s.Nodes[:n] {
		apart[x.Name] = true
	}
	a, b := s, s
	a.Nodes, a.Jobs = s.Nodes[:n], nil
	b.Nodes, b.Jobs = s.Nodes[n:], nil
	side := make([]bool, len(s.Jobs)) // on the reservation
	for i, j := range s.Jobs {
		in, out := 0, 0
		for _, sh := range j.Current {
			if apart[sh.Node] {
				in++
			} else {
				out++
			}
		}
		if in > 0 && out > 0 { // nobody of ours puts a job there: the whole is one pool until it is gone
			return p.slo.Plan(ctx, s)
		}
		side[i] = in > 0 || out == 0 && j.Class.SLO() && !j.Foreign
		if side[i] {
			a.Jobs = append(a.Jobs, j)
		} else {
			b.Jobs = append(b.Jobs, j)
		}
	}
	return join(s, side, p.slo.Plan(ctx, a), p.rest.Plan(ctx, b))
}

// join makes one plan of two over the same jobs; side says whose each job is.
func join(s planner.Snapshot, side []bool, a, b planner.Plan) planner.Plan {
	p := a
	p.Candidate, p.Entries = "reserved", make([]planner.Entry, 0, len(s.Jobs))
	x, y := 0, 0
	for _, first := range side {
		if first {
			p.Entries = append(p.Entries, a.Entries[x])
			x++
			continue
		}
		e := b.Entries[y]
		e.Rank += len(a.Entries)
		p.Entries = append(p.Entries, e)
		y++
	}
	p.Leases = slices.Concat(a.Leases, b.Leases)
	slices.SortStableFunc(p.Leases, func(l, m planner.Lease) int { return cmp.Or(l.From.Compare(m.From), l.Run.Compare(m.Run)) })
	p.ID = id(p)
	return p
}
