package eval

import (
	"fmt"
	"testing"
)

func TestCov(t *testing.T) {
	for _, tg := range []float64{0.99, 0.97, 0.95, 0.9} {
		for _, c := range []struct {
			p, f string
			ms   []int
		}{{"curves/mlperf_v0.7.csv", "mlperf", nil}, {"curves/pollux/cifar10-*.csv", "pollux", nil}, {"curves/pollux/imagenet-*.csv", "pollux", []int{30, 60, 80}}} {
			rep, _ := Curves(open(t, c.p), CurveOptions{Format: c.f, At: []float64{0.3, 0.5, 0.7}, Target: tg, Milestones: c.ms})
			for _, p := range rep.Points {
				if p.Runs > 0 {
					fmt.Printf("%.2f %-30s at %.1f runs %3d err %.3f base %.3f cov %.2f\n", tg, c.p, p.At, p.Runs, p.Error, p.Baseline, p.Coverage)
				}
			}
		}
	}
}
