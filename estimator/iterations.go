package estimator

import (
	"math"
	"slices"

	"unisched/planner"
)

// iterations is what is believed about the iterations left.
type iterations struct {
	iters   planner.Interval
	reaches float64
	known   bool
	basis   string
}

// iterationsLeft answers from the declared count, or from the curve of the metric.
func (f Fabric) iterationsLeft(j Job) iterations {
	done := float64(Progress(j))
	switch j.Stop.Kind {
	case Iterations:
		n := min(float64(j.Stop.Iterations), maxIters)
		if n > 0 {
			return iterations{planner.Exactly(max(n-done, 0)), 1, true, "iterations declared"}
		}
	case Metric:
		return metricLeft(j, done)
	}
	return iterations{planner.Exactly(0), 1, false, "no stop criterion declared"}
}

// Progress is the number of iterations done: the largest ever reported, so that steps repeated after a resume count once.
func Progress(j Job) int64 {
	done := max(j.Done, 0)
	for _, p := range j.Curve {
		if float64(p.Iter) <= maxIters {
			done = max(done, p.Iter)
		}
	}
	return done
}

// CleanCurve returns the curve as fits want it: finite values only, sorted by iteration, one point per iteration (the last report wins, as after a resume the step
// was done again), at most maxCurve points, thinned evenly when there are more.
func CleanCurve(in []Point) []Point {
	out := make([]Point, 0, len(in))
	for _, p := range in {
		if p.Iter >= 0 && float64(p.Iter) <= maxIters && !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			if !(p.Epoch >= 0 && p.Epoch < maxIters) {
				p.Epoch = 0
			}
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Point) int {
		switch {
		case a.Iter < b.Iter:
			return -1
		case a.Iter > b.Iter:
			return 1
		}
		return 0
	})
	n := 0
	for i, p := range out {
		if i+1 < len(out) && out[i+1].Iter == p.Iter {
			continue
		}
		out[n] = p
		n++
	}
	out = out[:n]
	if n > maxCurve {
		thin := make([]Point, 0, maxCurve)
		for i := range maxCurve {
			thin = append(thin, out[i*(n-1)/(maxCurve-1)])
		}
		out = thin
	}
	return out
}

// metricLeft extrapolates the metric to its target.
func metricLeft(j Job, done float64) iterations {
	limit := min(float64(j.Stop.Max), maxIters)
	if !(limit > 0) {
		return iterations{planner.Exactly(0), 0.5, false, "metric target without a maximum"}
	}
	room := max(limit-done, 0)
	curve := CleanCurve(j.Curve)
	for _, p := range curve {
		if reached(p.Value, j.Stop) {
			return iterations{planner.Exactly(0), 1, true, "metric target reached"}
		}
	}
	if len(curve) < 3 {
		return iterations{planner.Interval{Low: 0.1 * room, Mid: 0.8 * room, High: room}, 0.7, true, "iterations from the maximum"}
	}
	at, ok := powerLaw(curve, j.Stop)
	if !ok {
		return iterations{planner.Interval{Low: 0.1 * room, Mid: 0.9 * room, High: room}, 0.3, true, "curve without trend"}
	}
	left := max(at-done, 0)
	reaches := 1 / (1 + math.Pow(left/max(room, 1), 2))
	mid := min(left, room)
	return iterations{planner.Interval{Low: min(0.5*left, mid), Mid: mid, High: max(min(2*left, room), mid)}, reaches, true, "iterations from the curve"}
}

func reached(v float64, s Stop) bool {
	if s.Up {
		return v >= s.Target
	}
	return v <= s.Target
}

// powerLaw fits |target side - value| against iterations on logarithmic axes and returns the iteration of the target. It is the fallback of few points.
func powerLaw(c []Point, s Stop) (float64, bool) {
	lo, hi := c[0].Value, c[0].Value
	for _, p := range c {
		lo, hi = min(lo, p.Value), max(hi, p.Value)
	}
	// The asymptote lies beyond both target and best value by a quarter of the way seen so far.
	sign, best := -1.0, hi
	if !s.Up {
		sign, best = 1, lo
	}
	gap := 0.25*(hi-lo) + 1e-12
	asym := best - sign*gap
	if s.Up {
		asym = max(asym, s.Target+gap*0.2)
	} else {
		asym = min(asym, s.Target-gap*0.2)
	}
	var n, sx, sy, sxx, sxy float64
	for _, p := range c {
		d := sign * (p.Value - asym)
		if p.Iter <= 0 || !(d > 0) {
			continue
		}
		x, y := math.Log(float64(p.Iter)), math.Log(d)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	den := n*sxx - sx*sx
	if n < 3 || !(den > 1e-12) {
		return 0, false
	}
	b := (n*sxy - sx*sy) / den
	a := (sy - b*sx) / n
	d := sign * (s.Target - asym)
	if !(b < -1e-6) || !(d > 0) {
		return 0, false
	}
	x := math.Exp((math.Log(d) - a) / b)
	if math.IsNaN(x) || x > maxIters {
		return maxIters, true
	}
	return x, true
}

// MilestoneIters converts milestones from epochs to iterations, by the declared iterations per epoch, else by the epochs that the curve reports, at the pace of its last ones.
// Without either it is empty.
func MilestoneIters(c []Point, epochs []int, perEpoch int64) []float64 {
	if len(epochs) == 0 || len(epochs) > 64 {
		return nil
	}
	var withEpoch []Point
	for _, p := range c {
		if p.Epoch > 0 {
			withEpoch = append(withEpoch, p)
		}
	}
	out := make([]float64, 0, len(epochs))
	for _, e := range epochs {
		if e <= 0 {
			continue
		}
		if perEpoch > 0 {
			out = append(out, float64(e)*float64(perEpoch))
		} else if x, ok := atEpoch(withEpoch, float64(e)); ok {
			out = append(out, x)
		}
	}
	return out
}

// atEpoch is the iteration of an epoch: interpolated, or extrapolated at the pace of the last reports.
func atEpoch(c []Point, epoch float64) (float64, bool) {
	n := len(c)
	if n < 2 {
		return 0, false
	}
	for i := 1; i < n; i++ {
		if c[i].Epoch >= epoch && c[i].Epoch > c[i-1].Epoch {
			w := (epoch - c[i-1].Epoch) / (c[i].Epoch - c[i-1].Epoch)
			return float64(c[i-1].Iter) + w*float64(c[i].Iter-c[i-1].Iter), true
		}
	}
	k := max(0, n-11)
	de := c[n-1].Epoch - c[k].Epoch
	if !(de > 0) {
		return 0, false
	}
	return float64(c[n-1].Iter) + (epoch-c[n-1].Epoch)*float64(c[n-1].Iter-c[k].Iter)/de, true
}
