package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp/highs"
)

// follow carries a plan out as if all went well and a tenth of a unit passed: what a round brought forward sees.
func follow(s planner.Snapshot, p planner.Plan, later time.Duration) planner.Snapshot {
	s.Jobs = slices.Clone(s.Jobs)
	s.Now = s.Now.Add(later)
	for i := range s.Jobs {
		j, e := &s.Jobs[i], p.Entries[i]
		switch e.Decision {
		case planner.Start, planner.Move, planner.Keep:
			j.State, j.Started, j.Current, j.LeaseUntil = planner.Running, true, e.Placement, e.LeaseUntil
		case planner.Stop:
			j.State, j.Current, j.WaitingSince = planner.Waiting, nil, s.Now
		}
	}
	return s
}

// BenchmarkPlan measures a round at a unit boundary and one brought forward, with HiGHS.
func BenchmarkPlan(b *testing.B) {
	for _, size := range [][2]int{{512, 200}, {960, 500}, {960, 1000}} {
		s, err := Spec{GPUs: size[0], Jobs: size[1], Mix: "mix1", Shape: "philly", Seed: 1}.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		p := lease.New(lease.Config{}, highs.New(highs.Options{}))
		first := p.Plan(context.Background(), s)
		for _, later := range []time.Duration{s.Unit, s.Unit / 10} {
			at := follow(s, first, later)
			b.Run(fmt.Sprintf("%d-gpus-%d-jobs-after-%v", size[0], size[1], later), func(b *testing.B) {
				for b.Loop() {
					p.Reset(first)
					p.Plan(context.Background(), at)
				}
			})
		}
	}
}
