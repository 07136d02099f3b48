package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/policy"
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

// BenchmarkEvents shows that the cost of a run grows with what happens in it: the same load for longer and longer, with all estimates and with the truth known. An event is a look of the
// loop, a call to Slurm or a stay on GPUs; ns/event should not grow with the number of jobs.
func BenchmarkEvents(b *testing.B) {
	for _, oracle := range []bool{true, false} {
		for _, n := range []int{250, 500, 1000, 2000, 4000} {
			b.Run(fmt.Sprintf("oracle=%v/jobs=%d", oracle, n), func(b *testing.B) {
				jobs := crowd(n, 4*time.Minute)
				events := 0
				for b.Loop() {
					p, err := policy.New("srsf", policy.Options{})
					if err != nil {
						b.Fatal(err)
					}
					r, err := Run(context.Background(), Config{Nodes: 12, GPUsPerNode: 8, Noise: 0.05, Speeds: Published(), Oracle: oracle, Profile: 5 * time.Minute, Seed: 1}, jobs, p)
					if err != nil {
						b.Fatal(err)
					}
					events = r.Steps + r.Actions + len(r.Stays)
				}
				b.ReportMetric(float64(events), "events")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
			})
		}
	}
}
