package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// follow brings the records in line with what Slurm shows: admits new jobs, follows the phases of the known ones, and ends
// those that are over. Slurm's word always wins.
func (b *Bridge) follow(now time.Time, s slurm.State) {
	b.forgetLimits(now)
	b.awaits = awaited(s.Jobs)
	b.seenRecs = slices.Grow(b.seenRecs[:0], len(s.Jobs))[:len(s.Jobs)]
	for i := range s.Jobs {
		b.seenRecs[i] = nil
		job := &s.Jobs[i]
		rec := b.records[job.ID]
		if rec != nil && !rec.same(job) {
			b.log(now, "warn", "job-id-reused", job.ID, "job %d is another job than the one we knew (user id %d, submitted %s)",
				job.ID, job.UID, job.Submit.UTC().Format(time.RFC3339))
			if rec.Phase.Ours() { // it ended while nobody was looking
				b.end(now, rec, Completed, now, endUnseen)
			}
			b.carry(now, rec) // the journal has one record of an id
			b.bury(rec)
			rec = nil
		}
		if rec == nil {
			if rec = b.admit(now, job); rec == nil {
				continue
			}
			b.takeUp(rec)
		}
		b.followJob(now, rec, job)
		b.seenRecs[i], rec.shownAt, rec.shownIn = rec, i, b.cycle
	}
	b.spare(now)
	b.endStandstills(now)
	for _, rec := range b.known() {
		if !rec.LostSince.IsZero() && (!rec.Phase.Ended() || now.Sub(rec.LostSince) >= b.cfg.returnWithin()) {
			b.judgeLost(now, rec)
		}
		if rec.shownIn == b.cycle {
			continue
		}
		if rec.Phase.Ended() || rec.Phase == Unmanaged || rec.Phase == Released {
			if rec.Rerun { // its nodes took longer to clean up than Slurm remembers jobs (MinJobAge), or nobody was there to ask
				rec.rerunFailed(now, "Slurm no longer knows it: submit it again")
				b.log(now, "warn", "rerun-failed", rec.Job, "Slurm forgot it before it could be put back: %s", rec.Why)
			}
			b.bury(rec)
			continue
		}
		// Slurm forgets a job MinJobAge after its end: it ended while nobody was looking.
		b.end(now, rec, Completed, now, endUnseen)
	}
}

// endUnseen is the exit of a job that ended while nobody was looking: neither when nor how is known.
const endUnseen = "no longer known to Slurm"

// known are the records in order of their ids: ranging over the map never decides anything.
func (b *Bridge) known() []*Record {
	if b.order == nil { // takeUp and bury drop it; those who range over the old list keep it whole
		b.order = make([]*Record, 0, len(b.records))
		for _, rec := range b.records {
			b.order = append(b.order, rec)
		}
		slices.SortFunc(b.order, func(x, y *Record) int { return cmp.Compare(x.Job, y.Job) })
	}
	return b.order
}

// takeUp adds a record.
func (b *Bridge) takeUp(rec *Record) {
	b.order = nil
	b.records[rec.Job] = rec
}

// maxPast bounds the ended jobs that are kept to be shown.
const maxPast = 1000

// bury moves a record to the past.
func (b *Bridge) bury(rec *Record) {
	if !rec.LostSince.IsZero() {
		b.judgeLost(b.seen.At, rec)
	}
	delete(b.records, rec.Job)
	b.order = nil
	if rec.Phase == Unmanaged {
		b.forget(rec)
		return
	}
	b.past = append(b.past, rec)
	if rec.everCut() {
		b.pastCut = append(b.pastCut, rec)
	}
	if n := len(b.past) - maxPast; n > 0 {
		for _, old := range b.past[:n] {
			b.carry(b.seen.At, old)
			b.forget(old)
			if len(b.pastCut) > 0 && b.pastCut[0] == old {
				b.pastCut = slices.Delete(b.pastCut, 0, 1)
			}
		}
		b.past = slices.Delete(b.past, 0, n)
	}
	rec.dirty = true
}

// same reports whether a job of Slurm is the one that the record is about. Ids are reused after a wrap or a controller crash; a requeue changes the
// submit time but raises the restart count.
func (r *Record) same(job *slurm.Job) bool {
	switch {
	case job.UID != r.UID:
		return false
	case job.Restarts < r.Restart:
		// A slurmctld that was killed has forgotten its last seconds, and shows a run that we have seen end. A job that has got the id since was
		// submitted after all that we know of ours.
		return !job.Submit.After(r.Submit) && !job.Submit.Before(r.FirstSubmit.Add(-r.SubmitSlack))
	case job.Restarts == r.Restart && !job.Submit.Equal(r.Submit) && (r.Restart == 0 || job.Submit.Before(r.Submit.Add(-r.SubmitSlack))):
		return false // a requeue raises the count when the run ends, and sets the submit time only when the nodes are done with it
	case job.Submit.Before(r.FirstSubmit.Add(-r.SubmitSlack)):
		return false
	}
	return true
}

// followJob moves one record along.
func (b *Bridge) followJob(now time.Time, rec *Record, job *slurm.Job) {
	if rec.Phase == Unmanaged {
		rec.Submit, rec.Restart = job.Submit, job.Restarts
		rec.reconcile(now, job)
		split := rec.Remainder && !waitingTasks(job) // the last task has taken the array's own record over
		if split || job.State == slurm.StatePending && job.Comment != rec.Comment && !rec.Changed.Any() {
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
	b.foreignStart(now, rec, job)
	b.watchEdits(now, rec, job)
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

// reconcile drops from Changed what Slurm shows as undone, so that nothing is restored twice and nothing restored is counted as ours. While a call may still
// arrive, what is dropped is kept in mind, and is ours again when it shows.
func (r *Record) reconcile(now time.Time, job *slurm.Job) {
	before, late := r.Changed, r.Late
	c := &r.Changed
	r.arrived(now, job)
	if c.Hold && (!job.Held || job.Reason == "JobHeldUser") {
		c.Hold, r.Late.Hold = false, true // gone, or replaced by one of its user's
	}
	if !c.Begin.IsZero() && !c.Begin.After(now) {
		c.Begin = time.Time{} // it has passed by itself
	}
	if c.Nice && job.Nice == r.Original.Nice {
		c.Nice, r.Late.Nice, r.Late.NiceIs = false, true, c.NiceIs
	}
	if len(c.Pinned) > 0 && slices.Equal(job.Request.RequiredNodes, r.Original.RequiredNodes) {
		c.Pinned, r.Late.Pinned = nil, c.Pinned
	}
	if c.Reshape && r.isOriginal(job) {
		c.Reshape, r.Late.Reshape, r.Late.Wrote = false, true, c.Wrote
	}
	if !c.Reshape && len(c.Pinned) == 0 {
		c.Wrote = nil
	}
	if !now.Before(r.DoubtTill) {
		r.Late = Changed{}
	}
	if !before.equal(c) || !late.equal(&r.Late) {
		r.dirty = true
	}
	if !job.Held && job.Priority > 0 {
		r.Base = job.Priority + job.Nice
	}
}

// arrived takes for ours what a call of unknown outcome has done after all.
func (r *Record) arrived(now time.Time, job *slurm.Job) {
	if !r.Late.Any() || !now.Before(r.DoubtTill) || job.State.Finished() {
		return
	}
	c, l := &r.Changed, r.Late
	if l.Hold && job.Held && job.Reason != "JobHeldUser" {
		c.Hold = true
	}
	if l.Nice && job.Nice == l.NiceIs && job.Nice != r.Original.Nice {
		c.Nice, c.NiceIs = true, l.NiceIs
	}
	if len(l.Pinned) > 0 && slices.Equal(job.Request.RequiredNodes, l.Pinned) {
		c.Pinned = l.Pinned
	}
	if l.Reshape && !r.isOriginal(job) && r.couldBeOurs(job, l.Wrote) {
		c.Reshape = true
		if len(c.Wrote) == 0 {
			c.Wrote = l.Wrote
		}
	}
}

func (c *Changed) equal(o *Changed) bool {
	return c.Hold == o.Hold && c.Begin.Equal(o.Begin) && c.Nice == o.Nice && c.NiceIs == o.NiceIs && slices.Equal(c.Pinned, o.Pinned) && c.Reshape == o.Reshape && slices.EqualFunc(c.Wrote, o.Wrote, slices.Equal[planner.Placement])
}

// isOriginal reports whether the request stands as the user submitted it.
func (r *Record) isOriginal(job *slurm.Job) bool {
	q, o := job.Request, r.Original
	narrowed := o.Nodes.Max == 0 && q.Nodes.Max > 0 && q.Nodes.Max < mostNodes(o) // by a node list of ours, and stays so without it
	return job.Partition == o.Partition && q.TRESPerNode == o.TRESPerNode && q.TRESPerJob == o.TRESPerJob &&
		!otherTasks(o, q) && q.Nodes.Min == o.Nodes.Min && !narrowed
}

// followRunning handles a job that Slurm shows running (or suspended).
func (b *Bridge) followRunning(now time.Time, rec *Record, job *slurm.Job) {
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
	if rec.Phase == Checkpointing && !rec.Run.Signalled.IsZero() && rec.Run.AskedBy.IsZero() {
		rec.Run.AskedBy, rec.dirty = now, true
	}
	b.bootsNodes(now, rec, job)
	rec.Placement = placementOf(job)
	if rec.Phase == Running && job.State == slurm.StateSuspended {
		rec.Why = "suspended"
	}
}

// runBegins notes the start of a run.
func (b *Bridge) runBegins(now time.Time, rec *Record, job *slurm.Job) {
	phase, why := Running, ""
	profile := b.isProfile(rec, job)
	switch {
	case profile:
		phase = Profiling
	case rec.Phase != Starting:
		why = "started by Slurm"
	}
	rec.Run, rec.Doubts = RunProgress{Start: job.Start, Profile: profile}, Doubts{}
	if rec.LeaseUntil = rec.Target.Until; rec.Phase != Starting || !rec.LeaseUntil.After(now) {
		rec.LeaseUntil = b.leaseEnd(now, rec.Class())
	}
	if rec.Profile.Needed() && !profile && rec.Iter == 0 {
		rec.Profile.Steps, rec.Profile.Done = nil, true
		rec.Profile.Note = "started by Slurm before it was profiled"
	}
	rec.Started, rec.StartFailures, rec.Armed = true, 0, false
	rec.Placement = placementOf(job)
	rec.enter(now, phase, why)
	rec.note(now, "start", fmt.Sprintf("on %s", rec.Placement))
}

// placementOf is where a running job holds its GPUs.
func placementOf(job *slurm.Job) planner.Placement {
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
func (b *Bridge) followPending(now time.Time, rec *Record, job *slurm.Job) {
	at := rec.where()
	if rec.Phase.OnGPUs() || job.Restarts != rec.Restart {
		rec.loops(now)
		if rec.Rerun || rec.Phase == Checkpointing {
			b.cameBack(now, rec)
		}
		if rec.Phase == Checkpointing && rec.Run.answered() && !rec.Rerun { // and was not sent back by the failure of a node, say
			rec.Returned = true
		}
		over := job.Submit // a requeue sets the submit time, when the nodes are done with the run
		if !over.After(rec.Run.Start) {
			over = now
		}
		if rec.Phase == Checkpointing && !rec.Run.Signalled.IsZero() && !rec.Run.answered() {
			b.counts.CheckpointsConfirmed++ // by the agreed exit code
		}
		b.runOver(now, rec, over)
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
	b.launchFailed(now, rec, job, at)
	b.adopt(now, rec, job)
	b.readBlocks(now, rec, job)
	b.unprofile(rec)
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
		r.Loops, r.LaunchFailures = 0, 0
		return
	}
	if r.Loops++; r.Loops > 1 {
		r.BlockedTill = now.Add(backoff(r.Loops - 2))
		r.Blocked = fmt.Sprintf("it came back to the queue by itself %d times in a row without an iteration", r.Loops)
		r.note(now, "loops", r.Blocked)
		r.avoid(now, r.where())
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
	for _, rec := range b.known() {
		if p := rec.Phase; p == Waiting || p == Admitted || p == Requeueing {
			b.rouse("GPUs came free")
			return
		}
	}
}
