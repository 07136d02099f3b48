package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp/highs"
)

func TestMain(m *testing.M) {
	highs.MaybeChild()
	os.Exit(m.Run())
}

// TestInstances plans every mix and shape once at a small size.
func TestInstances(t *testing.T) {
	solve := highs.New(highs.Options{})
	for _, mix := range []string{"strict", "mix1", "mix2"} {
		for _, shape := range []string{"philly", "helios"} {
			sp := Spec{GPUs: 960, Jobs: 500, Mix: mix, Shape: shape, Seed: 1}
			if os.Getenv("BENCH_JOBS") != "" {
				fmt.Sscan(os.Getenv("BENCH_JOBS"), &sp.Jobs)
			}
			if os.Getenv("BENCH_GPUS") != "" {
				fmt.Sscan(os.Getenv("BENCH_GPUS"), &sp.GPUs)
			}
			if os.Getenv("BENCH_SEED") != "" {
				fmt.Sscan(os.Getenv("BENCH_SEED"), &sp.Seed)
			}
			s, err := sp.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			r := Run(context.Background(), s, lease.Config{}, solve, time.Now)
			t.Logf("%-6s %-6s build %.3f solve %.3f pack %.3f total %.3f gap %.5f obj %.3f (%s) met %d/%d greedy %.3f/%d rows %d cols %d %s %s", mix, shape, r.BuildS, r.SolveS, r.PackS, r.TotalS, r.Gap,
				r.Objective, r.Candidate, r.SLOMet, r.SLOTotal, r.Greedy.Objective, r.Greedy.SLOMet, r.Rows, r.Cols, r.Status, r.Plan.Solver.Error)
			for _, c := range r.Plan.Scores {
				t.Logf("       %v", c)
			}
			for _, v := range planner.Check(s, r.Plan) {
				t.Error(v)
			}
		}
	}
}
