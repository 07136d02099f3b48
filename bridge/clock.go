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
	for _, rec := range b.known() {
		rec.clockBack(d)
	}
	back := backBy(d)
	b.boundary, b.rounded, b.calm = time.Time{}, time.Time{}, now
	back(&b.since)
	for _, s := range b.still {
		back(&s.Since)
		back(&s.Until)
	}
	for key, m := range b.limits {
		back(&m.Until)
		b.limits[key] = m
	}
	if edge := now.Truncate(b.cfg.Unit); b.lore.at.After(edge) {
		b.lore.at = edge
	}
	b.loads = slices.DeleteFunc(b.loads, func(l Load) bool { return l.At.After(now) })
	b.rouse("the clock was set back")
}

func backBy(d time.Duration) func(*time.Time) {
	return func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(-d)
		}
	}
}

// clockBack moves the instants of a record that are compared with the clock. Deadlines and the time of submission are the user's and stay.
func (r *Record) clockBack(d time.Duration) {
	back := backBy(d)
	run := &r.Run
	for _, t := range []*time.Time{&r.Since, &r.LeaseUntil, &r.LastOnGPUs, &r.BlockedTill, &r.LostSince, &r.DoubtTill, &r.Target.Until,
		&run.Start, &run.Ready, &run.FirstAt, &run.LastAt, &run.Signalled, &run.CheckpointAt, &run.Requeued, &run.Freed} {
		back(t)
	}
	for i := range r.Avoid {
		back(&r.Avoid[i].Till)
	}
	r.SubmitSlack += d
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
