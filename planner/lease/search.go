package lease

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/milp"
)

// maxPackRetries is how often the model is solved again after the packer found no hole for a start of it.
const maxPackRetries = 2

// search asks the solver for candidates: first the LP relaxation, whose rounding often reaches the bound already, then the program
// itself, then the second stage. Whatever fails is noted in stats and leaves the greedy candidates to decide.
type search struct {
	in    *instance
	pr    *program
	solve milp.Solver
	lim   milp.Limits
	stats *planner.SolverStats
	cands []packed
	best  float64 // objective of the best candidate so far
}

func (p *Policy) search(ctx context.Context, in *instance, cands []packed, stats *planner.SolverStats) []packed {
	pr := in.program()
	stats.Rows, stats.Cols = pr.m.Rows(), pr.m.Cols()
	s := &search{in: in, pr: pr, solve: p.solve, lim: p.cfg.Limits, stats: stats, cands: cands, best: math.Inf(-1)}
	if s.lim.Time <= 0 {
		s.lim.Time = 2 * time.Second
		if len(in.jobs) > 1500 {
			s.lim.Time = 5 * time.Second
		}
	}
	for _, c := range cands {
		s.best = max(s.best, c.obj)
	}
	if pr.m.Cols() == 0 {
		stats.Status = "optimal"
		return cands
	}
	if err := pr.m.Validate(); err != nil {
		stats.Status, stats.Error = "failed", err.Error()
		return cands
	}
	bound, ok := s.relaxed(ctx)
	if !ok || !s.closed(bound) {
		if b, ok := s.exact(ctx); ok {
			bound = min(bound, b)
		}
	} else {
		stats.Status = "optimal"
	}
	stats.Bound = bound
	if math.IsInf(bound, 0) {
		stats.Bound = s.best
	}
	stats.Gap = gap(s.best, stats.Bound)
	return s.cands
}

// gap is the relative distance of an objective from its bound.
func gap(obj, bound float64) float64 {
	return max(0, bound-obj) / max(math.Abs(obj), 1)
}

func (s *search) closed(bound float64) bool { return gap(s.best, bound) <= s.lim.Gap }

func (s *search) add(c packed) {
	s.cands = append(s.cands, c)
	s.best = max(s.best, c.obj)
}

// ask calls the solver and trusts nothing but a solution that the model accepts.
func (s *search) ask(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, bool) {
	sol, err := s.solve(ctx, m, lim)
	s.stats.Solve += sol.Wall
	if err != nil {
		s.stats.Status, s.stats.Error = "failed", err.Error()
		return sol, false
	}
	if len(sol.X) != m.Cols() {
		s.stats.Status, s.stats.Error = status(sol.Status), sol.Note
		return sol, false
	}
	if !lim.Relax {
		if err := m.Feasible(sol.X, 1e-6); err != nil {
			s.stats.Status, s.stats.Error = "failed", fmt.Sprintf("solver: %v", err)
			return sol, false
		}
	}
	s.stats.Status = status(sol.Status)
	return sol, true
}

func status(st milp.Status) string {
	switch st {
	case milp.Optimal:
		return "optimal"
	case milp.TimeLimit:
		return "time-limit"
	case milp.NodeLimit:
		return "node-limit"
	}
	return "failed"
}

// relaxed adds the rounded LP relaxation and returns its bound.
func (s *search) relaxed(ctx context.Context) (float64, bool) {
	lim := s.lim
	lim.Relax = true
	sol, ok := s.ask(ctx, &s.pr.m, lim)
	if !ok || sol.Status != milp.Optimal {
		return math.Inf(1), false
	}
	s.add(s.in.pack("rounded", s.in.rounded(s.pr, sol.X)))
	return s.pr.m.Objective(sol.X) + s.pr.fixed, true
}

// exact solves the program; when the packer finds no hole for a start, the start is forbidden and the program solved again.
func (s *search) exact(ctx context.Context) (float64, bool) {
	bound, known := math.Inf(1), false
	m := s.pr.m
	m.ColHi = slices.Clone(m.ColHi)
	m.ColLo = slices.Clone(m.ColLo)
	for try := 0; try <= maxPackRetries; try++ {
		sol, ok := s.ask(ctx, &m, s.lim)
		if !ok {
			return bound, known
		}
		if try == 0 && !math.IsInf(sol.Bound, 0) && !math.IsNaN(sol.Bound) {
			bound, known = sol.Bound+s.pr.fixed, true
		}
		choice := s.pr.choice(sol.X)
		r := s.in.pack("milp", choice)
		s.add(r)
		if !s.in.cfg.OneStage && !s.closed(bound) {
			s.secondStage(ctx, m, sol)
		}
		if !s.forbid(&m, r, choice) || s.closed(bound) {
			break
		}
	}
	return bound, known
}

// forbid closes the columns of starts that no hole was found for.
func (s *search) forbid(m *milp.Model, r packed, choice []int) bool {
	any := false
	for ji, homeless := range r.homeless {
		if homeless && s.pr.first[ji] >= 0 {
			any = true
			m.ColHi[s.pr.first[ji]+choice[ji]] = 0
		}
	}
	return any
}

// secondStage fixes the SLO columns and optimises the rest, whose rewards are too small to count in the first stage's gap.
func (s *search) secondStage(ctx context.Context, m milp.Model, sol milp.Solution) {
	m.ColLo = slices.Clone(m.ColLo)
	m.ColHi = slices.Clone(m.ColHi)
	rest := false
	for ji := range s.in.jobs {
		j := &s.in.jobs[ji]
		if s.pr.first[ji] < 0 {
			continue
		}
		if !j.alive {
			rest = true
			continue
		}
		for ci := range j.cols {
			k := s.pr.first[ji] + ci
			m.ColLo[k], m.ColHi[k] = math.Round(sol.X[k]), math.Round(sol.X[k])
		}
	}
	if !rest {
		return
	}
	before := *s.stats
	if sol2, ok := s.ask(ctx, &m, s.lim); ok {
		s.add(s.in.pack("milp-2", s.pr.choice(sol2.X)))
	} else {
		wall := s.stats.Solve
		*s.stats = before // the first stage stands
		s.stats.Solve = wall
	}
}

// rounded makes a choice from a fractional solution: columns that the LP nearly took, then jobs it wanted to run most, then what is left to
// least laxity.
func (in *instance) rounded(pr *program, x []float64) []int {
	l := newLedger(in)
	runs := make([]float64, len(in.jobs))
	for ji := range in.jobs {
		for ci, c := range in.jobs[ji].cols {
			if pr.first[ji] >= 0 && c.kind != wait {
				runs[ji] += x[pr.first[ji]+ci]
			}
		}
	}
	order := in.order(func(j *job) [2]float64 { return [2]float64{0, j.laxity()} })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Round(100*runs[b]), math.Round(100*runs[a])) })
	in.keepForBudget(l, order)
	for _, ji := range order {
		if pr.first[ji] < 0 {
			continue
		}
		cols := make([]int, len(in.jobs[ji].cols))
		for ci := range cols {
			cols[ci] = ci
		}
		slices.SortStableFunc(cols, func(a, b int) int { return cmp.Compare(x[pr.first[ji]+b], x[pr.first[ji]+a]) })
		for _, ci := range cols {
			if x[pr.first[ji]+ci] > 0.02 && l.try(ji, ci) {
				break
			}
		}
	}
	for _, ji := range in.order(func(j *job) [2]float64 { return [2]float64{j.laxity(), -j.density()} }) {
		in.give(l, ji, l.choice[ji])
	}
	return l.choice
}
