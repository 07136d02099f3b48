package policy

import (
	"cmp"
	"slices"
	"time"

	"unisched/planner"
)

// ask is a job that asks for leases. Leases are counted from a time that the asker knows.
type ask struct {
	job  *job
	st   *standing
	need int // leases
	gpus int // rounded
	// goals are its deadlines of any value, in order.
	goals []goal
	given []int // leases assigned, rising
}

// goal is a deadline: how many leases begin and end before it, and what meeting it is worth.
type goal struct {
	last  int
	value float64
}

// goals lists the deadlines of a job in leases from from.
func (p *chronus) goals(j *job, from time.Time) []goal {
	var out []goal
	for _, t := range j.Tiers {
		if t.Value > 0 {
			out = append(out, goal{p.usable(t.At, from), t.Value})
		}
	}
	return out
}

// usable is the number of leases from from on that end by a deadline; below zero for one that has passed.
func (p *chronus) usable(at, from time.Time) int {
	n := at.Truncate(p.length).Sub(from) / p.length
	return int(min(max(n, -chronusHorizon), chronusHorizon))
}

// asks lists the accepted jobs that need leases from from on: all of them, or those that have none yet.
func (p *chronus) asks(from time.Time, all bool) []ask {
	var out []ask
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		st := p.of(j)
		if st == nil || st.verdict != accepted || st.out || st.need <= 0 || !all && len(st.leases) > 0 {
			continue
		}
		if a := (ask{job: j, st: st, need: st.need, gpus: rounded(j.gpus()), goals: p.goals(j, from)}); len(a.goals) > 0 && a.gpus > 0 {
			out = append(out, a)
		}
	}
	return out
}

// capacity counts the GPUs of so many leases from from on. Whoever cannot be stopped keeps his.
func (p *chronus) capacity(from time.Time, leases int) {
	p.free = p.free[:0]
	for range leases {
		p.free = append(p.free, p.total)
	}
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		if !j.running() || j.pin != planner.ReasonNoPreempt || p.holds(j) {
			continue
		}
		until := j.left - from.Sub(p.round.s.Now).Seconds()
		for t := 0; t < leases && float64(t)*p.length.Seconds() < until; t++ {
			p.free[t] -= rounded(j.held)
		}
	}
}

// horizon is how many leases the goals of asks reach.
func horizon(in []ask) int {
	n := 1
	for k := range in {
		for _, g := range in[k].goals {
			n = max(n, g.last)
		}
	}
	return n
}

// book takes leases that jobs hold off what is free, as many GPUs as they use.
func (p *chronus) book(from time.Time) {
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		st := p.of(j)
		if st == nil {
			continue
		}
		for _, at := range st.leases {
			if t := int(at.Sub(from) / p.length); !at.Before(from) && t < len(p.free) {
				p.free[t] -= j.gpus()
			}
		}
	}
}

// chronusBatch is how long whoever is turned down stays in the packing.
const chronusBatch = 5 * time.Minute

// admit accepts or turns down the jobs that have come, in order of submission. A job is accepted when it could end by its last deadline and, packed for
// its first one into what the leases already assigned leave, has room beside all others accepted since. As in the artifact, which judges the jobs of five
// minutes together, whoever is turned down stays in the packing until those are over: one with a single deadline takes the room of the first later deadline
// that it could meet, one with several finds none, and nobody behind it does either. They run in the leftover, where most of them do well.
func (p *chronus) admit() {
	from := p.origin.Add(p.length)
	if at := p.round.s.Now.Truncate(chronusBatch); !at.Equal(p.batch) {
		p.batch, p.stay, p.full = at, p.stay[:0], false
	}
	come := p.come(from)
	if len(come) == 0 {
		return
	}
	in := append(p.asks(from, false), p.stay...)
	p.capacity(from, max(horizon(in), horizon(come)))
	p.book(from)
	full := p.full || !p.packable(in)
	for _, a := range come {
		in = append(in, a)
		end := a.goals[len(a.goals)-1]
		if !full && a.need <= end.last && p.packable(in) {
			a.st.verdict, a.st.need, a.st.due = accepted, a.need, p.promise(from, end.last)
			continue
		}
		a.st.verdict, a.st.out, a.st.due = refused, true, firstDeadline(a.job)
		if full {
			continue
		}
		if p.full = !p.later(in); p.full {
			full = true
			continue
		}
		p.stay = append(p.stay, in[len(in)-1])
	}
}

// come lists the deadline jobs that nobody has judged yet, by submission.
func (p *chronus) come(from time.Time) []ask {
	var out []ask
	for i := range p.round.jobs {
		j := &p.round.jobs[i]
		st := p.of(j)
		if st == nil || st.verdict != unasked || !j.Class.SLO() || st.over {
			continue
		}
		a := ask{job: j, st: st, need: p.leasesIn(p.estimate(j, st)), gpus: rounded(j.gpus()), goals: p.goals(j, from)}
		if len(a.goals) > 0 && a.gpus > 0 {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b ask) int { return a.job.Submitted.Compare(b.job.Submitted) })
	return out
}

func firstDeadline(j *job) time.Time {
	for _, t := range j.Tiers {
		if t.Value > 0 {
			return t.At
		}
	}
	return time.Time{}
}

// later moves the only deadline of the last ask to the first one with which all can be packed, if there is such a one.
func (p *chronus) later(in []ask) bool {
	a := &in[len(in)-1]
	if len(a.goals) > 1 {
		return false
	}
	low, high := max(a.goals[0].last, a.need), max(len(p.free), horizon(in))+a.need+1
	try := func(last int) bool {
		a.goals[0].last = last
		return p.packable(in)
	}
	for low < high {
		if mid := low + (high-low)/2; try(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return try(high)
}

// packable reports whether all asks find their leases ahead of their first deadlines, each in turn, least slack first, in the latest leases with room.
func (p *chronus) packable(in []ask) bool {
	order := make([]int, len(in))
	for k := range in {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &in[x], &in[y]
		return cmp.Or(cmp.Compare(a.goals[0].last-a.need, b.goals[0].last-b.need), cmp.Compare(a.need, b.need), cmp.Compare(a.gpus, b.gpus))
	})
	p.left = append(p.left[:0], p.free...)
	for len(p.left) < horizon(in) {
		p.left = append(p.left, p.total)
	}
	for _, k := range order {
		if !latest(p.left, &in[k], in[k].goals[0].last, nil) {
			return false
		}
	}
	return true
}

// latest books a job in the latest leases that have room before last, all that it needs or none, and tells them to give.
func latest(left []int, a *ask, last int, give func(int)) bool {
	n := a.need
	for t := min(last, len(left)) - 1; t >= 0 && n > 0; t-- {
		if left[t] >= a.gpus {
			n--
		}
	}
	if n > 0 {
		return false
	}
	n = a.need
	for t := min(last, len(left)) - 1; t >= 0 && n > 0; t-- {
		if left[t] >= a.gpus {
			left[t] -= a.gpus
			n--
			if give != nil {
				give(t)
			}
		}
	}
	return true
}
