package policy

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/milp"
)

// chronusRows bounds the jobs of the program. A larger one is not tried, as in the artifact, unless Options.ChronusPrune leaves out jobs.
const chronusRows = 400

func compareClaims(a, b *claim) int {
	return cmp.Or(cmp.Compare(a.slack(), b.slack()), cmp.Compare(a.need, b.need), cmp.Compare(a.gpus, b.gpus), a.job.Run.Compare(b.job.Run))
}

// packed packs all accepted claims and one more, in order, each into the latest leases that have room. It returns what is left of every lease and
// whether all found theirs. A claim that does not, since estimates grew, is marked as shaky and books nothing; with more, shaky claims are left out.
func (p *chronus) packed(more *claim) ([]int, bool) {
	p.left = append(p.left[:0], p.free...)
	all, placed := true, more == nil
	for k := range p.claims {
		c := &p.claims[k]
		if !placed && compareClaims(more, c) < 0 {
			placed = true
			all = all && p.latest(more)
		}
		switch {
		case !c.accepted || more != nil && c.shaky:
		case more == nil:
			c.shaky = !p.latest(c)
		default:
			all = all && p.latest(c)
		}
		if !all {
			return p.left, false
		}
	}
	if !placed {
		all = all && p.latest(more)
	}
	return p.left, all
}

// latest books a claim in the latest leases that have room, all that it needs or none.
func (p *chronus) latest(c *claim) bool {
	n, t := c.need, min(c.last, len(p.left))
	for ; t > 0 && n > 0; t-- {
		if p.left[t-1] >= c.gpus {
			p.left[t-1] -= c.gpus
			p.taken = append(p.taken, t-1)
			n--
		}
	}
	if n > 0 {
		for _, u := range p.taken {
			p.left[u] += c.gpus
		}
	}
	p.taken = p.taken[:0]
	return n == 0
}

// fits reports whether a claim finds its leases in what others left.
func fits(left []int, c *claim) bool {
	n := c.need
	for t := 0; t < min(c.last, len(left)) && n > 0; t++ {
		if left[t] >= c.gpus {
			n--
		}
	}
	return n == 0
}

// assign gives leases to the accepted jobs and to those that the program finds room for: the solver's answer, or else the leases of the last
// assignment and, for whoever has none, a greedy packing.
func (p *chronus) assign(ctx context.Context) planner.SolverStats {
	demoted := false
	for k := range p.claims {
		c := &p.claims[k]
		demoted = demoted || !c.accepted && (p.o.ChronusSticky && c.need <= c.last || !p.o.ChronusSticky && p.alive(c.job))
	}
	stats := planner.SolverStats{Status: "skipped"}
	in := p.wanted()
	if !p.o.ChronusSticky || p.o.ChronusPrune {
		in = p.within(in)
	}
	done := false
	if p.o.Solve != nil && p.rows(in) <= chronusRows {
		m, cols := p.program(in, demoted)
		stats.Rows, stats.Cols = m.Rows(), m.Cols()
		if m.Cols() > 0 {
			sol, err := p.o.Solve(ctx, m, p.o.Limits)
			stats.Status, stats.Solve = statusOf(sol, err), sol.Wall
			if err != nil {
				stats.Error = err.Error()
			} else if sol.X != nil {
				done = true
				stats.Bound, stats.Gap = sol.Bound, sol.Gap()
				for c, x := range cols {
					if sol.X[c] > 0.5 && x.gpus >= 0 {
						p.claims[x.job].given = append(p.claims[x.job].given, x.gpus)
					}
				}
			}
		}
	}
	if done && !p.o.ChronusSticky && slices.ContainsFunc(in, func(k int) bool { return len(p.claims[k].given) < p.claims[k].need }) {
		done = false // a promise would be broken
		for _, k := range in {
			p.claims[k].given = p.claims[k].given[:0]
		}
	}
	if !done {
		p.fallBack(in, stats.Status == "failed", demoted)
	}
	clear(p.leases)
	for k := range p.claims {
		c := &p.claims[k]
		var at []time.Time
		for _, t := range c.given {
			at = append(at, p.origin.Add(time.Duration(t)*p.length))
		}
		if len(at) > 0 {
			p.leases[c.job.Run.Job] = at
		}
	}
	return stats
}

// program is CHRONUS's: maximise the value of the jobs that get all the leases they need, and besides that use many GPUs in the first lease, or few while
// some job could not be accepted, so that there is room for it. Columns are told as (claim, lease), lease -1 for "gets them all".
func (p *chronus) program(in []int, demoted bool) (*milp.Model, []step) {
	m, cols := &milp.Model{}, []step(nil)
	idx := make([][]int32, len(p.free))
	val := make([][]float64, len(p.free))
	sign := 1.0
	if demoted {
		sign = -1
	}
	for _, k := range in {
		c := &p.claims[k]
		tiers := p.tiers(c)
		var met []int32 // by deadline
		var row []int32
		var coef []float64
		for _, t := range tiers {
			met = append(met, int32(m.AddCol(t.value, 0, 1, true)))
			row, coef = append(row, met[len(met)-1]), append(coef, -float64(c.need))
			cols = append(cols, step{job: k, gpus: -1})
		}
		lease := make([]int32, min(c.last, len(p.free)))
		for t := range lease {
			obj := 0.0
			if t == 0 && p.free[0] > 0 {
				obj = sign * float64(c.gpus) / float64(p.free[0])
			}
			lease[t] = int32(m.AddCol(obj, 0, 1, true))
			cols = append(cols, step{job: k, gpus: t})
			row, coef = append(row, lease[t]), append(coef, 1)
			idx[t], val[t] = append(idx[t], lease[t]), append(val[t], float64(c.gpus))
		}
		m.AddRow(0, 0, row, coef)
		if len(tiers) > 1 {
			m.AddRow(math.Inf(-1), 1, met, ones(len(met)))
		}
		for n, t := range tiers[:len(tiers)-1] { // leases after a deadline are for the later ones
			row, coef = slices.Clone(met[n+1:]), coef[:0]
			for range row {
				coef = append(coef, -float64(c.need))
			}
			row = append(row, lease[t.last:]...)
			m.AddRow(math.Inf(-1), 0, row, append(coef, ones(len(lease)-t.last)...))
		}
	}
	for t := range idx {
		m.AddRow(math.Inf(-1), float64(p.free[t]), idx[t], val[t])
	}
	return m, cols
}

// goal is a deadline that a claim may be given leases for.
type goal struct {
	last  int
	value float64
}

// tiers are the deadlines that a claim may be given leases for, the last one being the one it was accepted for.
func (p *chronus) tiers(c *claim) []goal {
	value := c.value
	if !c.accepted {
		value *= 0.99 // of two alike, the promise is kept
	}
	var out []goal
	for _, t := range c.job.Tiers {
		if last := p.usable(t.At); !p.o.ChronusSticky && last < c.last && last >= c.need && t.Value > 0 && (len(out) == 0 || last > out[len(out)-1].last) {
			out = append(out, goal{last, t.Value})
		}
	}
	return append(out, goal{c.last, value})
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// rows is the number of rows that claims take in the artifact's program: one for each deadline.
func (p *chronus) rows(in []int) int {
	n := 0
	for _, k := range in {
		n += len(p.tiers(&p.claims[k]))
	}
	return n
}

// wanted lists the claims that the program may give leases to.
func (p *chronus) wanted() []int {
	if p.o.ChronusSticky {
		return p.byDensity()
	}
	var out []int
	for k := range p.claims {
		if c := &p.claims[k]; c.accepted && !c.shaky {
			out = append(out, k)
		}
	}
	return out
}

// within leaves no more claims than the program takes: the largest, then those with the most time, keep the leases that they have.
func (p *chronus) within(in []int) []int {
	rows := p.rows(in)
	switch {
	case rows <= chronusRows:
		return in
	case p.o.ChronusPrune:
		return in[:chronusRows]
	}
	large := slices.Clone(in)
	slices.SortStableFunc(large, func(a, b int) int {
		x, y := &p.claims[a], &p.claims[b]
		return cmp.Or(cmp.Compare(y.gpus, x.gpus), cmp.Compare(y.last, x.last))
	})
	out := map[int]bool{}
	for _, k := range large {
		if rows > chronusRows && p.keepLeases(&p.claims[k]) {
			out[k] = true
			rows -= len(p.tiers(&p.claims[k]))
		}
	}
	return slices.DeleteFunc(in, func(k int) bool { return out[k] })
}

// keepLeases gives a claim those of its last leases that are still to come and that it needs, the latest ones; all that it needs or none.
func (p *chronus) keepLeases(c *claim) bool {
	at := p.leases[c.job.Run.Job]
	for k := len(at) - 1; k >= 0 && len(c.given) < c.need; k-- {
		t := int(at[k].Sub(p.origin) / p.length)
		if !at[k].Before(p.origin) && t < min(c.last, len(p.free)) && p.free[t] >= c.gpus {
			c.given = append(c.given, t)
		}
	}
	return p.takeGiven(c)
}

// fallBack gives leases without the program.
func (p *chronus) fallBack(in []int, failed, demoted bool) {
	if p.o.ChronusSticky {
		if failed {
			p.cached()
		}
		p.pack(demoted)
		return
	}
	lack := slices.DeleteFunc(slices.Clone(in), func(k int) bool { return p.keepLeases(&p.claims[k]) })
	all := true
	for _, k := range lack {
		all = p.late(&p.claims[k]) && all
	}
	if all {
		return
	}
	for k := range p.claims { // together they do not fit: as they were accepted, in order
		c := &p.claims[k]
		for _, t := range c.given {
			p.free[t] += c.gpus
		}
		c.given = c.given[:0]
	}
	for k := range p.claims {
		if c := &p.claims[k]; c.accepted && !c.shaky {
			p.late(c)
		}
	}
}

// late gives a claim the latest leases that have room, all that it needs or none.
func (p *chronus) late(c *claim) bool {
	for t := min(c.last, len(p.free)) - 1; t >= 0 && len(c.given) < c.need; t-- {
		if p.free[t] >= c.gpus {
			c.given = append(c.given, t)
		}
	}
	return p.takeGiven(c)
}

// cached takes over the leases of the last assignment that are still to come.
func (p *chronus) cached() {
	for k := range p.claims {
		c := &p.claims[k]
		for _, at := range p.leases[c.job.Run.Job] {
			t := int(at.Sub(p.origin) / p.length)
			if at.Before(p.origin) || t >= min(c.last, len(p.free)) || len(c.given) == c.need || p.free[t] < c.gpus {
				continue
			}
			c.given = append(c.given, t)
			p.free[t] -= c.gpus
		}
	}
}

// byDensity lists the claims that can be met, most value per GPU and lease first, as the program's count of values favours them.
func (p *chronus) byDensity() []int {
	var out []int
	for k := range p.claims {
		if c := &p.claims[k]; c.need <= c.last {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		x, y := &p.claims[a], &p.claims[b]
		return cmp.Compare(float64(x.need*x.gpus)*y.value, float64(y.need*y.gpus)*x.value)
	})
	return out
}

// pack gives claims the leases that they lack, all or none, densest first: the latest while some job could not be accepted, else the earliest.
func (p *chronus) pack(late bool) {
	for _, k := range p.byDensity() {
		c := &p.claims[k]
		n, had := min(c.last, len(p.free)), len(c.given)
		for step := 0; step < n && len(c.given) < c.need; step++ {
			t := step
			if late {
				t = n - 1 - step
			}
			if p.free[t] >= c.gpus && !slices.Contains(c.given[:had], t) {
				p.free[t] -= c.gpus
				c.given = append(c.given, t)
			}
		}
		if len(c.given) < c.need {
			for _, t := range c.given[had:] {
				p.free[t] += c.gpus
			}
			c.given = c.given[:had]
		}
		slices.Sort(c.given)
	}
}

// now reports whether the job holds a lease of the assignment at this time.
func (p *chronus) now(j *job) bool { return slices.ContainsFunc(p.leases[j.Run.Job], p.origin.Equal) }

// rank puts the leases of now first, least slack in front; then the leftover by remaining service; then accepted jobs whose lease comes later,
// which may have GPUs that nobody else wants; last those whose promise became impossible.
func (p *chronus) rank(boundary bool) {
	r := &p.round
	end := p.origin.Add(p.length)
	r.rank(func(j *job) [3]float64 {
		at, known := p.promised[j.Run.Job]
		switch {
		case !boundary && !p.o.ChronusSticky && j.running():
			return [3]float64{urgent}
		case j.Profiles():
			return [3]float64{first}
		case j.Class.SLO() && p.now(j):
			j.units = max(1, int((end.Sub(r.s.Now)+r.s.Unit/2)/max(r.s.Unit, 1)))
			return [3]float64{urgent, j.slack()}
		case j.Class.SLO() && known && !at.IsZero() && (p.o.ChronusSticky || p.alive(j)):
			return [3]float64{last, j.slack()}
		case j.Class.SLO() && !p.alive(j):
			return [3]float64{last + 1, j.service()}
		}
		return [3]float64{normal, j.service()}
	})
}

// alive reports whether the job has a deadline that can be met by its duration alone, without what the estimate of CHRONUS adds.
func (p *chronus) alive(j *job) bool {
	if p.o.ChronusSticky {
		return j.alive()
	}
	left := j.workTime(j.gpus())
	return slices.ContainsFunc(j.Tiers, func(t planner.Tier) bool { return t.Value > 0 && t.At.Sub(p.round.s.Now).Seconds() >= left })
}

// takeGiven takes the leases found for a claim, latest first, off what is free, if they are all that it needs; else it has none.
func (p *chronus) takeGiven(c *claim) bool {
	if len(c.given) < c.need {
		c.given = c.given[:0]
		return false
	}
	slices.Reverse(c.given)
	for _, t := range c.given {
		p.free[t] -= c.gpus
	}
	return true
}
