package lease

import (
	"time"

	"unisched/planner/milp"
	"unisched/planner/reward"
)

// Config holds the settings of the policy. Zero fields take the defaults named.
type Config struct {
	Reward reward.Config
	// Quantile of the estimates on which deadlines are planned (default 0.6; 0.5 is the middle of the estimate, 0.9 its slow end).
	// Best-effort and profiler jobs are always planned on the middle.
	Quantile float64
	// Beta, Delta and Rho are the margins of the prefix rows: work is taken to be Beta longer, deadlines Delta units earlier, and only Rho of
	// the GPUs count (defaults 0.05, 1 and 0.95). Without them plans procrastinate to zero slack.
	Beta, Delta, Rho float64
	// Risk is the luck of a run: by which part of itself, give or take, its work takes longer or shorter than estimated. A tier counts with its
	// chance of being met (default 0.05). Where the Snapshot says that runs differ more here, that counts.
	Risk float64
	// FixedRisk counts with Risk whatever the Snapshot says (for ablations).
	FixedRisk bool
	// Latency is how long a start takes besides Estimate.Resume: the victim's checkpoint, the requeue, the cluster's own scheduling (default 0).
	// Deadlines are planned with it; with short units it matters.
	Latency time.Duration
	// Guard is the slack in units under which the greedy candidates put an SLO job first (default 2).
	Guard float64
	// Shapes bounds the shapes of one job in the model (default 3).
	Shapes int
	// Horizon is the number of units that a plan is unrolled over (default 24).
	Horizon int
	// Limits of one solve (defaults 2 s, gap 0.001, 400 MB); beyond 1,500 jobs the default time is 2.5 s.
	Limits milp.Limits
	// OneStage leaves out the second stage, SingleCandidate the candidates made without the solver, as long as it has any (both for ablations).
	OneStage, SingleCandidate bool
	// Clock, when set, times the building and packing for SolverStats. Plans never depend on it.
	Clock func() time.Time
}

func (c Config) filled() Config {
	c.Reward = c.Reward.Filled()
	for _, f := range []struct {
		v *float64
		d float64
	}{{&c.Quantile, 0.6}, {&c.Beta, 0.05}, {&c.Delta, 1}, {&c.Rho, 0.95}, {&c.Guard, 2}, {&c.Risk, 0.05}} {
		if !(*f.v > 0) || *f.v > 1e6 {
			*f.v = f.d
		}
	}
	c.Quantile, c.Rho = min(c.Quantile, 0.99), min(c.Rho, 1)
	c.Latency = max(0, c.Latency)
	if c.Shapes <= 0 {
		c.Shapes = 3
	}
	if c.Horizon <= 0 {
		c.Horizon = 24
	}
	if c.Limits.Gap <= 0 {
		c.Limits.Gap = 0.001
	}
	if c.Limits.MemoryMB <= 0 {
		c.Limits.MemoryMB = 400
	}
	if c.Clock == nil {
		c.Clock = func() time.Time { return time.Time{} }
	}
	return c
}
