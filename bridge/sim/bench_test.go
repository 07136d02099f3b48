package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
)

// crowd is an overloaded day on few nodes.
func crowd(n int, every time.Duration) []trace.Job {
	var jobs []trace.Job
	for i := range n {
		j := trace.Job{ID: fmt.Sprint(i), GPUs: []int{1, 1, 1, 2, 4, 8}[i%6], Submit: time.Duration(i) * every,
			Duration: time.Duration(20+i*37%200) * time.Minute, Class: planner.BestEffort, Model: "resnet101"}
		j.Iterations = int64(j.Duration.Seconds())
		if i%3 != 0 {
			j.Class, j.Tiers = planner.Strict, []trace.Tier{{After: j.Duration * 3 / 2, Value: 100}}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func BenchmarkRun(b *testing.B) {
	jobs := crowd(400, 20*time.Second)
	for b.Loop() {
		r, err := Run(context.Background(), Config{Nodes: 12, GPUsPerNode: 8, Noise: 0.05, Speeds: Published(), Oracle: true, Seed: 1}, jobs, lease.New(lease.Config{}, nil))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Steps), "steps")
	}
}
