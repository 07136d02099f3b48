package estimator

import (
	"math"
	"testing"
)

// Users write epochs, and may write any: the grid of the reports to come stays small. A first epoch of 1e-300 puts the maximum at infinity; epochs that differ in their last bits make
// steps that get nowhere.
func TestHostileEpochs(t *testing.T) {
	for _, first := range []float64{5e-324, 1e-300, 1e-200, 1, 1.9} {
		for _, most := range []float64{20, 1e6, 1e12} {
			var c []Point
			e := first
			for i := int64(1); i <= 12; i++ {
				c = append(c, Point{Iter: i, Epoch: e, Value: 0.1 + 0.01*float64(i)})
				if e = math.Nextafter(e, 2); first < 1 {
					e = float64(i) / 12
				}
			}
			to := Target{Up: true, Value: 0.9, Max: most}
			if f, ok := newCurveFit(c, to); ok && len(f.ahead.x) > 2*maxGrid {
				t.Errorf("epochs from %v, at most %v iterations: %d reports to come", first, most, len(f.ahead.x))
			}
			Cross(c, to)
		}
	}
}
