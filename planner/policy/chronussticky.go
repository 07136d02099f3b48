package policy

import (
	"context"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// sticky is the stronger form of CHRONUS: jobs run on in place from one lease to the next, whoever was turned down may still get leases, and what a job
// needs is what is left of it.
//
// What it remembers is explicit: which deadlines it promised, and which leases it assigned last.
type sticky struct {
	o     Options
	round round
	// promised are the deadlines of accepted jobs; the zero time marks a job that was demoted. Lookup only.
	promised map[planner.JobID]time.Time
	from     time.Time // of the first lease that claims are counted in
	// origin is the beginning of the lease that leases were last assigned for, leases the beginnings of those assigned. Lookup only.
	origin time.Time
	leases map[planner.JobID][]time.Time

	length time.Duration // of a lease, a multiple of the unit
	claims []claim
	free   []int // GPUs by lease, from origin
	left   []int // the same, while claims are packed
	taken  []int
}

// claim is a deadline job that asks for leases.
type claim struct {
	job      *job
	need     int // leases
	last     int // leases that begin and end before the deadline
	gpus     int // rounded
	value    float64
	accepted bool
	shaky    bool  // accepted, but its leases cannot all be packed any more
	given    []int // leases assigned, rising
}

// slack orders claims: the fewest spare leases first.
func (c *claim) slack() int { return c.last - c.need }

func newChronusSticky(o Options) Policy {
	return &sticky{o: o, promised: map[planner.JobID]time.Time{}, leases: map[planner.JobID][]time.Time{}}
}

func (p *sticky) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	r.consolidate()
	p.length = r.leaseLength()
	origin := r.leaseOrigin(p.length)
	p.forget()
	stats := planner.SolverStats{Status: "skipped"}
	boundary := !origin.Equal(p.origin)
	if boundary {
		p.origin, p.from = origin, origin
		p.read()
		p.admit()
		stats = p.assign(ctx)
	}
	if !boundary && p.o.ChronusTick > 0 && s.Now.Sub(s.Now.Truncate(p.o.ChronusTick)) > s.Unit/20 {
		p.rest()
	}
	p.rank()
	r.settle(inPlace)
	plan := r.plan("chronus")
	plan.Solver = stats
	return plan
}

// rest lets nobody begin in this round but those who hold a lease.
func (p *sticky) rest() {
	for i := range p.round.jobs {
		if j := &p.round.jobs[i]; !j.running() && j.idle == "" && !p.now(j) && !j.Foreign {
			j.idle = planner.ReasonOutbid
		}
	}
}

// forget drops what was promised to jobs that are gone.
func (p *sticky) forget() {
	for id := range p.promised {
		if !p.round.knows(id) {
			delete(p.promised, id)
			delete(p.leases, id)
		}
	}
}

// read lists the deadline jobs with what they need by the estimate of CHRONUS, and the GPUs of every lease.
func (p *sticky) read() {
	r := &p.round
	p.claims = p.claims[:0]
	horizon := 1
	for i := range r.jobs {
		j := &r.jobs[i]
		if !j.Class.SLO() || j.Foreign || j.Unmeasured || j.idle != "" && j.idle != planner.ReasonLeaving {
			continue
		}
		need := p.estimate(j)
		least := 1
		if j.running() && p.from.After(r.s.Now) { // until then it runs
			need, least = max(0, need-p.from.Sub(r.s.Now).Seconds()), 0
		}
		c := claim{job: j, need: max(least, int(math.Ceil(min(need/p.length.Seconds(), chronusHorizon+1)))), gpus: rounded(j.gpus())}
		p.claims = append(p.claims, c)
	}
	for k := range p.claims {
		c := &p.claims[k]
		for _, t := range c.job.Tiers {
			horizon = max(horizon, p.usable(t.At))
		}
	}
	p.free = append(p.free[:0], make([]int, horizon)...)
	total := 0
	for _, n := range r.s.Nodes[:len(r.s.Nodes)-r.floor.profile] {
		if n.Usable {
			total += n.FreeGPUs()
		}
	}
	for t := range p.free {
		p.free[t] = total
	}
	for i := range r.jobs { // whoever cannot be stopped keeps his GPUs; in mid-lease at a boundary is nobody of ours
		if j := &r.jobs[i]; j.running() && j.pin == planner.ReasonNoPreempt && !j.Class.SLO() {
			for t := 0; t < len(p.free) && float64(t)*p.length.Seconds() < j.left; t++ {
				p.free[t] -= rounded(j.held)
			}
		}
	}
}

// estimate is the time in seconds that the job still holds GPUs by the estimate of CHRONUS.
func (p *sticky) estimate(j *job) float64 {
	if p.o.ChronusEstimates {
		return j.left
	}
	return p.round.chronusEstimate(j, j.left)
}

// usable is the number of leases that end by a deadline.
func (p *sticky) usable(at time.Time) int {
	if !at.After(p.from) {
		return 0
	}
	return int(min(at.Sub(p.from)/p.length, chronusHorizon))
}

// admit accepts jobs by submission. A promise that became impossible is judged anew with the later deadlines.
func (p *sticky) admit() {
	for k := range p.claims {
		c := &p.claims[k]
		if at, ok := p.promised[c.job.Run.Job]; ok && !at.IsZero() {
			p.aim(c, at)
			c.accepted = c.need <= c.last
		} else if ok { // demoted: may still get leases, for the first deadline that it can meet
			for _, t := range c.job.Tiers {
				if p.aim(c, t.At); t.Value > 0 && c.need <= c.last {
					break
				}
			}
		}
	}
	p.sortClaims()
	var waiting []int
	for k := range p.claims {
		c := &p.claims[k]
		if at, ok := p.promised[c.job.Run.Job]; !c.accepted && (!ok || !at.IsZero()) {
			waiting = append(waiting, k)
		}
	}
	slices.SortStableFunc(waiting, func(a, b int) int { return p.claims[a].job.Submitted.Compare(p.claims[b].job.Submitted) })
	left, _ := p.packed(nil)
	for _, k := range waiting {
		c := &p.claims[k]
		p.promised[c.job.Run.Job] = time.Time{}
		for _, t := range c.job.Tiers {
			if t.Value <= 0 {
				continue
			}
			p.aim(c, t.At)
			c.value = t.Value
			if c.need > c.last {
				continue
			}
			if !fits(left, c) { // the others' latest leases leave no room: perhaps in another order
				if _, ok := p.packed(c); !ok {
					left, _ = p.packed(nil)
					continue
				}
			}
			c.accepted = true
			p.promised[c.job.Run.Job] = t.At
			left, _ = p.packed(nil)
			break
		}
	}
	p.sortClaims()
}

func (p *sticky) aim(c *claim, at time.Time) {
	c.last, c.value = p.usable(at), 100
	for _, t := range c.job.Tiers {
		if t.At.Equal(at) {
			c.value = t.Value
		}
	}
}

// sortClaims orders by slack, need, GPUs.
func (p *sticky) sortClaims() {
	slices.SortStableFunc(p.claims, func(a, b claim) int { return compareClaims(&a, &b) })
}
