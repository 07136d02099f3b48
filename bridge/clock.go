package bridge

import (
	"fmt"
	"slices"
	"time"
)

// clockBack takes a clock that was set back into account: what the records say of the past and of the time to come was written by the old one. Left as it is, no round
// would be due, no wait would end and no lease run out until the new clock has caught up, and a job that comes back would look like one submitted before it
// was known. Times of Slurm itself are left as Slurm shows them.
func (b *Bridge) clockBack(now time.Time) {
	was := b.last
	if was.IsZero() {
		was = b.journalled
	}
	d := was.Sub(now)
	if was.IsZero() || d <= clockSkew {
		return
	}
	b.log(now, "warn", "clock", 0, "the clock went back by %v: what was planned and waited for is moved along", d)
	s := step{was, now}
	for _, rec := range b.known() {
		rec.clockBack(s)
	}
	b.boundary, b.rounded, b.calm = time.Time{}, time.Time{}, now
	s.past(&b.since)
	for _, still := range b.still {
		s.past(&still.Since)
		s.coming(&still.Until)
	}
	for key, m := range b.limits {
		s.coming(&m.Until)
		b.limits[key] = m
	}
	if edge := now.Truncate(b.cfg.Unit); b.lore.at.After(edge) {
		b.lore.at = edge
	}
	b.loads = slices.DeleteFunc(b.loads, func(l Load) bool { return l.At.After(now) })
	b.rouse("the clock was set back")
}

// step is a clock that showed one time and then an earlier one.
type step struct{ was, now time.Time }

// past moves an instant that was the present once: in the future now, it was written by the fast clock. One that is past by either clock stays, since that clock may
// have been fast only for a while.
func (s step) past(t *time.Time) {
	if t.After(s.now) {
		*t = t.Add(-s.was.Sub(s.now))
	}
}

// coming moves the end of a wait: as far ahead as it was, over when it was over.
func (s step) coming(t *time.Time) {
	switch {
	case t.After(s.was):
		*t = t.Add(-s.was.Sub(s.now))
	case t.After(s.now):
		*t = s.now
	}
}

// clockBack moves the instants of a record that are compared with the clock. Deadlines and the time of submission are the user's and stay.
func (r *Record) clockBack(s step) {
	run, answered := &r.Run, r.Run.answered()
	if run.LastAt.After(s.now) { // what was measured across the step is no speed
		run.FirstAt = time.Time{}
	}
	for _, t := range []*time.Time{&r.Since, &r.LastOnGPUs, &r.LostSince, &run.Start, &run.Ready, &run.FirstAt, &run.LastAt, &run.Signalled, &run.AskedBy, &run.CheckpointAt, &run.Requeued,
		&run.Freed} {
		s.past(t)
	}
	if answered && !run.answered() {
		run.CheckpointAt = run.Signalled
	}
	for _, t := range []*time.Time{&r.LeaseUntil, &r.BlockedTill, &r.DoubtTill, &r.Target.Until} {
		s.coming(t)
	}
	for i := range r.Avoid {
		s.coming(&r.Avoid[i].Till)
	}
	r.SubmitSlack += s.was.Sub(s.now)
	r.dirty = true
}

// slurmClockBack does what has to be done when only Slurm's clock was set back: jobs that come back are given earlier times of submission.
func (b *Bridge) slurmClockBack(d time.Duration) {
	for _, rec := range b.known() {
		rec.SubmitSlack += d
		rec.dirty = true
	}
}

// clockText is why a look right after a clock was set back is not trusted.
func clockText(d time.Duration) string { return fmt.Sprintf("the clock went back by %v", d) }
