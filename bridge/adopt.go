package bridge

import (
	"fmt"
	"slices"
	"time"

	"unisched/slurm"
)

// doubtFor is how long after a call with an unknown outcome what Slurm shows may still turn into what that call asked for.
const doubtFor = 2 * time.Minute

// adopt takes over what the job's user (or an admin) changed in the request of a waiting job: the newest request is what is planned, and what is
// given back. Only a request on which nothing of ours is left can be told to be theirs; of the others only what we never write.
func (b *Bridge) adopt(now time.Time, rec *Record, job *slurm.Job) {
	o := &rec.Original
	if len(job.Odd) > 0 {
		return
	}
	rec.adoptNice(now, job)
	b.movedAway(now, rec, job)
	ours := rec.Changed
	if now.Before(rec.DoubtTill) {
		if !rec.isOriginal(job) { // a call of ours that arrived late, for all we know
			rec.Changed.Reshape, rec.dirty = true, true
		}
		return
	}
	if !job.Deadline.IsZero() && !rec.Releasing {
		rec.Releasing = true
		rec.note(now, "edited", "given back to Slurm: "+errSlurmDeadline.Error())
	}
	if o.TimeLimit != job.TimeLimit {
		o.TimeLimit, rec.dirty = job.TimeLimit, true
	}
	if ours.Reshape || len(ours.Pinned) > 0 || ours.Hold || rec.Phase != Waiting && rec.Phase != Admitted {
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
	rec.note(now, "edited", fmt.Sprintf("it asks for %s now, instead of %s", next, *o))
	b.log(now, "info", "edited", rec.Job, "%s instead of %s", next, *o)
	*o = next
	rec.Target, rec.Estimate.Speeds = Target{}, nil
	rec.BlockedTill, rec.Blocked = time.Time{}, ""
	if rec.Profile.Needed() && !rec.Started {
		rec.Profile = Profile{}
		b.planProfile(rec, job)
		rec.enter(now, b.queuePhase(rec), "")
	}
	if err := b.unmanageable(job, rec.Wish); err != nil {
		rec.Releasing = true
		rec.note(now, "edited", "given back to Slurm: "+err.Error())
		b.log(now, "info", "edited", rec.Job, "given back: %v", err)
	}
	b.rouse("a job was edited")
}

// adoptNice takes over a nice value that the job's user set. Ours are never above 0: such a value is theirs even while something of ours is on the job, or may
// still arrive there, and the next start would write over it.
func (r *Record) adoptNice(now time.Time, job *slurm.Job) {
	doubted := now.Before(r.DoubtTill)
	if job.Nice == r.Original.Nice || job.Nice <= 0 && (r.Changed.Nice || doubted) {
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
