package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// follow brings the records in line with what Slurm shows: admits new jobs, follows the phases of the known ones, and ends
// those that are over. Slurm's word always wins.
func (b *Bridge) follow(now time.Time, s slurm.State) {
	present := make(map[slurm.JobID]bool, len(s.Jobs))
	for _, job := range s.Jobs {
		present[job.ID] = true
		rec := b.records[job.ID]
		if rec != nil && !rec.same(job) {
			b.log(now, "warn", "job-id-reused", job.ID, "job %d is another job than the one we knew (user id %d, submitted %s)",
				job.ID, job.UID, job.Submit.UTC().Format(time.RFC3339))
			b.bury(rec)
			rec = nil
		}
		if rec == nil {
			if rec = b.admit(now, job); rec == nil {
				continue
			}
			b.remember(rec)
		}
		b.followJob(now, rec, job)
	}
	for _, id := range b.ids() {
		if present[id] {
			continue
		}
		rec := b.records[id]
		if rec.Phase.Ended() || rec.Phase == Unmanaged || rec.Phase == Released {
			b.bury(rec)
			continue
		}
		// Slurm forgets a job MinJobAge after its end: it ended while nobody was looking.
		b.end(now, rec, Completed, now, endUnseen)
	}
}

// endUnseen is the exit of a job that ended while nobody was looking: neither when nor how is known.
const endUnseen = "no longer known to Slurm"

// ids are the known jobs in order: ranging over the map never decides anything.
func (b *Bridge) ids() []slurm.JobID {
	if b.order == nil { // remember and bury drop it; those who range over the old list keep it whole
		b.order = slices.Sorted(maps.Keys(b.records))
	}
	return b.order
}

// remember takes a record up.
func (b *Bridge) remember(rec *Record) {
	if b.records[rec.Job] == nil {
		b.order = nil
	}
	b.records[rec.Job] = rec
}

// maxPast bounds the ended jobs that are kept to be shown.
const maxPast = 1000

// bury moves a record to the past.
func (b *Bridge) bury(rec *Record) {
	delete(b.records, rec.Job)
	b.order = nil
	if rec.Phase == Unmanaged {
		b.forget(rec)
		return
	}
	b.past = append(b.past, rec)
	if n := len(b.past) - maxPast; n > 0 {
		for _, old := range b.past[:n] {
			b.forget(old)
		}
		b.past = slices.Delete(b.past, 0, n)
	}
	rec.dirty = true
}

// same reports whether a job of Slurm is the one that the record is about. Ids are reused after a wrap or a controller crash; a requeue changes the
// submit time but raises the restart count.
func (r *Record) same(job slurm.Job) bool {
	switch {
	case job.UID != r.UID, job.Restarts < r.Restart:
		return false
	case job.Restarts == r.Restart && !job.Submit.Equal(r.Submit) && (r.Restart == 0 || job.Submit.Before(r.Submit)):
		return false // a requeue raises the count when the run ends, and sets the submit time only when the nodes are done with it
	case job.Submit.Before(r.FirstSubmit):
		return false
	}
	return true
}

// followJob moves one record along.
func (b *Bridge) followJob(now time.Time, rec *Record, job slurm.Job) {
	if rec.Phase == Unmanaged {
		rec.Submit, rec.Restart = job.Submit, job.Restarts
		rec.reconcile(now, job)
		if job.State == slurm.StatePending && job.Comment != rec.Comment && !rec.Changed.Any() {
			// The user corrected the comment of a waiting job: look at it anew.
			if again := b.admit(now, job); again != nil && again.Phase != Unmanaged {
				*rec = *again
			}
		}
		if rec.Phase == Unmanaged {
			return
		}
	}
	rec.reconcile(now, job)
	switch {
	case job.State == slurm.StateRunning || job.State == slurm.StateSuspended:
		b.followRunning(now, rec, job)
	case job.State == slurm.StatePending:
		b.followPending(now, rec, job)
	case job.State.Finished():
		b.followFinished(now, rec, job)
	}
	rec.Submit = job.Submit
}

// reconcile drops from Changed what Slurm shows as undone, so that nothing is restored twice and nothing restored is counted as ours.
func (r *Record) reconcile(now time.Time, job slurm.Job) {
	before := r.Changed
	c := &r.Changed
	if c.Hold && (!job.Held || job.Reason == "JobHeldUser") {
		c.Hold = false // gone, or replaced by one of its user's
	}
	if !c.Begin.IsZero() && !c.Begin.After(now) {
		c.Begin = time.Time{} // it has passed by itself
	}
	if c.Nice && job.Nice == r.Original.Nice {
		c.Nice = false
	}
	if len(c.Pinned) > 0 && slices.Equal(job.Request.RequiredNodes, r.Original.RequiredNodes) {
		c.Pinned = nil
	}
	if c.Reshape && r.isOriginal(job) {
		c.Reshape = false
	}
	if !before.equal(*c) {
		r.dirty = true
	}
	if !job.Held && job.Priority > 0 {
		r.Base = job.Priority + job.Nice
	}
}

func (c Changed) equal(o Changed) bool {
	return c.Hold == o.Hold && c.Begin.Equal(o.Begin) && c.Nice == o.Nice && c.NiceIs == o.NiceIs && slices.Equal(c.Pinned, o.Pinned) && c.Reshape == o.Reshape
}

// isOriginal reports whether the request stands as the user submitted it.
func (r *Record) isOriginal(job slurm.Job) bool {
	q := job.Request
	return job.Partition == r.Original.Partition && q.TRESPerNode == r.Original.TRESPerNode && q.TRESPerJob == r.Original.TRESPerJob &&
		q.Tasks == r.Original.Tasks && q.Nodes.Min == r.Original.Nodes.Min
}

// followRunning handles a job that Slurm shows running (or suspended).
func (b *Bridge) followRunning(now time.Time, rec *Record, job slurm.Job) {
	again := job.Restarts != rec.Restart // it ended and started again between two looks
	if again {
		b.runOver(now, rec, job.Start)
		rec.Restart, rec.Rerun, rec.RerunTries = job.Restarts, false, 0
	}
	if job.HasFlag(slurm.FlagCompleting) {
		return
	}
	switch {
	case rec.Phase.Ended() || rec.Phase == Released:
		return
	case !rec.Phase.OnGPUs() || again:
		b.runBegins(now, rec, job)
	}
	rec.Placement = placementOf(job)
	if rec.Phase == Running && job.State == slurm.StateSuspended {
		rec.Why = "suspended"
	}
}

// runBegins notes the start of a run.
func (b *Bridge) runBegins(now time.Time, rec *Record, job slurm.Job) {
	phase, why := Running, ""
	profile := b.isProfile(rec, job)
	switch {
	case profile:
		phase = Profiling
	case rec.Phase != Starting:
		why = "started by Slurm"
	}
	rec.Run = RunProgress{Start: job.Start, Profile: profile}
	if rec.LeaseUntil = rec.Target.Until; rec.Phase != Starting || !rec.LeaseUntil.After(now) {
		rec.LeaseUntil = b.leaseEnd(now, rec.Class())
	}
	if rec.Profile.Needed() && !profile && rec.Iter == 0 {
		rec.Profile.Steps, rec.Profile.Done = nil, true
		rec.Profile.Note = "started by Slurm before it was profiled"
	}
	rec.Started, rec.StartFailures = true, 0
	rec.Placement = placementOf(job)
	rec.enter(now, phase, why)
	rec.note(now, "start", fmt.Sprintf("on %s", rec.Placement))
}

// placementOf is where a running job holds its GPUs.
func placementOf(job slurm.Job) planner.Placement {
	var shares []planner.Share
	for _, g := range job.NodeGPUs {
		if i := slices.IndexFunc(shares, func(s planner.Share) bool { return s.Node == g.Node }); i >= 0 {
			shares[i].GPUs += g.Count
		} else if g.Count > 0 {
			shares = append(shares, planner.Share{Node: g.Node, GPUs: g.Count})
		}
	}
	return planner.NewPlacement(shares...)
}

// followPending handles a job that Slurm shows pending.
func (b *Bridge) followPending(now time.Time, rec *Record, job slurm.Job) {
	if rec.Phase.OnGPUs() || job.Restarts != rec.Restart {
		rec.loops(now)
		if rec.Rerun && b.noReturn != "" {
			b.noReturn = ""
			b.log(now, "info", "no-return", rec.Job, "it came back: preemptions are possible again")
		}
		at := job.Submit // a requeue sets the submit time, when the nodes are done with the run
		if !at.After(rec.Run.Start) {
			at = now
		}
		b.runOver(now, rec, at)
		rec.Restart, rec.Rerun, rec.RerunTries = job.Restarts, false, 0
		rec.Changed.Begin = time.Time{} // Slurm has set its own
		switch {
		case rec.Phase == Released:
		case rec.Changed.Hold || rec.Changed.Reshape || rec.Phase == Checkpointing || rec.Phase == Failed:
			rec.enter(now, Requeueing, "")
		default:
			rec.enter(now, b.queuePhase(rec), "requeued by Slurm: "+cmp.Or(job.Reason, "no reason given"))
			rec.LeaseUntil = time.Time{}
		}
		b.rouse("GPUs came free")
	}
	if rec.Phase.Ended() { // put back into the queue by somebody
		rec.enter(now, Requeueing, "")
	}
	b.adopt(now, rec, job)
	b.readBlocks(now, rec, job)
	if rec.Phase == Admitted && rec.Profile.Needed() && rec.Blocked == "" && b.acts(rec) && now.Sub(rec.Since) > profilePatience*b.cfg.Unit {
		b.profileStepSkipped(now, rec)
	}
}

// loops notes how a run went that is back in the queue. One that came back by itself without having done anything, again and again, waits longer each
// time: what we do to a begin time takes away the two minutes that Slurm would have put in between.
func (r *Record) loops(now time.Time) {
	run := r.Run
	switch {
	case !r.Phase.OnGPUs() && r.Phase != Starting || !run.Signalled.IsZero():
		return
	case run.LastIter > run.FirstIter || run.CheckpointAt.After(run.Start):
		r.Loops = 0
		return
	}
	if r.Loops++; r.Loops > 1 {
		r.BlockedTill = now.Add(backoff(r.Loops - 2))
		r.Blocked = fmt.Sprintf("it came back to the queue by itself %d times in a row without an iteration", r.Loops)
		r.note(now, "loops", r.Blocked)
	}
}

// backoff is how long to wait after so many failures more than the first: 15 s, doubled each time, 16 minutes at most.
func backoff(n int) time.Duration { return 15 * time.Second << max(min(n, 6), 0) }

// queuePhase is Waiting, or Admitted while the job still has to be profiled.
func (b *Bridge) queuePhase(rec *Record) Phase {
	if rec.Profile.Needed() {
		return Admitted
	}
	return Waiting
}

// limitReasons are the prefixes of Slurm's reasons for jobs that would not start even on free GPUs.
var limitReasons = []string{"Assoc", "QOS", "MaxMem", "Licenses", "Reservation", "Partition", "InvalidAccount", "InvalidQOS", "JobArrayTaskLimit",
	"DeadLine", "AccountNotAllowed", "BadConstraints", "launch_failed_requeued_held", "MaxSubmit", "JobHoldMaxRequeue"}

func limitReason(reason string) bool {
	return slices.ContainsFunc(limitReasons, func(p string) bool { return strings.HasPrefix(reason, p) })
}

// readBlocks finds out whether something that is not ours keeps the job from starting.
func (b *Bridge) readBlocks(now time.Time, rec *Record, job slurm.Job) {
	limited := limitReason(job.Reason)
	why := ""
	switch {
	case job.Held && !rec.Changed.Hold && rec.Phase != Starting:
		why = "held (" + cmp.Or(job.Reason, "JobHeld") + "): release it with scontrol release"
	case job.Dependency != "":
		why = "waits for " + job.Dependency
	case b.userBegin(now, rec, job):
		why = "begin time " + job.Begin.In(b.cfg.Zone).Format("2006-01-02 15:04:05 MST") + " set by its user"
	case limited && rec.Phase != Starting && !now.Before(rec.BlockedTill):
		// Only a job that Slurm has just tried to start shows such a reason; ask again after a while.
		rec.BlockedTill = now.Add(max(6*b.cfg.Poll, 30*time.Second))
		why = "Slurm would keep it waiting: " + job.Reason
	case now.Before(rec.BlockedTill):
		why = rec.Blocked
	}
	if rec.Blocked != why {
		rec.Blocked, rec.dirty = why, true
	}
}

// userBegin reports whether the job has a begin time in the future that is the user's own: neither ours, nor the one of the submit plugin, nor the
// one that Slurm gives to a requeued job.
func (b *Bridge) userBegin(now time.Time, rec *Record, job slurm.Job) bool {
	if !job.Begin.After(now) {
		return false
	}
	if job.Begin.Equal(rec.Original.Begin) {
		return true
	}
	if rec.Phase == Starting && !now.Before(rec.DoubtTill) && !job.Begin.Equal(rec.BeginWas) {
		rec.Original.Begin, rec.dirty = job.Begin, true // we had taken it off
		return true
	}
	if rec.Changed.Begin.IsZero() || job.Begin.Equal(rec.Changed.Begin) || job.Begin.Equal(rec.BeginWas) {
		return false
	}
	rec.Original.Begin, rec.dirty = job.Begin, true
	return true
}

// maxReruns is how often Slurm is asked to put a job back that failed through our doing.
const maxReruns = 20

// followFinished handles a job that Slurm shows ended.
func (b *Bridge) followFinished(now time.Time, rec *Record, job slurm.Job) {
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
			rec.Rerun, rec.Changed = false, Changed{}
			rec.note(now, "rerun-failed", "Slurm did not take it back")
		}
		return
	}
	at := job.End
	if at.IsZero() || at.After(now) {
		at = now
	}
	during := rec.Phase
	if missed || during == Starting { // it began and ended between two looks
		during = Starting
		rec.Run = RunProgress{Start: job.Start, Profile: b.isProfile(rec, job)}
		rec.Placement = placementOf(job)
	}
	if during.OnGPUs() || during == Starting { // the books of this run
		b.runOver(now, rec, at)
	}
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
	if why := b.ourFault(rec, job, during); why != "" {
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

// ourFault says why an ended job must be put back into the queue: it failed in a profile run that it never asked for, or our signal killed it.
// A job cancelled by its user or by an admin is never brought back.
func (b *Bridge) ourFault(rec *Record, job slurm.Job, during Phase) string {
	if job.State == slurm.StateCancelled || job.State == slurm.StateDeadline || !during.OnGPUs() && during != Starting {
		return ""
	}
	signalled := !rec.Run.Signalled.IsZero()
	switch {
	case !job.Requeue: // its user has switched that off since
		return ""
	case job.State == slurm.StateCompleted && signalled && rec.Wish.Stop.Iterations > 0 && rec.Run.answered() && rec.Run.SavedIter < rec.Wish.Stop.Iterations:
		return "it saved a checkpoint and exited 0 instead of the agreed code"
	case job.State == slurm.StateCompleted:
		return ""
	case signalled && !rec.Run.answered():
		rec.NoPreempt = "signal-kills: the checkpoint signal ended it; see its ckpt= setting"
		return "the checkpoint signal killed it"
	case signalled && rec.Wish.Stop.Iterations > rec.Run.SavedIter:
		return "it saved a checkpoint and did not exit with the agreed code"
	case rec.Run.Profile:
		return "its profile run failed"
	case during == Starting && rec.Restart > 0 && job.End.Sub(job.Start) <= time.Second && rec.LaunchFailures < 2:
		rec.LaunchFailures++
		return "it was over within a second of its restart: the launch failed"
	}
	return ""
}

// isProfile reports whether the job as Slurm shows it is a profile run of ours.
func (b *Bridge) isProfile(rec *Record, job slurm.Job) bool {
	return job.Partition == b.cfg.ProfilePartition && job.Partition != rec.Original.Partition
}

// end closes a record.
func (b *Bridge) end(now time.Time, rec *Record, p Phase, at time.Time, exit string) {
	rec.Ended, rec.Exit = at, exit
	rec.LeaseUntil, rec.Placement, rec.Target = time.Time{}, nil, Target{}
	rec.Changed = Changed{} // an ended job has nothing left to undo; one that is rerun is read anew
	rec.enter(now, p, rec.Why)
	rec.note(now, "end", exit)
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
		rec.Stays = keep(rec.Stays, maxStays, Stay{rec.Restart, run.Start, at, rec.Placement, run.Profile})
	}
	if rec.Phase == Checkpointing && !run.Signalled.IsZero() && at.After(run.Signalled) {
		s := estimator.SRSample{GPUs: rec.Placement.GPUs(), Nodes: len(rec.Placement), Seconds: at.Sub(run.Signalled).Seconds(),
			Bytes: rec.CheckpointBytes, AtOnce: b.savingBeside(rec)}
		rec.Checkpoints = keep(rec.Checkpoints, maxSR, s)
		b.learnCheckpoint(now, s)
	}
	if !run.Profile && rec.Phase == Checkpointing {
		rec.Preemptions++
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

// rouse asks for an early round.
func (b *Bridge) rouse(why string) {
	if b.wake == "" {
		b.wake = why
	}
}

// rouseWhenFreed brings a round forward when GPUs came free, whoever held them, and somebody waits.
func (b *Bridge) rouseWhenFreed() {
	before := b.freeGPUs
	b.freeGPUs = b.gpuCount().Free
	if b.freeGPUs <= before {
		return
	}
	for _, id := range b.ids() {
		if p := b.records[id].Phase; p == Waiting || p == Admitted || p == Requeueing {
			b.rouse("GPUs came free")
			return
		}
	}
}
