package estimator

import (
	"testing"

	"pgregory.net/rapid"
)

// Solving for a unit vector from its one on is, to the last bit, solving for it from the top.
func TestInverseFromUnitVectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, maxDim).Draw(t, "dim")
		var root, m mat
		for a := range d {
			for b := range a {
				root[a][b] = rapid.Float64Range(-3, 3).Draw(t, "below")
			}
			root[a][a] = rapid.Float64Range(0.1, 3).Draw(t, "diagonal")
		}
		for a := range d {
			for b := range d {
				for k := range d {
					m[a][b] += root[a][k] * root[b][k]
				}
			}
		}
		if !cholesky(&m, d) {
			return // rounding
		}
		inv := inverseFrom(&m, d)
		for k := range d {
			var e vec
			e[k] = 1
			col := solveChol(&m, &e, d)
			for a := range d {
				if inv[a][k] != col[a] {
					t.Fatalf("column %d, row %d: %v instead of %v", k, a, inv[a][k], col[a])
				}
			}
		}
	})
}
