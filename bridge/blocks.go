package bridge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"unisched/slurm"
)

// What blocks a job, as stable words: the user's own doing, or Slurm's limits. Other blocks (a start that failed) have none.
const (
	BlockHold       = "hold"
	BlockDependency = "dependency"
	BlockBegin      = "begin-time"
	BlockLimit      = "limit"
	BlockDeadline   = "deadline"
)

// limitReasons are the prefixes of Slurm's reasons for jobs that would not start even on free GPUs.
var limitReasons = []string{"Assoc", "QOS", "Licenses", "Reservation", "Partition", "InvalidAccount", "InvalidQOS", "JobArrayTaskLimit",
	"Max", "DeadLine", "AccountNotAllowed", "BadConstraints", "launch_failed_requeued_held", "MaxSubmit", "JobHoldMaxRequeue"}

func limitReason(reason string) bool {
	return slices.ContainsFunc(limitReasons, func(p string) bool { return strings.HasPrefix(reason, p) })
}

// readBlocks finds out whether something that is not ours keeps the job from starting.
func (b *Bridge) readBlocks(now time.Time, rec *Record, job slurm.Job) {
	limited := limitReason(job.Reason)
	why, code := "", ""
	switch {
	case len(job.Odd) > 0:
		why = "Slurm shows fields of it that we do not understand (" + strings.Join(job.Odd, ", ") + "): it is left to Slurm"
	case job.Held && !rec.Changed.Hold && rec.Phase != Starting:
		code = BlockHold
		why = "held (" + cmp.Or(job.Reason, "JobHeld") + "): release it with scontrol release"
	case job.Dependency != "":
		code = BlockDependency
		why = "waits for " + job.Dependency
	case b.userBegin(now, rec, job):
		code = BlockBegin
		why = "begin time " + job.Begin.In(b.cfg.Zone).Format("2006-01-02 15:04:05 MST") + " set by its user"
	case rec.Phase != Starting && b.lastCall(now, rec, job) != "":
		why, code = b.lastCall(now, rec, job), BlockDeadline
	case limited && rec.Phase != Starting && !now.Before(rec.BlockedTill):
		// Only a job that Slurm has just tried to start shows such a reason; ask again after a while.
		rec.BlockedTill = now.Add(max(6*b.cfg.Poll, 30*time.Second))
		why, code = "Slurm would keep it waiting: "+job.Reason, BlockLimit
		b.learnLimit(now, job)
	case rec.Phase != Starting && b.limitOn(job) != "":
		why, code = b.limitOn(job), BlockLimit
	case rec.Phase != Starting && b.reservedAway(now, rec, job) != "":
		rec.BlockedTill = now.Add(max(6*b.cfg.Poll, 30*time.Second))
		why, code = b.reservedAway(now, rec, job), BlockLimit
	case now.Before(rec.BlockedTill):
		why, code = rec.Blocked, rec.BlockedBy
	}
	if rec.Blocked != why {
		rec.Blocked, rec.dirty = why, true
	}
	rec.BlockedBy = code
}

// latestStart is when a job with sbatch's --deadline must have begun: Slurm removes it from the queue when it could not run its time limit out before that. ok is false for a
// job without one.
func latestStart(rec *Record, job slurm.Job) (at time.Time, ok bool) {
	if job.Deadline.IsZero() {
		return time.Time{}, false
	}
	return job.Deadline.Add(-max(job.TimeLimit, rec.Original.TimeLimit)), true // a start may have cut the limit shown
}

// lastCall says that a waiting job must not be delayed any more, since Slurm would remove it; "" while there is time.
func (b *Bridge) lastCall(now time.Time, rec *Record, job slurm.Job) string {
	at, ok := latestStart(rec, job)
	if !ok || at.Sub(now) > 3*b.cfg.Delay {
		return ""
	}
	return "sbatch --deadline lets it start until " + at.In(b.cfg.Zone).Format("2006-01-02 15:04:05 MST") + ", then Slurm removes it: it is left to Slurm"
}

// lastRun says that a running job must not be stopped, since Slurm would not start it again; "" while there is time.
func (b *Bridge) lastRun(rec *Record, job slurm.Job) string {
	at, ok := latestStart(rec, job)
	if !ok || at.Sub(b.seen.At) > 3*b.cfg.Delay+b.cfg.CheckpointTimeout {
		return ""
	}
	return "its sbatch --deadline is too near: Slurm would remove it from the queue"
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
	if (rec.Phase == Starting || rec.Armed) && !now.Before(rec.DoubtTill) && !job.Begin.Equal(rec.BeginWas) {
		rec.Original.Begin, rec.dirty = job.Begin, true // we had taken it off
		return true
	}
	if rec.Changed.Begin.IsZero() || job.Begin.Equal(rec.Changed.Begin) || job.Begin.Equal(rec.BeginWas) {
		return false
	}
	rec.Original.Begin, rec.dirty = job.Begin, true
	return true
}
