package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp/highs"
)

// ZZ="gpus jobs seeds" go test -run ZZ
func TestZZ(t *testing.T) {
	var g, n, seeds int
	if k, _ := fmt.Sscan(os.Getenv("ZZ"), &g, &n, &seeds); k < 3 {
		t.Skip()
	}
	solve := highs.New(highs.Options{})
	for _, mix := range []string{"strict", "mix1", "mix2"} {
		for _, shape := range []string{"philly", "helios"} {
			if f := os.Getenv("ONLY"); f != "" && !strings.Contains(mix+shape, f) {
				continue
			}
			for seed := 1; seed <= seeds; seed++ {
				s, _ := Spec{GPUs: g, Jobs: n, Mix: mix, Shape: shape, Seed: uint64(seed)}.Snapshot()
				r := Run(context.Background(), s, lease.Config{}, solve, time.Now)
				fmt.Printf("%-6s %-6s %d build %.3f solve %.3f pack %.3f total %.3f gap %.5f obj %.3f (%s) met %d/%d greedy %.3f/%d rows %d cols %d %s %s\n", mix, shape, seed, r.BuildS, r.SolveS, r.PackS, r.TotalS, r.Gap,
					r.Objective, r.Candidate, r.SLOMet, r.SLOTotal, r.Greedy.Objective, r.Greedy.SLOMet, r.Rows, r.Cols, r.Status, r.Plan.Solver.Error)
				if os.Getenv("V") != "" {
					for _, c := range r.Plan.Scores {
						fmt.Println("       ", c)
					}
				}
				for _, v := range planner.Check(s, r.Plan) {
					t.Error(v)
				}
			}
		}
	}
}
