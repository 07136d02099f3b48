package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"unisched/planner/bench"
	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/planner/milp/highs"
)

func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure the planner on this machine", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(a.benchPlanCommand())
	return c
}

func (a *app) benchPlanCommand() *cobra.Command {
	sp := bench.Spec{GPUs: 960, Jobs: 1000, Mix: "mix1", Shape: "helios", Seed: 1}
	limit := time.Duration(0)
	c := &cobra.Command{
		Use: "plan", Short: "Plan one synthetic cluster and say how long it took and what it is worth", Args: cobra.NoArgs,
		Long: "Makes a synthetic cluster at 85-95 % load from the seed, plans it once as the daemon would (a solver process for every solve), and plays the\n" +
			"plan out to the end. greedy is the best plain list scheduler (EDF, LLF, SRSF) on the same cluster, greedy_candidates the best plan\n" +
			"of ours without the solver.",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			if sp.GPUs < 8 || sp.Jobs < 0 {
				return coded{exitUsage, fmt.Errorf("--gpus %d --jobs %d: want 8 GPUs or more, and no less than 0 jobs", sp.GPUs, sp.Jobs)}
			}
			s, err := sp.Snapshot()
			if err != nil {
				return coded{exitUsage, err}
			}
			// A first, tiny solve pays for what only a cold process pays.
			solve := highs.New(highs.Options{Once: true})
			warm := &milp.Model{}
			warm.AddCol(1, 0, 1, true)
			if _, err := solve(cmd.Context(), warm, milp.Limits{}); err != nil {
				return fmt.Errorf("solver: %w", err)
			}
			r := bench.Run(cmd.Context(), s, lease.Config{Limits: milp.Limits{Time: limit}}, solve, a.now, cpuTime)
			r.PeakRSSMB = peakMB()
			if a.output == "json" {
				return a.json(r)
			}
			a.benchPlan(sp, r)
			return nil
		}),
	}
	f := c.Flags()
	f.IntVar(&sp.GPUs, "gpus", sp.GPUs, "GPUs of the cluster, 8 a node")
	f.IntVar(&sp.Jobs, "jobs", sp.Jobs, "jobs, running and waiting")
	f.StringVar(&sp.Mix, "mix", sp.Mix, "strict, mix1 (70 % strict, 30 % best effort) or mix2 (30 % strict, 60 % soft, 10 % best effort)")
	f.StringVar(&sp.Shape, "shape", sp.Shape, "GPU counts: philly or helios")
	f.Uint64Var(&sp.Seed, "seed", sp.Seed, "seed of the instance")
	f.DurationVar(&limit, "solver-limit", 0, "time limit of one solve (default 2s, 2.5s beyond 1,500 jobs)")
	return c
}

func (a *app) benchPlan(sp bench.Spec, r bench.Result) {
	item(a.out, "Instance", "%d GPUs, %d jobs, %s, %s, seed %d", sp.GPUs, sp.Jobs, sp.Mix, sp.Shape, sp.Seed)
	item(a.out, "Time", "%.3f s (%.3f s of processor time): build %.3f, solve %.3f, pack %.3f", r.TotalS, r.CPUS, r.BuildS, r.SolveS, r.PackS)
	item(a.out, "Model", "%d rows, %d columns, %d non-zeros; solver: %s", r.Rows, r.Cols, r.Nonzeros, r.Status)
	item(a.out, "Plan", "%s, objective %.4f, gap %.5f", r.Candidate, r.Objective, r.Gap)
	item(a.out, "Deadlines", "%d of %d met; %s %d, %s %d", r.SLOMet, r.SLOTotal, r.Greedy.Name, r.Greedy.SLOMet, r.GreedyCandidates.Name, r.GreedyCandidates.SLOMet)
	item(a.out, "Memory", "%.0f MB at most, solver included", r.PeakRSSMB)
}

// peakMB is the peak resident memory of this process plus that of its largest child, an upper bound of what both held at once.
func peakMB() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += float64(u.Maxrss) / 1024 // Linux counts kB
		}
	}
	return sum
}

// cpuTime is the processor time of this process and its finished children.
func cpuTime() time.Duration {
	sum := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
