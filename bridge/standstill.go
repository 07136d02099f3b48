package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"unisched/slurm"
)

// anyPartition is the key of a standstill that holds for every partition: a fault of the site (RequeueExit, scontrol), not of one partition.
const anyPartition = ""

// standstill remembers that jobs which left their GPUs for us did not come back. While it is active nobody else is asked to leave: each preemption
// would cost a job.
type standstill struct {
	why    string
	since  time.Time
	until  time.Time // when it is tried again; zero: not before a job comes back, or an operator resumes
	active bool
	lost   int // jobs lost in a row
}

// Standstill is a partition in which nobody is preempted, as people see it. Partition "" means all of them.
type Standstill struct {
	Partition string    `json:"partition"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until,omitzero"` // when it is tried again; zero: when a job comes back, or an operator resumes
	Why       string    `json:"why"`
}

// Bounds of standstills that end by themselves: a job that its user cancelled while it was saving looks the same as one that Slurm took away.
const (
	standstillUnits = 2
	maxStandstill   = 12 * time.Hour
)

// returnWithin is how long a job that ended as cancelled or preempted after an action of ours may take to be back in the queue.
func (c Config) returnWithin() time.Duration { return max(6*c.Poll, 30*time.Second) }

// stand begins, or lengthens, a standstill. A zero length means that only a job that comes back ends it.
func (b *Bridge) stand(now time.Time, partition string, job slurm.JobID, timed bool, why string) {
	if b.still == nil {
		b.still = map[string]*standstill{}
	}
	s := b.still[partition]
	if s == nil {
		s = &standstill{}
		b.still[partition] = s
	}
	if !s.active {
		s.since = now
	}
	s.why, s.active, s.until = why, true, time.Time{}
	if timed {
		s.until = now.Add(min(standstillUnits*b.cfg.Unit<<min(s.lost, 12), maxStandstill))
	}
	s.lost++
	b.counts.Lost++
	b.log(now, "error", "no-return", job, "%s", why)
}

// stopped is why nobody of a partition is preempted, "" when they may be.
func (b *Bridge) stopped(partition string) string {
	for _, p := range []string{anyPartition, partition} {
		if s := b.still[p]; s != nil && s.active {
			return s.why
		}
	}
	return ""
}

// cameBack ends the standstills that the return of a job disproves.
func (b *Bridge) cameBack(now time.Time, rec *Record) {
	for _, p := range []string{anyPartition, rec.Original.Partition} {
		if s := b.still[p]; s != nil {
			if s.active {
				b.log(now, "info", "no-return", rec.Job, "it came back: preemptions are possible again")
			}
			delete(b.still, p)
		}
	}
}

// markLost begins the watch over a job that ended as cancelled or preempted while it was leaving for us. Who ended it Slurm does not say.
func (r *Record) markLost(now time.Time, job slurm.Job) {
	if (job.State == slurm.StateCancelled || job.State == slurm.StatePreempted) && (!r.Run.Signalled.IsZero() || !r.Run.Requeued.IsZero()) {
		r.LostSince, r.dirty = now, true
	}
}

// endStandstills lets preemption begin again where its time has come.
func (b *Bridge) endStandstills(now time.Time) {
	for _, p := range slices.Sorted(maps.Keys(b.still)) {
		if s := b.still[p]; s.active && !s.until.IsZero() && !now.Before(s.until) {
			s.active = false
			b.log(now, "info", "no-return", 0, "preemption in %s is tried again", partitionText(p))
		}
	}
}

// judgeLost closes the watch over one job that left for us and ended: it is back, or it stays away and preemption stops.
func (b *Bridge) judgeLost(now time.Time, rec *Record) {
	rec.LostSince, rec.dirty = time.Time{}, true
	if !rec.Phase.Ended() {
		b.cameBack(now, rec)
		return
	}
	why := fmt.Sprintf("job %d ended as %s after it was asked to leave, and Slurm did not take it back (PreemptMode, or its user's scancel): nobody is preempted in %s for now",
		rec.Job, cmp.Or(rec.Exit, "unknown"), partitionText(rec.Original.Partition))
	rec.note(now, "lost", why)
	b.stand(now, rec.Original.Partition, rec.Job, true, why)
}

func partitionText(p string) string {
	if p == anyPartition {
		return "any partition"
	}
	return "partition " + p
}

// standstills are the active ones, by partition.
func (b *Bridge) standstills() []Standstill {
	var out []Standstill
	for _, p := range slices.Sorted(maps.Keys(b.still)) {
		if s := b.still[p]; s.active {
			out = append(out, Standstill{p, s.since, s.until, s.why})
		}
	}
	return out
}
