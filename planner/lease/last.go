package lease

import (
	"slices"
	"time"

	"unisched/planner"
)

// shifted follows the last plan: what it holds for this moment is done if it still fits, the rest is filled by least laxity. It is false when
// there is no last plan that reaches this far.
func (in *instance) shifted(last planner.Plan) ([]int, bool) {
	age := in.s.Now.Sub(last.Now)
	if last.Schema == 0 || age < 0 || len(last.Leases) == 0 || age > time.Duration(in.cfg.Horizon)*in.s.Unit {
		return nil, false
	}
	now := in.s.Now.Add(in.s.Unit / 2)                                 // the slice that this round begins
	planned := make(map[planner.JobID]planner.Placement, len(in.jobs)) // lookup only
	for i := range last.Leases {
		if l := &last.Leases[i]; !l.From.After(now) && l.Until.After(now) {
			planned[l.Run.Job] = l.Placement
		}
	}
	tiers := make(map[planner.JobID]int, len(last.Entries)) // lookup only
	for i := range last.Entries {
		tiers[last.Entries[i].Run.Job] = last.Entries[i].Tier
	}
	order := in.orderFrom(in.byLaxity(), func(ji int) [2]float64 {
		if _, ok := planned[in.jobs[ji].Run.Job]; ok {
			return [2]float64{0, in.jobs[ji].laxity()}
		}
		return [2]float64{1, in.jobs[ji].laxity()}
	})
	l := newLedger(in)
	in.keepForBudget(l, order)
	for _, ji := range order {
		j := &in.jobs[ji]
		tier, known := tiers[j.Run.Job]
		p, runs := planned[j.Run.Job]
		if !known {
			continue
		}
		for _, ci := range j.preference() {
			c := &j.cols[ci]
			follows := c.kind == wait && !runs || runs && c.kind == keep || runs && c.kind == start && p.Has(j.opts[c.opt].shape)
			if follows && (c.tier == tier || c.tier == -1) && l.try(ji, ci) {
				break
			}
		}
	}
	for _, ji := range order {
		in.give(l, ji, l.choice[ji])
	}
	return slices.Clone(l.choice), true
}
