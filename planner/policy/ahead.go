package policy

import (
	"context"
	"math"
	"slices"

	"unisched/planner"
	"unisched/planner/milp"
)

// ahead is what TetriSched and 3Sigma share: a program over the jobs that wait, each with the choice of a start within a short window,
// and the GPUs that come free in it as jobs end. Only what starts now is carried out; the program of the next round decides the rest anew.
type ahead struct {
	name string
	o    Options
	// value is what a start so many seconds from now is worth.
	value func(r *round, j *job, wait float64) float64
	// stoppable running jobs take part: the program may stop them.
	stoppable func(j *job) bool

	round round
	cands []int
	free  []int // by slot
	pick  []int // slot by candidate, -1: none
}

func (p *ahead) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	for i := range r.jobs {
		if j := &r.jobs[i]; j.running() && j.pin == "" && !p.stoppable(j) {
			j.pin = planner.ReasonRuns
		}
	}
	r.rank(func(j *job) [3]float64 {
		if j.Profiles() {
			return [3]float64{first}
		}
		return [3]float64{normal, -p.value(r, j, 0) / max(j.service(), 1)}
	})
	r.keepPinned()
	r.letThrough()
	p.slots()
	stats := p.decide(ctx)
	p.obey()
	plan := r.plan(p.name)
	plan.Solver = stats
	return plan
}

// slots counts the GPUs free in each slot: those free now, of jobs that may be stopped, and of jobs expected to end before the slot begins.
func (p *ahead) slots() {
	r := &p.round
	n := unitsOf(p.o.PlanAhead, r.s.Unit)
	p.free = append(p.free[:0], make([]int, min(n, 64))...)
	now := 0
	for i := range r.floor.spots {
		if x := &r.floor.spots[i]; x.usable {
			now += max(0, x.gpus)
		}
	}
	for t := range p.free {
		p.free[t] = now
	}
	for i := range r.jobs {
		if j := &r.jobs[i]; j.decided == planner.Keep {
			for t := p.slotAfter(j.left); t < len(p.free); t++ {
				p.free[t] += j.held
			}
		}
	}
}

// slotAfter is the first slot that begins at or after so many seconds.
func (p *ahead) slotAfter(seconds float64) int {
	unit := p.round.s.Unit.Seconds()
	if unit <= 0 || seconds > unit*float64(len(p.free)) {
		return len(p.free)
	}
	return int(math.Ceil(seconds / unit))
}

// decide picks a slot for every candidate, with the solver where there is one.
func (p *ahead) decide(ctx context.Context) planner.SolverStats {
	r := &p.round
	p.cands = p.cands[:0]
	for _, i := range r.order {
		if len(p.cands) < p.o.Most || r.jobs[i].running() {
			p.cands = append(p.cands, i)
		}
	}
	stats := planner.SolverStats{Status: "skipped"}
	if p.o.Solve != nil && len(p.cands) > 0 {
		m, cols := p.model()
		if x := p.o.solve(ctx, m, &stats); x != nil {
			p.pick = append(p.pick[:0], slices.Repeat([]int{-1}, len(p.cands))...)
			for c, col := range cols {
				if x[c] > 0.5 {
					p.pick[col.job] = col.gpus
				}
			}
			return stats
		}
	}
	p.greedy()
	return stats
}

// solve solves a rival's model within its limits and says in stats how it went. It returns nil when there is no solution.
func (o *Options) solve(ctx context.Context, m *milp.Model, stats *planner.SolverStats) []float64 {
	stats.Rows, stats.Cols = m.Rows(), m.Cols()
	sol, err := o.Solve(ctx, m, o.Limits)
	stats.Status, stats.Solve = statusOf(sol, err), sol.Wall
	if err != nil {
		stats.Error = err.Error()
		return nil
	}
	if sol.X != nil {
		stats.Bound, stats.Gap = sol.Bound, sol.Gap()
	}
	return sol.X
}

func statusOf(sol milp.Solution, err error) string {
	switch {
	case err != nil || sol.X == nil:
		return "failed"
	case sol.Status == milp.TimeLimit:
		return "time-limit"
	case sol.Status == milp.NodeLimit:
		return "node-limit"
	}
	return sol.Status.String()
}

// model has a column per candidate and slot, a row per candidate, and a row per slot. Columns are told as (candidate, slot).
func (p *ahead) model() (*milp.Model, []step) {
	m, cols := &milp.Model{}, []step(nil)
	slot := make([][]int32, len(p.free))
	weight := make([][]float64, len(p.free))
	for c, i := range p.cands {
		j := &p.round.jobs[i]
		var idx []int32
		for t := range p.starts(j) {
			v := p.value(&p.round, j, float64(t)*p.round.s.Unit.Seconds())
			col := int32(m.AddCol(v, 0, 1, true))
			cols = append(cols, step{job: c, gpus: t})
			idx = append(idx, col)
			for u := t; u < min(len(p.free), t+max(1, p.slotAfter(j.left))); u++ {
				slot[u], weight[u] = append(slot[u], col), append(weight[u], float64(j.gpus()))
			}
		}
		m.AddRow(0, 1, idx, slices.Repeat([]float64{1}, len(idx)))
	}
	for t := range slot {
		m.AddRow(math.Inf(-1), float64(p.free[t]), slot[t], weight[t])
	}
	return m, cols
}

// starts is the number of slots in which a job may begin: a running one only goes on.
func (p *ahead) starts(j *job) int {
	if j.running() {
		return 1
	}
	return len(p.free)
}

// greedy gives candidates, most value per GPU-second first, the first slot from which they fit.
func (p *ahead) greedy() {
	p.pick = p.pick[:0]
	for _, i := range p.cands {
		j := &p.round.jobs[i]
		at := -1
		for t := 0; t < p.starts(j) && at < 0; t++ {
			until := min(len(p.free), t+max(1, p.slotAfter(j.left)))
			fits := true
			for u := t; u < until; u++ {
				fits = fits && p.free[u] >= j.gpus()
			}
			if !fits {
				continue
			}
			at = t
			for u := t; u < until; u++ {
				p.free[u] -= j.gpus()
			}
		}
		p.pick = append(p.pick, at)
	}
}

// obey ranks the starts of now first, in the order of density, and leaves everybody else out: they wait for their slot, or are stopped.
func (p *ahead) obey() {
	r := &p.round
	now := p.starts0()
	for i := range r.order {
		r.jobs[r.order[i]].pos = math.MaxInt
	}
	r.order = append(r.order[:0], now...)
	for pos, i := range r.order {
		r.jobs[i].pos = pos
	}
	r.settle(inPlace)
}

// starts0 are the candidates picked for the slot that begins now. Running jobs that were not picked come last: they stay if nobody needs their GPUs.
func (p *ahead) starts0() []int {
	var now, left []int
	for c, i := range p.cands {
		switch {
		case p.pick[c] == 0:
			now = append(now, i)
		case p.round.jobs[i].running():
			left = append(left, i)
		}
	}
	return append(now, left...)
}
