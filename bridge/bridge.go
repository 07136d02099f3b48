// Package bridge is the loop that joins Slurm and the planner: observe, estimate, plan, check, apply.
//
// [Bridge.Step] is the whole of it, single-threaded, with time as an argument: the daemon calls it from a ticker, the simulator from an event
// heap, tests from a script. The package declares the small interfaces it needs ([Cluster], [Policy], [Log]) and refuses to know how they are
// met. It never deletes a job, never writes a comment, and never changes a job without a record on disk that says how to undo it.
package bridge

import (
	"context"
	"time"

	"unisched/hooks/progress"
	"unisched/planner"
	"unisched/slurm"
)

// Cluster is the part of Slurm that the bridge uses. [slurm.Client] is one; errors are those of package slurm.
type Cluster interface {
	State(ctx context.Context, now time.Time) (slurm.State, error)
	Job(ctx context.Context, id slurm.JobID) (slurm.Job, error)
	Update(ctx context.Context, id slurm.JobID, u slurm.Update) error
	Signal(ctx context.Context, id slurm.JobID, s slurm.Signal) error
	// Requeue sends an unfinished job back to the queue; a finished job is refused.
	Requeue(ctx context.Context, id slurm.JobID) error
	// Rerun puts a finished, failed job back into the queue under its own id.
	Rerun(ctx context.Context, id slurm.JobID) error
	ClearRequiredNodes(ctx context.Context, id slurm.JobID) error
}

// Policy makes plans. It never fails: the worst plan keeps what runs and starts what fits.
type Policy interface {
	Plan(ctx context.Context, s planner.Snapshot) planner.Plan
}

// Reports hands over the progress that nodes sent since the last call.
type Reports func() []progress.Job

// Log receives what the loop has to say; it must not block.
type Log interface {
	Event(now time.Time, level, what string, fields ...any)
}
