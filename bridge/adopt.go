package bridge

import (
	"fmt"
	"slices"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// doubtFor is how long after a call with an unknown outcome what Slurm shows may still turn into what that call asked for.
const doubtFor = 2 * time.Minute

// adopt takes over what the job's user (or an admin) changed in the request of a waiting job: the newest request is what is planned, and what is
// given back. What a call of unknown outcome may still do to it is known (Late) and is ours when it shows; whatever else shows on a request on which nothing of ours is left
// is theirs, also in the first look of a daemon.
func (b *Bridge) adopt(now time.Time, rec *Record, job *slurm.Job) {
	o := &rec.Original
	if len(job.Odd) > 0 {
		return
	}
	rec.adoptNice(now, job)
	b.movedAway(now, rec, job)
	if !job.Deadline.IsZero() && !rec.Releasing {
		rec.Releasing = true
		rec.note(now, "edited", "given back to Slurm: "+errSlurmDeadline.Error())
	}
	if o.TimeLimit != job.TimeLimit {
		o.TimeLimit, rec.dirty = job.TimeLimit, true
	}
	ours := rec.Changed
	if ours.Reshape || len(ours.Pinned) > 0 || ours.Hold || rec.Phase != Waiting && rec.Phase != Admitted {
		b.adoptOver(now, rec, job)
		return
	}
	next := originalOf(job)
	next.Nice, next.Begin = o.Nice, o.Begin
	if o.Nodes.Max == 0 && next.Nodes.Min == o.Nodes.Min && next.Nodes.Max == max(mostNodes(*o), o.Nodes.Min) {
		next.Nodes.Max = 0 // the bound that giving it back had to write
	}
	if next.Tasks != o.Tasks {
		alone := next
		alone.Tasks = o.Tasks
		if alone.equal(*o) { // Slurm itself shows another number at times (--ntasks-per-gpu)
			return
		}
	}
	if next.equal(*o) {
		return
	}
	b.edited(now, rec, job, next)
}

// adoptOver takes over what was changed of a request that we have changed as well: the GPUs and the list of nodes that are neither the original's nor ours. What else differs
// may follow from what we wrote.
func (b *Bridge) adoptOver(now time.Time, rec *Record, job *slurm.Job) {
	q, next := job.Request, rec.Original
	next.RequiredNodes = slices.Clone(next.RequiredNodes)
	perNode, perJob := rec.theirGPUs(job, rec.Changed.Wrote)
	if perNode {
		next.TRESPerNode, next.GPUs = q.TRESPerNode, gresCount(q.TRESPerNode)*max(next.Nodes.Min, 1)
	}
	if perJob {
		next.TRESPerJob, next.GPUs = q.TRESPerJob, gresCount(q.TRESPerJob)
		if !perNode && q.TRESPerNode == "" { // one form in place of the other
			next.TRESPerNode = ""
		}
	}
	if rec.theirNodes(job) {
		next.RequiredNodes, next.Nodes = slices.Clone(q.RequiredNodes), q.Nodes
		rec.Changed.Pinned = nil
	}
	if next.equal(rec.Original) {
		return
	}
	b.edited(now, rec, job, next)
	if rec.Phase == Starting { // for the request that it had
		rec.enter(now, b.queuePhase(rec), "its user changed it while it was to start")
	}
}

// edited makes what a job's user asks for now its original.
func (b *Bridge) edited(now time.Time, rec *Record, job *slurm.Job, next Original) {
	rec.note(now, "edited", fmt.Sprintf("it asks for %s now, instead of %s", next, rec.Original))
	b.log(now, "info", "edited", rec.Job, "%s instead of %s", next, rec.Original)
	rec.Original = next
	rec.Target, rec.Estimate.Speeds = Target{}, nil
	if rec.Phase == Waiting || rec.Phase == Admitted {
		rec.BlockedTill, rec.Blocked = time.Time{}, ""
		if rec.Profile.Needed() && !rec.Started {
			rec.Profile = Profile{}
			b.planProfile(rec, job)
			rec.enter(now, b.queuePhase(rec), "")
		}
	}
	if err := b.unmanageable(job, rec.Wish); err != nil {
		rec.Releasing = true
		rec.note(now, "edited", "given back to Slurm: "+err.Error())
		b.log(now, "info", "edited", rec.Job, "given back: %v", err)
	}
	b.rouse("a job was edited")
}

// maxWrote bounds what is remembered of what we wrote: a job that is moved from node to node without a rest is never the original in between.
const maxWrote = 4

// wrote adds a placement for which the request is about to be written.
func (c *Changed) wrote(p planner.Placement) {
	if (c.Reshape || len(c.Pinned) > 0) && len(c.Wrote) == 0 { // nobody knows what is on it
		return
	}
	list := slices.DeleteFunc(slices.Clone(c.Wrote), func(q planner.Placement) bool { return slices.Equal(p, q) })
	c.Wrote = append(list[max(len(list)-maxWrote+1, 0):], p)
}

// theirGPUs reports of which form of the GPUs that a job shows neither its user's request nor a call of ours for one of the placements can be the reason.
func (r *Record) theirGPUs(job *slurm.Job, ours []planner.Placement) (perNode, perJob bool) {
	q, o := job.Request, r.Original
	if len(ours) == 0 {
		return false, false
	}
	perNode, perJob = q.TRESPerNode != o.TRESPerNode, q.TRESPerJob != o.TRESPerJob
	for _, p := range ours {
		s := p.Shape()
		if _, change := requestFor(o, s); change {
			perNode = perNode && gresCount(q.TRESPerNode) != s[0]
			perJob = perJob && gresCount(q.TRESPerJob) != s.GPUs()
		}
	}
	return perNode, perJob
}

// couldBeOurs reports whether calls of ours for the placements may have made the request what it is, in whole or in part.
func (r *Record) couldBeOurs(job *slurm.Job, ours []planner.Placement) bool {
	q, o := job.Request, r.Original
	if len(ours) == 0 {
		return true
	}
	if perNode, perJob := r.theirGPUs(job, ours); perNode || perJob {
		return false
	}
	tasks, nodes := !otherTasks(o, q) || o.TasksPerNode > 0, q.Nodes.Min == o.Nodes.Min
	for _, p := range ours {
		of, _ := requestFor(o, p.Shape())
		tasks = tasks || q.Tasks == of.tasks || q.Tasks == len(p)
		nodes = nodes || q.Nodes.Min == len(p)
	}
	return tasks && nodes
}

// theirNodes reports whether a list of nodes that a job shows is neither its user's first one nor one of ours.
func (r *Record) theirNodes(job *slurm.Job) bool {
	list, c := job.Request.RequiredNodes, r.Changed
	return len(list) > 0 && len(c.Pinned) > 0 && len(c.Wrote) > 0 && !slices.Equal(list, r.Original.RequiredNodes) && !slices.Equal(list, c.Pinned) &&
		!slices.ContainsFunc(c.Wrote, func(p planner.Placement) bool { return slices.Equal(list, p.Names()) })
}

// justEdited reports whether its user has changed a job since the look, as it was read again: the next look takes that over, and until then nothing is written over it.
func (r *Record) justEdited(job *slurm.Job) bool {
	q, o, c := job.Request, r.Original, r.Changed
	if c.Reshape || len(c.Pinned) > 0 || r.Late.Reshape || len(r.Late.Pinned) > 0 || job.State != slurm.StatePending || len(job.Odd) > 0 {
		return false
	}
	return q.TRESPerNode != o.TRESPerNode || q.TRESPerJob != o.TRESPerJob || !slices.Equal(q.RequiredNodes, o.RequiredNodes)
}

// adoptNice takes over a nice value that the job's user set. Ours are never above 0: such a value is theirs even while something of ours is on the job, or may
// still arrive there, and the next start would write over it.
func (r *Record) adoptNice(now time.Time, job *slurm.Job) {
	doubted := now.Before(r.DoubtTill)
	if job.Nice == r.Original.Nice || job.Nice <= 0 && (r.Changed.Nice || doubted && r.Late.Nice) {
		return
	}
	r.note(now, "edited", fmt.Sprintf("nice %d instead of %d", job.Nice, r.Original.Nice))
	r.Original.Nice = job.Nice
	if r.Changed.Nice && doubted {
		r.Late.Nice, r.Late.NiceIs = true, r.Changed.NiceIs
	}
	r.Changed.Nice = false
}

// movedAway takes over a partition that we never write: it is its user's (or an admin's) word, whatever else of ours is on the job.
func (b *Bridge) movedAway(now time.Time, rec *Record, job *slurm.Job) {
	o := &rec.Original
	if job.Partition == o.Partition || job.Partition == b.cfg.ProfilePartition {
		return
	}
	text := fmt.Sprintf("partition %s instead of %s", job.Partition, o.Partition)
	o.Partition, rec.dirty = job.Partition, true
	if err := b.unmanageable(job, rec.Wish); err != nil && !rec.Releasing {
		rec.Releasing = true
		text += ": given back to Slurm: " + err.Error()
	}
	rec.note(now, "edited", text)
	b.log(now, "info", "edited", rec.Job, "%s", text)
	b.rouse("a job was edited")
}

func (o Original) equal(p Original) bool {
	return o.Nice == p.Nice && o.Partition == p.Partition && o.Nodes == p.Nodes && o.Tasks == p.Tasks && o.TRESPerNode == p.TRESPerNode &&
		o.TRESPerJob == p.TRESPerJob && o.TRESPerTask == p.TRESPerTask && o.GPUs == p.GPUs && slices.Equal(o.RequiredNodes, p.RequiredNodes)
}

// String is the request in words.
func (o Original) String() string {
	return fmt.Sprintf("%d GPUs (per node %q, per job %q) on %d to %d nodes %v of %q, %d tasks", o.GPUs, o.TRESPerNode, o.TRESPerJob, o.Nodes.Min, o.Nodes.Max,
		o.RequiredNodes, o.Partition, o.Tasks)
}
