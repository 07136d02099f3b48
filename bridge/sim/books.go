package sim

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"unisched/bridge/sim/trace"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// account is what is known of one job when all is over.
type account struct {
	job      trace.Job
	at       time.Time // of the submission
	rejected bool
	began    time.Time // first stay on GPUs
	profiled time.Time // first profile run
	end      time.Time
	state    slurm.BaseState
	done     bool
	promised int  // the tier that the newest plan counts on, -1 none
	greedy   bool // that plan was made without the solver
	stays    int
	stops    int // preemptions
	stay     *stay

	held, saving, loading, measuring, lost float64 // GPU-seconds
	retries                                int
	wasted                                 float64 // GPU-seconds that runs which ended unasked cost: work lost, and loading again
	again                                  bool    // the next loading is due to such an end
	waiting                                bool    // for GPUs
	worked                                 float64 // seconds on GPUs of ended stays, profile runs aside
	nextLook                               float64 // of a.ran: when the next forecast is written down
	forecasts                              []estimator.Forecast
}

// stay is a time on GPUs.
type stay struct {
	at        time.Time
	gpus      int
	where     []slurm.NodeGPUs
	profile   bool
	resumed   bool
	signalled time.Time
	left      time.Time
	iter      int64
	saved     int64
}

// Stay is a closed stay on GPUs, for the pictures.
type Stay struct {
	Job      int // index in Result.Jobs
	From, To time.Duration
	Where    []slurm.NodeGPUs
	Profile  bool
}

// books are the accounts of a run. Everything in them comes from the cluster's own moments, nothing from what the loop believes.
type books struct {
	cfg     Config
	ids     byJob[account]
	all     []*account
	index   map[slurm.JobID]int
	nodes   map[string]int // GPUs held by node
	held    int
	broken  error
	open    int // submitted and not ended
	ended   int
	profile int // profile runs in progress
	stays   []Stay

	last     time.Time // of the integral
	integral float64   // GPU-seconds held
	busy     []sample  // per unit

	log      hash.Hash
	actions  int
	badPlans int
	badWhy   string
	refused  int

	rounds, cached, timeouts int
	solves                   []time.Duration
	plans                    time.Duration

	queue             queue
	degraded          bool    // the plan in force was made without a proven solution
	holes, blindHoles float64 // GPU-seconds free while somebody waited whom they would have served, in all and while degraded
	foresight, midway foresight
}

// sample is what one unit of time saw, in seconds times GPUs or jobs.
type sample struct {
	held, waiting, wanted, hole float64
}

func newBooks(cfg Config) *books {
	return &books{cfg: cfg, index: map[slurm.JobID]int{}, nodes: map[string]int{}, log: sha256.New(), last: start}
}

func (b *books) submitted(id slurm.JobID, j trace.Job, at time.Time) {
	a := &account{job: j, at: at, promised: -1}
	b.integrate(at)
	b.waits(a, true)
	b.index[id] = len(b.all)
	b.ids.set(id, a)
	b.all = append(b.all, a)
	b.open++
}

func (b *books) rejected(j trace.Job) {
	b.all = append(b.all, &account{job: j, at: start.Add(j.Submit), rejected: true, promised: -1})
}

// restless reports whether the loop must look although nothing has changed: a profile run is to be cut in time.
func (b *books) restless() bool { return b.profile > 0 }

func (b *books) breaks(format string, args ...any) {
	if b.broken == nil {
		b.broken = fmt.Errorf(format+": %w", append(args, ErrInvariant)...)
	}
}

// moment books what happened in the cluster.
func (b *books) moment(m slurmsim.Moment) {
	a := b.ids.of(m.Job)
	if a == nil {
		b.breaks("job %d was never submitted", m.Job)
		return
	}
	b.integrate(m.At)
	s := a.stay
	if s == nil && m.Kind != slurmsim.Began && m.Kind != slurmsim.Ended {
		b.breaks("job %s: moment %d without a stay", a.job.ID, m.Kind)
		return
	}
	switch m.Kind {
	case slurmsim.Began:
		b.begins(a, m)
	case slurmsim.Trained:
		if s.resumed {
			a.loading += m.At.Sub(s.at).Seconds() * float64(s.gpus)
			if a.again {
				a.wasted += m.At.Sub(s.at).Seconds() * float64(s.gpus)
			}
		}
		a.again = false
	case slurmsim.Signalled:
		s.signalled = m.At
	case slurmsim.Left:
		s.left, s.iter, s.saved = m.At, m.Iter, m.Saved
	case slurmsim.Freed:
		b.freed(a, m)
	case slurmsim.Ended:
		if a.done {
			b.breaks("job %s ended twice", a.job.ID)
		}
		a.end, a.state, a.done = m.At, m.State, true
		b.waits(a, false)
		if m.State == slurm.StateCompleted {
			b.score(a, m.At)
		}
		b.open--
		b.ended++
		fmt.Fprintf(b.log, "%d end %s %s\n", m.At.UnixNano(), a.job.ID, m.State)
	}
}

func (b *books) begins(a *account, m slurmsim.Moment) {
	if a.stay != nil {
		b.breaks("job %s: two stays at once", a.job.ID)
	}
	if a.done { // it failed through the loop's doing and is run again
		a.done = false
		b.open++
		b.ended--
	}
	s := &stay{at: m.At, where: m.Where, profile: m.Partition == profiling, resumed: m.Saved > 0}
	for _, g := range m.Where {
		s.gpus += g.Count
		if b.nodes[g.Node] += g.Count; b.nodes[g.Node] > b.cfg.GPUsPerNode {
			b.breaks("node %s: %d GPUs held of %d", g.Node, b.nodes[g.Node], b.cfg.GPUsPerNode)
		}
	}
	b.held += s.gpus
	whole := s.gpus == a.job.GPUs || slices.Contains(a.job.Counts, s.gpus) || s.profile && s.gpus <= max(b.cfg.ProfileGPUs, 2)
	if !whole {
		b.breaks("job %s runs on %d GPUs and asked for %d", a.job.ID, s.gpus, a.job.GPUs)
	}
	if a.began.IsZero() {
		a.began = m.At
	}
	if s.profile {
		b.profile++
		if a.profiled.IsZero() {
			a.profiled = m.At
		}
	}
	b.waits(a, false)
	a.stay = s
	a.stays++
	fmt.Fprintf(b.log, "%d start %s %v\n", m.At.UnixNano(), a.job.ID, m.Where)
}

func (b *books) freed(a *account, m slurmsim.Moment) {
	s := a.stay
	for _, g := range s.where {
		b.nodes[g.Node] -= g.Count
	}
	b.held -= s.gpus
	g := float64(s.gpus)
	a.held += m.At.Sub(s.at).Seconds() * g
	if s.profile {
		b.profile--
		a.measuring += m.At.Sub(s.at).Seconds() * g
	}
	if !s.profile {
		a.worked += m.At.Sub(s.at).Seconds()
	}
	if !s.signalled.IsZero() {
		a.saving += s.left.Sub(s.signalled).Seconds() * g
	}
	if finished := a.done && a.state == slurm.StateCompleted; !finished {
		lost := max(float64(s.iter-s.saved), 0) * a.job.Duration.Seconds() / float64(a.job.Iterations) * g
		a.lost += lost
		switch {
		case s.signalled.IsZero():
			a.retries++
			a.wasted += lost
			a.again = true
		case !s.profile:
			a.stops++
		}
	}
	b.stays = append(b.stays, Stay{b.index[m.Job], s.at.Sub(start), m.At.Sub(start), s.where, s.profile})
	a.stay = nil
	b.waits(a, !a.done)
}

// integrate adds up the GPUs held until now, by unit.
func (b *books) integrate(now time.Time) {
	for b.last.Before(now) {
		i := int(b.last.Sub(start) / b.cfg.Unit)
		end := start.Add(time.Duration(i+1) * b.cfg.Unit)
		if now.Before(end) {
			end = now
		}
		d := end.Sub(b.last).Seconds()
		b.heed(i, d)
		b.integral += d * float64(b.held)
		b.last = end
	}
}

func (b *books) acted(now time.Time, op string, id slurm.JobID, what string, err error) {
	b.actions++
	if err != nil {
		b.refused++
	}
	fmt.Fprintf(b.log, "%d %s %d %s %v\n", now.UnixNano(), op, id, what, err)
}

// badPlan books a plan that planner.Check refused: the policy's fault, and the loop did not follow it.
func (b *books) badPlan(why string) {
	if b.badPlans++; b.badPlans == 1 {
		b.badWhy = why
	}
}

// planned books a round.
func (b *books) planned(s planner.Snapshot, p planner.Plan, took time.Duration) {
	b.rounds++
	b.plans += took
	if p.Candidate == "last" || p.Candidate == "fallback" {
		b.cached++
	}
	b.integrate(s.Now)
	b.degraded = !p.Solver.Proven()
	if p.Solver.Asked() && p.Solver.Solve > 0 { // a plan may be proven without a solver
		b.solves = append(b.solves, p.Solver.Solve)
	}
	if b.degraded {
		b.timeouts++
	}
	b.foresee(s)
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.Tier < 0 || !s.Jobs[i].Class.SLO() {
			continue
		}
		if a := b.ids.of(slurm.JobID(e.Run.Job)); a != nil {
			a.promised, a.greedy = e.Tier, b.degraded
		}
	}
	io.WriteString(b.log, p.Candidate)
}
