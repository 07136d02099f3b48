package policy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"unisched/planner"
	"unisched/planner/milp"
)

// chronusRows bounds the rows of the program, one for each deadline of each job. Beyond them jobs keep the leases that they have.
const chronusRows = 400

// assign gives the accepted jobs their leases, from the one that begins now on.
func (p *chronus) assign(ctx context.Context) planner.SolverStats {
	in := p.asks(p.origin, true)
	p.capacity(p.origin, horizon(in))
	stats := planner.SolverStats{Status: "skipped"}
	open, kept := p.within(in)
	done := len(open) == 0
	if !done && p.o.Solve != nil {
		m, cols := p.program(open)
		if x := p.o.solve(ctx, m, &stats); x != nil {
			done = true
			for c, col := range cols {
				if x[c] > 0.5 && col.gpus >= 0 {
					open[col.job].given = append(open[col.job].given, col.gpus)
				}
			}
		}
	}
	if !done {
		p.pack(open)
	}
	for _, a := range append(open, kept...) {
		if len(a.given) == 0 {
			a.st.verdict, a.st.out, a.st.leases = refused, true, nil
			continue
		}
		slices.Sort(a.given)
		a.st.leases = nil
		for _, t := range a.given {
			a.st.leases = append(a.st.leases, p.promise(p.origin, t))
		}
	}
	return stats
}

// crowded reports whether somebody who was turned down could still be in time: then the program leaves the first lease as empty as it can.
func (p *chronus) crowded() bool {
	return slices.ContainsFunc(p.round.jobs, func(j job) bool {
		st := p.of(&j)
		return st != nil && st.verdict == refused && !p.late(&j, st)
	})
}

// program maximises the value of the deadlines met, every job meeting one, and besides that uses many GPUs in the first lease, or few. Columns are told as
// (ask, lease), lease -1 for "meets this deadline".
func (p *chronus) program(in []ask) (*milp.Model, []step) {
	m, cols := &milp.Model{}, []step(nil)
	idx, val := make([][]int32, len(p.free)), make([][]float64, len(p.free))
	sign := 1.0
	if p.crowded() {
		sign = -1
	}
	for k := range in {
		a := &in[k]
		var met, lease []int32
		for _, g := range a.goals {
			hi := 1.0
			if g.last < a.need {
				hi = 0
			}
			met = append(met, int32(m.AddCol((g.value-a.goals[0].value)/10, 0, hi, true)))
			cols = append(cols, step{job: k, gpus: -1})
		}
		for t := range max(0, min(a.goals[len(a.goals)-1].last, len(p.free))) {
			obj := 0.0
			if t == 0 && p.free[0] > 0 {
				obj = sign * float64(a.gpus) / float64(p.free[0])
			}
			c := int32(m.AddCol(obj, 0, 1, true))
			lease, cols = append(lease, c), append(cols, step{job: k, gpus: t})
			idx[t], val[t] = append(idx[t], c), append(val[t], float64(a.gpus))
		}
		m.AddRow(1, 1, met, ones(len(met)))
		for n := -1; n < len(a.goals)-1; n++ { // leases after a deadline are for the later ones; all leases are for one of them
			lo, at := 0.0, 0
			if n >= 0 {
				lo, at = math.Inf(-1), min(max(0, a.goals[n].last), len(lease))
			}
			row, coef := slices.Clone(met[n+1:]), []float64(nil)
			for range row {
				coef = append(coef, -float64(a.need))
			}
			m.AddRow(lo, 0, append(row, lease[at:]...), append(coef, ones(len(lease)-at)...))
		}
	}
	for t := range idx {
		m.AddRow(math.Inf(-1), float64(max(0, p.free[t])), idx[t], val[t])
	}
	return m, cols
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// within leaves no more asks than the program takes: the largest, then those with the most time, keep the leases that they have, and come second.
func (p *chronus) within(in []ask) (solved, kept []ask) {
	rows := 0
	for k := range in {
		rows += len(in[k].goals)
	}
	if rows <= chronusRows {
		return in, nil
	}
	end := func(a *ask) int { return a.goals[len(a.goals)-1].last }
	slices.SortStableFunc(in, func(a, b ask) int { return cmp.Or(cmp.Compare(b.gpus, a.gpus), cmp.Compare(end(&b), end(&a))) })
	for k := range in {
		if a := in[k]; rows > chronusRows && p.keep(&a) {
			kept = append(kept, a)
			rows -= len(a.goals)
		} else {
			solved = append(solved, a)
		}
	}
	return solved, kept
}

// keep gives a job the leases that it has, all that it needs or none.
func (p *chronus) keep(a *ask) bool {
	var given []int
	for _, at := range a.st.leases {
		if t := int(at.Sub(p.origin) / p.length); !at.Before(p.origin) && t < len(p.free) && p.free[t] >= a.gpus {
			given = append(given, t)
		}
	}
	if len(given) < a.need {
		return false
	}
	a.given = given[len(given)-a.need:]
	for _, t := range a.given {
		p.free[t] -= a.gpus
	}
	return true
}

// pack assigns leases without the program: whoever has leases keeps them, the others get the latest ones with room, the most valuable deadline first.
func (p *chronus) pack(in []ask) {
	type choice struct {
		*ask
		goal
	}
	var open []choice
	for k := range in {
		if a := &in[k]; !p.keep(a) {
			for _, g := range a.goals {
				open = append(open, choice{a, g})
			}
		}
	}
	slices.SortStableFunc(open, func(a, b choice) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.gpus, a.gpus), cmp.Compare(a.last-a.need, b.last-b.need), cmp.Compare(b.last, a.last))
	})
	for _, c := range open {
		if len(c.given) == 0 {
			latest(p.free, c.ask, c.last, func(t int) { c.given = append(c.given, t) })
		}
	}
}
