package lease

import (
	"time"

	"unisched/planner"
)

// unroll is written below in its first form: the slice of this round.
func (in *instance) unroll(p *planner.Plan, r packed) {
	for ji := range in.jobs {
		e := &p.Entries[ji]
		if len(e.Placement) > 0 {
			until := e.LeaseUntil
			if !until.After(in.s.Now) {
				until = in.s.Now.Add(time.Second)
			}
			p.Leases = append(p.Leases, planner.Lease{Run: e.Run, From: in.s.Now, Until: until, Placement: e.Placement})
		}
	}
}
