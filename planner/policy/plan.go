package policy

import (
	"cmp"
	"slices"
	"time"

	"unisched/planner"
)

// horizon is the number of units that plans are unrolled over.
const horizon = 24

// BackfillPlan is FIFO with conservative backfill as a plan: what runs is kept until it ends, waiting jobs start by submission time as soon as they
// delay nobody ahead of them. It never stops or moves a job, and its result passes planner.Check.
func BackfillPlan(s planner.Snapshot) planner.Plan {
	p := planner.Plan{Schema: 1, Now: s.Now, Unit: s.Unit, Candidate: "backfill", Entries: make([]planner.Entry, len(s.Jobs)),
		Solver: planner.SolverStats{Status: "skipped"}}
	cal := newCalendar(s.Nodes)
	unit := s.Unit
	if unit <= 0 {
		unit = 5 * time.Minute
	}
	end := planner.LeaseEnd(s.Now, unit, horizon)
	order := make([]int, 0, len(s.Jobs))
	for i, j := range s.Jobs {
		e := &p.Entries[i]
		*e = planner.Entry{Run: j.Run, Decision: planner.Wait, Tier: -1, Reason: planner.Reason{Code: planner.ReasonFull, Text: "waits its turn"}}
		switch {
		case j.State == planner.Running:
			e.Decision, e.Placement = planner.Keep, j.Current
			e.Reason = planner.Reason{Code: planner.ReasonRuns, Text: "runs to its end"}
			e.Finish = s.Now.Add(length(j, j.Current.Shape()))
			cal.book(j.Needs, j.Current, s.Now, e.Finish)
			p.Leases = append(p.Leases, clip(j, s.Now, e.Finish, end, j.Current)...)
		case j.State == planner.Leaving:
			e.Reason = planner.Reason{Code: planner.ReasonLeaving, Text: "is writing its checkpoint"}
		case j.Blocked != "":
			e.Reason = planner.Reason{Code: planner.ReasonBlocked, Text: j.Blocked}
		case j.State == planner.Waiting:
			order = append(order, i)
		}
		e.LeaseUntil = leaseUntil(s, j, *e)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(s.Jobs[a].Submitted.Compare(s.Jobs[b].Submitted), s.Jobs[a].Run.Compare(s.Jobs[b].Run))
	})
	for _, i := range order {
		p.Leases = append(p.Leases, enqueue(s, cal, s.Jobs[i], &p.Entries[i], end)...)
	}
	slices.SortFunc(p.Leases, func(a, b planner.Lease) int { return cmp.Or(a.From.Compare(b.From), a.Run.Compare(b.Run)) })
	for rank, i := range ranked(s, order) {
		p.Entries[i].Rank = rank
	}
	return p
}

// enqueue gives one waiting job the earliest place behind those already booked.
func enqueue(s planner.Snapshot, cal *calendar, j planner.Job, e *planner.Entry, end time.Time) []planner.Lease {
	shapes := make([]planner.Shape, 0, len(j.Estimate.Speeds))
	longest := time.Second
	for _, v := range j.Estimate.Speeds {
		shapes = append(shapes, v.Shape)
		longest = max(longest, length(j, v.Shape))
	}
	t, place, ok := cal.earliest(j.Needs, shapes, s.Now, longest)
	if !ok {
		e.Reason = planner.Reason{Code: planner.ReasonNeverFits, Text: "no set of usable nodes can hold it"}
		return nil
	}
	cal.book(j.Needs, place, t, t.Add(longest))
	e.StartBy, e.Finish = t, t.Add(length(j, place.Shape()))
	if t.Equal(s.Now) {
		e.Decision, e.Placement = planner.Start, place
		e.Reason = planner.Reason{Code: planner.ReasonStarts, Text: "gets " + place.String()}
		e.LeaseUntil = leaseUntil(s, j, *e)
	}
	return clip(j, t, t.Add(longest), end, place)
}

func clip(j planner.Job, from, until, end time.Time, p planner.Placement) []planner.Lease {
	if until.After(end) {
		until = end
	}
	if !from.Before(until) || len(p) == 0 {
		return nil
	}
	return []planner.Lease{{Run: j.Run, From: from, Until: until, Placement: p}}
}

// length is how long a job runs on a shape: its time limit where it has one, else its estimate, else a long time.
func length(j planner.Job, s planner.Shape) time.Duration {
	if j.TimeLeft > 0 {
		return j.TimeLeft
	}
	if d, ok := j.Estimate.RunTime(s, 0.5); ok {
		return max(d, time.Second)
	}
	return 365 * 24 * time.Hour
}

func leaseUntil(s planner.Snapshot, j planner.Job, e planner.Entry) time.Time {
	switch {
	case e.Decision != planner.Keep && e.Decision != planner.Start:
		return time.Time{}
	case s.MidLease(j):
		return j.LeaseUntil
	case j.Class.SLO():
		return planner.LeaseEnd(s.Now, s.Unit, s.SLOUnits)
	}
	return planner.LeaseEnd(s.Now, s.Unit, 1)
}

// ranked lists the waiting jobs in their order, then all others.
func ranked(s planner.Snapshot, order []int) []int {
	out := slices.Clone(order)
	for i := range s.Jobs {
		if !slices.Contains(order, i) {
			out = append(out, i)
		}
	}
	return out
}
