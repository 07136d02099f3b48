package eval

import (
	"fmt"
	"testing"
	"time"
)

func TestEvalCurves(t *testing.T) {
	for _, c := range []struct {
		name, pattern, format string
		target                float64
		milestones            []int
	}{
		{"cifar 0.99", "curves/pollux/cifar10-*.csv", "pollux", 0.99, nil},
		{"cifar 0.95", "curves/pollux/cifar10-*.csv", "pollux", 0.95, nil},
		{"imagenet 0.99", "curves/pollux/imagenet-*.csv", "pollux", 0.99, nil},
		{"imagenet 0.99 milestones", "curves/pollux/imagenet-*.csv", "pollux", 0.99, []int{30, 60, 80}},
		{"mlperf 0.99", "curves/mlperf_v0.7.csv", "mlperf", 0.99, nil},
		{"mlperf 0.95", "curves/mlperf_v0.7.csv", "mlperf", 0.95, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := Curves(open(t, c.pattern), CurveOptions{Format: c.format, At: []float64{0.3, 0.5, 0.7}, Target: c.target, Milestones: c.milestones, Clock: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(c.name)
			for g, ps := range rep.ByGroup {
				for _, p := range ps {
					fmt.Printf("  %-9s at %.1f runs %3d skipped %3d  err %.3f  max %.3f  cover %.2f  ms %.1f / %.1f\n", g, p.At, p.Runs, p.Skipped, p.Error, p.Baseline, p.Coverage, p.FitMS, p.FitMax)
				}
			}
		})
	}
}
