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
	now := in.s.Now.Add(in.s.Unit / 2)                                   // the slice that this round begins
	planned := make(map[planner.Run]planner.Placement, len(last.Leases)) // lookup only
	for _, l := range last.Leases {
		if !l.From.After(now) && l.Until.After(now) {
			planned[planner.Run{Job: l.Run.Job}] = l.Placement
		}
	}
	tiers := make(map[planner.JobID]int, len(last.Entries)) // lookup only
	for _, e := range last.Entries {
		tiers[e.Run.Job] = e.Tier
	}
	order := in.order(func(j *job) [2]float64 {
		if _, ok := planned[planner.Run{Job: j.Run.Job}]; ok {
			return [2]float64{0, j.laxity()}
		}
		return [2]float64{1, j.laxity()}
	})
	l := newLedger(in)
	in.keepForBudget(l, order)
	for _, ji := range order {
		j := &in.jobs[ji]
		tier, known := tiers[j.Run.Job]
		p, runs := planned[planner.Run{Job: j.Run.Job}]
		if !known {
			continue
		}
		for _, ci := range j.preference() {
			c := j.cols[ci]
			follows := c.kind == wait && !runs || runs && c.kind == keep || runs && c.kind == start && j.opts[c.opt].shape.Equal(p.Shape())
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
