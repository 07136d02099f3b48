package estimator

import (
	"math"
	"math/rand/v2"
	"testing"

	"unisched/planner"
)

// luckOf learns from pairs of runs whose speeds differ by sigma each; every odd one is thrown out by a factor of ten.
func luckOf(sigma float64, pairs, odd int) Luck {
	rng := rand.New(rand.NewPCG(1, 2))
	var f Fabric
	run := func() Sample {
		return Sample{Shape: planner.Shape{2}, IterTime: math.Exp(sigma * rng.NormFloat64()), N: 100}
	}
	for i := range pairs {
		a, b := run(), run()
		if odd > 0 && i%odd == 0 {
			b.IterTime *= 10
		}
		f = f.Learn(Outcome{Again: []Sample{a, b}}, now)
	}
	return f.Luck
}

func TestLuckIsMeasured(t *testing.T) {
	for _, c := range []struct {
		sigma      float64
		pairs, odd int
		low, high  float64
	}{
		{0, 0, 0, 0, 0},
		{0.05, 200, 0, 0.04, 0.06},
		{0.2, 5, 0, 0.05, 0.15}, // a few pairs do not overthrow what is usual
		{0.2, 300, 0, 0.17, 0.22},
		{0.01, 300, 0, 0.01, 0.03},
		{0.05, 300, 20, 0.05, 0.06}, // one in twenty is of another kind of node
		{0.05, 300, 10, 0.05, 0.07}, // one in ten is a lie
	} {
		if got := luckOf(c.sigma, c.pairs, c.odd).Spread(); got < c.low || got > c.high {
			t.Errorf("%d pairs at %v, one in %d odd: %v, not within %v..%v", c.pairs, c.sigma, c.odd, got, c.low, c.high)
		}
	}
}

// What cannot be compared teaches nothing, and what a journal says is never believed beyond reason.
func TestLuckOfWhatCannotBeCompared(t *testing.T) {
	good := Sample{Shape: planner.Shape{2}, IterTime: 1, N: 100}
	for name, change := range map[string]func(*Sample){
		"shape":    func(s *Sample) { s.Shape = planner.Shape{1, 1} },
		"batch":    func(s *Sample) { s.Batch = 64 },
		"few":      func(s *Sample) { s.N = 3 },
		"zero":     func(s *Sample) { s.IterTime = 0 },
		"negative": func(s *Sample) { s.IterTime = -1 },
		"NaN":      func(s *Sample) { s.IterTime = math.NaN() },
	} {
		other := good
		change(&other)
		if l := (Fabric{}).Learn(Outcome{Again: []Sample{good, other}}, now).Luck; l != (Luck{}) {
			t.Errorf("%s: learnt %+v", name, l)
		}
	}
	for _, l := range []Luck{{Pairs: -20}, {Pairs: math.NaN()}, {Pairs: 1, Squares: math.Inf(1)}, {Pairs: 1, Squares: -1}, {Pairs: 1, Squares: math.NaN()}, {Pairs: 1e300}, {Pairs: 1, Squares: 1e300}} {
		if s := l.Spread(); !(s >= 0.01 && s <= mostLuck) {
			t.Errorf("%+v: %v", l, s)
		}
	}
}
