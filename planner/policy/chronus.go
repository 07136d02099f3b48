package policy

import (
	"context"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// chronus is CHRONUS (Gao et al., SoCC 2021) as its artifact behaves. Time is cut into leases of 20 minutes. A deadline job is accepted
// when the leases that it needs by its own pessimistic estimate can be packed, together with those of all jobs accepted before, ahead of its deadline;
// otherwise a later deadline that fits is looked for, and failing that it is demoted to best effort. At each lease boundary a program over the
// deadline jobs assigns leases; capacity is counted with 3 GPUs rounded up to 4 and 5..7 to 8. Everybody else runs in the leftover by smallest
// remaining service in leases of one unit. All placements are on the fewest nodes.
//
// What it remembers is explicit: which deadlines it promised, and which leases it assigned last.
type chronus struct {
	o     Options
	round round
	// promised are the deadlines of accepted jobs; the zero time marks a job that was demoted. Lookup only.
	promised map[planner.JobID]time.Time
	// whole are the estimates of deadline jobs in seconds, as they came. Lookup only.
	whole map[planner.JobID]float64
	from  time.Time // of the first lease that claims are counted in
	// origin is the beginning of the lease that leases were last assigned for, leases the beginnings of those assigned. Lookup only.
	origin time.Time
	leases map[planner.JobID][]time.Time

	again  map[planner.JobID]bool // jobs that began anew at the last boundary; lookup only
	length time.Duration          // of a lease, a multiple of the unit
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

// chronusHorizon bounds the leases looked at: four days of 20 minutes.
const chronusHorizon = 1008

func newChronus(o Options) Policy {
	return &chronus{o: o, promised: map[planner.JobID]time.Time{}, whole: map[planner.JobID]float64{}, again: map[planner.JobID]bool{}, leases: map[planner.JobID][]time.Time{}}
}

func newChronusSticky(o Options) Policy {
	o.ChronusSticky = true
	return newChronus(o)
}

func (p *chronus) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	r.consolidate()
	p.length = p.o.ChronusLease
	if s.Unit > 0 {
		p.length = time.Duration(unitsOf(p.o.ChronusLease, s.Unit)) * s.Unit
	}
	origin := s.Now.Add(time.Duration(planner.LeaseEpsilon * float64(s.Unit))).Truncate(p.length)
	p.forget()
	stats := planner.SolverStats{Status: "skipped"}
	boundary := !origin.Equal(p.origin)
	switch {
	case boundary:
		p.origin, p.from = origin, origin
		p.read()
		p.admit()
		stats = p.assign(ctx)
	case !p.o.ChronusSticky: // whoever comes in between may have leases from the next boundary on
		p.from = origin.Add(p.length)
		p.read()
		p.admit()
	}
	if !boundary && p.o.ChronusTick > 0 && s.Now.Sub(s.Now.Truncate(p.o.ChronusTick)) > s.Unit/20 {
		p.rest()
	}
	p.rank(boundary)
	r.settle(inPlace)
	if boundary && !p.o.ChronusSticky {
		clear(p.again)
		r.restart()
		for i := range r.jobs {
			if j := &r.jobs[i]; j.decided == planner.Move {
				p.again[j.Run.Job] = true
			}
		}
	}
	plan := r.plan("chronus")
	plan.Solver = stats
	return plan
}

// rest lets nobody begin in this round but those who were to begin at the boundary and have not yet.
func (p *chronus) rest() {
	for i := range p.round.jobs {
		if j := &p.round.jobs[i]; !j.running() && j.idle == "" && !p.again[j.Run.Job] && !p.now(j) && !j.Foreign {
			j.idle = planner.ReasonOutbid
		}
	}
}

// consolidate leaves every job only the shapes on the fewest nodes.
func (r *round) consolidate() {
	for i := range r.jobs {
		j := &r.jobs[i]
		for k := range j.want {
			if len(j.want[k].shape) > len(j.want[0].shape) {
				j.want = j.want[:k]
				break
			}
		}
	}
}

// forget drops what was promised to jobs that are gone.
func (p *chronus) forget() {
	for id := range p.promised {
		if !p.round.knows(id) {
			delete(p.promised, id)
			delete(p.leases, id)
			delete(p.whole, id)
		}
	}
}

// chronusEstimate is d(1 + resume/lease)1.1 in seconds, with the artifact's resume of 0.5(1 + log2 g) minutes where none is known.
func (r *round) chronusEstimate(j *job, d float64) float64 {
	resume := positive(j.Estimate.Resume.Mid)
	if resume == 0 {
		resume = 30 * (1 + math.Log2(float64(max(1, j.gpus()))))
	}
	return min(d*(1+resume/r.o.ChronusLease.Seconds())*1.1, forever)
}

// rounded is what CHRONUS counts for so many GPUs: 3 as 4, 5 to 7 as 8.
func rounded(g int) int {
	switch {
	case g == 3:
		return 4
	case g > 4 && g < 8:
		return 8
	}
	return g
}

// read lists the deadline jobs with what they need by the estimate of CHRONUS, and the GPUs of every lease.
func (p *chronus) read() {
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

// estimate is the time in seconds that the job still holds GPUs by the estimate of CHRONUS: what the whole job was thought to take when it came, with a resume
// for each lease, less what it has run.
func (p *chronus) estimate(j *job) float64 {
	if p.o.ChronusSticky { // of what is left now
		if p.o.ChronusEstimates {
			return j.left
		}
		return p.round.chronusEstimate(j, j.left)
	}
	whole, known := p.whole[j.Run.Job]
	left := j.workTime(j.gpus())
	if !known {
		whole = p.round.chronusEstimate(j, left) + j.ran()
		p.whole[j.Run.Job] = whole
	}
	return max(whole-j.ran(), left)
}

// ran is how long the job has held as many GPUs as it wants, in seconds.
func (j *job) ran() float64 { return positive(j.Attained) / float64(max(1, j.gpus())) }

// usable is the number of leases that end by a deadline.
func (p *chronus) usable(at time.Time) int {
	if !at.After(p.from) {
		return 0
	}
	return int(min(at.Sub(p.from)/p.length, chronusHorizon))
}

// admit accepts jobs by submission. A promise that became impossible is judged anew with the later deadlines.
func (p *chronus) admit() {
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
		for n, t := range c.job.Tiers {
			if t.Value <= 0 || !p.o.ChronusSticky && n+1 < len(c.job.Tiers) && c.job.Tiers[n+1].Value > 0 {
				continue // its last deadline is promised, and the program looks for a better one
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

func (p *chronus) aim(c *claim, at time.Time) {
	c.last, c.value = p.usable(at), 100
	for _, t := range c.job.Tiers {
		if t.At.Equal(at) {
			c.value = t.Value
		}
	}
}

// sortClaims orders by slack, need, GPUs.
func (p *chronus) sortClaims() {
	slices.SortStableFunc(p.claims, func(a, b claim) int { return compareClaims(&a, &b) })
}
