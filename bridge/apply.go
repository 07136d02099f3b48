package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"unisched/bridge/journal"
	"unisched/planner"
	"unisched/slurm"
)

// Outcome is what is known of a call after it returned.
type Outcome string

// Done is Slurm's yes, not yet proof: only a later snapshot is. Unknown calls are never repeated; the next snapshot shows what they did.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
	Skipped Outcome = "skipped" // the job was not as expected any more; no call was made
)

// apply carries actions out one after the other, and stops at the first that is not Done. For each: budget -> read the job again -> write
// the record, as the call will leave it, and the intent to the journal, synced -> one call, no retry. The error is that of the journal: without it
// nothing may be done at all.
func (c *cycle) apply(ctx context.Context, rec *Record, actions ...Action) error {
	for _, a := range actions {
		if c.left <= 0 || disruptive(a) && c.b.suspect != "" {
			return nil
		}
		out, err := c.one(ctx, rec, a)
		if err != nil {
			return err
		}
		if out != Done {
			return nil
		}
	}
	return nil
}

func (c *cycle) one(ctx context.Context, rec *Record, a Action) (Outcome, error) {
	b := c.b
	read, err := b.parts.Cluster.Job(ctx, rec.Job)
	if err != nil {
		b.log(c.now, "warn", "look-again", rec.Job, "%s: %v", a.Name(), err)
		return Skipped, nil
	}
	job := &read
	if !rec.sameRun(job) {
		return Skipped, nil
	}
	if why := fits(a, job); why != "" {
		b.log(c.now, "info", "skipped", rec.Job, "%s: %s", a.Name(), why)
		return Skipped, nil
	}
	if _, start := a.(Start); start && rec.justEdited(job) {
		b.log(c.now, "info", "skipped", rec.Job, "%s: its user has changed it", a.Name())
		return Skipped, nil
	}
	if rec.writesNodes(a, job) && !c.parked(job) {
		var out Outcome
		if job, out, err = c.park(ctx, rec, a); out != Done || err != nil {
			return out, err
		}
	}
	return c.write(ctx, rec, a, job)
}

// write makes the call of an action on a job that was read just now.
func (c *cycle) write(ctx context.Context, rec *Record, a Action, job *slurm.Job) (Outcome, error) {
	b := c.b
	if job.State == slurm.StatePending {
		rec.adoptNice(c.now, job) // set since the snapshot was taken: this very call would write over it
	}
	was := rec.clone()
	b.acted++
	id := fmt.Sprintf("%s-%d", c.now.UTC().Format("20060102T150405.000"), b.acted)
	b.ahead(c.now, rec, a)
	rec.sign(was, id)
	if b.unsaved != "" && disruptive(a) {
		*rec = *was
		return Skipped, nil
	}
	// What gives a job back may be done without a record: forgotten, it is only done again.
	if b.unsaved == "" {
		if err := b.intend(c.now, rec, a, id, was.Target.Plan); err != nil && disruptive(a) {
			*rec = *was
			return Skipped, err
		}
	}
	c.left--
	err := b.call(ctx, rec, a, job)
	out := outcomeOf(err)
	switch out {
	case Done:
		if _, ok := a.(Ask); ok {
			rec.Run.Heard, rec.dirty = true, true
		}
		b.counts.Done++
		b.audited(c.now, was, a, id, out, nil)
	case Refused:
		b.counts.Refused++
		b.back(c.now, rec, was, a, err)
		b.audited(c.now, was, a, id, out, err)
	case Unknown:
		b.counts.Unknown++
		rec.DoubtTill = c.now.Add(doubtFor)
		rec.note(c.now, "unknown", fmt.Sprintf("%s: %v", a.Name(), err))
		b.audited(c.now, was, a, id, out, err)
	}
	rec.sign(was, id)
	b.result(c.now, a, id, out, err)
	return out, nil
}

func (r *Record) sameRun(job *slurm.Job) bool {
	return job.ID == r.Job && job.UID == r.UID && job.Restarts == r.Restart
}

func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, slurm.ErrUnknownOutcome):
		return Unknown
	default:
		return Refused
	}
}

// ahead puts the record into the state that the call is meant to reach, before the call: if we die in between, the journal knows what may
// have been done. What the call takes off (a hold, nice, a shape) stays on the list of what must be undone until a snapshot shows that it is
// gone (reconcile): else a call that never arrived would leave the job with something that nobody remembers.
func (b *Bridge) ahead(now time.Time, rec *Record, a Action) {
	ch := &rec.Changed
	switch a := a.(type) {
	case Delay:
		rec.BeginWas, ch.Begin = ch.Begin, a.Until.Truncate(time.Second)
	case Start:
		rec.BeginWas, ch.Begin = ch.Begin, time.Time{}
		ch.wrote(a.Placement)
		ch.Pinned = a.Placement.Names()
		if a.SetNice {
			ch.Nice, ch.NiceIs = true, a.Nice
		}
		ch.Reshape = true // nodes are always written
		rec.Run, rec.Armed = RunProgress{}, false
		rec.enter(now, Starting, "")
		rec.note(now, "release", "to start on "+a.Placement.String())
	case Arm:
		if !rec.Armed {
			rec.note(now, "armed", "plain jobs wait that came later: it may start whenever GPUs come free, ahead of them")
		}
		rec.BeginWas, ch.Begin = ch.Begin, time.Time{}
		ch.Nice, ch.NiceIs, rec.Armed = true, a.Nice, true
	case Hold:
		ch.Hold = true
		rec.Run.Signalled = time.Time{}
		rec.enter(now, Checkpointing, a.Why)
	case Ask:
		rec.Run.Resent = !rec.Run.Signalled.IsZero()
		rec.Run.Signalled, rec.Run.AskedBy, rec.Run.Heard = now, time.Time{}, false
		rec.note(now, "signal", string(a.Signal.Name))
	case Unhold:
	case Settle:
		rec.BeginWas, ch.Begin = ch.Begin, a.Until.Truncate(time.Second)
		rec.Target, rec.Armed = Target{}, false
		rec.enter(now, b.queuePhase(rec), rec.Why)
		b.rouse("a job is back in the queue")
	case Requeue:
		rec.Run.Requeued = now
		rec.note(now, "requeue", a.Why)
	case Rerun: // asked for until a snapshot shows it in the queue
		rec.RerunTries++
		ch.Begin = time.Time{}
		rec.enter(now, Requeueing, rec.Why)
	case Unpin:
	case Restore:
		ch.Begin = time.Time{} // ends by itself
		rec.Target, rec.Armed = Target{}, false
		switch rec.Phase {
		case Checkpointing:
			rec.enter(now, rec.runPhase(), "")
		case Requeueing, Starting:
			rec.enter(now, b.queuePhase(rec), "")
		}
		rec.note(now, "restore", "given back to Slurm")
	default:
		panic(fmt.Sprintf("bridge: action %T is not in ahead", a))
	}
	rec.dirty = true
}

// call makes the one call of an action.
func (b *Bridge) call(ctx context.Context, rec *Record, a Action, job *slurm.Job) error {
	cl, ref := b.parts.Cluster, job.Ref()
	update := func(u slurm.Update) error {
		if n := rec.Original.tasksAlong(); n > 0 && job.State == slurm.StatePending && !u.Tasks.Set {
			u.Tasks = slurm.Some(n)
		}
		return cl.Update(ctx, ref, u)
	}
	switch a := a.(type) {
	case Delay:
		return update(slurm.Update{BeginTime: slurm.Some(later(a.Until, rec.Original.Begin))})
	case Start:
		return update(b.startUpdate(rec, a, job))
	case Arm:
		u := slurm.Update{Nice: slurm.Some(a.Nice)}
		if !job.Begin.IsZero() { // writing it again would take its age once more
			u.BeginTime = slurm.Some(rec.Original.Begin)
		}
		return update(u)
	case Hold:
		return update(slurm.Update{Hold: slurm.Some(true)})
	case Ask:
		return cl.Signal(ctx, ref, a.Signal)
	case Unhold:
		return update(slurm.Update{Hold: slurm.Some(false)})
	case Settle:
		u := restoreRequest(rec, job)
		u.BeginTime = slurm.Some(later(a.Until, rec.Original.Begin))
		if job.Held && rec.Changed.Hold {
			u.Hold = slurm.Some(false)
		}
		return update(u)
	case Requeue:
		return cl.Requeue(ctx, ref)
	case Rerun:
		return cl.Rerun(ctx, ref)
	case Unpin:
		return cl.ClearRequiredNodes(ctx, ref, rec.Original.tasksAlong())
	case Restore:
		return update(restoreUpdate(rec, job))
	}
	panic(fmt.Sprintf("bridge: action %T is not in call", a))
}

// later is the later of two times: the user's own begin time wins over an earlier one of ours.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// startUpdate is the whole of a start in one call.
func (b *Bridge) startUpdate(rec *Record, a Start, job *slurm.Job) slurm.Update {
	u := slurm.Update{SeenPending: true, RequiredNodes: slices.Clone(a.Placement.Names()), BeginTime: slurm.Some(time.Time{})}
	if job.Held && rec.Changed.Hold {
		u.Hold = slurm.Some(false)
	}
	if a.SetNice {
		u.Nice = slurm.Some(a.Nice)
	}
	want := rec.Original
	partition := want.Partition
	if a.Profile {
		partition = b.cfg.ProfilePartition
	}
	if job.Partition != partition {
		u.Partition = slurm.Some(partition)
	}
	r, change := requestFor(want, a.Placement.Shape())
	switch {
	case change:
		u.TRESPerNode = slurm.Some(r.perNode)
		if want.TRESPerJob != "" {
			// Both forms at once must agree, so the total goes along.
			u.TRESPerJob = slurm.Some(gresName(want) + ":" + strconv.Itoa(a.Placement.GPUs()))
		}
		if r.tasks > 0 {
			u.Tasks = slurm.Some(r.tasks)
		}
	case job.Request.TRESPerNode != want.TRESPerNode || job.Request.TRESPerJob != want.TRESPerJob || otherTasks(want, job.Request):
		back := restoreRequest(rec, job)
		u.TRESPerNode, u.TRESPerJob, u.Tasks = back.TRESPerNode, back.TRESPerJob, back.Tasks
	}
	return u
}

// restoreRequest brings nodes, tasks, TRES, partition and nice of a pending job back to what its user submitted, naming only what differs.
func restoreRequest(rec *Record, job *slurm.Job) slurm.Update {
	o, q := rec.Original, job.Request
	u := slurm.Update{SeenPending: true}
	if job.Partition != o.Partition {
		u.Partition = slurm.Some(o.Partition)
	}
	if q.TRESPerNode != o.TRESPerNode || q.TRESPerJob != o.TRESPerJob {
		// One request that names both: clearing one form alone leaves the old count behind on 24.11.
		if q.TRESPerNode != o.TRESPerNode {
			u.TRESPerNode = slurm.Some(o.TRESPerNode)
		}
		if q.TRESPerJob != o.TRESPerJob || o.TRESPerJob != "" {
			u.TRESPerJob = slurm.Some(o.TRESPerJob)
		}
	}
	if most := mostNodes(o); len(o.RequiredNodes) > 0 && !slices.Equal(q.RequiredNodes, o.RequiredNodes) {
		u.RequiredNodes = slices.Clone(o.RequiredNodes) // brings the number of nodes along
	} else if q.Nodes.Min != o.Nodes.Min || rec.Changed.Reshape && most > o.Nodes.Min {
		u.Nodes = slurm.Some(max(o.Nodes.Min, 1))
		if most > u.Nodes.Value {
			u.NodesTo = slurm.Some(most)
		}
	}
	if otherTasks(o, q) && o.Tasks > 0 {
		u.Tasks = slurm.Some(o.Tasks)
	}
	if rec.Changed.Nice || job.Nice != o.Nice {
		u.Nice = slurm.Some(o.Nice)
	}
	return u
}

// manyNodes stands for "as many as it takes" in a request without an upper bound, which cannot be written as such.
const manyNodes = 1000

// mostNodes is the upper bound of nodes that the user left open: with GPUs per node the least number is what Slurm gives.
func mostNodes(o Original) int {
	switch {
	case o.Nodes.Max > 0:
		return o.Nodes.Max
	case fixedNodes(o):
		return o.Nodes.Min
	}
	return max(o.Nodes.Min, min(o.GPUs, manyNodes))
}

// restoreUpdate gives a job back: only what differs from the original is named. A running job's request cannot be changed; it is restored when it
// is pending again.
func restoreUpdate(rec *Record, job *slurm.Job) slurm.Update {
	if job.State != slurm.StatePending {
		u := slurm.Update{Nice: slurm.Some(rec.Original.Nice)}
		if job.Held && rec.Changed.Hold {
			u.Hold = slurm.Some(false)
		}
		return u
	}
	u := restoreRequest(rec, job)
	u.BeginTime = slurm.Some(rec.Original.Begin)
	if job.Held && rec.Changed.Hold {
		u.Hold = slurm.Some(false)
	}
	return u
}

// back undoes ahead after a refusal. An update is not atomic: what it may have changed stays on the list of what must be undone.
func (b *Bridge) back(now time.Time, rec, was *Record, a Action, err error) {
	changed := rec.Changed
	events := rec.Events
	*rec = *was
	rec.Events = events
	switch a.(type) {
	case Rerun:
		rec.RerunTries++
		if b.stopped(anyPartition) == "" && rec.Run.Signalled.After(time.Time{}) {
			b.stand(now, anyPartition, rec.Job, false,
				fmt.Sprintf("job %d saved its checkpoint and Slurm did not take it back (RequeueExit in slurm.conf, scontrol): nobody is preempted until it does", rec.Job))
		}
	case Start, Settle, Hold, Arm:
		changed.Hold = changed.Hold || was.Changed.Hold
		rec.Changed = changed
	}
	if _, ok := a.(Start); ok && errors.Is(err, slurm.ErrRefused) {
		rec.Blocked, rec.BlockedTill = "Slurm refused to start it: "+err.Error(), now.Add(max(6*b.cfg.Poll, 30*time.Second))
		rec.Target = Target{}
	}
	rec.note(now, "refused", fmt.Sprintf("%s: %v", a.Name(), err))
}

// audited is the one line that the log has of every call: which action of which plan, and what is known of its outcome. was is the record before it.
func (b *Bridge) audited(now time.Time, was *Record, a Action, id string, out Outcome, err error) {
	n := Note{Level: "info", What: "action", Job: was.Job, Plan: was.Target.Plan, Action: id, Kind: a.Name(), Outcome: out, Text: a.Name() + ": " + describe(a)}
	switch out {
	case Refused:
		n.Level, n.What = "warn", "refused"
	case Unknown:
		n.Level, n.What = "warn", "unknown-outcome"
	}
	if err != nil {
		n.Text += ": " + err.Error()
	}
	b.parts.Log(now, n)
}

// Intent is what the journal says of an action before it is carried out, and Result after it.
type Intent struct {
	ID     string      `json:"id"` // also in the log, and of the Result
	Action string      `json:"action"`
	Run    planner.Run `json:"run"`
	Plan   string      `json:"plan,omitempty"`
	What   string      `json:"what"`
	Undo   Original    `json:"undo"`
}

// Result closes an Intent.
type Result struct {
	ID      string      `json:"id"`
	Action  string      `json:"action"`
	Run     planner.Run `json:"run"`
	Outcome Outcome     `json:"outcome"`
	Error   string      `json:"error,omitempty"`
}

const (
	kindJob    = "job"
	kindFabric = "fabric"
	kindPast   = "past"
	kindPaused = "paused"
	kindBudget = "budget"
	kindStage  = "stage"
	kindStill  = "standstill"
	kindLimit  = "limit"
	kindIntent = "intent"
	kindResult = "result"
)

func (b *Bridge) intend(now time.Time, rec *Record, a Action, id, plan string) error {
	intent := entry(now, kindIntent, "", Intent{id, a.Name(), a.Of(), plan, describe(a), rec.Original})
	record := entry(now, kindJob, rec.Job.String(), rec)
	if err := b.parts.Memory.Append(intent, record); err != nil {
		return b.notSaved(now, fmt.Errorf("intent of job %d: %w", rec.Job, err))
	}
	rec.dirty = false
	return nil
}

func (b *Bridge) result(now time.Time, a Action, id string, out Outcome, cause error) {
	r := Result{ID: id, Action: a.Name(), Run: a.Of(), Outcome: out}
	if cause != nil {
		r.Error = cause.Error()
	}
	// The record follows with the others at the end of the cycle; a crash in between loses no more than the outcome.
	b.audit = append(b.audit, entry(now, kindResult, "", r))
}

func entry(now time.Time, kind, key string, v any) journal.Entry {
	return journal.Entry{Kind: kind, Key: key, At: now.UTC(), Value: v}
}

// describe is the action in words, for logs and the audit.
func describe(a Action) string {
	switch a := a.(type) {
	case Delay:
		return "begin not before " + a.Until.UTC().Format(time.RFC3339)
	case Start:
		s := "on " + a.Placement.String()
		if a.SetNice {
			s += ", nice " + strconv.FormatInt(a.Nice, 10)
		}
		if a.Profile {
			s += ", profile"
		}
		return s
	case Arm:
		return "in Slurm's order, nice " + strconv.FormatInt(a.Nice, 10)
	case Settle:
		return "back in the queue, begin not before " + a.Until.UTC().Format(time.RFC3339)
	case Ask:
		return string(a.Signal.Name)
	}
	return a.Name() + " run " + a.Of().String()
}

// clone is a copy deep enough to be put back.
func (r *Record) clone() *Record {
	c := *r
	c.Events = slices.Clone(r.Events)
	c.Changed.Pinned = slices.Clone(r.Changed.Pinned)
	c.Samples = slices.Clone(r.Samples)
	return &c
}
