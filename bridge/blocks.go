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
)

// limitReasons are the prefixes of Slurm's reasons for jobs that would not start even on free GPUs.
var limitReasons = []string{"Assoc", "QOS", "Licenses", "Reservation", "Partition", "InvalidAccount", "InvalidQOS", "JobArrayTaskLimit",
	"Max", "DeadLine", "AccountNotAllowed", "BadConstraints", "launch_failed_requeued_held", "MaxSubmit", "JobHoldMaxRequeue"}

func limitReason(reason string) bool {
	return slices.ContainsFunc(limitReasons, func(p string) bool { return strings.HasPrefix(reason, p) })
}

// readBlocks finds out whether something that is not ours keeps the job from starting.
func (b *Bridge) readBlocks(now time.Time, rec *Record, job *slurm.Job) {
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

// userBegin reports whether the job has a begin time in the future that is the user's own: neither ours, nor the one of the submit plugin, nor the
// one that Slurm gives to a requeued job.
func (b *Bridge) userBegin(now time.Time, rec *Record, job *slurm.Job) bool {
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
