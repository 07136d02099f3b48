package bridge

import (
	"slices"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

const poweringUp = "its nodes are being powered up"

// bootsNodes keeps the clocks of a run still whose nodes are being powered up: it holds them, and Slurm calls it running, but its script has not begun.
// Its lease, its time to resume and its loss at a preemption count from when the nodes are up, which is also when Slurm starts its time limit.
func (b *Bridge) bootsNodes(now time.Time, rec *Record, job *slurm.Job) {
	run := &rec.Run
	if rec.Why == poweringUp && !job.HasFlag(slurm.FlagConfiguring) {
		rec.Why = ""
	}
	switch {
	case !rec.Phase.OnGPUs() || !run.Ready.IsZero():
	case job.HasFlag(slurm.FlagConfiguring):
		run.Start = now
		rec.LeaseUntil = laterOf(rec.LeaseUntil, b.leaseEnd(now, rec.Class()))
		rec.Why = poweringUp
	case job.Start.After(run.Start):
		run.Start = job.Start
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// falls reports whether a start waits for a node that has to be asleep before it can be woken: Slurm begins nothing on it until then. A node that takes
// twice as long as it may is not waited for.
func (c *cycle) falls(rec *Record) bool {
	if c.now.Sub(rec.Since) > c.b.cfg.StartTimeout+2*c.b.cfg.SuspendTimeout {
		return false
	}
	for i := range c.b.seen.Nodes {
		n := &c.b.seen.Nodes[i]
		if power, _ := n.Power(); power == slurm.Falling && slices.ContainsFunc(rec.Target.Placement, func(s planner.Share) bool { return s.Node == n.Name }) {
			return true
		}
	}
	return false
}
