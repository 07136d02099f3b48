package estimator

import (
	"math"
	"testing"

	"unisched/planner"
)

func BenchmarkEstimate(b *testing.B) {
	j := Job{Requested: planner.Even(4, 4), Candidates: []planner.Shape{{1}, {2}, {4}, {4, 4}, {2, 2}}, Stop: Stop{Kind: Metric, Up: true, Target: 0.9, Max: 20000}}
	j.Samples = []Sample{{Shape: planner.Shape{1}, IterTime: 1, Profile: true}, {Shape: planner.Shape{2}, IterTime: 1.05, Profile: true}, {Shape: planner.Shape{1, 1}, IterTime: 1.2, Profile: true}}
	for i := range 40 {
		j.Samples = append(j.Samples, Sample{Shape: planner.Even(4, 4), IterTime: 1.9 + 0.01*float64(i%5)})
	}
	for i := 1; i <= 100; i++ {
		j.Curve = append(j.Curve, Point{Iter: int64(i) * 100, Value: 0.85 - 0.6*math.Pow(float64(i), -0.5)})
	}
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = Fabric{}.Estimate(j, now)
		}
	})
	j.Stop = Stop{Kind: Iterations, Iterations: 20000}
	b.Run("declared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = Fabric{}.Estimate(j, now)
		}
	})
}
