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

// packRetries is how often the model is solved again after the packer found no hole for a start of it: small models cost nothing.
func packRetries(cols int) int {
	if cols <= 200 {
		return 20
	}
	return 4
}

// search asks the solver for candidates: first the LP relaxation, whose rounding often reaches the bound already, then the program
// itself, then the second stage. Whatever fails is noted in stats and leaves the greedy candidates to decide.
type search struct {
	in    *instance
	pr    *program
	solve milp.Solver
	lim   milp.Limits
	stats *planner.SolverStats
	cands []packed
}

func (p *Policy) search(ctx context.Context, in *instance, cands []packed, stats *planner.SolverStats) []packed {
	pr := in.program()
	stats.Rows, stats.Cols = pr.m.Rows(), pr.m.Cols()
	s := &search{in: in, pr: pr, solve: p.solve, lim: p.cfg.Limits, stats: stats, cands: cands}
	if s.lim.Time <= 0 {
		s.lim.Time = 2 * time.Second
		if len(in.jobs) > 1500 {
			s.lim.Time = 2500 * time.Millisecond
		}
	}
	if pr.m.Cols() == 0 {
		stats.Status = "optimal"
		return s.cands
	}
	if err := pr.m.Validate(); err != nil {
		stats.Status, stats.Error = "failed", err.Error()
		return s.cands
	}
	bound, late := s.relaxed(ctx)
	if !late { // else the program would not even get past its first relaxation
		if gap(s.best(), bound) > s.lim.Gap {
			if b, ok := s.exact(ctx); ok {
				bound = min(bound, b)
			}
		}
		s.secondStage(ctx, bound)
	}
	stats.Bound, stats.Gap = s.best(), -1
	if !math.IsInf(bound, 0) && !math.IsNaN(bound) {
		stats.Bound, stats.Gap = max(bound, s.best()), gap(s.best(), bound)
	}
	return s.cands
}

// gap is the relative distance of an objective from its bound.
func gap(obj, bound float64) float64 {
	return max(0, bound-obj) / max(math.Abs(obj), 1)
}

func (s *search) best() float64 { return s.leader().obj }

// leader is the best candidate so far.
func (s *search) leader() packed {
	lead := s.cands[0]
	for _, c := range s.cands[1:] {
		if better(c, lead) {
			lead = c
		}
	}
	return lead
}

// ask calls the solver and trusts nothing but a solution that the model accepts.
func (s *search) ask(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, bool) {
	sol, err := s.solve(ctx, m, lim)
	s.stats.Solve += sol.Wall
	if err != nil {
		s.stats.Status, s.stats.Error = status(sol.Status), err.Error()
		if sol.Status == milp.Optimal { // it cannot be
			s.stats.Status = "failed"
		}
		return sol, false
	}
	if len(sol.X) != m.Cols() {
		s.stats.Status, s.stats.Error = status(sol.Status), sol.Note
		return sol, false
	}
	judge := *m
	if lim.Relax {
		judge.Int = make([]bool, m.Cols())
	}
	if err := judge.Feasible(sol.X, 1e-6); err != nil {
		s.stats.Status, s.stats.Error = "failed", fmt.Sprintf("solver: %v", err)
		return sol, false
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

// relaxed adds the rounded LP relaxation and returns its bound, +Inf when there is none, and whether it ran out of time. It has twice the
// time, since all else rests on it.
func (s *search) relaxed(ctx context.Context) (bound float64, late bool) {
	lim := s.lim
	lim.Relax = true
	lim.Time *= 2
	sol, ok := s.ask(ctx, &s.pr.m, lim)
	if !ok || sol.Status != milp.Optimal {
		return math.Inf(1), sol.Status == milp.TimeLimit
	}
	s.cands = append(s.cands, s.in.pack("rounded", s.in.rounded(s.pr, sol.X)))
	return s.pr.m.Objective(sol.X) + s.pr.fixed, false
}

// exact solves the program; when the packer finds no hole for a start, the model is told and the program solved again. The search
// aims at a quarter of the gap asked for, so that what the packer costs has room.
func (s *search) exact(ctx context.Context) (float64, bool) {
	bound, known := math.Inf(1), false
	m := s.pr.m
	m.ColHi = slices.Clone(m.ColHi)
	lim := s.lim
	lim.Gap /= 4
	for try := 0; try <= packRetries(m.Cols()); try++ {
		sol, ok := s.ask(ctx, &m, lim)
		if try == 0 && !math.IsInf(sol.Bound, 0) && !math.IsNaN(sol.Bound) && sol.Bound != 0 {
			bound, known = sol.Bound+s.pr.fixed, true
		}
		if !ok {
			return bound, known
		}
		choice := s.pr.choice(sol.X)
		r := s.in.pack("milp", choice)
		s.cands = append(s.cands, r)
		if len(r.misfits) == 0 || gap(s.best(), bound) <= s.lim.Gap || !s.forbid(&m, r, choice) {
			break
		}
	}
	return bound, known
}

// forbid tells the model what the packer found: of the jobs that do not fit together, a smallest set is not to be chosen again. When there
// are too many to look at, the start that found no hole is forbidden. It reports whether anything was found.
func (s *search) forbid(m *milp.Model, r packed, choice []int) bool {
	told := false
	for _, ji := range r.misfits {
		if s.pr.first[ji] < 0 {
			continue
		}
		told = true
		set := s.in.conflict(choice, ji)
		if set == nil {
			m.ColHi[s.pr.column(ji, choice[ji])] = 0
			continue
		}
		idx, val := make([]int32, 0, len(set)), make([]float64, 0, len(set))
		for _, k := range set {
			if s.pr.first[k] >= 0 {
				idx, val = append(idx, int32(s.pr.column(k, choice[k]))), append(val, 1)
			}
		}
		m.AddRow(math.Inf(-1), float64(len(idx)-1), idx, val)
	}
	return told
}

// maxConflict is the number of jobs among which a conflict is looked for.
const maxConflict = 60

// conflict returns a smallest set (by leaving out one after the other) of chosen starts and keeps that do not fit together with start ji, nil
// when there are too many.
func (in *instance) conflict(choice []int, ji int) []int {
	var set []int
	for k := range in.jobs {
		if c := in.jobs[k].cols[choice[k]]; c.kind != wait {
			set = append(set, k)
		}
	}
	if len(set) > maxConflict {
		return nil
	}
	if in.fits(choice, set) {
		return nil
	}
	for k := 0; k < len(set); {
		less := slices.Delete(slices.Clone(set), k, k+1)
		if set[k] != ji && len(in.jobs[set[k]].cols) > 1 && !in.fits(choice, less) {
			set = less
		} else {
			k++
		}
	}
	return set
}

// fits reports whether a set of kept and started jobs can be packed.
func (in *instance) fits(choice, set []int) bool {
	f := newFloor(in)
	var starts []int
	for _, k := range set {
		if in.jobs[k].cols[choice[k]].kind == keep {
			f.take(&in.jobs[k], in.jobs[k].Current, 1)
		} else {
			starts = append(starts, k)
		}
	}
	opt := func(k int) option {
		c := in.jobs[k].cols[choice[k]]
		return in.hurried(&in.jobs[k], in.jobs[k].opts[c.opt], c.tier)
	}
	slices.SortStableFunc(starts, func(a, b int) int { return cmp.Or(cmp.Compare(opt(b).shape[0], opt(a).shape[0]), cmp.Compare(a, b)) })
	_, ok := f.fitAll(starts, opt)
	return ok
}

// secondStage fixes the tiers of the best candidate and optimises all the rest: who runs now for them, and what best-effort work and profilers
// get, whose rewards are too small to count in the first stage's gap. It is left out when the gap is small against the rest, too.
func (s *search) secondStage(ctx context.Context, bound float64) {
	lead := s.leader()
	if s.in.cfg.OneStage || bound-lead.obj <= s.lim.Gap*max(s.in.beside(lead.choice), 1) {
		return
	}
	// Of a large instance the relaxation is solved and rounded: what is decided here is worth little, and never a deadline.
	m := s.pr.m
	m.Obj, m.ColHi = slices.Clone(m.Obj), slices.Clone(m.ColHi)
	for ji := range s.in.jobs {
		j, first := &s.in.jobs[ji], s.pr.first[ji]
		if first < 0 {
			continue
		}
		for _, c := range j.cols {
			if c.rank < 0 {
				continue
			}
			m.Obj[first+int(c.rank)] -= c.slo
			if j.alive && c.tier != j.cols[lead.choice[ji]].tier {
				m.ColHi[first+int(c.rank)] = 0
			}
		}
	}
	small, whole := m.Reduce()
	before, lim := *s.stats, s.lim
	lim.Gap, lim.Time, lim.Relax = 5*lim.Gap, lim.Time/2, s.in.large()
	sol, ok := s.ask(ctx, small, lim)
	before.Solve = s.stats.Solve
	*s.stats = before // the first stage's status stands
	switch {
	case ok && lim.Relax && sol.Status == milp.Optimal:
		s.cands = append(s.cands, s.in.pack("second", s.in.rounded(s.pr, whole(sol.X))))
	case ok && !lim.Relax:
		s.cands = append(s.cands, s.in.pack("second", s.pr.choice(whole(sol.X))))
	}
}

// rounded makes a choice from a fractional solution: columns that the LP nearly took, then jobs it wanted to run most, then what is left to
// least laxity.
func (in *instance) rounded(pr *program, x []float64) []int {
	l := newLedger(in)
	runs, sure := make([]float64, len(in.jobs)), make([]int, len(in.jobs))
	for ji := range in.jobs {
		for ci, c := range in.jobs[ji].cols {
			if pr.first[ji] < 0 {
				continue
			}
			v := pr.value(x, ji, ci)
			if c.kind != wait {
				runs[ji] += v
			}
			if v > 0.98 {
				sure[ji] = 1
			}
		}
	}
	order := slices.Clone(in.byLaxity())
	slices.SortStableFunc(order, func(a, b int) int {
		if sure[a] != sure[b] {
			return cmp.Compare(sure[b], sure[a])
		}
		return cmp.Compare(math.Round(100*runs[b]), math.Round(100*runs[a]))
	})
	in.keepForBudget(l, order)
	for _, ji := range order {
		if pr.first[ji] < 0 {
			continue
		}
		cols := make([]int, len(in.jobs[ji].cols))
		for ci := range cols {
			cols[ci] = ci
		}
		slices.SortStableFunc(cols, func(a, b int) int { return cmp.Compare(pr.value(x, ji, b), pr.value(x, ji, a)) })
		for _, ci := range cols {
			if pr.value(x, ji, ci) > 0.02 && l.try(ji, ci) {
				break
			}
		}
	}
	for _, ji := range in.order(func(j *job) [2]float64 { return [2]float64{j.laxity(), -j.density()} }) {
		in.give(l, ji, l.choice[ji])
	}
	return l.choice
}
