package highs

import (
	"errors"
	"fmt"
	"math"

	"unisched/planner/milp"
)

// judge turns what a child said and left behind into a solution that was checked, or into a typed error. The answer
// comes first, whatever became of the process afterwards, then the saved incumbents, newest first. It also tells whether the child may be asked
// again: one whose word was good and whose search ended as it should.
func judge(m *milp.Model, lim milp.Limits, fate fate, leftovers func() remains) (sol milp.Solution, again bool, err error) {
	ans, cause := decodeAnswer(fate.output, m.Cols())
	if cause == nil && ans.Asked != fate.asked {
		ans, cause = answer{}, fmt.Errorf("%w: the answer to another request", errFrame)
	}
	if cause == nil && ans.X != nil {
		x, err := clean(m, ans.X)
		if err == nil {
			sol := settle(m, lim, milp.Solution{Status: ans.Status, X: x, Bound: ans.Bound, Note: ans.Note})
			return sol, sol.Status == milp.Optimal && !ans.Leaves, nil
		}
		cause = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	sol, err = salvage(m, lim, fate, ans, cause, leftovers())
	return sol, false, err
}

// salvage judges without an answer's vector: cause says why that is no use, nil that there is none.
func salvage(m *milp.Model, lim milp.Limits, fate fate, ans answer, cause error, left remains) (milp.Solution, error) {
	status := milp.Failed
	switch {
	case errors.Is(cause, ErrInvalid):
	case cause == nil && ans.Status == milp.Infeasible:
		cause = ErrInfeasible
	case cause == nil && left.status == milp.TimeLimit, cause == nil && left.status == milp.NodeLimit:
		status, cause = left.status, fmt.Errorf("%w: %s", ErrNoSolution, left.status)
	case cause == nil:
		cause = fmt.Errorf("%w: %s", ErrNoSolution, ans.Note)
	case fate.killed:
		status, cause = milp.TimeLimit, fmt.Errorf("%w: %s", ErrKilled, fate.how)
	default:
		cause = fmt.Errorf("%w: %s: %w", ErrCrashed, fate.how, cause)
	}
	note := cause.Error()
	if errors.Is(cause, ErrNoSolution) && status != milp.Failed {
		note = status.String() // there was a solution after all, in the file
	}
	for _, inc := range left.incumbents {
		if x, err := clean(m, inc); err == nil {
			return settle(m, lim, milp.Solution{
				Status: status, X: x, Bound: left.bound, Incumbent: true, Note: note,
			}), nil
		}
	}
	if ans.Status == milp.Infeasible {
		status = milp.Infeasible
	}
	return milp.Solution{Status: status, Bound: left.bound, Note: cause.Error()}, cause
}

// settle computes the objective and puts claims about optimality to the test: a bound below our own objective is
// worth nothing, and the gap must be what was asked for.
func settle(m *milp.Model, lim milp.Limits, s milp.Solution) milp.Solution {
	s.Objective = m.Objective(s.X)
	size := math.Abs(s.Objective)
	slack := tolerance * max(1, size)
	if math.IsNaN(s.Bound) || s.Bound < s.Objective-slack {
		s.Status = milp.Failed
		s.Note = fmt.Sprintf("the solver's bound %g lies below the objective %g", s.Bound, s.Objective)
		s.Bound = math.Inf(1)
		return s
	}
	s.Bound = max(s.Bound, s.Objective)
	if s.Status == milp.Optimal && s.Bound-s.Objective > lim.Gap*size+2*slack {
		s.Status = milp.Failed
		s.Note = fmt.Sprintf("claimed optimal at objective %g with bound %g", s.Objective, s.Bound)
	}
	return s
}

// clean returns a copy of x with integer columns rounded and continuous ones moved into their bounds, each by no more
// than the tolerance, when that copy passes the model's own check; else it says what fails.
func clean(m *milp.Model, x []float64) ([]float64, error) {
	y := append([]float64(nil), x...)
	for j := range y[:min(len(y), m.Cols())] {
		switch r := math.Round(y[j]); {
		case m.Int[j] && math.Abs(y[j]-r) <= tolerance:
			y[j] = r
		case m.Int[j]:
		case y[j] < m.ColLo[j] && y[j] >= m.ColLo[j]-tolerance:
			y[j] = m.ColLo[j]
		case y[j] > m.ColHi[j] && y[j] <= m.ColHi[j]+tolerance:
			y[j] = m.ColHi[j]
		}
		if y[j] == 0 {
			y[j] = 0 // no negative zero
		}
	}
	if err := m.Feasible(y, tolerance); err != nil {
		return nil, err
	}
	return y, nil
}
