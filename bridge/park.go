package bridge

import (
	"context"
	"time"

	"unisched/slurm"
)

// Slurm takes a number of nodes, or a list of them, for a job that runs as the wish to give the others up, kills what runs there, and answers an error for the rest of the
// same call ("no longer pending", seen on 24.11). So such a call must not meet a job that starts while it is under way: before it the job is parked, by a hold of ours
// or by a begin time that is far enough ahead. A begin time alone is refused by a job that runs, and changes nothing.

// writesNodes reports whether the call of an action names nodes or their number.
func (r *Record) writesNodes(a Action, job *slurm.Job) bool {
	if job.State != slurm.StatePending {
		return false
	}
	switch a.(type) {
	case Start:
		return true
	case Settle, Restore:
		u := restoreRequest(r, job)
		return u.RequiredNodes != nil || u.Nodes.Set
	}
	return false
}

// parkMargin is how far ahead a begin time must be: longer than a call is under way, well below the half delay at which delays are renewed.
func (c *cycle) parkMargin() time.Duration { return min(c.b.cfg.Delay/4, 30*time.Second) }

// parked reports whether Slurm cannot start the job for the time of a call.
func (c *cycle) parked(job *slurm.Job) bool {
	begin := job.Begin
	if job.Eligible.After(begin) {
		begin = job.Eligible
	}
	return job.Held || begin.Sub(c.now) >= c.parkMargin()
}

// park sets a begin time ahead and reads the job again, for an action that must not meet its start.
func (c *cycle) park(ctx context.Context, rec *Record, a Action) (*slurm.Job, Outcome, error) {
	out, err := c.one(ctx, rec, Delay{target(rec.ID()), c.now.Add(c.b.cfg.Delay)})
	if out != Done || err != nil {
		return nil, out, err
	}
	read, err := c.b.parts.Cluster.Job(ctx, rec.Job)
	job := &read
	switch {
	case err != nil:
		c.b.log(c.now, "warn", "look-again", rec.Job, "%s: %v", a.Name(), err)
		return job, Skipped, nil
	case !rec.sameRun(job), fits(a, job) != "":
		c.b.log(c.now, "info", "skipped", rec.Job, "%s: it has moved on", a.Name())
		return job, Skipped, nil
	}
	return job, Done, nil
}
