package bridge

import (
	"fmt"
	"slices"
	"time"

	"unisched/estimator"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// maxReruns is how often Slurm is asked to put a job back that failed through our doing.
const maxReruns = 20

// followFinished handles a job that Slurm shows ended.
func (b *Bridge) followFinished(now time.Time, rec *Record, job *slurm.Job) {
	missed := job.Restarts != rec.Restart && rec.Phase.Ours() // a whole run, between two looks
	if missed {
		b.runOver(now, rec, job.Start)
		rec.Restart, rec.Rerun, rec.RerunTries = job.Restarts, false, 0
	}
	if rec.Rerun && !rec.Phase.Ended() { // it was asked for and has not happened
		rec.enter(now, Failed, rec.Why)
	}
	if rec.Phase.Ended() || rec.Phase == Released {
		if rec.Rerun && rec.RerunTries >= maxReruns {
			rec.rerunFailed(now, "Slurm did not take it back")
		}
		return
	}
	at := job.End
	if at.IsZero() || at.After(now) {
		at = now
	}
	if !missed && rec.mayYetSay(job) && now.Sub(at) < lastWords {
		return // its last lines, which say whether it saved and whether it was done, are still on their way
	}
	during := rec.Phase
	if missed || during == Starting { // it began and ended between two looks
		during = Starting
		rec.Run = RunProgress{Start: job.Start, Profile: b.isProfile(rec, job)}
		rec.Placement = placementOf(job)
	}
	mute := rec.Run.Ready.IsZero()
	if during.OnGPUs() || during == Starting { // the books of this run
		b.runOver(now, rec, at)
	}
	rec.markLost(now, job)
	exit := fmt.Sprintf("%s, exit %d", job.State, job.ExitCode)
	if job.ExitSignal != 0 {
		exit = fmt.Sprintf("%s, signal %d", job.State, job.ExitSignal)
	}
	phase := Failed
	switch job.State {
	case slurm.StateCompleted:
		phase = Completed
	case slurm.StateCancelled:
		phase = Cancelled
	}
	// Only what we did to the job is mended; its own failures are its own.
	why := b.ourFault(rec, job, during)
	if why == "" && mute {
		why = b.resumeFailed(now, rec, job, during)
	}
	if why != "" {
		changed := rec.Changed
		b.end(now, rec, Failed, at, exit)
		rec.Changed = changed
		if rec.Run.Profile && rec.Run.Signalled.IsZero() {
			rec.Profile = Profile{Done: true, Note: "profile-failed: " + exit}
			rec.note(now, "profile-failed", exit+": back to the queue with its own request, not profiled again")
		}
		rec.Rerun, rec.Why = true, why
		rec.note(now, "rerun", why)
		return
	}
	b.end(now, rec, phase, at, exit)
}

// rerunFailed gives up putting an ended job back: it stays ended, and nothing of ours is on it.
func (r *Record) rerunFailed(now time.Time, why string) {
	r.Rerun, r.Changed = false, Changed{}
	r.note(now, "rerun-failed", why)
}

// ourFault says why an ended job must be put back into the queue: it failed in a profile run that it never asked for, or our signal killed it.
// A job cancelled by its user or by an admin is never brought back.
func (b *Bridge) ourFault(rec *Record, job *slurm.Job, during Phase) string {
	if job.State == slurm.StateCancelled || job.State == slurm.StateDeadline || !during.OnGPUs() && during != Starting {
		return ""
	}
	signalled := !rec.Run.Signalled.IsZero()
	cut := rec.cutShort(job, b.cfg.CheckpointTimeout)
	// One that saved, trained on and came to its end has nothing left to do: a rerun would do the rest of it twice.
	unfinished := max(rec.Run.SavedIter, rec.Run.LastIter) < rec.Wish.Stop.Iterations
	switch {
	case !job.Requeue: // its user has switched that off since
		return ""
	case cut != "" && !rec.Run.answered():
		b.counts.CheckpointsFailed++
		rec.NoPreempt = "signal-ends: " + cut
		return cut
	case cut != "":
		return fmt.Sprintf("%s: let it exit %d", cut, b.cfg.RequeueExit)
	case job.State == slurm.StateCompleted:
		return ""
	case signalled && !rec.Run.answered():
		b.counts.CheckpointsFailed++
		if job.State == slurm.StatePreempted {
			return "Slurm preempted it while it was saving"
		}
		rec.NoPreempt = "signal-kills: the checkpoint signal ended it; see its ckpt= setting"
		return "the checkpoint signal killed it"
	case signalled && (unfinished || rec.Wish.Stop.Iterations == 0): // who fails has not come to an end of his own
		return "it saved a checkpoint and did not exit with the agreed code"
	case rec.Run.Profile:
		return "its profile run failed"
	case during == Starting && rec.Restart > 0 && job.End.Sub(job.Start) <= time.Second && rec.LaunchFailures < 2:
		rec.LaunchFailures++
		return "it was over within a second of its restart: the launch failed"
	}
	return ""
}

// lastWords is how long the lines of a job that has ended may be on their way here.
const lastWords = 20 * time.Second

// mayYetSay reports whether lines that are still on their way could change what is made of the end of a run that we had asked to leave: Slurm is often quicker than they are.
func (r *Record) mayYetSay(job *slurm.Job) bool {
	if r.Run.Signalled.IsZero() || r.Run.Done { // also when it was given back since: the signal is still on its way, for all we know
		return false
	}
	return job.State == slurm.StateCompleted && !r.atItsEnd() || job.State == slurm.StateFailed && !r.Run.answered()
}

// atItsEnd reports whether the job has reached what it declared: its iterations, or its target.
func (r *Record) atItsEnd() bool {
	at, stop := max(r.Run.SavedIter, r.Run.LastIter), r.Wish.Stop
	return stop.Iterations > 0 && at >= stop.Iterations || r.Wish.Max > 0 && at >= r.Wish.Max || r.metTarget()
}

// cutShort says why a run that Slurm shows as completed has not come to its end: it left because we asked it to, with exit 0, which scripts say by habit. "" means that it
// may be taken to be finished: it said so (a "done" line), reached what it declared, trained on after it had saved, or nobody had asked it to leave. Of one that declares no
// end and says nothing, the moment tells: between our signal and its end there are seconds. Should it have been done for all that, its next run finds the last checkpoint and
// ends, and nobody asks that one anything.
func (r *Record) cutShort(job *slurm.Job, patience time.Duration) string {
	run, stop := r.Run, r.Wish.Stop
	if job.State != slurm.StateCompleted || run.Signalled.IsZero() || run.Done {
		return ""
	}
	if r.Phase != Checkpointing && job.End.Sub(run.Signalled) > patience { // given back since, and it trained on; a release with the daemon dead hears no lines of it
		return ""
	}
	saved, at := run.answered(), max(run.SavedIter, run.LastIter)
	switch {
	case r.atItsEnd():
		return ""
	case saved && stop.Iterations > 0:
		return fmt.Sprintf("it saved a checkpoint and exited 0 instead of the agreed code, at iteration %d of %d", at, stop.Iterations)
	case r.Phase != Checkpointing: // it did not leave at once
		return ""
	case stop.Iterations > 0:
		return fmt.Sprintf("it exited 0 at the checkpoint signal, at iteration %d of %d, and did not say that it had saved", at, stop.Iterations)
	case saved && (run.LastIter <= run.SavedIter || !run.LastAt.After(run.CheckpointAt)):
		return "it saved a checkpoint when it was asked to and exited 0 instead of the agreed code, without a word that it was done"
	}
	return ""
}

// metTarget reports whether the newest value of the job's metric is the one at which it ends.
func (r *Record) metTarget() bool {
	n := len(r.Curve)
	if r.Wish.Stop.Kind != comment.StopMetric || n == 0 {
		return false
	}
	if r.Wish.Stop.Op == comment.AtLeast {
		return r.Curve[n-1].Value >= r.Wish.Stop.Target
	}
	return r.Curve[n-1].Value <= r.Wish.Stop.Target
}

// maxResumeFailures is how often a job is put back that failed while it came back from a move of ours.
const maxResumeFailures = 2

// resumeFailed says why a job must be put back that ended with an error in the run after one that we cut short, before it said anything: it could not read what it had
// saved for us, and may well find an older checkpoint the next time. It is not moved again, whatever comes of it.
func (b *Bridge) resumeFailed(now time.Time, rec *Record, job *slurm.Job, during Phase) string {
	n := len(rec.Stays)
	if job.State != slurm.StateFailed || !job.Requeue || !during.OnGPUs() && during != Starting || n < 2 || rec.Stays[n-1].Run != rec.Restart {
		return ""
	}
	if cut := rec.Stays[n-2]; !cut.Cut && !cut.Profile && rec.ResumeFailures == 0 {
		return ""
	}
	rec.ResumeFailures++
	text := fmt.Sprintf("resume-failed: run %d ended with exit %d before its first sign of life, after a checkpoint of iteration %d", rec.Restart, job.ExitCode, rec.Saved)
	rec.NoPreempt = text + ": it is not preempted any more; see whether its checkpoints are written whole"
	rec.note(now, "resume-failed", text)
	b.log(now, "warn", "resume-failed", rec.Job, "%s", text)
	if rec.ResumeFailures > maxResumeFailures {
		return ""
	}
	return fmt.Sprintf("it could not resume after a move of ours (try %d of %d)", rec.ResumeFailures, maxResumeFailures)
}

// isProfile reports whether the job as Slurm shows it is a profile run of ours.
func (b *Bridge) isProfile(rec *Record, job *slurm.Job) bool {
	return job.Partition == b.cfg.ProfilePartition && job.Partition != rec.Original.Partition
}

// end closes a record.
func (b *Bridge) end(now time.Time, rec *Record, p Phase, at time.Time, exit string) {
	rec.Ended, rec.Exit = at, exit
	rec.LeaseUntil, rec.Placement, rec.Target = time.Time{}, nil, Target{}
	rec.Changed = Changed{} // an ended job has nothing left to undo; one that is rerun is read anew
	rec.enter(now, p, rec.Why)
	rec.note(now, "end", exit)
	b.refund(now, rec)
	b.keepPast(now, rec)
	b.rouse("a job ended")
}

// runOver closes the books on a run that no longer holds GPUs.
func (b *Bridge) runOver(now time.Time, rec *Record, at time.Time) {
	run := rec.Run
	if at.IsZero() || at.After(now) {
		at = now
	}
	if !run.Start.IsZero() && at.After(run.Start) {
		rec.GPUSeconds += at.Sub(run.Start).Seconds() * float64(rec.Placement.GPUs())
		rec.LastOnGPUs = at
		rec.Stays = keep(rec.Stays, maxStays, Stay{rec.Restart, run.Start, at, rec.Placement, run.Profile, rec.Phase == Checkpointing && !run.Profile})
	}
	if rec.Phase == Checkpointing && run.answered() {
		b.counts.CheckpointsConfirmed++
	}
	if rec.Phase == Checkpointing && !run.Signalled.IsZero() && at.After(run.Signalled) {
		s := estimator.SRSample{GPUs: rec.Placement.GPUs(), Nodes: len(rec.Placement), Seconds: at.Sub(run.Signalled).Seconds(),
			Bytes: rec.CheckpointBytes, AtOnce: b.savingBeside(rec)}
		rec.Checkpoints = keep(rec.Checkpoints, maxSR, s)
		b.learnCheckpoint(now, s)
	}
	if !run.Profile && rec.Phase == Checkpointing {
		rec.Preemptions++
		b.counts.Preemptions++
	}
	b.learnLease(now, rec, at)
	if run.Profile && !rec.Profile.Done && run.Ready.IsZero() {
		rec.Profile = Profile{Done: true, Note: "profile given up: it reports no progress"}
	}
	if run.Profile && !rec.Profile.Done {
		b.profileStepOver(now, rec)
	}
	rec.Placement = nil
	rec.LeaseUntil = time.Time{}
	rec.Run.Start, rec.Run.Ready = time.Time{}, time.Time{} // counted
	rec.dirty = true
}

func keep[T any](list []T, most int, v T) []T {
	list = append(list, v)
	if n := len(list) - most; n > 0 {
		list = slices.Delete(list, 0, n)
	}
	return list
}
