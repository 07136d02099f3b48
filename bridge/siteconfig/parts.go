package siteconfig

import (
	"time"

	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/planner/reward"
	"unisched/slurm"
)

// Options are what the client of slurmrestd is made from.
func (s Slurm) Options() slurm.Options {
	return slurm.Options{
		URL: s.URL, Others: s.URLs, TokenFile: s.TokenFile, User: s.User,
		Timeouts: slurm.Timeouts{Ping: s.Timeout, One: s.Timeout, Write: s.Timeout, List: s.ListTimeout},
		Scontrol: slurm.Scontrol{Argv: s.Scontrol, Timeout: s.Timeout},
	}
}

// Lease is the configuration of our policy. clock only times its parts for the statistics.
func (s Site) Lease(clock func() time.Time) lease.Config {
	return lease.Config{
		// A tier of the full value 100 is worth ten times the policy's ratio.
		Reward:   reward.Config{Ratio: s.Planner.RewardRatio / 10},
		Quantile: s.Bridge.Quantile,
		Limits:   milp.Limits{Time: s.Planner.SolverLimit},
		Clock:    clock,
	}
}
