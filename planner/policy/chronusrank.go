package policy

import (
	"cmp"
	"slices"
	"time"

	"unisched/planner"
)

// boost chooses the jobs that were turned down, wait, and would end within this lease by their true durations: they are given GPUs ahead of everybody in
// the leftover, the smallest first. One that came in this lease counts as accepted from then on.
func (p *chronus) boost(boundary bool) {
	r := &p.round
	spot := p.total
	var in []*job
	for i := range r.jobs {
		j := &r.jobs[i]
		st := p.of(j)
		switch {
		case st == nil || j.Foreign:
		case st.holds(p.origin), st.boosted:
			spot -= j.gpus()
		case st.boostable() && (boundary || !j.running()) && j.idle == "" && !p.late(j, st) && p.remains(j, st) <= p.leaseRest():
			in = append(in, j)
		}
	}
	slices.SortStableFunc(in, func(a, b *job) int {
		return cmp.Compare(p.remains(a, p.of(a))*float64(a.gpus()), p.remains(b, p.of(b))*float64(b.gpus()))
	})
	for _, j := range in {
		if g := j.gpus(); g > 0 && g <= spot {
			spot -= g
			st := p.of(j)
			st.boosted, st.out = true, true
			if !j.Submitted.Before(p.origin) && st.verdict == refused {
				st.verdict = accepted
			}
		}
	}
}

// boostable: a job that was turned down, or ran for longer than its estimate.
func (st *standing) boostable() bool { return st.verdict == refused || st.over }

// remains is what is left of a job's true duration, in seconds.
func (p *chronus) remains(j *job, st *standing) float64 { return st.whole - j.ran() }

// leaseRest is what is left of this lease, in seconds.
func (p *chronus) leaseRest() float64 {
	return p.origin.Add(p.length).Sub(p.round.s.Now).Seconds()
}

// The leftover in the artifact's order.
const (
	overrun  = iota // ran for longer than they were thought to
	ordinary        // best effort and whoever was turned down, by remaining service
	waiting         // accepted, with leases to come, by slack
	hopeless        // late, by slack
)

// leftover is a job's class in the leftover and its value there: less goes first.
func (p *chronus) leftover(j *job) (class int, value float64) {
	st := p.of(j)
	if st == nil {
		return ordinary, j.service()
	}
	g := float64(max(1, j.gpus()))
	left := p.estimate(j, st)
	slack := (st.due.Sub(p.round.s.Now).Seconds() - left) * g
	switch {
	case p.late(j, st):
		class, value = hopeless, slack
	case st.verdict == accepted && !st.over:
		class, value = waiting, slack
	default:
		class, value = ordinary, left*g
	}
	if st.over {
		class = overrun
	}
	return class, value
}

// rank puts the leases of now first, then the jobs that are to end in this lease, then the leftover, in which within a lease nobody is stopped for another.
func (p *chronus) rank(boundary bool) {
	r := &p.round
	end := p.origin.Add(p.length)
	r.rank(func(j *job) [3]float64 {
		st := p.of(j)
		if j.Profiles() {
			return [3]float64{first}
		}
		if st.holds(p.origin) || st != nil && st.boosted {
			j.units = max(1, int((end.Sub(r.s.Now)+r.s.Unit/2)/max(r.s.Unit, 1)))
			if st.boosted {
				return [3]float64{urgent, 1}
			}
			return [3]float64{urgent, 0, j.slack()}
		}
		class, value := p.leftover(j)
		if !boundary && j.running() {
			return [3]float64{urgent, 2 + float64(class), value}
		}
		return [3]float64{normal, float64(class), value}
	})
}

// rest leaves the round to whoever was told to run at the last tick, or, when they all do, to those who knew that tick.
func (p *chronus) rest() {
	jobs := p.round.jobs
	called := slices.ContainsFunc(jobs, func(j job) bool {
		st := p.of(&j)
		return st != nil && st.called && !j.running()
	})
	for i := range jobs {
		j := &jobs[i]
		st := p.of(j)
		if !j.running() && j.idle == "" && !j.Foreign && !j.Profiles() && (st == nil || called && !st.called) {
			j.idle = planner.ReasonOutbid
		}
	}
}

// rankFill ranks between ticks, where the artifact gives what has become free the other way round: the hopeless first, and the largest.
func (p *chronus) rankFill() {
	p.round.rank(func(j *job) [3]float64 {
		st := p.of(j)
		switch {
		case j.Profiles():
			return [3]float64{first}
		case j.running() || st != nil && st.called:
			return [3]float64{urgent}
		}
		class, value := p.leftover(j)
		if class == overrun {
			class = ordinary
		}
		if class == ordinary && !j.Class.SLO() {
			class = ordinary - 1
		}
		return [3]float64{normal, -float64(class), -value}
	})
}

// call remembers whom a plan lets begin.
func (p *chronus) call(tick bool) {
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		if st := p.of(j); st != nil {
			switch j.decided {
			case planner.Start, planner.Move:
				st.called = true
			default:
				if tick || j.decided == planner.Keep {
					st.called = false
				}
			}
		}
	}
}

// promise is the end of so many leases, counted from from.
func (p *chronus) promise(from time.Time, leases int) time.Time {
	return from.Add(time.Duration(leases) * p.length)
}
