package bridge

import "slices"

// Phase is where a job stands in its life with us.
//
// A Phase changes only inside [Bridge.Step]. What may follow what is the table [Steps]; a test walks every phase change of
// the recorded scenarios through it.
type Phase string

const (
	// Unmanaged jobs are plain Slurm jobs: not ours (no comment of ours), or not understood, with a reason.
	Unmanaged Phase = "unmanaged"
	// Admitted jobs were accepted and wait for their profile run (or for the decision that they need none).
	Admitted Phase = "admitted"
	// Waiting jobs wait, delayed by a begin time that we renew.
	Waiting Phase = "waiting"
	// Starting jobs were released to Slurm at a placement and have not been seen running.
	Starting Phase = "starting"
	// Profiling jobs run on one or two GPUs of the profile partition to be measured.
	Profiling Phase = "profiling"
	// Running jobs hold a lease.
	Running Phase = "running"
	// Checkpointing jobs are held and were signalled; they run until their checkpoint is written.
	Checkpointing Phase = "checkpointing"
	// Requeueing jobs have ended their run and are on the way back to the queue, still held by us.
	Requeueing Phase = "requeueing"
	// Completed, Failed and Cancelled jobs have ended for good.
	Completed Phase = "completed"
	Failed    Phase = "failed"
	Cancelled Phase = "cancelled"
	// Released jobs were given back to plain Slurm and are not touched again.
	Released Phase = "released"
)

// Steps is the table of legal changes. From every phase that has not ended a job may also end (Completed, Failed, Cancelled) or be
// Released; those are not repeated here.
var Steps = map[Phase][]Phase{
	Unmanaged: {Admitted}, // its comment was corrected while it waited
	// Running: Slurm started it by itself (its delay ran out while nobody was looking). Profiling: the same, before its request was restored.
	Admitted: {Waiting, Starting, Running, Profiling, Unmanaged},
	Waiting:  {Starting, Running, Profiling, Admitted},
	// Waiting/Admitted: it did not start in time and is delayed again.
	Starting: {Running, Profiling, Waiting, Admitted},
	// Waiting/Admitted: requeued by somebody else or by a node failure.
	Profiling: {Checkpointing, Requeueing, Admitted, Waiting, Starting, Running},
	Running:   {Checkpointing, Requeueing, Waiting, Starting},
	// Running/Profiling: it ignored the signal, or we gave up before sending it.
	Checkpointing: {Requeueing, Running, Profiling},
	// Starting: a move, straight to the next placement.
	Requeueing: {Waiting, Admitted, Starting, Running, Profiling},
	// A failed profile run, or a job that our signal killed, is put back into the queue.
	Failed: {Requeueing},
}

// Ended reports whether the job is over for good.
func (p Phase) Ended() bool { return p == Completed || p == Failed || p == Cancelled }

// Ours reports whether we steer the job.
func (p Phase) Ours() bool { return p != Unmanaged && p != Released && !p.Ended() }

// OnGPUs reports whether a job in this phase holds GPUs.
func (p Phase) OnGPUs() bool { return p == Running || p == Profiling || p == Checkpointing }

// Legal reports whether the table allows the change.
func Legal(from, to Phase) bool {
	if from == to {
		return true
	}
	if slices.Contains(Steps[from], to) {
		return true
	}
	return !from.Ended() && from != Released && (to.Ended() || to == Released)
}

// Phases are all phases, in the order of a job's life.
func Phases() []Phase {
	return []Phase{Unmanaged, Admitted, Waiting, Starting, Profiling, Running, Checkpointing, Requeueing, Completed, Failed, Cancelled, Released}
}
