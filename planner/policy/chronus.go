package policy

import (
	"context"
	"math"
	"time"

	"unisched/planner"
)

// chronus is CHRONUS (Gao et al., SoCC 2021) as its artifact behaves, oddities included, since its published figures come from them. Time is cut into
// leases of 20 minutes. At the beginning of a lease a program over the jobs accepted before assigns leases ahead of their deadlines; everybody else runs in
// the leftover, by smallest remaining service. In ticks of five minutes whoever has come is accepted or turned down (see admit), and what is free is given
// away. Whoever runs in the leftover starts anew at each lease; whoever gets a lease and ran before runs on. Capacity is counted with 3 GPUs rounded up to
// 4 and 5..7 to 8. All placements are on the fewest nodes.
//
// What it remembers is explicit: what it knows of each job, and whom it told to run at the last tick.
type chronus struct {
	o     Options
	round round
	known map[planner.JobID]*standing // lookup only

	length time.Duration // of a lease, a multiple of the unit
	origin time.Time     // the beginning of this lease
	ticked time.Time     // the last tick
	batch  time.Time     // the beginning of the five minutes whose jobs are judged together
	stay   []ask         // those of them that were turned down and have a place in the packing; their job and st are of older rounds
	full   bool          // somebody was turned down who has none
	total  int           // GPUs
	free   []int         // GPUs by lease
	left   []int         // the same, while asks are packed
}

// standing is what CHRONUS remembers of a job. Times are seconds.
type standing struct {
	whole float64 // how long the job was thought to run when it came
	verdict
	// due is the deadline that says whether the job is late: the last one, in whole leases, of an accepted job, the first one of another.
	due time.Time
	// out says that a job takes part in the program no more, over that it ran for longer than its estimate, boosted that it is to end in this lease.
	out, over, boosted bool
	// need is how many leases it is still to be given, leases the beginnings of those that it was promised, rising, this one included.
	need   int
	leases []time.Time
	called bool // told to run at the last tick
}

// verdict is how a job stands with the admission.
type verdict int

const (
	unasked verdict = iota // best effort, not measured yet, or not seen by a tick
	accepted
	refused
)

// chronusHorizon bounds the leases looked at: two weeks of 20 minutes.
const chronusHorizon = 1008

func newChronus(o Options) Policy { return &chronus{o: o, known: map[planner.JobID]*standing{}} }

func (p *chronus) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	r.consolidate()
	p.length = r.leaseLength()
	origin := r.leaseOrigin(p.length)
	boundary := !origin.Equal(p.origin)
	p.origin = origin
	p.count()
	stats := planner.SolverStats{Status: "skipped"}
	tick := p.tick(boundary)
	if tick {
		p.meet()
		p.look(boundary)
		if boundary {
			stats = p.assign(ctx)
		}
		p.admit()
		p.boost(boundary)
		p.rank(boundary)
	} else {
		p.rest()
		p.rankFill()
	}
	r.settle(inPlace)
	if boundary {
		r.restart(func(j *job) bool { return p.holds(j) })
		p.charge()
	}
	p.call(tick)
	plan := r.plan("chronus")
	plan.Solver = stats
	return plan
}

// leaseLength is the length of a lease of CHRONUS.
func (r *round) leaseLength() time.Duration {
	if r.s.Unit > 0 {
		return time.Duration(unitsOf(r.o.ChronusLease, r.s.Unit)) * r.s.Unit
	}
	return r.o.ChronusLease
}

// leaseOrigin is when the lease of now began. A round may come a little early.
func (r *round) leaseOrigin(length time.Duration) time.Time {
	return r.s.Now.Add(time.Duration(planner.LeaseEpsilon * float64(r.s.Unit))).Truncate(length)
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

// ran is how long the job has held as many GPUs as it wants, in seconds.
func (j *job) ran() float64 { return positive(j.Attained) / float64(max(1, j.gpus())) }

// tick reports whether this is the first round of a tick, or one just after, which may be the first to see what came with it.
func (p *chronus) tick(boundary bool) bool {
	if p.o.ChronusTick <= 0 {
		return true
	}
	now := p.round.s.Now
	at := now.Truncate(p.o.ChronusTick)
	if !boundary && at.Equal(p.ticked) && now.Sub(at) > p.round.s.Unit/20 {
		return false
	}
	p.ticked = at
	return true
}

// count finds the GPUs of all leases, and forgets jobs that are gone.
func (p *chronus) count() {
	r := &p.round
	for id := range p.known {
		if !r.knows(id) {
			delete(p.known, id)
		}
	}
	p.total = 0
	for _, n := range r.s.Nodes[:len(r.s.Nodes)-r.floor.profile] {
		if n.Usable {
			p.total += n.FreeGPUs()
		}
	}
}

// meet begins to remember the jobs that have come.
func (p *chronus) meet() {
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		if j.Foreign || j.Profiles() || j.Unmeasured || p.known[j.Run.Job] != nil {
			continue
		}
		p.known[j.Run.Job] = &standing{whole: j.workTime(j.gpus()) + j.ran()}
	}
}

// of is what is known of a job: nil when it was not seen by a tick, or is not measured.
func (p *chronus) of(j *job) *standing { return p.known[j.Run.Job] }

// look takes note of what the jobs have run since.
func (p *chronus) look(boundary bool) {
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		st := p.of(j)
		if st == nil {
			continue
		}
		if boundary {
			st.boosted = false
		}
		left := p.estimate(j, st)
		if holding := st.holds(p.origin) && !boundary; !st.over && left <= 0 && !holding {
			st.over, st.out, st.leases = true, true, nil
			if j.Class.SLO() {
				st.verdict = refused
			}
		}
		if st.verdict == accepted && !st.out {
			st.need = min(st.need, p.leasesIn(left))
			st.trim(p.origin, boundary)
		}
	}
}

// estimate is the time in seconds that the job is still thought to hold GPUs: the first estimate, in whole minutes (one at least), less what it has
// run.
func (p *chronus) estimate(j *job, st *standing) float64 {
	return max(1, math.Floor(p.round.chronusEstimate(j, st.whole)/60+1e-6))*60 - j.ran()
}

// leasesIn is how many leases a time in seconds takes. A lease may turn out a little short.
func (p *chronus) leasesIn(s float64) int {
	const slack = 1e-6
	return int(math.Ceil(min(max(0, s/p.length.Seconds()-slack), chronusHorizon+1)))
}

// trim forgets leases that are over, and the first of those to come that are not needed any more.
func (st *standing) trim(origin time.Time, boundary bool) {
	for len(st.leases) > 0 && st.leases[0].Before(origin) {
		st.leases = st.leases[1:]
	}
	have := 0
	if !boundary && len(st.leases) > 0 && st.leases[0].Equal(origin) {
		have = 1 // it is counted as given already
	}
	for len(st.leases)-have > st.need {
		copy(st.leases[have:], st.leases[have+1:])
		st.leases = st.leases[:len(st.leases)-1]
	}
}

// holds reports whether this lease is one of the job's.
func (st *standing) holds(origin time.Time) bool {
	return st != nil && len(st.leases) > 0 && st.leases[0].Equal(origin)
}

func (p *chronus) holds(j *job) bool { return p.of(j).holds(p.origin) }

// charge takes the lease that begins now off what its holders still need. Whoever could not begin has none.
func (p *chronus) charge() {
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		st := p.of(j)
		if !st.holds(p.origin) {
			continue
		}
		switch j.decided {
		case planner.Keep, planner.Start, planner.Move:
			st.need = max(0, st.need-1)
		default:
			st.leases = st.leases[1:]
		}
	}
}

// late reports whether the job, run without interruption, would miss the deadline that counts.
func (p *chronus) late(j *job, st *standing) bool {
	return st.verdict != unasked && j.Class.SLO() && st.due.Sub(p.round.s.Now).Seconds() < st.whole-j.ran()
}
