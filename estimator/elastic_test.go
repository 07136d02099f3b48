package estimator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
)

// TestFastestCount: on which number of GPUs an elastic job is believed to finish first, by what stays fixed and what ends it.
func TestFastestCount(t *testing.T) {
	counts := []planner.Shape{{1}, {2}, {4}, {8}}
	alone := []Sample{{Shape: planner.Shape{1}, IterTime: 0.1, N: 100}}
	iters := Stop{Kind: Iterations, Iterations: 90000}
	for _, c := range []struct {
		name    string
		scale   Scale
		stop    Stop
		asked   int
		samples []Sample
		want    planner.Shape
	}{
		{"global batch, nothing measured", GlobalBatch, iters, 1, nil, planner.Shape{8}},
		{"global batch, measured on one GPU", GlobalBatch, iters, 1, alone, planner.Shape{8}},
		{"global batch of a request for eight, measured on one GPU", GlobalBatch, iters, 8, alone, planner.Shape{8}},
		{"local batch: a declared number of iterations is not shortened", LocalBatch, iters, 8, nil, planner.Shape{1}},
		{"local batch, nobody counts iterations: samples are the work", LocalBatch, Stop{}, 1, nil, planner.Shape{8}},
		{"the same, measured on one GPU", LocalBatch, Stop{}, 1, alone, planner.Shape{8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := Job{Requested: planner.Shape{c.asked}, Candidates: counts, Scale: c.scale, Stop: c.stop, Samples: c.samples, LimitSeconds: 36000, Lease: 5 * time.Minute}
			e := Fabric{}.Estimate(j, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
			if d := cmp.Diff(c.want, e.Speeds[0].Shape); d != "" {
				t.Errorf("%s: %v", d, e.Speeds)
			}
		})
	}
}
