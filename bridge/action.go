package bridge

import (
	"fmt"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// Action is one write to Slurm for one Run. The set is closed: each is one of the structs below, and a test walks a value of each through
// every switch.
type Action interface {
	// Of is the run that the action is meant for; it is not carried out on any other.
	Of() planner.Run
	// Name is the stable word for logs, audit and metrics.
	Name() string
}

type target planner.Run

func (t target) Of() planner.Run { return planner.Run(t) }

// Delay sets the begin time of a waiting job, so that Slurm does not start it before.
type Delay struct {
	target
	Until time.Time
}

// Start releases a waiting job at a placement: pinned nodes, shape, partition, nice and an immediate begin time in one call.
type Start struct {
	target
	Placement planner.Placement
	Profile   bool
	Nice      int64
	SetNice   bool
}

// Arm lets a waiting job start whenever Slurm's order has its turn, ahead of plain jobs by nice.
type Arm struct {
	target
	Nice int64
}

// Hold holds a running job, so that it comes back from its checkpoint held and nobody can start it in between.
type Hold struct {
	target
	Why string
}

// Ask sends the checkpoint signal to a held, running job.
type Ask struct {
	target
	Signal slurm.Signal
}

// Unhold takes our hold off a job that runs on.
type Unhold struct{ target }

// Settle turns a returned, held job into a waiting one: hold off, delayed, request and nice as submitted.
type Settle struct {
	target
	Until time.Time
}

// Requeue sends a job back to the queue that saved its checkpoint but runs on, or whose profile run leaves no other way.
type Requeue struct {
	target
	Why string
}

// Rerun puts a job that failed through our doing back into the queue.
type Rerun struct{ target }

// Unpin takes our node list off a waiting job.
type Unpin struct{ target }

// Restore gives a job back to plain Slurm: whatever we changed is undone.
type Restore struct{ target }

// Name implements Action.
func (Delay) Name() string   { return "delay" }
func (Start) Name() string   { return "start" }
func (Arm) Name() string     { return "arm" }
func (Hold) Name() string    { return "hold" }
func (Ask) Name() string     { return "signal" }
func (Unhold) Name() string  { return "unhold" }
func (Settle) Name() string  { return "settle" }
func (Requeue) Name() string { return "requeue" }
func (Rerun) Name() string   { return "rerun" }
func (Unpin) Name() string   { return "unpin" }
func (Restore) Name() string { return "restore" }

// ActionNames are the names of all actions.
func ActionNames() []string {
	var names []string
	for _, a := range []Action{Delay{}, Start{}, Arm{}, Hold{}, Ask{}, Unhold{}, Settle{}, Requeue{}, Rerun{}, Unpin{}, Restore{}} {
		names = append(names, a.Name())
	}
	return names
}

// disruptive actions change what runs; a suspect snapshot permits none of them.
func disruptive(a Action) bool {
	switch a.(type) {
	case Hold, Ask, Requeue, Rerun, Start, Arm:
		return true
	case Delay, Unhold, Settle, Unpin, Restore:
		return false
	}
	panic(fmt.Sprintf("bridge: action %T is not in disruptive", a))
}

// fits says why the action must not be sent to the job as it was read just now; "" when it may.
func fits(a Action, job *slurm.Job) string {
	if r := a.Of(); job.Restarts != r.Restart {
		return fmt.Sprintf("it is in run %d, not %d", job.Restarts, r.Restart)
	}
	completing := job.HasFlag(slurm.FlagCompleting)
	pending := job.State == slurm.StatePending && !completing
	running := job.State == slurm.StateRunning && !completing
	switch a := a.(type) {
	case Delay, Start, Arm, Settle, Unpin:
		if !pending {
			return "it is not pending any more"
		}
	case Hold, Unhold, Requeue:
		if _, hold := a.(Hold); hold && job.Held {
			return "somebody else holds it"
		}
		if !running {
			return "it is not running any more"
		}
	case Ask:
		if !running {
			return "it is not running any more"
		}
		if !job.Held {
			return "our hold is not on it"
		}
	case Rerun:
		if !job.State.Finished() || job.State == slurm.StateCancelled {
			return "it did not fail"
		}
		if completing {
			return "its nodes are not done with it"
		}
	case Restore:
		if !pending && !running {
			return "it is neither pending nor running"
		}
	default:
		panic(fmt.Sprintf("bridge: action %T is not in fits", a))
	}
	return ""
}

func slurmID(r planner.Run) slurm.JobID { return slurm.JobID(r.Job) }
