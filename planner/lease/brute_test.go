package lease

import (
	"context"
	"math"
	"slices"

	"unisched/planner/milp"
)

// bruteSolver solves tiny programs by trying everything: columns in order, cut off when a row can no longer hold or the rest cannot win. For the
// relaxation it gives the integer solution, whose bound is exact.
func bruteSolver(_ context.Context, m *milp.Model, _ milp.Limits) (milp.Solution, error) {
	b := &brute{m: m, x: make([]float64, m.Cols()), best: math.Inf(-1), act: make([]float64, m.Rows()), lo: make([]float64, m.Rows()), hi: make([]float64, m.Rows()),
		rows: make([][]int32, m.Cols()), vals: make([][]float64, m.Cols()), rest: make([]float64, m.Cols()+1)}
	for i := range m.Rows() {
		for k := m.Start[i]; k < m.Start[i+1]; k++ {
			j, v := m.Index[k], m.Value[k]
			b.rows[j], b.vals[j] = append(b.rows[j], int32(i)), append(b.vals[j], v)
			b.lo[i] += min(v*m.ColLo[j], v*m.ColHi[j])
			b.hi[i] += max(v*m.ColLo[j], v*m.ColHi[j])
		}
	}
	for j := m.Cols() - 1; j >= 0; j-- {
		b.rest[j] = b.rest[j+1] + max(m.Obj[j]*m.ColLo[j], m.Obj[j]*m.ColHi[j])
	}
	b.walk(0, 0)
	if b.sol == nil {
		return milp.Solution{Status: milp.Infeasible, Bound: math.Inf(1)}, nil
	}
	return milp.Solution{Status: milp.Optimal, X: b.sol, Objective: b.best, Bound: b.best}, nil
}

type brute struct {
	m           *milp.Model
	x, sol      []float64
	best        float64
	act, lo, hi []float64 // per row: fixed part, least and most of the free part
	rows        [][]int32
	vals        [][]float64
	rest        []float64
}

func (b *brute) walk(j int, obj float64) {
	if obj+b.rest[j] <= b.best+1e-12 {
		return
	}
	if j == len(b.x) {
		b.best, b.sol = obj, slices.Clone(b.x)
		return
	}
	lo, hi := b.m.ColLo[j], b.m.ColHi[j]
	for v := hi; v >= lo; v-- {
		b.x[j] = v
		ok := true
		for k, i := range b.rows[j] {
			c := b.vals[j][k]
			b.act[i] += c * v
			b.lo[i] -= min(c*lo, c*hi)
			b.hi[i] -= max(c*lo, c*hi)
			ok = ok && b.act[i]+b.lo[i] <= b.m.RowHi[i]+1e-9 && b.act[i]+b.hi[i] >= b.m.RowLo[i]-1e-9
		}
		if ok {
			b.walk(j+1, obj+b.m.Obj[j]*v)
		}
		for k, i := range b.rows[j] {
			c := b.vals[j][k]
			b.act[i] -= c * v
			b.lo[i] += min(c*lo, c*hi)
			b.hi[i] += max(c*lo, c*hi)
		}
	}
}
