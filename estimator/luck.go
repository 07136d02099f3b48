package estimator

import "math"

// Luck is how much the speed of runs differs from the speed of the same job's runs before, on as many GPUs: what no estimate can know in advance. Storage, neighbours and nodes
// make it; on one cluster it is a few per cent, on another a fifth.
type Luck struct {
	// Pairs of runs compared, and the sum of half their squared logarithmic ratios, both fading.
	Pairs   float64 `json:"pairs,omitempty"`
	Squares float64 `json:"squares,omitempty"`
}

const (
	usualLuck = 0.05 // expected where nothing was measured, and counting like luckPairs comparisons
	luckPairs = 20
	luckFades = 400 // from so many pairs on, old ones count half
	// Ratios count up to oddRatio standard deviations: a node of another model, a changed script, or somebody who reports what he likes. One who makes a tenth of all pairs and lies
	// in each raises the spread by a third. Of normal ratios clipped so, oddKept of the variance is left.
	oddRatio = 2
	oddKept  = 0.9205
	mostLuck = 0.3
)

// LeastCompared is how many iterations of a run must have been measured that is held against another.
const LeastCompared = 10

// compare learns from two runs of one job on the same shape with the same batch size.
func (l Luck) compare(before, after Sample) Luck {
	if min(before.N, after.N) < LeastCompared || before.Batch != after.Batch || !before.Shape.Equal(after.Shape) {
		return l
	}
	d := math.Abs(math.Log(after.IterTime / before.IterTime))
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return l
	}
	d = min(d/math.Sqrt2, oddRatio*l.spread())
	l.Pairs, l.Squares = l.Pairs+1, l.Squares+d*d/oddKept
	if l.Pairs > luckFades {
		l.Pairs, l.Squares = l.Pairs/2, l.Squares/2
	}
	return l
}

func (l Luck) spread() float64 {
	s := math.Sqrt((luckPairs*usualLuck*usualLuck + l.Squares) / (luckPairs + l.Pairs))
	if !(s > 0.01) { // a journal may say anything
		return 0.01
	}
	return min(s, mostLuck)
}

// Spread is the standard deviation of the logarithm of a run's speed about that of its job, in whole per cents, rounded down: no plan is made otherwise for less.
// 0 when nothing was measured.
func (l Luck) Spread() float64 {
	if l.Pairs == 0 {
		return 0
	}
	return math.Floor(100*l.spread()+1e-9) / 100
}
