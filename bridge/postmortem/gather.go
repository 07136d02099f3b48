// Package postmortem says why a deadline was missed: where the time from the submission to the end went, what of it made the job late, and whose doing
// that was, with the records that show it.
//
// It refuses to read anything itself and to be surer than the records: it is handed what became of the job, the rounds in which it was planned and the events of the
// cluster, names for each cause whether its share was computed or follows a rule, and counts time of which nothing is known as unknown. `unisched postmortem`
// calls it.
package postmortem

import (
	"cmp"
	"slices"
	"time"

	"unisched/bridge/account"
	"unisched/bridge/events"
	"unisched/bridge/replay"
	"unisched/planner"
	"unisched/slurm"
)

// Case is all that is known of one job that has ended.
type Case struct {
	Job   account.Entry
	Looks []Look
	// Rounds are the instants of all rounds kept, whether the job is in them or not; Unit is the length of a lease.
	Rounds []time.Time
	Unit   time.Duration
	// SLOUnits is the length of the lease of a job with deadlines in units.
	SLOUnits int
	Outages  []Span
}

// Span is a time from one instant to another.
type Span struct {
	From, To time.Time
	What     string
}

// Look is the job as one round saw it, and what the round gave to others. GPUs are counted as the round's plan leaves them.
type Look struct {
	At       time.Time
	State    planner.JobState
	Profiles bool
	Blocked  string
	Decision planner.Decision
	Reason   planner.Reason
	Tier     int
	// Need is the run time believed to be left on the best shape of the GPUs asked for, in seconds (0: not known), made of Iterations and Speed.
	Need, Iterations, Speed float64
	Basis                   string
	// Solver says what was wrong with the solver's part of the round, "" when nothing was.
	Solver string
	// Asked GPUs; Free are left over on usable nodes, Yield are held by jobs that could be stopped and are worth less or due later, Firm by all others; Down are
	// those of nodes that are not usable.
	Asked, Free, Yield, Firm, Down int
	// Holder names the largest job behind Yield, DownNode a node behind Down with its reason; Unusable are all of those.
	Holder, DownNode string
	Unusable         []string
}

// Gatherer collects looks of several jobs from rounds, in one pass.
type Gatherer struct {
	cases map[slurm.JobID][]*Case // ids are used again
	list  []*Case
}

// NewGatherer begins the cases of ended jobs.
func NewGatherer(jobs []account.Entry) *Gatherer {
	g := &Gatherer{cases: map[slurm.JobID][]*Case{}}
	for _, e := range jobs {
		c := &Case{Job: e, SLOUnits: 1}
		g.cases[e.Job] = append(g.cases[e.Job], c)
		g.list = append(g.list, c)
	}
	return g
}

// Window is the time from which rounds and events are of interest.
func (g *Gatherer) Window() (from, until time.Time) {
	for _, c := range g.list {
		if from.IsZero() || c.Job.Submitted.Before(from) {
			from = c.Job.Submitted
		}
		if c.Job.Ended.After(until) {
			until = c.Job.Ended
		}
	}
	return from, until
}

// Add takes what one round shows of the jobs. Rounds come in the order of time.
func (g *Gatherer) Add(x replay.Round) {
	s := x.Snapshot
	entries := make(map[planner.Run]*planner.Entry, len(x.Plan.Entries)) // lookup only
	for i := range x.Plan.Entries {
		entries[x.Plan.Entries[i].Run] = &x.Plan.Entries[i]
	}
	for _, c := range g.list {
		if !s.Now.Before(c.Job.Submitted) && !s.Now.After(c.Job.Ended) {
			c.Rounds, c.Unit, c.SLOUnits = append(c.Rounds, s.Now), s.Unit, max(s.SLOUnits, 1)
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		for _, c := range g.cases[slurm.JobID(j.Run.Job)] {
			if s.Now.Before(c.Job.Submitted) || s.Now.After(c.Job.Ended) || !j.Submitted.Equal(c.Job.Submitted) {
				continue
			}
			c.Looks = append(c.Looks, look(x, j, entries))
		}
	}
}

// Cases are the jobs with what was gathered of them; outages are taken from the cluster's events.
func (g *Gatherer) Cases(happened []events.Event) []Case {
	var out []Case
	for _, c := range g.list {
		c.Outages = outages(happened, c.Job.Submitted, c.Job.Ended)
		out = append(out, *c)
	}
	return out
}

func look(x replay.Round, j *planner.Job, entries map[planner.Run]*planner.Entry) Look {
	l := Look{At: x.Snapshot.Now, State: j.State, Profiles: j.Profiles(), Blocked: j.Blocked, Tier: -1, Asked: max(j.Asked, 1), Basis: j.Estimate.Basis, Iterations: j.Estimate.Iterations.Mid,
		Solver: solverTrouble(x.Plan)}
	for _, v := range j.Estimate.Speeds {
		if v.Shape.GPUs() == l.Asked {
			l.Speed = max(l.Speed, v.Speed.Mid)
		}
	}
	if l.Speed > 0 && l.Iterations > 0 {
		l.Need = l.Iterations / l.Speed
	}
	if e := entries[j.Run]; e != nil {
		l.Decision, l.Reason, l.Tier = e.Decision, e.Reason, e.Tier
	}
	l.others(x.Snapshot, j, entries)
	return l
}

// solverTrouble says what kept a round from the solver's own plan. That the plan before is kept because it is the best one is no trouble.
func solverTrouble(p planner.Plan) string {
	switch {
	case p.Candidate == "fallback":
		return "a plan without the solver: " + cmp.Or(p.Solver.Error, p.Solver.Status, "it failed")
	case p.Candidate == "last" && !p.Solver.Proven():
		return "the plan of the round before, since the solver ended with " + p.Solver.Status
	case p.Solver.Status == "failed":
		return "the solver failed: " + cmp.Or(p.Solver.Error, "no reason given")
	}
	return ""
}

// others counts who has the GPUs once the plan is carried out.
func (l *Look) others(s planner.Snapshot, self *planner.Job, entries map[planner.Run]*planner.Entry) {
	total, largest := 0, 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch {
		case n.Usable:
			total += n.GPUs
			l.Firm += n.OtherGPUs
		default:
			l.Down += max(n.GPUs-n.OtherGPUs, 0)
			if len(l.Unusable) < maxUnusable {
				l.Unusable = append(l.Unusable, n.Name)
			}
			if l.DownNode == "" && n.GPUs > 0 {
				l.DownNode = n.Name + ": " + cmp.Or(n.Why, "not usable")
			}
		}
	}
	for i := range s.Jobs {
		o := &s.Jobs[i]
		if o == self {
			continue
		}
		gpus := o.Current.GPUs()
		e := entries[o.Run]
		if e != nil {
			switch e.Decision {
			case planner.Start, planner.Move:
				gpus = e.Placement.GPUs()
			case planner.Keep:
			default:
				gpus = 0
			}
		}
		if gpus == 0 {
			continue
		}
		if !yields(o, self) {
			l.Firm += gpus
			continue
		}
		l.Yield += gpus
		if gpus > largest {
			largest, l.Holder = gpus, string(o.Class)+" job "+itoa(int64(o.Run.Job))
		}
	}
	l.Free = max(total-l.Firm-l.Yield, 0)
}

// yields reports whether another job could have been made to wait for this one: it can be stopped, or is not running yet, and it has no deadline, or a later one.
func yields(o, self *planner.Job) bool {
	switch {
	case o.Foreign, o.State == planner.Running && !o.Preemptible:
		return false
	case !o.Class.SLO() || len(o.Tiers) == 0:
		return true
	}
	return len(self.Tiers) > 0 && o.Tiers[len(o.Tiers)-1].At.After(self.Tiers[len(self.Tiers)-1].At)
}

// maxUnusable bounds the names of nodes kept of one round.
const maxUnusable = 256

// Outage words of the daemon's events.
const (
	slurmGone = "slurm-unreachable"
	slurmBack = "slurm-back"
)

// Wanted picks the events that tell of outages.
func Wanted(e events.Event) bool { return e.Job == 0 && (e.What == slurmGone || e.What == slurmBack) }

// outages are the times during which Slurm did not answer.
func outages(list []events.Event, from, until time.Time) []Span {
	var out []Span
	var open *Span
	for _, e := range list {
		switch {
		case e.What == slurmGone && open == nil:
			open = &Span{From: e.At, What: e.Text}
		case e.What == slurmBack && open != nil:
			open.To = e.At
			out, open = append(out, *open), nil
		}
	}
	if open != nil {
		open.To = until
		out = append(out, *open)
	}
	return slices.DeleteFunc(out, func(s Span) bool { return !s.To.After(from) || !s.From.Before(until) })
}
