package milp

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// enumerate finds the best point of a small all-binary model by trying all; -Inf when there is none.
func enumerate(m *Model) (best float64, at []float64) {
	best = math.Inf(-1)
	x := make([]float64, m.Cols())
	for code := range 1 << m.Cols() {
		inside := true
		for j := range x {
			x[j] = float64(code >> j & 1)
			inside = inside && x[j] >= m.ColLo[j] && x[j] <= m.ColHi[j]
		}
		if obj := m.Objective(x); inside && obj > best && m.Feasible(x, 1e-9) == nil {
			best, at = obj, append([]float64{}, x...)
		}
	}
	return best, at
}

// TestReduce: the smaller model's optimum, made whole again, is the larger one's, and one is feasible exactly when the other is.
func TestReduce(t *testing.T) {
	shrunk, infeasible := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &Model{}
		n := rapid.IntRange(1, 8).Draw(t, "columns")
		for range n {
			lo, hi := 0.0, 1.0
			switch rapid.IntRange(0, 5).Draw(t, "fixed") {
			case 0:
				hi = 0
			case 1:
				lo = 1
			}
			m.AddCol(float64(rapid.IntRange(-5, 5).Draw(t, "reward")), lo, hi, true)
		}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			var idx []int32
			var val []float64
			for j := range n {
				if v := rapid.IntRange(-1, 2).Draw(t, "coefficient"); v != 0 {
					idx, val = append(idx, int32(j)), append(val, float64(v))
				}
			}
			if len(idx) == 0 {
				continue
			}
			hi := float64(rapid.IntRange(-1, 4).Draw(t, "bound"))
			lo := math.Inf(-1)
			if rapid.Bool().Draw(t, "equal") {
				lo = hi
			}
			m.AddRow(lo, hi, idx, val)
		}
		want, _ := enumerate(m)
		small, whole := m.Reduce()
		_, at := enumerate(small)
		if small.Validate() != nil || at == nil {
			infeasible++
			if !math.IsInf(want, -1) {
				t.Fatalf("feasible with %g, the smaller one is not", want)
			}
			return
		}
		if small.Cols() < n {
			shrunk++
		}
		x := whole(at)
		if err := m.Feasible(x, 1e-9); err != nil || math.Abs(m.Objective(x)-want) > 1e-9 {
			t.Fatalf("objective %g, want %g, %v", m.Objective(x), want, err)
		}
	})
	if shrunk == 0 || infeasible == 0 {
		t.Errorf("%d shrunk, %d infeasible", shrunk, infeasible)
	}
}
