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

func compareClaims(a, b *claim) int {
	return cmp.Or(cmp.Compare(a.slack(), b.slack()), cmp.Compare(a.need, b.need), cmp.Compare(a.gpus, b.gpus), a.job.Run.Compare(b.job.Run))
}

// packed packs all accepted claims and one more, in order, each into the latest leases that have room. It returns what is left of every lease and
// whether all found theirs. A claim that does not, since estimates grew, is marked as shaky and books nothing; with more, shaky claims are left out.
func (p *sticky) packed(more *claim) ([]int, bool) {
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
func (p *sticky) latest(c *claim) bool {
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
func (p *sticky) assign(ctx context.Context) planner.SolverStats {
	demoted := false
	for k := range p.claims {
		c := &p.claims[k]
		demoted = demoted || !c.accepted && c.need <= c.last
	}
	stats := planner.SolverStats{Status: "skipped"}
	in := p.byDensity()
	if p.o.ChronusPrune {
		in = in[:min(len(in), chronusRows)]
	}
	done := false
	if p.o.Solve != nil && len(in) <= chronusRows {
		m, cols := p.program(in, demoted)
		stats.Rows, stats.Cols = m.Rows(), m.Cols()
		if m.Cols() > 0 {
			if x := p.o.solve(ctx, m, &stats); x != nil {
				done = true
				for c, col := range cols {
					if x[c] > 0.5 && col.gpus >= 0 {
						p.claims[col.job].given = append(p.claims[col.job].given, col.gpus)
					}
				}
			}
		}
	}
	if !done {
		if stats.Status == "failed" {
			p.cached()
		}
		p.pack(demoted)
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
func (p *sticky) program(in []int, demoted bool) (*milp.Model, []step) {
	m, cols := &milp.Model{}, []step(nil)
	idx := make([][]int32, len(p.free))
	val := make([][]float64, len(p.free))
	sign := 1.0
	if demoted {
		sign = -1
	}
	for _, k := range in {
		c := &p.claims[k]
		value := c.value
		if !c.accepted {
			value *= 0.99 // of two alike, the promise is kept
		}
		row, coef := []int32{int32(m.AddCol(value, 0, 1, true))}, []float64{-float64(c.need)}
		cols = append(cols, step{job: k, gpus: -1})
		for t := range min(c.last, len(p.free)) {
			obj := 0.0
			if t == 0 && p.free[0] > 0 {
				obj = sign * float64(c.gpus) / float64(p.free[0])
			}
			col := int32(m.AddCol(obj, 0, 1, true))
			cols = append(cols, step{job: k, gpus: t})
			row, coef = append(row, col), append(coef, 1)
			idx[t], val[t] = append(idx[t], col), append(val[t], float64(c.gpus))
		}
		m.AddRow(0, 0, row, coef)
	}
	for t := range idx {
		m.AddRow(math.Inf(-1), float64(p.free[t]), idx[t], val[t])
	}
	return m, cols
}

// cached takes over the leases of the last assignment that are still to come.
func (p *sticky) cached() {
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
func (p *sticky) byDensity() []int {
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
func (p *sticky) pack(late bool) {
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
func (p *sticky) now(j *job) bool { return slices.ContainsFunc(p.leases[j.Run.Job], p.origin.Equal) }

// rank puts the leases of now first, least slack in front; then the leftover by remaining service; then accepted jobs whose lease comes later,
// which may have GPUs that nobody else wants; last those whose promise became impossible.
func (p *sticky) rank() {
	r := &p.round
	end := p.origin.Add(p.length)
	r.rank(func(j *job) [3]float64 {
		at, known := p.promised[j.Run.Job]
		switch {
		case j.Profiles():
			return [3]float64{first}
		case j.Class.SLO() && p.now(j):
			j.units = max(1, int((end.Sub(r.s.Now)+r.s.Unit/2)/max(r.s.Unit, 1)))
			return [3]float64{urgent, j.slack()}
		case j.Class.SLO() && known && !at.IsZero():
			return [3]float64{last, j.slack()}
		case j.Class.SLO() && !j.alive():
			return [3]float64{last + 1, j.service()}
		}
		return [3]float64{normal, j.service()}
	})
}
