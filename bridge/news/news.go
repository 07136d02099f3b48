// Package news finds out what has happened to jobs from one published view of the loop to the next: which events are new, who was preempted, whose
// deadline came into danger, who has ended.
//
// It refuses to judge and to keep anything but a few words per job: what a view says it takes for true, and what two views in a row do not show it
// does not know. Metrics, notices and the event store are fed from it, so that they agree; the daemon calls it after each cycle.
package news

import (
	"cmp"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm"
)

// Change is what is new of one job. Job points into the view and must not be written to.
type Change struct {
	Job *bridge.JobView
	// Events are those that were noted since, oldest first.
	Events []bridge.Event
	// Preempted and Unconfirmed count the preemptions since, and the signals since that no checkpoint followed.
	Preempted, Unconfirmed int
	// AtRisk says that a job with deadlines has just come to be expected to miss them all, Missed that it has missed the last of them just now.
	AtRisk, Missed bool
	// Ended says that it has just ended.
	Ended bool
	// ProfileBegan says that its first profile run has just begun, at that instant.
	ProfileBegan time.Time
}

// Watcher compares views. Its zero value is not usable: make one with New. It is for one goroutine.
type Watcher struct {
	since time.Time
	begun bool
	jobs  map[key]state
}

type key struct {
	id        slurm.JobID
	submitted int64 // ids are used again
}

type state struct {
	event                  int // number of the newest event known
	preemptions, strikes   int
	risk, missed, profiled bool
	ended                  bool
	cycle                  int64 // when last seen
}

// New makes a watcher for a daemon that began at since: what jobs in its first view had behind them then is not news.
func New(since time.Time) *Watcher { return &Watcher{since: since, jobs: map[key]state{}} }

// Next compares a view with the one before and returns what is new, by job id. Views must come in order; one that was seen already brings nothing.
func (w *Watcher) Next(v *bridge.View) []Change {
	if v == nil || v.Cycle == 0 {
		return nil
	}
	var out []Change
	for i := range v.Jobs {
		j := &v.Jobs[i]
		k := key{j.ID, j.Submitted.UnixNano()}
		old, known := w.jobs[k]
		if !known && !w.begun {
			old = w.before(j, v.At)
		}
		now, c := compare(old, j, v)
		w.jobs[k] = now
		if c.news() {
			out = append(out, c)
		}
	}
	for k, s := range w.jobs {
		if s.cycle != v.Cycle {
			delete(w.jobs, k)
		}
	}
	w.begun = true
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(a.Job.ID, b.Job.ID) })
	return out
}

// before is what of a job in the first view was so before the daemon began.
func (w *Watcher) before(j *bridge.JobView, at time.Time) state {
	s := state{preemptions: j.Preemptions, strikes: j.Strikes, risk: atRisk(j), ended: j.Phase.Ended() && j.Ended.Before(w.since)}
	s.missed = missed(j, at) && (s.ended || j.LastDeadline().Before(w.since))
	for _, e := range j.Events {
		if e.At.Before(w.since) {
			s.event = max(s.event, e.N)
		}
	}
	return s
}

func compare(old state, j *bridge.JobView, v *bridge.View) (state, Change) {
	now := state{event: old.event, preemptions: j.Preemptions, strikes: j.Strikes, risk: atRisk(j), missed: old.missed, profiled: old.profiled,
		ended: j.Phase.Ended(), cycle: v.Cycle}
	c := Change{Job: j, Preempted: max(j.Preemptions-old.preemptions, 0), Unconfirmed: max(j.Strikes-old.strikes, 0), AtRisk: now.risk && !old.risk,
		Ended: now.ended && !old.ended}
	for i, e := range j.Events {
		first := e.What == string(bridge.Profiling) && !now.profiled
		now.profiled = now.profiled || first
		if e.N <= old.event {
			continue
		}
		if c.Events == nil {
			c.Events = slices.Clone(j.Events[i:])
		}
		if first {
			c.ProfileBegan = e.At
		}
		now.event = max(now.event, e.N)
	}
	if !old.missed && missed(j, v.At) {
		now.missed, c.Missed = true, true
	}
	return now, c
}

func (c Change) news() bool {
	return len(c.Events) > 0 || c.Preempted > 0 || c.Unconfirmed > 0 || c.AtRisk || c.Missed || c.Ended
}

// atRisk reports whether a job with deadlines that has not ended is expected to miss them all.
func atRisk(j *bridge.JobView) bool {
	if len(j.Tiers) == 0 || j.Phase.Ended() {
		return false
	}
	r, _ := j.RiskKind()
	return r != ""
}

// missed reports whether the last deadline of a job of ours has passed unmet.
func missed(j *bridge.JobView, now time.Time) bool {
	last := j.LastDeadline()
	switch {
	case last.IsZero() || j.Phase == bridge.Unmanaged || j.Phase == bridge.Released || j.Phase == bridge.Cancelled:
		return false
	case j.Phase.Ended():
		return j.Met != nil && *j.Met < 0
	}
	return now.After(last)
}

// AtRisk counts the jobs with deadlines that are expected to miss them all, by class.
func AtRisk(v *bridge.View) map[planner.Class]int {
	n := map[planner.Class]int{}
	for i := range v.Jobs {
		if atRisk(&v.Jobs[i]) {
			n[v.Jobs[i].Class]++
		}
	}
	return n
}
