package bridge

import (
	"context"
	"slices"
	"time"

	"unisched/planner"
)

// due reports whether a round of planning is due, and for which instant. Rounds come at unit boundaries; something that cannot wait brings one forward,
// but not more often than every tenth of a unit.
func (b *Bridge) due(now time.Time) (time.Time, bool) {
	edge := now.Truncate(b.cfg.Unit)
	if edge.After(b.boundary) {
		b.boundary = edge
		b.wake = ""
		return edge, true
	}
	// Cycles come some milliseconds early or late: half a poll either way is the same cycle.
	if b.wake != "" && now.Sub(b.rounded) >= max(b.cfg.Unit/10, b.cfg.Poll)-b.cfg.Poll/2 {
		b.wake = ""
		return now, true
	}
	return time.Time{}, false
}

// leaseEnd is when a lease of the class that begins now ends: on a unit boundary, so that rounds and lease ends meet.
func (b *Bridge) leaseEnd(now time.Time, c planner.Class) time.Time {
	units := 1
	if c.SLO() {
		units = b.cfg.SLOUnits
	}
	return planner.LeaseEnd(now, b.cfg.Unit, units)
}

// round makes a plan, has it judged and hands each job its target. A plan that the judge refuses is not used: the jobs then keep what they have.
func (b *Bridge) round(ctx context.Context, now, at time.Time) {
	b.rounded = now
	b.counts.Rounds++
	b.snapshot = b.makeSnapshot(at)
	plan := b.parts.Policy.Plan(ctx, b.snapshot)
	if plan.Solver.Status != "optimal" {
		b.counts.Greedy++
	}
	if bad := planner.Check(b.snapshot, plan); len(bad) > 0 {
		b.log(now, "error", "plan-refused", 0, "%d violations, the first: %v", len(bad), bad[0])
		b.counts.BadPlans++
		b.keepAll()
		return
	}
	plan.Made = now
	b.before, b.plan = b.plan, plan
	for i := range plan.Entries {
		b.assign(now, &plan.Entries[i])
	}
	b.log(now, "debug", "plan", 0, "%s: %s, %d jobs, objective %.3f, solver %s in %v", plan.ID, plan.Candidate, len(plan.Entries), plan.Objective,
		plan.Solver.Status, plan.Solver.Solve.Round(time.Millisecond))
}

// keepAll takes back every decision that has not been carried out.
func (b *Bridge) keepAll() {
	for _, rec := range b.known() {
		if rec.Phase != Starting {
			rec.Target = Target{}
		}
	}
}

// assign makes an entry the job's target.
func (b *Bridge) assign(now time.Time, e *planner.Entry) {
	rec := b.records[slurmID(e.Run)]
	if rec == nil || rec.ID() != e.Run || !rec.Phase.Ours() {
		return // a competitor, or a job that moved on
	}
	t := Target{Decision: e.Decision, Placement: e.Placement, Rank: e.Rank, Tier: e.Tier, Plan: b.plan.ID, Reason: e.Reason,
		StartBy: e.StartBy, Finish: e.Finish}
	t.Until = e.LeaseUntil
	switch rec.Phase {
	case Starting: // spoken for; only the words are refreshed
		t.Decision, t.Placement, t.Until = rec.Target.Decision, rec.Target.Placement, rec.Target.Until
	case Checkpointing: // a move keeps its aim
		if rec.Target.Decision == planner.Move {
			t.Decision, t.Placement, t.Until = rec.Target.Decision, rec.Target.Placement, rec.Target.Until
		}
	case Running, Profiling:
		if e.Decision == planner.Keep && t.Until.After(rec.LeaseUntil) {
			rec.LeaseUntil = t.Until
		}
	}
	if changedMind(rec.Target, t) {
		rec.dirty = true
		if t.Decision == planner.Stop || t.Decision == planner.Move {
			rec.note(now, "plan", string(t.Decision)+": "+t.Reason.Text)
		}
	}
	rec.Target = t
}

// changedMind reports whether a new target differs in what is done, not only in its words.
func changedMind(a, b Target) bool {
	return a.Decision != b.Decision || !slices.Equal(a.Placement, b.Placement) || !a.Until.Equal(b.Until)
}
