package estimator

import (
	"math"
	"math/rand/v2"
	"slices"

	"unisched/planner"
)

// Duration is the distribution of the time that a job still needs on one shape, in seconds: run time, further resumes and checkpoints. The three sources of error
// are independent, so their worst cases do not add up.
type Duration struct {
	sorted []float64
}

const durationDraws = 400

// DurationOf combines an estimate into a distribution. It returns false when the estimate does not list the shape. The draws are fixed, so that equal estimates give equal answers.
func DurationOf(e planner.Estimate, s planner.Shape) (Duration, bool) {
	speed, ok := e.SpeedOf(s)
	if !ok || !(speed.Low > 0) {
		return Duration{}, false
	}
	rng := rand.New(rand.NewPCG(11, 7))
	d := Duration{make([]float64, durationDraws)}
	for i := range d.sorted {
		t := drawFrom(e.Iterations, rng) / max(drawFrom(speed, rng), speed.Low/10)
		for range poisson(e.Suspensions, rng) {
			t += drawFrom(e.Resume, rng) + drawFrom(e.Checkpoint, rng)
		}
		d.sorted[i] = min(t, maxSeconds)
	}
	slices.Sort(d.sorted)
	return d, true
}

// Quantile of the duration, in seconds.
func (d Duration) Quantile(q float64) float64 {
	n := len(d.sorted)
	if n == 0 {
		return 0
	}
	x := min(max(q, 0), 1) * float64(n-1)
	i := min(int(x), n-2)
	return d.sorted[i] + (x-float64(i))*(d.sorted[i+1]-d.sorted[i])
}

// Interval is the 80 % interval of the duration, in seconds.
func (d Duration) Interval() planner.Interval {
	return planner.Interval{Low: d.Quantile(0.1), Mid: d.Quantile(0.5), High: d.Quantile(0.9)}
}

// Within is the probability that it takes at most so many seconds.
func (d Duration) Within(seconds float64) float64 {
	if len(d.sorted) == 0 {
		return 0
	}
	n, _ := slices.BinarySearch(d.sorted, math.Nextafter(seconds, math.Inf(1)))
	return float64(n) / float64(len(d.sorted))
}

// drawFrom draws from a two-piece Normal with the given 80 % interval, cut at 0 and at three widths.
func drawFrom(i planner.Interval, rng *rand.Rand) float64 {
	z := min(max(rng.NormFloat64()/z80, -2.5), 2.5)
	if z < 0 {
		return max(i.Mid+z*(i.Mid-i.Low), 0)
	}
	return i.Mid + z*(i.High-i.Mid)
}

// poisson draws a count; large means are taken as they are.
func poisson(mean float64, rng *rand.Rand) int {
	if !(mean > 0) {
		return 0
	}
	if mean > 30 {
		return int(min(math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()), 1000))
	}
	n, p, stop := 0, rng.Float64(), math.Exp(-mean)
	for p > stop {
		n++
		p *= rng.Float64()
	}
	return n
}
