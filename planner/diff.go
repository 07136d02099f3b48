package planner

import (
	"cmp"
	"slices"
	"time"
)

// PlanDiff is what a plan changed against the one before it.
type PlanDiff struct {
	Schema int     `json:"schema_version"`
	Before PlanRef `json:"before"`
	After  PlanRef `json:"after"`
	// Changes are ordered by what they mean for people: deadlines first, then who runs, then expectations; then by run.
	Changes []Change `json:"changes"`
}

// PlanRef names a plan.
type PlanRef struct {
	ID        string    `json:"id"`
	Now       time.Time `json:"now"`
	Made      time.Time `json:"made,omitzero"`
	Candidate string    `json:"candidate"`
	Jobs      int       `json:"jobs"`
}

// The kinds of a Change, most telling first.
const (
	ChangeLost    = "lost-deadline"   // the plan counts on a worse deadline, or on none
	ChangeWon     = "gained-deadline" // and the other way round
	ChangeStarts  = "starts"          // waited before, gets GPUs now
	ChangeStops   = "stops"           // had GPUs, is to leave them
	ChangePlace   = "moves"           // other GPUs than before
	ChangeNew     = "new"             // was not in the plan before
	ChangeGone    = "gone"            // ended, was released or cancelled
	ChangeLater   = "later"           // is expected to start or end later, by a unit at least
	ChangeEarlier = "earlier"         //
)

var changeOrder = []string{ChangeLost, ChangeWon, ChangeStarts, ChangeStops, ChangePlace, ChangeNew, ChangeGone, ChangeLater, ChangeEarlier}

// Change is what changed for one job. Before or After is zero for a job that is new or gone.
type Change struct {
	Job    JobID  `json:"job"`
	Kind   string `json:"kind"`
	Before Entry  `json:"before,omitzero"`
	After  Entry  `json:"after,omitzero"`
	// Shift is by how much the start, or else the end, is expected later (positive) or earlier.
	Shift  time.Duration `json:"shift_ns,omitempty"`
	Reason Reason        `json:"reason"` // of the newer plan
}

// Diff compares two plans, job by job: a job that was preempted in between is the same job in a later run.
func Diff(before, after Plan) PlanDiff {
	ref := func(p Plan) PlanRef { return PlanRef{p.ID, p.Now, p.Made, p.Candidate, len(p.Entries)} }
	d := PlanDiff{Schema: 1, Before: ref(before), After: ref(after), Changes: []Change{}}
	old := make(map[JobID]Entry, len(before.Entries))
	for _, e := range before.Entries {
		old[e.Run.Job] = e
	}
	for _, e := range after.Entries {
		b, known := old[e.Run.Job]
		delete(old, e.Run.Job)
		m := Change{Job: e.Run.Job, Before: b, After: e, Reason: e.Reason}
		if !known {
			m.Kind = ChangeNew
		} else if m.Kind, m.Shift = changeKind(b, e, after.Unit); m.Kind == "" {
			continue
		}
		d.Changes = append(d.Changes, m)
	}
	for _, e := range before.Entries {
		if _, gone := old[e.Run.Job]; gone {
			d.Changes = append(d.Changes, Change{Job: e.Run.Job, Kind: ChangeGone, Before: e})
		}
	}
	slices.SortStableFunc(d.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(slices.Index(changeOrder, a.Kind), slices.Index(changeOrder, b.Kind)), cmp.Compare(a.Job, b.Job))
	})
	return d
}

func changeKind(b, e Entry, unit time.Duration) (string, time.Duration) {
	holds := func(x Entry) bool { return x.Decision == Keep || x.Decision == Start || x.Decision == Move }
	shift := time.Duration(0)
	switch {
	case !b.StartBy.IsZero() && !e.StartBy.IsZero() && !holds(b) && !holds(e):
		shift = e.StartBy.Sub(b.StartBy)
	case !b.Finish.IsZero() && !e.Finish.IsZero():
		shift = e.Finish.Sub(b.Finish)
	}
	switch {
	case b.Tier >= 0 && (e.Tier < 0 || e.Tier > b.Tier):
		return ChangeLost, shift
	case e.Tier >= 0 && (b.Tier < 0 || b.Tier > e.Tier):
		return ChangeWon, shift
	case holds(e) && !holds(b):
		return ChangeStarts, shift
	case holds(b) && !holds(e):
		return ChangeStops, shift
	case holds(b) && b.Placement.String() != e.Placement.String():
		return ChangePlace, shift
	case shift >= unit && unit > 0:
		return ChangeLater, shift
	case shift <= -unit && unit > 0:
		return ChangeEarlier, shift
	}
	return "", 0
}
