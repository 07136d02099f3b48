package policy

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"unisched/planner"
)

// plan writes down what was decided. Jobs about which nothing was decided wait, or stop when they run. The lease plan covers the leases given now: rivals
// plan no further.
func (r *round) plan(name string) planner.Plan {
	s := r.s
	p := planner.Plan{Schema: 1, Now: s.Now, Unit: s.Unit, Candidate: name, Entries: make([]planner.Entry, len(s.Jobs)),
		Solver: planner.SolverStats{Status: "skipped"}}
	rank, holders := len(r.order), 0
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.decided == "" {
			if j.decided = planner.Wait; j.running() {
				j.decided = planner.Stop
			}
		}
		e := &p.Entries[i]
		e.Run, e.Decision, e.Tier, e.Reason = j.Run, j.decided, j.tier, r.reason(j)
		if e.Rank = j.pos; j.pos >= len(r.order) {
			e.Rank = rank
			rank++
		}
		switch j.decided {
		case planner.Keep, planner.Start, planner.Move:
			e.Placement, e.LeaseUntil, e.Finish = j.place, r.leaseEnd(j), s.Now.Add(planner.Seconds(j.left))
			e.Anew = j.decided == planner.Move && slices.Equal(j.place, j.Current)
			holders++
		}
	}
	p.Leases = make([]planner.Lease, 0, holders)
	for i := range p.Entries {
		if e := &p.Entries[i]; e.LeaseUntil.After(s.Now) && len(e.Placement) > 0 {
			p.Leases = append(p.Leases, planner.Lease{Run: e.Run, From: s.Now, Until: e.LeaseUntil, Placement: e.Placement})
		}
	}
	p.ID = id(p)
	return p
}

func (r *round) leaseEnd(j *job) time.Time {
	if j.decided == planner.Keep && r.s.MidLease(j.Job) {
		return j.LeaseUntil
	}
	return planner.LeaseEnd(r.s.Now, r.s.Unit, j.units)
}

func (r *round) reason(j *job) planner.Reason {
	switch j.decided {
	case planner.Keep:
		switch j.pin {
		case planner.ReasonMidLease:
			return planner.Reason{Code: j.pin, Text: "its lease has not ended"}
		case planner.ReasonNoPreempt:
			return planner.Reason{Code: j.pin, Text: "cannot be preempted"}
		case planner.ReasonBudget:
			return planner.Reason{Code: j.pin, Text: "no more jobs may be stopped in this round"}
		}
		return planner.Reason{Code: planner.ReasonRuns, Text: "keeps its place"}
	case planner.Start, planner.Move:
		if j.Foreign {
			return planner.Reason{Code: planner.ReasonLetThrough, Text: "its GPUs are left free for it"}
		}
		return planner.Reason{Code: planner.ReasonStarts, Text: "gets " + j.place.String()}
	case planner.Stop:
		return planner.Reason{Code: planner.ReasonPreempted, Text: "makes room for jobs ranked higher"}
	}
	switch j.idle {
	case planner.ReasonLeaving:
		return planner.Reason{Code: j.idle, Text: "is writing its checkpoint"}
	case planner.ReasonBlocked:
		return planner.Reason{Code: j.idle, Text: j.Blocked}
	case planner.ReasonNeverFits:
		return planner.Reason{Code: j.idle, Text: "no set of usable nodes can hold it"}
	}
	if j.chosen {
		return planner.Reason{Code: planner.ReasonNoHole, Text: "enough GPUs are free, but not where and how it can use them"}
	}
	return planner.Reason{Code: planner.ReasonOutbid, Text: "waits for its turn"}
}

// id names a plan by its time and what it changes.
func id(p planner.Plan) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", p.Candidate, p.Now.UnixNano(), len(p.Entries))
	for i := range p.Entries {
		switch e := &p.Entries[i]; e.Decision {
		case planner.Start, planner.Move, planner.Stop:
			fmt.Fprintf(h, " %s %s %s", e.Run, e.Decision, e.Placement)
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
