package estimator

import (
	"fmt"
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
	ms := MilestoneIters(curve, j.Stop.Milestones, j.Stop.EpochIters)
	c, ok := Cross(curve, Target{Up: j.Stop.Up, Value: j.Stop.Target, Max: limit, Milestones: ms})
	if at, n := pastEnds(j, limit); n > 0 && len(curve) < 2*minPoints {
		return iterations{after(at, done, room), 0.95, true, fmt.Sprintf("iterations from %d earlier jobs", n)}
	}
	if !ok { // users ask for a maximum that suffices, and often for more: 70 to 100 % of it is usual
		at := planner.Interval{Low: max(0.5*limit, done+0.1*room), Mid: max(0.8*limit, done+0.5*room), High: limit}
		return iterations{after(at, done, room), 0.8, true, "iterations from the maximum"}
	}
	at := c.Interval()
	if c.Reaches < 0.9 { // Low and Mid are for a job that gets there; one that does not runs to its maximum
		at.High = limit
	}
	return iterations{after(at, done, room), c.Reaches, true, fmt.Sprintf("iterations from %d reports", len(curve))}
}

// pastEnds is where earlier jobs of the same kind ended, when that was within the maximum.
func pastEnds(j Job, limit float64) (planner.Interval, int) {
	var v []float64
	for _, e := range j.PastEnds {
		if x := float64(e); x > 0 && x <= limit {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return planner.Interval{}, 0
	}
	slices.Sort(v)
	mid := v[len(v)/2]
	return planner.Interval{Low: min(v[0], 0.85*mid), Mid: mid, High: min(max(v[len(v)-1], 1.15*mid), limit)}, len(v)
}

// after is what is left of a crossing when done iterations are behind and room ahead.
func after(at planner.Interval, done, room float64) planner.Interval {
	left := func(x float64) float64 { return min(max(x-done, 0), room) }
	return planner.Interval{Low: left(at.Low), Mid: left(at.Mid), High: left(at.High)}
}

func reached(v float64, s Stop) bool {
	if s.Up {
		return v >= s.Target
	}
	return v <= s.Target
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
