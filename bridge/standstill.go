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
	Why    string    `json:"why"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // when it is tried again; zero: not before a job comes back, or an operator resumes
	Active bool      `json:"active"`
	Lost   int       `json:"lost"` // jobs lost in a row
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
	if !s.Active {
		s.Since = now
	}
	s.Why, s.Active, s.Until = why, true, time.Time{}
	if timed {
		s.Until = now.Add(min(standstillUnits*b.cfg.Unit<<min(s.Lost, 12), maxStandstill))
	}
	s.Lost++
	b.saveStill(now)
	b.counts.Lost++
	b.log(now, "error", "no-return", job, "%s", why)
}

// stopped is why nobody of a partition is preempted, "" when they may be.
func (b *Bridge) stopped(partition string) string {
	for _, p := range []string{anyPartition, partition} {
		if s := b.still[p]; s != nil && s.Active {
			return s.Why
		}
	}
	return ""
}

// cameBack ends the standstills that the return of a job disproves.
func (b *Bridge) cameBack(now time.Time, rec *Record) {
	for _, p := range []string{anyPartition, rec.Original.Partition} {
		if s := b.still[p]; s != nil {
			if s.Active {
				b.log(now, "info", "no-return", rec.Job, "it came back: preemptions are possible again")
			}
			delete(b.still, p)
			b.saveStill(now)
		}
	}
}

// markLost begins the watch over a job that ended as cancelled or preempted while it was leaving for us. Who ended it Slurm does not say.
func (r *Record) markLost(now time.Time, job *slurm.Job) {
	if (job.State == slurm.StateCancelled || job.State == slurm.StatePreempted) && (!r.Run.Signalled.IsZero() || !r.Run.Requeued.IsZero()) {
		r.LostSince, r.dirty = now, true
	}
}

// endStandstills lets preemption begin again where its time has come.
func (b *Bridge) endStandstills(now time.Time) {
	for _, p := range slices.Sorted(maps.Keys(b.still)) {
		if s := b.still[p]; s.Active && !s.Until.IsZero() && !now.Before(s.Until) {
			s.Active = false
			b.saveStill(now)
			b.log(now, "info", "no-return", 0, "preemption in %s is tried again", partitionText(p))
		}
	}
}

// saveStill journals all standstills, with the next records: a restart is no reason to lose one more job to the same fault.
func (b *Bridge) saveStill(now time.Time) {
	b.audit = append(b.audit, entry(now, kindStill, "standstills", b.stillNow()))
}

// stillNow is a copy of the standstills.
func (b *Bridge) stillNow() map[string]standstill {
	out := map[string]standstill{}
	for p, s := range b.still {
		out[p] = *s
	}
	return out
}

// restoreStill takes up what a journal held. None lasts longer than one found now could.
func (b *Bridge) restoreStill(at time.Time, was map[string]standstill) {
	b.still = map[string]*standstill{}
	for p, s := range was {
		if last := at.Add(maxStandstill); s.Until.After(last) {
			s.Until = last
		}
		s.Lost = min(max(s.Lost, 0), 64)
		b.still[p] = &s
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
		if s := b.still[p]; s.Active {
			out = append(out, Standstill{p, s.Since, s.Until, s.Why})
		}
	}
	return out
}
