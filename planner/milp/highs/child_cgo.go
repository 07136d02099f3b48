//go:build cgo

package highs

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	lp "github.com/lanl/highs"

	"unisched/planner/milp"
)

const available = true

// solve runs HiGHS in this process. Where HiGHS stops at a limit the binding returns no solution; the parent then
// takes it from the files.
func solve(q request) answer {
	raw := lp.NewRawModel()
	defer runtime.KeepAlive(raw) // its finalizer frees what solutions still query
	if err := errors.Join(load(raw, q), setOptions(raw, q)); err != nil {
		return answer{Bound: math.NaN(), Note: err.Error()}
	}
	sol, err := raw.Solve()
	if err != nil {
		return answer{Bound: math.NaN(), Note: err.Error()}
	}
	switch sol.Status {
	case lp.Optimal:
	case lp.Infeasible:
		return answer{Status: milp.Infeasible, Bound: math.NaN()}
	default:
		return answer{Bound: math.NaN(), Note: "HiGHS says " + sol.Status.String()}
	}
	// 2 is "feasible": an infeasible point has come back under an optimal status.
	if p, err := sol.GetIntInfo("primal_solution_status"); err != nil || p != 2 {
		return answer{Bound: math.NaN(), Note: fmt.Sprintf("HiGHS says optimal with primal status %d", p)}
	}
	bound := sol.Objective
	if hasIntegers(q) {
		if bound, err = sol.GetFloat64Info("mip_dual_bound"); err != nil {
			bound = math.NaN()
		}
	}
	return answer{Status: milp.Optimal, X: sol.ColumnPrimal, Bound: bound}
}

func hasIntegers(q request) bool {
	if q.Relax {
		return false
	}
	for _, integer := range q.Model.Int {
		if integer {
			return true
		}
	}
	return false
}

// load passes the model on through the low-level interface: the high-level one cannot represent every valid model.
func load(raw *lp.RawModel, q request) error {
	m := q.Model
	types := make([]lp.VariableType, m.Cols())
	if !q.Relax {
		for j, integer := range m.Int {
			if integer {
				types[j] = lp.IntegerType
			}
		}
	}
	rowLo, rowHi, start, index, value := m.RowLo, m.RowHi, m.Start, m.Index, m.Value
	if m.Rows() == 0 { // the binding panics on a model without rows: a free one changes nothing
		rowLo, rowHi = []float64{math.Inf(-1)}, []float64{math.Inf(1)}
		start, index, value = []int32{0, 1}, []int32{0}, []float64{1}
	}
	err := errors.Join(
		raw.SetBoolOption("log_to_console", false),
		raw.SetMaximization(true),
		raw.AddColumnBounds(m.ColLo, m.ColHi),
		raw.SetColumnCosts(m.Obj),
	)
	if hasIntegers(q) {
		err = errors.Join(err, raw.SetIntegrality(types))
	}
	rows := raw.AddCompSparseRows(rowLo, ints(start[:len(start)-1]), ints(index), value, rowHi)
	var status lp.CallStatus
	if errors.As(rows, &status) && status.IsWarning() {
		rows = nil // tiny coefficients were left out; our own check uses them
	}
	return errors.Join(err, rows)
}

// setOptions sets everything but the solver: choosing one drops integrality silently. The number of threads must
// not change between the solves of a process; here there is one.
func setOptions(raw *lp.RawModel, q request) error {
	err := errors.Join(
		raw.SetStringOption("presolve", "off"), // time limits hardly bind in it, and these models need none
		raw.SetIntOption("threads", 1),
		raw.SetFloat64Option("time_limit", q.Time.Seconds()),
		raw.SetFloat64Option("mip_rel_gap", q.Gap),
		raw.SetStringOption("log_file", logFile),
	)
	if q.Nodes > 0 {
		err = errors.Join(err, raw.SetIntOption("mip_max_nodes", min(q.Nodes, math.MaxInt32)))
	}
	if hasIntegers(q) {
		err = errors.Join(err,
			raw.SetBoolOption("mip_improving_solution_save", true),
			raw.SetBoolOption("mip_improving_solution_report_sparse", true),
			raw.SetStringOption("mip_improving_solution_file", incumbentFile),
		)
	}
	return err
}

func ints(from []int32) []int {
	to := make([]int, len(from))
	for i, v := range from {
		to[i] = int(v)
	}
	return to
}
