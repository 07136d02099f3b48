package bridge

import "unisched/slurm"

// OrderKind is what an operator may ask of the running daemon.
type OrderKind string

// The orders.
const (
	// OrderPause gives every job back to plain Slurm and touches nothing until OrderResume.
	OrderPause OrderKind = "pause"
	// OrderResume takes jobs under management again.
	OrderResume OrderKind = "resume"
	// OrderRelease gives one job (Order.Job) back for good, or all (Job 0).
	OrderRelease OrderKind = "release"
)

// Order is carried out in the next cycle. Who gave it is kept for the audit.
type Order struct {
	Kind OrderKind   `json:"order"`
	Job  slurm.JobID `json:"job,omitempty"`
	By   string      `json:"by,omitempty"`
}
