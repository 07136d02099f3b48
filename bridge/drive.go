package bridge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// act brings the jobs from where they stand towards where the plan wants them. Order in a cycle: what gives things back; holds on the jobs that
// must leave; requeues; starts in plan order, also of those whose GPUs are still held by a job that must leave; and only then the signals. A
// job that saves fast is gone within milliseconds of its signal, and what it frees must find its heir already waiting, ahead of every plain job.
func (b *Bridge) act(ctx context.Context, now time.Time) error {
	c := &cycle{b: b, now: now, left: b.cfg.MaxActions}
	c.count()
	for _, p := range []pass{giveBack, hold, requeue} {
		if err := c.each(ctx, p); err != nil {
			return err
		}
	}
	c.count() // what was held just now is about to be free
	if err := c.starts(ctx); err != nil {
		return err
	}
	return c.each(ctx, ask)
}

// pass says what one job needs now.
type pass func(*cycle, *Record, *slurm.Job) []Action

func (c *cycle) each(ctx context.Context, p pass) error {
	for _, rec := range c.b.known() {
		if job, ok := c.job(rec); ok {
			if err := c.apply(ctx, rec, p(c, rec, job)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycle is the state of one act.
type cycle struct {
	b       *Bridge
	now     time.Time
	left    int            // writes
	saving  int            // checkpoints in progress
	loading int            // starts without a sign of life
	free    map[string]int // GPUs free now by node, less what starting jobs will take
	soon    map[string]int // and those of jobs that are writing their checkpoint or completing
}

// job is what this cycle's snapshot shows of a record.
func (c *cycle) job(rec *Record) (*slurm.Job, bool) {
	if rec.shownIn != c.b.cycle {
		return nil, false
	}
	return &c.b.seen.Jobs[rec.shownAt], true
}

// count finds out what is in progress and which GPUs are free.
func (c *cycle) count() {
	nodes := len(c.b.seen.Nodes)
	if c.b.free == nil {
		c.b.free, c.b.soon = make(map[string]int, nodes), make(map[string]int, nodes)
	}
	clear(c.b.free)
	clear(c.b.soon)
	c.free, c.soon, c.saving, c.loading = c.b.free, c.b.soon, 0, 0
	for i := range c.b.seen.Nodes {
		n := &c.b.seen.Nodes[i]
		if _, wakes := n.Power(); n.Usable || wakes {
			c.free[n.Name] = n.TotalGPUs()
		}
	}
	for i := range c.b.seen.Jobs {
		j := &c.b.seen.Jobs[i]
		completing := j.HasFlag(slurm.FlagCompleting)
		if j.State != slurm.StateRunning && j.State != slurm.StateSuspended && !completing {
			continue
		}
		rec := c.b.seenRecs[i]
		leaving := completing || rec != nil && rec.Phase == Checkpointing
		for _, g := range j.NodeGPUs {
			c.free[g.Node] -= g.Count
			if leaving {
				c.soon[g.Node] += g.Count
			}
		}
	}
	for _, rec := range c.b.known() {
		switch rec.Phase {
		case Starting:
			c.take(rec.Target.Placement)
			c.loading++
		case Running, Profiling:
			if rec.Run.Ready.IsZero() && c.now.Sub(rec.Run.Start) < c.b.cfg.CheckpointTimeout && rec.Started && !rec.Wish.Ckpt.None {
				c.loading++
			}
		case Checkpointing:
			c.saving++
		}
	}
}

func (c *cycle) take(p planner.Placement) {
	for _, s := range p {
		c.free[s.Node] -= s.GPUs
	}
}

// room reports whether the placement is free now, or will be as soon as jobs that are already leaving have left.
func (c *cycle) room(p planner.Placement) (now, soon bool) {
	now, soon = true, true
	for _, s := range p {
		now = now && c.free[s.Node] >= s.GPUs
		soon = soon && c.free[s.Node]+c.soon[s.Node] >= s.GPUs
	}
	return now, soon
}

// giveBack undoes what is no longer wanted: everything of a job that is released or paused, our hold on a job that runs on, a stale node list.
func giveBack(c *cycle, rec *Record, job *slurm.Job) []Action {
	run, b := rec.ID(), c.b
	pending := job.State == slurm.StatePending && !job.HasFlag(slurm.FlagCompleting)
	if !b.acts(rec) || rec.Phase == Unmanaged { // unmanaged: the submit plugin may have delayed it
		return c.plain(rec, job, pending)
	}
	switch rec.Phase {
	case Requeueing:
		if !pending {
			return nil
		}
		if rec.Target.Decision == planner.Move || rec.Target.Decision == planner.Start {
			if _, soon := c.room(rec.Target.Placement); (soon || c.tooSoon(rec)) && b.suspect == "" {
				return nil // starts brings it straight to its new place
			}
		}
		return []Action{Settle{target(run), c.now.Add(b.cfg.Delay)}}
	case Checkpointing:
		if job.State.Finished() { // its last words are awaited
			return nil
		}
		if rec.Run.Signalled.IsZero() && !rec.Changed.Hold { // the hold was never set, or somebody took it off: from the beginning
			rec.enter(c.now, rec.runPhase(), "")
			return nil
		}
		if rec.Run.Signalled.IsZero() && b.unsaved != "" { // it cannot be signalled now
			rec.enter(c.now, rec.runPhase(), "")
			return []Action{Unhold{target(run)}}
		}
		return c.overdue(rec, job)
	case Running, Profiling:
		if rec.Changed.Hold {
			return []Action{Unhold{target(run)}}
		}
	case Starting:
		return c.stuck(rec, job, pending)
	case Waiting, Admitted:
		var acts []Action
		if ch := rec.Changed; pending && (ch.Hold || ch.Reshape || ch.Nice && !rec.Armed) { // the call that should have taken it off did not arrive
			acts = append(acts, Settle{target(run), c.now.Add(b.cfg.Delay)})
		}
		if pending && len(rec.Changed.Pinned) > 0 && len(rec.Original.RequiredNodes) == 0 {
			acts = append(acts, Unpin{target(run)})
		}
		return acts
	}
	return nil
}

// plain is the way back of a job on which we do not act (any more).
func (c *cycle) plain(rec *Record, job *slurm.Job, pending bool) []Action {
	b := c.b
	if rec.Phase == Profiling && b.preemptible(rec, job) {
		return nil // it has to come back from its profile first: checkpoint sees to that
	}
	if rec.Phase.Ended() || job.State.Finished() || job.HasFlag(slurm.FlagCompleting) {
		return nil
	}
	if rec.Phase == Checkpointing && !rec.Run.Signalled.IsZero() {
		late := rec.Run.asked(c.now) >= b.cfg.CheckpointTimeout
		switch {
		case rec.Run.Profile && rec.canBeSignalled() && c.unheard(rec): // else it would be brought back without having been asked to save
			return []Action{c.signal(rec)}
		case !late && (rec.Run.Profile || !b.handsOff):
			return nil // it is on its way out, held so that nobody starts it before its request is restored
		case rec.Run.Profile:
			return []Action{Requeue{target(rec.ID()), "its profile run does not answer the signal"}}
		}
	}
	if rec.Phase == Profiling {
		return []Action{Requeue{target(rec.ID()), "its profile run cannot be asked to leave"}}
	}
	if !rec.Changed.Any() {
		return nil
	}
	if pending || rec.Changed.Hold || rec.Changed.Nice {
		acts := []Action{Restore{target(rec.ID())}}
		if pending && len(rec.Changed.Pinned) > 0 && len(rec.Original.RequiredNodes) == 0 {
			acts = append(acts, Unpin{target(rec.ID())})
		}
		return acts
	}
	return nil
}

// overdue gives up on a job that was signalled and neither exits nor says that it saved: it runs on, and after a few such strikes it counts as not
// preemptible.
func (c *cycle) overdue(rec *Record, job *slurm.Job) []Action {
	run := rec.Run
	if job.State != slurm.StateRunning || job.HasFlag(slurm.FlagCompleting) || run.Signalled.IsZero() || run.answered() {
		return nil
	}
	if run.asked(c.now) < c.b.cfg.CheckpointTimeout {
		return nil
	}
	rec.Strikes++
	c.b.counts.CheckpointsUnconfirmed++
	rec.Target = Target{}
	rec.Run.Signalled, rec.Run.Extended = time.Time{}, true
	why := fmt.Sprintf("signal-ineffective: no checkpoint within %v of the signal (%d of %d strikes)", c.b.cfg.CheckpointTimeout, rec.Strikes, c.b.cfg.CheckpointStrikes)
	if rec.Strikes >= c.b.cfg.CheckpointStrikes && c.b.cfg.Unconfirmed == Evict && !run.Profile {
		rec.note(c.now, "signal-ineffective", why)
		c.b.log(c.now, "warn", "signal-ineffective", rec.Job, "%s", why)
		return []Action{Requeue{target(rec.ID()), why + ": requeued without its unsaved work, as this site wants it"}}
	}
	if rec.Strikes >= c.b.cfg.CheckpointStrikes {
		rec.NoPreempt = why + ": it is not preempted any more; see its ckpt= setting, and whether its launcher hands the signal on (torchrun does not)"
	}
	if run.Profile { // it did not ask for this run: it gets its own GPUs back whatever it answers
		rec.Profile = Profile{Done: true, Note: "profile given up: " + why}
		return []Action{Requeue{target(rec.ID()), "its profile run does not answer the signal"}}
	}
	next := rec.runPhase()
	rec.LeaseUntil = c.b.leaseEnd(c.now, rec.Class()) // once more; it is asked again when that ends, unless its strikes are used up
	rec.enter(c.now, next, why)
	rec.note(c.now, "signal-ineffective", why)
	c.b.log(c.now, "warn", "signal-ineffective", rec.Job, "%s", why)
	return []Action{Unhold{target(rec.ID())}}
}

// unheard reports whether the signal may never have been sent (we died, or heard no answer) and the job runs on: the one call that is made again, once,
// since a snapshot cannot show what became of it, two polls after the first look at it: the third cycle after a death. A checkpoint is no proof: the job may save on its own account.
func (c *cycle) unheard(rec *Record) bool {
	run := rec.Run
	return !run.Signalled.IsZero() && !run.Heard && !run.Resent && run.asked(c.now) >= max(2*c.b.cfg.Poll, 10*time.Second)
}

// runPhase is the phase of the run in progress while nothing is asked of it.
func (r *Record) runPhase() Phase {
	if r.Run.Profile {
		return Profiling
	}
	return Running
}

// stuck takes back a start that Slurm did not carry out although the GPUs are free, or whose GPUs somebody else got.
func (c *cycle) stuck(rec *Record, job *slurm.Job, pending bool) []Action {
	if !pending {
		return nil
	}
	if rec.Changed.Hold { // the call that should have started it did not arrive
		rec.enter(c.now, c.b.queuePhase(rec), "its start did not arrive")
		return []Action{Settle{target(rec.ID()), c.now.Add(c.b.cfg.Delay)}}
	}
	held := job.Held || c.b.userBegin(c.now, rec, job) // Slurm itself put it aside (bad constraints), or its user did
	gone := false
	for _, s := range rec.Target.Placement {
		// free already counts this very job as gone.
		if c.free[s.Node] < 0 && c.free[s.Node]+c.soon[s.Node] < 0 {
			gone = true
		}
		if c.free[s.Node] < 0 && c.soon[s.Node] > 0 {
			rec.Run.Freed = time.Time{}
			if !held {
				return nil // somebody is still leaving
			}
		}
	}
	if !gone && !held && c.falls(rec) {
		rec.Run.Freed = time.Time{} // its time begins when the node can be woken
		return nil
	}
	if rec.Run.Freed.IsZero() {
		rec.Run.Freed = c.now
	}
	patience := c.b.cfg.StartTimeout
	if limitReason(job.Reason) { // it would not start on free GPUs either: do not keep them for it
		patience = 2 * c.b.cfg.Poll
	}
	if !gone && !held && c.now.Sub(rec.Run.Freed) < patience {
		return nil
	}
	why := "Slurm did not start it: " + cmp.Or(job.Reason, "no reason given")
	if gone {
		why = "somebody else got its GPUs"
	}
	rec.BlockedTill = c.now
	if !gone && !held && limitReason(job.Reason) {
		c.b.learnLimit(c.now, job)
	}
	if !gone {
		rec.BlockedTill, rec.Blocked = c.now.Add(max(3*c.b.cfg.Poll, backoff(rec.StartFailures))), why
		rec.StartFailures++
		rec.profileRefused(c.now, job, why)
	}
	rec.enter(c.now, c.b.queuePhase(rec), why)
	rec.Target = Target{}
	c.b.rouse("a start failed")
	if held && job.Reason != "BadConstraints" {
		return nil
	}
	if held {
		rec.Changed.Hold = true // our placement made Slurm hold it
		return []Action{Settle{target(rec.ID()), c.now.Add(c.b.cfg.Delay)}}
	}
	return []Action{Delay{target(rec.ID()), c.now.Add(c.b.cfg.Delay)}}
}

// hold puts our hold on the running jobs that the plan stops or moves, and on profile runs that have shown enough, so that they come back held.
func hold(c *cycle, rec *Record, job *slurm.Job) []Action {
	b, why := c.b, rec.Target.Reason.Text
	acts := b.acts(rec)
	switch {
	case rec.Phase == Profiling && rec.canBeSignalled() && (rec.measured(c.now, b.stepTime(rec)) || !acts):
		why = "profile step done"
	case rec.Phase == Running && (rec.Target.Decision == planner.Stop || rec.Target.Decision == planner.Move):
	default:
		return nil
	}
	if !acts && rec.Phase != Profiling || job.State != slurm.StateRunning || b.suspect != "" || c.saving >= b.cfg.MaxCheckpoints ||
		!b.preemptible(rec, job) { // the dearest question last: few jobs are to leave
		return nil
	}
	c.saving++
	return []Action{Hold{target(rec.ID()), why}}
}

// ask sends the checkpoint signal to the jobs that are held for it and have not had it, or may not.
func ask(c *cycle, rec *Record, job *slurm.Job) []Action {
	due := rec.Run.Signalled.IsZero() || c.unheard(rec)
	if rec.Phase != Checkpointing || job.State.Finished() || !due || !c.b.acts(rec) && !rec.Run.Profile || !rec.canBeSignalled() {
		return nil
	}
	return []Action{c.signal(rec)}
}

// signal is the checkpoint signal that the job has asked for.
func (c *cycle) signal(rec *Record) Action {
	return Ask{target(rec.ID()), slurm.Signal{Name: slurm.SignalName(rec.Wish.Ckpt.Signal), BatchOnly: rec.Wish.Ckpt.BatchOnly}}
}

// requeue brings back jobs that saved but did not leave, and those that failed through our doing.
func requeue(c *cycle, rec *Record, job *slurm.Job) []Action {
	switch {
	case rec.Phase == Failed && rec.Rerun && job.HasFlag(slurm.FlagCompleting): // Slurm refuses until its nodes are done with it, which may take long
		return nil
	case rec.Phase == Failed && rec.Rerun:
		return []Action{Rerun{target(rec.ID())}}
	case rec.Phase == Checkpointing && job.State == slurm.StateRunning && !job.HasFlag(slurm.FlagCompleting) && !rec.Run.Signalled.IsZero() &&
		(rec.Run.Heard || rec.Run.Resent) && rec.Run.answered() && c.runsOn(rec):
		return []Action{Requeue{target(rec.ID()), "it saved its checkpoint and runs on"}}
	case rec.Phase == Checkpointing && job.State == slurm.StateRunning && !rec.canBeSignalled() && !rec.Run.Profile && c.b.acts(rec) && c.b.suspect == "":
		return []Action{Requeue{target(rec.ID()), "it gives no sign of life and cannot be signalled: requeued without its unsaved work, as this site wants it"}}
	case rec.Phase == Profiling && job.State == slurm.StateRunning && !rec.canBeSignalled() && rec.measured(c.now, c.b.stepTime(rec)) && c.b.suspect == "":
		return []Action{Requeue{target(rec.ID()), "its profile run says nothing"}}
	case rec.Phase == Profiling && job.State == slurm.StateRunning && c.b.suspect == "" && c.b.profileRisks(rec) != "": // they came after its start
		return []Action{Requeue{target(rec.ID()), "its profile ends early: " + c.b.profileRisks(rec)}}
	}
	return nil
}

// runsOn reports whether a job that has saved had the time to leave and did not. One that saves again and again on its own account has that time only once.
func (c *cycle) runsOn(rec *Record) bool {
	grace := max(3*c.b.cfg.Poll, 10*time.Second)
	return c.now.Sub(rec.Run.CheckpointAt) > grace || rec.Run.asked(c.now) > c.b.cfg.CheckpointTimeout+grace
}

// starts releases what the plan starts, in plan order, as far as its GPUs are free or about to be, and delays everything else that waits.
func (c *cycle) starts(ctx context.Context) error {
	b := c.b
	var chosen, waiting []*Record
	for _, rec := range b.known() {
		job, ok := c.job(rec)
		waits := rec.Phase == Waiting || rec.Phase == Admitted || rec.Phase == Requeueing
		if !ok || !waits || job.State != slurm.StatePending || job.HasFlag(slurm.FlagCompleting) || !b.acts(rec) {
			continue
		}
		if d := rec.Target.Decision; (d == planner.Start || d == planner.Move) && rec.Blocked == "" {
			chosen = append(chosen, rec)
		} else if rec.Phase != Requeueing {
			waiting = append(waiting, rec)
		}
	}
	slices.SortFunc(chosen, func(x, y *Record) int {
		return cmp.Or(cmp.Compare(x.Target.Rank, y.Target.Rank), cmp.Compare(x.Job, y.Job))
	})
	armed := c.arm(waiting)
	order := b.niceOrder(chosen)
	for i, rec := range chosen {
		now, soon := c.room(rec.Target.Placement)
		soon = soon && !c.tooSoon(rec)
		if b.suspect != "" || !soon || rec.Profile.Needed() && b.stopped(rec.Original.Partition) != "" || c.loading >= b.cfg.MaxStarts {
			if rec.Phase != Requeueing {
				waiting = append(waiting, rec)
			}
			continue
		}
		a := Start{target: target(rec.ID()), Placement: rec.Target.Placement, Profile: rec.Profile.Needed(), Nice: order[i], SetNice: b.cfg.PriorityMode == "nice"}
		if err := c.apply(ctx, rec, a); err != nil {
			return err
		}
		if rec.Phase == Starting {
			c.take(rec.Target.Placement)
			c.loading++
			if now {
				rec.Run.Freed = c.now
			}
		}
	}
	if err := c.arms(ctx, armed); err != nil {
		return err
	}
	return c.delays(ctx, waiting)
}

// relaunchAfter is how long after the end of its last run a job may be launched again on the same node. slurmd refuses the credential of a
// job that was made in the second in which the last run ended ("already killed, do not launch batch job") and the job then fails at once; this is
// what Slurm's own two minutes after a requeue are for.
const relaunchAfter = 3 * time.Second

// tooSoon reports whether the target shares a node with a run that ended just now.
func (c *cycle) tooSoon(rec *Record) bool {
	if len(rec.Stays) == 0 || c.now.Sub(rec.LastOnGPUs) >= relaunchAfter {
		return false
	}
	last := rec.Stays[len(rec.Stays)-1].Placement
	return slices.ContainsFunc(rec.Target.Placement, func(s planner.Share) bool { return last.On(s.Node) > 0 })
}

// delays renews the begin time of waiting jobs when half of it has passed. A job that is blocked by something else is left alone.
func (c *cycle) delays(ctx context.Context, waiting []*Record) error {
	if c.b.suspect != "" && c.now.Sub(c.b.calm) > c.b.cfg.Delay { // whoever may not start jobs for that long must not keep Slurm from it either
		return nil
	}
	for _, rec := range waiting {
		job, _ := c.job(rec)
		if rec.Blocked != "" && !c.now.Before(rec.BlockedTill) || job.Held || rec.Armed {
			continue
		}
		ahead := job.Begin.Sub(c.now)
		tooFar := ahead > c.b.cfg.Delay+time.Minute && job.Begin.Equal(rec.Changed.Begin) // by a clock that was set back since
		if ahead >= c.b.cfg.Delay/2 && !tooFar {
			continue
		}
		if err := c.apply(ctx, rec, Delay{target(rec.ID()), c.now.Add(c.b.cfg.Delay)}); err != nil {
			return err
		}
	}
	return nil
}

// niceOrder gives the chosen jobs nice values that put them ahead of every plain job that waits, in plan order. Slurm's priority of a job is its base less
// its nice; the base of a job that was held is not known and taken as 0, which errs towards the front.
func (b *Bridge) niceOrder(chosen []*Record) []int64 {
	const step = 1000
	top := int64(0)
	for i := range b.seen.Jobs {
		j := &b.seen.Jobs[i]
		if rec := b.seenRecs[i]; j.State == slurm.StatePending && (rec == nil || !b.acts(rec)) {
			top = max(top, j.Priority)
		}
	}
	for _, rec := range chosen {
		top = max(top, rec.Base)
	}
	top = min(top, 1<<31)
	out := make([]int64, len(chosen))
	for i, rec := range chosen {
		want := top + step*int64(len(chosen)-i)
		out[i] = max(min(rec.Base-want, 0), -(1<<31 - 5))
	}
	return out
}
