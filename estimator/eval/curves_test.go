package eval

import (
	"testing"
	"time"
)

func TestEvalCurves(t *testing.T) {
	for _, c := range []struct {
		name, pattern, format string
		target                float64
		milestones            []int
	}{
		{"cifar10-0.99", "curves/pollux/cifar10-*.csv", "pollux", 0.99, nil},
		{"cifar10-0.95", "curves/pollux/cifar10-*.csv", "pollux", 0.95, nil},
		{"imagenet-0.99", "curves/pollux/imagenet-*.csv", "pollux", 0.99, nil},
		{"imagenet-0.99-milestones", "curves/pollux/imagenet-*.csv", "pollux", 0.99, []int{30, 60, 80}},
		{"mlperf-0.99", "curves/mlperf_v0.7.csv", "mlperf", 0.99, nil},
		{"mlperf-0.95", "curves/mlperf_v0.7.csv", "mlperf", 0.95, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := Curves(open(t, c.pattern), CurveOptions{Format: c.format, At: []float64{0.3, 0.5, 0.7}, Target: c.target, Milestones: c.milestones, Clock: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			plot(t, "curves-"+c.name, rep.PlotErrors())
			for _, g := range sortedKeys(rep.ByGroup) {
				for _, p := range rep.ByGroup[g] {
					t.Logf("| %s | %.0f %% | %d | %d | %.1f %% | %.1f %% | %.0f %% | %.1f / %.1f |", g, 100*p.At, p.Runs, p.Skipped, 100*p.Error, 100*p.Baseline, 100*p.Coverage, p.FitMS, p.FitMax)
				}
			}
			for _, p := range rep.Points {
				if p.Runs > 0 && p.At < 0.6 && p.Runs > 1 && p.Error >= p.Baseline {
					t.Errorf("at %.1f: error %.3f, no better than the maximum (%.3f)", p.At, p.Error, p.Baseline)
				}
				// Where nearly every answer is exactly right, any interval that contains it holds more than 90 %.
				if p.Runs >= 30 && (p.Coverage < 0.7 || p.Coverage > 0.9 && p.Error > 0.02) {
					t.Errorf("at %.1f: the 80 %% interval holds %.2f of %d", p.At, p.Coverage, p.Runs)
				}
			}
		})
	}
}
