package lease

import (
	"slices"

	"unisched/planner"
	"unisched/planner/reward"
)

// maxHopeful bounds, as a share of the SLO jobs, how many tiers beyond the model's rows are tried: beyond it the cluster is overloaded, and the
// rows are right to refuse them.
const maxHopeful = 0.02

// promote counts on the tiers that the margins of the prefix rows refused but that the plan, played out to its last deadline, meets all the
// same. It changes no decision of this round.
func (in *instance) promote(r packed) packed {
	up, last := in.hopeful(r)
	if len(up) == 0 {
		return r
	}
	units := min(int(last)+2, maxPlayedUnits)
	lifted := r
	lifted.choice = slices.Clone(r.choice)
	for ji, ci := range up {
		lifted.choice[ji] = ci
	}
	_, kept := in.played(lifted, units)
	for ji := range up {
		if !kept[ji] {
			lifted.choice[ji] = r.choice[ji]
		}
	}
	before, met := in.played(r, units)
	after, still := in.played(lifted, units)
	if after <= before {
		return r
	}
	for ji := range in.jobs { // whoever lost his tier to one that was lifted no longer counts on it
		c := in.jobs[ji].cols[lifted.choice[ji]]
		if ci := in.jobs[ji].column(c.kind, c.opt, -1); met[ji] && !still[ji] && c.tier >= 0 && ci >= 0 {
			lifted.choice[ji] = ci
		}
	}
	if lifted.score(in); lifted.obj <= r.obj {
		return r
	}
	return lifted
}

// hopeful finds, for jobs that count on a worse tier than what is done with them now allows, the column of the better tier; nothing when there
// are too many. It also returns the last deadline of all.
func (in *instance) hopeful(r packed) (up map[int]int, last float64) {
	slo := 0
	up = map[int]int{} // lookup only
	for ji := range in.jobs {
		j, c := &in.jobs[ji], in.jobs[ji].cols[r.choice[ji]]
		if !j.alive {
			continue
		}
		slo++
		for ci, o := range j.cols {
			if o.tier < 0 {
				continue
			}
			last = max(last, o.due)
			if better := c.tier < 0 || o.tier < c.tier; better && o.kind == c.kind && o.opt == c.opt {
				if was, ok := up[ji]; !ok || o.tier < j.cols[was].tier {
					up[ji] = ci
				}
			}
		}
	}
	if float64(len(up)) > max(4, maxHopeful*float64(slo)) {
		return nil, last
	}
	return up, last
}

// played plays a choice: the value of the tiers met, and who meets the tier that it counts on.
func (in *instance) played(r packed, units int) (float64, []bool) {
	entries := make([]planner.Entry, len(in.jobs))
	for ji := range in.jobs {
		j := &in.jobs[ji]
		c := j.cols[r.choice[ji]]
		e := planner.Entry{Decision: planner.Wait, Tier: c.tier}
		switch c.kind {
		case start:
			e.Decision, e.Placement, e.LeaseUntil = planner.Start, r.places[ji], in.leaseUntil(j)
		case keep:
			e.Decision, e.Placement, e.LeaseUntil = planner.Keep, r.places[ji], in.leaseUntil(j)
		}
		entries[ji] = e
	}
	f := in.play(entries, units)
	sum, met := 0.0, make([]bool, len(in.jobs))
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if !j.alive || f.ended[ji].IsZero() {
			continue
		}
		for t, tier := range j.Tiers {
			if !f.ended[ji].After(tier.At) {
				sum += tier.Value * reward.Urgency(*j.Job)
				met[ji] = entries[ji].Tier >= t
				break
			}
		}
	}
	return sum, met
}
