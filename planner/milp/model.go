// Package milp holds mixed-integer linear programs as values: the model, its own check of a solution, and the shape
// of a solver. It refuses to solve anything and touches no file, clock or process; the solver itself lives in
// milp/highs, behind the func type Solver. The planner builds models here and believes no solver: every solution is
// re-checked with Model.Feasible, whoever produced it.
package milp

import (
	"errors"
	"fmt"
	"math"
)

// ErrModel is wrapped by every error of Model.Validate: the model itself is malformed, so no solver should see it.
var ErrModel = errors.New("malformed model")

// ErrViolated is wrapped by every error of Model.Feasible.
var ErrViolated = errors.New("constraint violated")

// maxCoefficient bounds finite numbers of a model: beyond it solvers take a number for infinite or refuse it.
const maxCoefficient = 1e15

// Model is a mixed-integer linear program: maximise Obj.x subject to RowLo <= A x <= RowHi and ColLo <= x <= ColHi,
// with x[j] integer where Int[j]. Bounds may be infinite. The zero value is an empty model, ready for AddCol and
// AddRow. A model is not safe for concurrent changes; solvers only read it.
type Model struct {
	// Obj, ColLo, ColHi and Int have one entry per column.
	Obj, ColLo, ColHi []float64
	Int               []bool
	// RowLo and RowHi have one entry per row.
	RowLo, RowHi []float64
	// Row i holds the entries Index[k], Value[k] for k in Start[i]..Start[i+1]; Start has one entry more than there
	// are rows, or none when there are no rows.
	Start, Index []int32
	Value        []float64

	// bad remembers the first empty row that cannot hold; such a row has no entries to store.
	bad error
}

// Cols returns the number of columns.
func (m *Model) Cols() int { return len(m.Obj) }

// Rows returns the number of rows.
func (m *Model) Rows() int { return len(m.RowLo) }

// AddCol appends a column with objective coefficient obj and bounds lo <= x <= hi, and returns its index.
func (m *Model) AddCol(obj, lo, hi float64, integer bool) int {
	m.Obj = append(m.Obj, obj)
	m.ColLo = append(m.ColLo, lo)
	m.ColHi = append(m.ColHi, hi)
	m.Int = append(m.Int, integer)
	return len(m.Obj) - 1
}

// AddRow appends the row lo <= sum of val[k] x[idx[k]] <= hi and returns its index. It copies idx and val and leaves
// zero coefficients out. A row without entries which holds trivially is dropped and -1 returned; one that cannot hold
// is dropped as well, and Validate reports it. A column may occur once per row.
func (m *Model) AddRow(lo, hi float64, idx []int32, val []float64) int {
	if len(idx) != len(val) {
		m.fail(fmt.Errorf("%w: row with %d indices and %d values", ErrModel, len(idx), len(val)))
		return -1
	}
	before := len(m.Index)
	for k, v := range val {
		if v != 0 {
			m.Index = append(m.Index, idx[k])
			m.Value = append(m.Value, v)
		}
	}
	if len(m.Index) == before {
		if !(lo <= 0 && hi >= 0) {
			m.fail(fmt.Errorf("%w: row without entries needs %g <= 0 <= %g", ErrModel, lo, hi))
		}
		return -1
	}
	if len(m.Start) == 0 {
		m.Start = append(m.Start, int32(before))
	}
	m.Start = append(m.Start, int32(len(m.Index)))
	m.RowLo = append(m.RowLo, lo)
	m.RowHi = append(m.RowHi, hi)
	return len(m.RowLo) - 1
}

func (m *Model) fail(err error) {
	if m.bad == nil {
		m.bad = err
	}
}

// Validate checks shapes, index ranges, order of bounds and that every number is one a solver accepts. Its errors wrap
// ErrModel.
func (m *Model) Validate() error {
	if m.bad != nil {
		return m.bad
	}
	n, rows := len(m.Obj), len(m.RowLo)
	if len(m.ColLo) != n || len(m.ColHi) != n || len(m.Int) != n {
		return fmt.Errorf("%w: columns: %d costs, %d lower and %d upper bounds, %d integer marks",
			ErrModel, n, len(m.ColLo), len(m.ColHi), len(m.Int))
	}
	if len(m.RowHi) != rows || len(m.Index) != len(m.Value) || (rows > 0 && len(m.Start) != rows+1) ||
		(rows == 0 && len(m.Index) > 0) {
		return fmt.Errorf("%w: rows: %d lower and %d upper bounds, %d starts, %d indices, %d values",
			ErrModel, rows, len(m.RowHi), len(m.Start), len(m.Index), len(m.Value))
	}
	for j := range m.Obj {
		if !finite(m.Obj[j]) {
			return fmt.Errorf("%w: column %d: cost %g", ErrModel, j, m.Obj[j])
		}
		if err := bounds(m.ColLo[j], m.ColHi[j]); err != nil {
			return fmt.Errorf("%w: column %d: %w", ErrModel, j, err)
		}
	}
	for i := range m.RowLo {
		if err := bounds(m.RowLo[i], m.RowHi[i]); err != nil {
			return fmt.Errorf("%w: row %d: %w", ErrModel, i, err)
		}
	}
	return m.validateEntries()
}

// validateEntries checks the compressed rows; the shapes are known to agree.
func (m *Model) validateEntries() error {
	if len(m.RowLo) == 0 {
		return nil
	}
	if m.Start[0] != 0 || int(m.Start[len(m.Start)-1]) != len(m.Index) {
		return fmt.Errorf("%w: starts run from %d to %d over %d entries",
			ErrModel, m.Start[0], m.Start[len(m.Start)-1], len(m.Index))
	}
	seen := make([]int32, len(m.Obj)) // the last row, counted from 1, in which a column occurred
	for i := range m.RowLo {
		from, to := m.Start[i], m.Start[i+1]
		if from >= to || int(to) > len(m.Index) {
			return fmt.Errorf("%w: row %d: entries %d..%d", ErrModel, i, from, to)
		}
		for k := from; k < to; k++ {
			j := m.Index[k]
			if j < 0 || int(j) >= len(m.Obj) {
				return fmt.Errorf("%w: row %d: column %d of %d", ErrModel, i, j, len(m.Obj))
			}
			if !finite(m.Value[k]) {
				return fmt.Errorf("%w: row %d: column %d: coefficient %g", ErrModel, i, j, m.Value[k])
			}
			if seen[j] == int32(i)+1 {
				return fmt.Errorf("%w: row %d: column %d occurs twice", ErrModel, i, j)
			}
			seen[j] = int32(i) + 1
		}
	}
	return nil
}

// finite says whether v is a number that solvers take as it is.
func finite(v float64) bool { return math.Abs(v) < maxCoefficient }

// bounds reports bounds that are no interval.
func bounds(lo, hi float64) error {
	if !(lo <= hi) || math.IsInf(lo, 1) || math.IsInf(hi, -1) {
		return fmt.Errorf("bounds %g..%g", lo, hi)
	}
	return nil
}

// Objective returns Obj.x. It panics when x is shorter than the model has columns.
func (m *Model) Objective(x []float64) float64 {
	sum := 0.0
	for j, c := range m.Obj {
		sum += c * x[j]
	}
	return sum
}

// Feasible checks x against every bound, integrality mark and row, each within tol, and names the first violation in
// column, then row order. tol is absolute; rows get in addition what floating-point summation of their own terms may
// lose. Its errors wrap ErrViolated. The model must be valid.
func (m *Model) Feasible(x []float64, tol float64) error {
	if len(x) != len(m.Obj) {
		return fmt.Errorf("%w: %d values for %d columns", ErrViolated, len(x), len(m.Obj))
	}
	for j, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: column %d: value %g", ErrViolated, j, v)
		}
		if v < m.ColLo[j]-tol || v > m.ColHi[j]+tol {
			return fmt.Errorf("%w: column %d: %g outside %g..%g", ErrViolated, j, v, m.ColLo[j], m.ColHi[j])
		}
		if m.Int[j] && math.Abs(v-math.Round(v)) > tol {
			return fmt.Errorf("%w: column %d: %g is not an integer", ErrViolated, j, v)
		}
	}
	for i := range m.RowLo {
		sum, size := 0.0, 0.0
		for k := m.Start[i]; k < m.Start[i+1]; k++ {
			term := m.Value[k] * x[m.Index[k]]
			sum += term
			size += math.Abs(term)
		}
		slack := tol + 1e-12*size
		if sum < m.RowLo[i]-slack || sum > m.RowHi[i]+slack {
			return fmt.Errorf("%w: row %d: %g outside %g..%g", ErrViolated, i, sum, m.RowLo[i], m.RowHi[i])
		}
	}
	return nil
}
