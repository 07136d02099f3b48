package bridge

import (
	"fmt"
	"slices"
	"time"

	"unisched/slurm"
)

// One state_dir has one writer: the journal's lock sees to that. Daemons with different ones know nothing of each other, and nothing that Slurm stores could tell them: what an
// Operator may write is the users' (comments), or gets in the way of jobs (reservations, jobs of our own). What can be seen is what the other one does. A start writes a node list
// and, in the same call, a negative nice, and takes the delay off; a user cannot set a negative nice, and seldom does the rest in one look; an admin who wants a job to start pins no
// nodes with it. Who sees that on jobs that he manages, several times, without having done it, does nothing disruptive for a while, so that two daemons never undo each other's moves: plain Slurm takes over from both.

// Bounds of the judgement.
const (
	rivalStarts = 3         // starts that were not ours
	rivalWithin = time.Hour // in which they are counted, and for which nothing is done after the last
)

// rival is what was seen of another daemon.
type rival struct {
	runs []rivalRun // of the last while
	till time.Time
}

// rivalRun is one start that was not ours.
type rivalRun struct {
	job     slurm.JobID
	restart int
	at      time.Time
}

// foreignStart looks for the marks of a start that this daemon has not made, on a job that it saw waiting without them.
func (b *Bridge) foreignStart(now time.Time, rec *Record, job *slurm.Job) {
	pins := job.Request.RequiredNodes
	switch {
	case rec.shownIn == 0 || rec.Phase != Waiting && rec.Phase != Admitted || !b.acts(rec) || now.Before(rec.DoubtTill) || rec.Late.Any():
		return // not seen before, not ours to say, or it may be a late call of our own
	case len(pins) == 0 || slices.Equal(pins, rec.Original.RequiredNodes) || len(rec.Changed.Pinned) > 0:
		return
	}
	niced := job.Nice < 0 && job.Nice != rec.Original.Nice && !rec.Changed.Nice
	early := rec.Changed.Begin.After(now) && (job.State != slurm.StatePending || !job.Begin.After(now)) // with priority_mode = "off" this is all there is
	if !niced && !early {
		return
	}
	r := &b.rival
	r.runs = slices.DeleteFunc(r.runs, func(x rivalRun) bool { return now.Sub(x.at) > rivalWithin })
	if slices.ContainsFunc(r.runs, func(x rivalRun) bool { return x.job == job.ID && x.restart == job.Restarts }) {
		return
	}
	r.runs = keep(r.runs, rivalStarts, rivalRun{job.ID, job.Restarts, now})
	rec.note(now, "foreign-start", fmt.Sprintf("somebody pinned it to %v, took off its delay or gave it nice %d", pins, job.Nice))
	if len(r.runs) < rivalStarts {
		return
	}
	if !now.Before(r.till) {
		b.log(now, "error", "second-daemon", job.ID, "%s", rivalText)
	}
	r.till = now.Add(rivalWithin)
}

const rivalText = "jobs are started here by somebody else with node lists, before their delays are over or with negative nice: a second daemon with another state_dir? Stop one of them, then: unisched resume"

// why says why nothing disruptive is done, "" when nobody else is at work.
func (r *rival) why(now time.Time) string {
	if now.Before(r.till) {
		return rivalText
	}
	return ""
}
