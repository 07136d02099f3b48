package milp

import (
	"context"
	"time"
)

// Limits bound one call of a Solver. The zero value of a field means the solver's own default.
type Limits struct {
	Time     time.Duration // wall clock for the search itself
	Nodes    int           // branch-and-bound nodes
	Gap      float64       // relative gap between objective and bound at which the search ends
	MemoryMB int           // memory the search may use beyond an idle solver
	Relax    bool          // solve the LP relaxation: integrality marks are ignored
}

// Status says how a solve ended.
type Status uint8

const (
	// Failed: the solver broke, or contradicted itself. A solution may still be there, checked like any other, but
	// the bound is worth nothing unless it is finite. It is the zero value, so that a forgotten status claims nothing.
	Failed Status = iota
	// Optimal: the gap asked for was reached.
	Optimal
	// TimeLimit: the time limit, the hard deadline or the caller's context ended the search.
	TimeLimit
	// NodeLimit: the node limit ended the search.
	NodeLimit
	// Infeasible: no solution exists, says the solver.
	Infeasible
)

// String returns the status as one lower-case word or two, for reasons and logs.
func (s Status) String() string {
	switch s {
	case Optimal:
		return "optimal"
	case TimeLimit:
		return "time limit"
	case NodeLimit:
		return "node limit"
	case Infeasible:
		return "infeasible"
	default:
		return "failed"
	}
}

// Solution is what a solver found.
type Solution struct {
	Status    Status
	X         []float64     // one value per column, exactly integer on integer columns; nil when there is none
	Objective float64       // Model.Objective(X), recomputed
	Bound     float64       // no solution is better than this; +Inf when unknown
	Wall      time.Duration // wall clock of the whole call
	Incumbent bool          // X came from the file of saved incumbents, not from the solver's answer
	Note      string        // why the status is not Optimal, for people
}

// Gap returns the relative distance between bound and objective: 0 when they meet, +Inf when the bound is unknown.
func (s Solution) Gap() float64 {
	gap := s.Bound - s.Objective
	if gap <= 0 {
		return 0
	}
	size := s.Objective
	if size < 0 {
		size = -size
	}
	return gap / max(size, 1e-9)
}

// Solver solves a model. It returns an error only when no valid solution at all can be had; a non-nil Solution.X has
// passed Model.Feasible within 1e-6 and holds exact integers on integer columns (with Limits.Relax: on none).
type Solver func(ctx context.Context, m *Model, lim Limits) (Solution, error)
