package estimator

import (
	"math"
	"math/rand/v2"
	"testing"
)

// points samples a curve at every 100th iteration, with noise.
func points(n int, noise float64, f func(x float64) float64) []Point {
	rng := rand.New(rand.NewPCG(5, 6))
	var out []Point
	for i := 1; i <= n; i++ {
		out = append(out, Point{Iter: int64(100 * i), Value: f(float64(100*i)) + noise*rng.NormFloat64()})
	}
	return out
}

// firstReach is the first multiple of 100 where f reaches the target.
func firstReach(f func(x float64) float64, up bool, target float64) float64 {
	for x := 100.0; x < 1e7; x += 100 {
		if v := f(x); (up && v >= target) || (!up && v <= target) {
			return x
		}
	}
	return math.Inf(1)
}

func TestCrossFindsTheTarget(t *testing.T) {
	pow := func(x float64) float64 { return 0.95 - 2*math.Pow(x, -0.4) }
	weibull := func(x float64) float64 { return 0.9 - 0.8*math.Exp(-math.Pow(x/3000, 0.8)) }
	loss := func(x float64) float64 { return 2 + 1/(0.0006*x+0.2) }
	line := func(x float64) float64 { return 0.2 + 0.5*x/10000 }
	steps := func(x float64) float64 {
		v := 0.6 - 0.5*math.Exp(-x/800)
		if x > 3000 {
			v += 0.15
		}
		if x > 6000 {
			v += 0.055
		}
		return v
	}
	for _, c := range []struct {
		name   string
		f      func(float64) float64
		up     bool
		target float64
		max    float64
		seen   int
		ms     []float64
		within float64
	}{
		{"power law", pow, true, 0.90, 16000, 50, nil, 0.15},
		{"weibull", weibull, true, 0.85, 16000, 50, nil, 0.15},
		{"loss falls", loss, false, 2.2, 16000, 40, nil, 0.15},
		{"straight line", line, true, 0.6, 10000, 50, nil, 0.15},
		{"milestones to come", steps, true, 0.79, 9000, 45, []float64{3000, 6000, 8000}, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			truth := firstReach(c.f, c.up, c.target)
			got, ok := Cross(points(c.seen, 0.003, c.f), Target{Up: c.up, Value: c.target, Max: c.max, Milestones: c.ms})
			if !ok {
				t.Fatal("no answer")
			}
			i := got.Interval()
			if math.Abs(i.Mid-truth)/truth > c.within {
				t.Errorf("crossing %v, truth %v", i, truth)
			}
			if i.Low > i.Mid || i.High < i.Mid || i.High > c.max*1.1 {
				t.Errorf("odd interval %v", i)
			}
		})
	}
}

func TestCrossOfPlateauIsUnlikely(t *testing.T) {
	flat := func(x float64) float64 { return 0.7 - 0.5*math.Exp(-x/500) }
	near := func(x float64) float64 { return 0.92 - 0.7*math.Exp(-x/2500) }
	c1, ok1 := Cross(points(60, 0.002, flat), Target{Up: true, Value: 0.9, Max: 10000})
	c2, ok2 := Cross(points(60, 0.002, near), Target{Up: true, Value: 0.9, Max: 12000})
	if !ok1 || !ok2 {
		t.Fatal("no answer")
	}
	if c1.Reaches > 0.5 || c2.Reaches < 0.8 {
		t.Errorf("reaches: plateau far below the target %.2f, curve on its way %.2f", c1.Reaches, c2.Reaches)
	}
}

func TestCrossIsDeterministicAndFast(t *testing.T) {
	c := points(2000, 0.01, func(x float64) float64 { return 0.95 - 2*math.Pow(x, -0.3) })
	a, _ := Cross(c, Target{Up: true, Value: 0.93, Max: 1e6})
	b, _ := Cross(c, Target{Up: true, Value: 0.93, Max: 1e6})
	if a.Interval() != b.Interval() {
		t.Error("two answers to one question")
	}
	if n := len(thinned(2000)); n != maxFit {
		t.Errorf("a fit of %d points", n)
	}
}

// Case 37: after a resume the metric is worse for some reports, and steps are repeated.
func TestCase37SpikeAfterResume(t *testing.T) {
	loss := func(x float64) float64 { return 2 + 1/(0.0006*x+0.2) }
	stop := Stop{Kind: Metric, Metric: "loss", Target: 2.2, Max: 16000}
	calm := Job{Stop: stop, Curve: points(40, 0.003, loss)}
	spiked := Job{Stop: stop, Curve: points(40, 0.003, loss)}
	for i := 37; i < 40; i++ {
		spiked.Curve[i].Value *= 3
	}
	// Steps 3000..3500 were done twice, the first time with other values.
	for i := 30; i < 35; i++ {
		spiked.Curve = append([]Point{{Iter: spiked.Curve[i].Iter, Value: spiked.Curve[i].Value + 0.4}}, spiked.Curve...)
	}
	a, b := Fabric{}.iterationsLeft(calm), Fabric{}.iterationsLeft(spiked)
	if math.Abs(a.iters.Mid-b.iters.Mid) > 0.15*(a.iters.Mid+4000) || b.reaches < 0.5 {
		t.Errorf("case 37: a spike moved the forecast from %v to %v (reaches %.2f)", a.iters, b.iters, b.reaches)
	}
}

func TestMetricLeftOfHardSeries(t *testing.T) {
	stop := Stop{Kind: Metric, Metric: "acc", Up: true, Target: 0.9, Max: 10000}
	ramp := func(n int) []Point {
		return points(n, 0, func(x float64) float64 { return 0.1 + x/20000 })
	}
	for _, c := range []struct {
		name string
		job  Job
		want func(iterations) bool
	}{
		{"reached", Job{Stop: stop, Curve: append(ramp(3), Point{Iter: 400, Value: 0.91})}, func(i iterations) bool { return i.iters.High == 0 && i.reaches == 1 }},
		{"two points", Job{Stop: stop, Curve: ramp(2), Done: 200}, func(i iterations) bool { return i.iters.Mid > 5000 && i.iters.High <= 9800 }},
		{"no points", Job{Stop: stop}, func(i iterations) bool { return i.iters.Low < i.iters.Mid && i.iters.High == 10000 }},
		{"constant", Job{Stop: stop, Curve: points(40, 0, func(float64) float64 { return 0.3 })}, func(i iterations) bool { return i.reaches < 0.5 && i.iters.High == 6000 }},
		{"falling though it should rise", Job{Stop: stop, Curve: points(40, 0, func(x float64) float64 { return 0.3 - x/1e5 })}, func(i iterations) bool { return i.reaches < 0.5 }},
		{"beyond the maximum", Job{Stop: stop, Done: 20000, Curve: ramp(10)}, func(i iterations) bool { return i.iters.High == 0 }},
		{"earlier jobs", Job{Stop: stop, PastEnds: []int64{4000, 4200, 4100}}, func(i iterations) bool { return i.iters.Mid == 4100 && i.reaches > 0.9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (Fabric{}).iterationsLeft(c.job); !c.want(got) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestMilestoneIters(t *testing.T) {
	curve := []Point{{Iter: 100, Epoch: 1}, {Iter: 200, Epoch: 2}, {Iter: 300, Epoch: 3}}
	for _, c := range []struct {
		name  string
		curve []Point
		per   int64
		want  []float64
	}{
		{"declared epochs", nil, 50, []float64{100, 500}},
		{"from the curve", curve, 0, []float64{200, 1000}},
		{"unknown", []Point{{Iter: 100}, {Iter: 200}}, 0, nil},
	} {
		got := MilestoneIters(c.curve, []int{2, 10, -3}, c.per)
		if len(got) != len(c.want) {
			t.Fatalf("%s: %v, want %v", c.name, got, c.want)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}
