package policy

import (
	"context"
	"slices"
	"time"

	"unisched/planner"
)

// elasticflow is ElasticFlow (Gu et al., ASPLOS 2023). Time is cut into units. The minimum satisfactory share of a deadline job is the smallest number
// of GPUs with which it meets its deadline in what jobs with earlier deadlines leave (progressive filling); a job is admitted when
// all admitted ones keep theirs. GPUs left over in this unit go to waiting jobs by smallest remaining service, which is the marginal gain per GPU
// of a first allocation, and then by marginal gain to jobs that can use more. Shares lie in buddy cells on the fewest nodes.
//
// What it remembers is explicit: which deadline each job was admitted with.
type elasticflow struct {
	o     Options
	round round
	// admitted are the deadlines that were admitted; the zero time marks a job that was turned down and runs as best effort. Lookup only.
	admitted map[planner.JobID]time.Time

	free   []int // by unit
	trial  []int
	shares []share
	grow   grower
}

// share is an admitted job and the GPUs it gets in the unit that begins now.
type share struct {
	job *job
	due time.Time
	now int
}

// flowHorizon bounds the units looked at: a day of five minutes. Work beyond is taken to find its GPUs.
const flowHorizon = 288

func newElasticFlow(o Options) Policy {
	return &elasticflow{o: o, admitted: map[planner.JobID]time.Time{}}
}

func (p *elasticflow) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	p.forget()
	p.capacity()
	p.admit()
	p.allocate()
	r.rank(func(j *job) [3]float64 {
		switch {
		case j.Profiles():
			return [3]float64{first}
		case j.chosen:
			return [3]float64{urgent, j.due}
		}
		return [3]float64{normal, j.service()}
	})
	r.keepPinned()
	r.letThrough()
	p.grow.run(r, r.choose())
	r.settle(inPlace)
	return r.plan("elasticflow")
}

func (p *elasticflow) forget() {
	for id := range p.admitted {
		if !p.round.knows(id) {
			delete(p.admitted, id)
		}
	}
}

// capacity counts the GPUs of every unit that admitted jobs may share: all but those of jobs that cannot be stopped, and in this unit of those in
// mid-lease.
func (p *elasticflow) capacity() {
	r := &p.round
	units, unit := 1, r.s.Unit.Seconds()
	if unit <= 0 {
		unit = 1
	}
	for i := range r.jobs {
		if j := &r.jobs[i]; j.Class.SLO() && len(j.Tiers) > 0 {
			units = max(units, int(min(j.Tiers[len(j.Tiers)-1].At.Sub(r.s.Now).Seconds()/unit, flowHorizon)))
		}
	}
	total := 0
	for _, n := range r.s.Nodes {
		if n.Usable {
			total += n.FreeGPUs()
		}
	}
	p.free = append(p.free[:0], slices.Repeat([]int{total}, units)...)
	for i := range r.jobs {
		j := &r.jobs[i]
		switch {
		case !j.running():
		case j.pin == planner.ReasonNoPreempt:
			for t := 0; t < units && float64(t)*unit < j.left; t++ {
				p.free[t] -= j.held
			}
		case j.pin == planner.ReasonMidLease:
			p.free[0] -= j.held
		}
	}
}

// admit judges every deadline job once; a promise that cannot be kept any more is judged again with the later deadlines.
func (p *elasticflow) admit() {
	r := &p.round
	p.shares = p.shares[:0]
	var fresh []*job
	for i := range r.jobs {
		j := &r.jobs[i]
		if !j.Class.SLO() || j.Foreign || j.idle == planner.ReasonBlocked || j.idle == planner.ReasonNeverFits || j.pin == planner.ReasonNoPreempt {
			continue
		}
		at, known := p.admitted[j.Run.Job]
		switch {
		case !known || !at.IsZero() && at.Before(r.s.Now):
			fresh = append(fresh, j)
		case !at.IsZero():
			p.shares = append(p.shares, share{job: j, due: at})
		}
	}
	p.sort()
	p.trial = append(p.trial[:0], p.free...)
	kept := p.shares[:0]
	for _, x := range p.shares {
		if _, ok := p.fill(x); ok {
			kept = append(kept, x)
		} else {
			fresh = append(fresh, x.job)
		}
	}
	p.shares = kept
	slices.SortStableFunc(fresh, func(a, b *job) int { return a.Submitted.Compare(b.Submitted) })
	for _, j := range fresh {
		p.admitted[j.Run.Job] = time.Time{}
		for _, t := range j.Tiers {
			if t.Value > 0 && t.At.After(r.s.Now) && p.fitsWith(share{job: j, due: t.At}) {
				p.admitted[j.Run.Job] = t.At
				p.shares = append(p.shares, share{job: j, due: t.At})
				p.sort()
				break
			}
		}
	}
}

func (p *elasticflow) sort() {
	slices.SortFunc(p.shares, compareShares)
}

func compareShares(a, b share) int {
	if c := a.due.Compare(b.due); c != 0 {
		return c
	}
	return a.job.Run.Compare(b.job.Run)
}

// fitsWith reports whether everybody admitted keeps his deadline beside one more.
func (p *elasticflow) fitsWith(more share) bool {
	p.trial = append(p.trial[:0], p.free...)
	placed := false
	for _, x := range p.shares {
		if !placed && compareShares(more, x) < 0 {
			placed = true
			if _, ok := p.fill(more); !ok {
				return false
			}
		}
		if _, ok := p.fill(x); !ok {
			return false
		}
	}
	if !placed {
		if _, ok := p.fill(more); !ok {
			return false
		}
	}
	return true
}

// allocate works out what every admitted job gets in this unit, and makes it ask for that.
func (p *elasticflow) allocate() {
	p.trial = append(p.trial[:0], p.free...)
	for k := range p.shares {
		x := &p.shares[k]
		x.now, _ = p.fill(*x)
		if j := x.job; x.now > 0 && j.pin == "" && j.idle == "" {
			j.ask(x.now)
			if len(j.want) == 0 { // goes on in a shape that nobody would choose
				j.ask(j.asked())
			}
			p.round.expect(j)
			j.chosen = true
		}
	}
}

// fill books the minimum satisfactory share of a job in p.trial and returns what it gets in this unit, or false when no number of GPUs meets the
// deadline; nothing is booked then.
func (p *elasticflow) fill(x share) (int, bool) {
	j := x.job
	if j.pin == planner.ReasonMidLease { // its GPUs of this unit are out of p.free already
		return j.held, p.fillWith(x, j.held)
	}
	last := 0
	for _, o := range j.opts {
		if o.gpus == last || !j.Elastic && len(j.want) > 0 && o.gpus != j.want[0].gpus {
			continue
		}
		last = o.gpus
		before := p.trial[0]
		if p.fillWith(x, o.gpus) {
			return before - p.trial[0], true
		}
	}
	return 0, false
}

// fillWith books up to g GPUs in every unit until the work is done. Elastic jobs take smaller counts where g are not free.
func (p *elasticflow) fillWith(x share, g int) bool {
	j, unit := x.job, p.round.s.Unit.Seconds()
	if unit <= 0 {
		unit = 1
	}
	due := x.due.Sub(p.round.s.Now).Seconds()
	work, speed := p.round.estimate(j, g), 1.0 // in seconds at g GPUs
	if work >= forever || work > due {
		return false
	}
	if work > flowHorizon*unit {
		return true
	}
	from := 0
	if j.pin == planner.ReasonMidLease {
		work -= unit
		from = 1
	}
	booked := from
	took := make([]int, 0, 16)
	for t := from; t < len(p.trial) && work > 1e-9; t++ {
		k := 0
		if p.trial[t] >= g {
			k, speed = g, 1
		} else if j.Elastic {
			k, speed = p.below(j, g, p.trial[t])
		}
		span := min(unit, due-float64(t)*unit)
		if span <= 0 {
			break
		}
		p.trial[t] -= k
		took = append(took, k)
		booked = t + 1
		if k > 0 {
			work -= span * speed
		}
	}
	if work <= 1e-9 {
		return true
	}
	if booked == len(p.trial) && len(p.trial) == flowHorizon {
		return true
	}
	for n, k := range took {
		p.trial[from+n] += k
	}
	return false
}

// below is the largest count under g that is free, and its speed relative to g.
func (p *elasticflow) below(j *job, g, free int) (int, float64) {
	whole := p.round.estimate(j, g)
	for k := len(j.opts) - 1; k >= 0; k-- {
		if n := j.opts[k].gpus; n < g && n <= free {
			return n, whole / max(p.round.estimate(j, n), 1)
		}
	}
	return 0, 0
}
