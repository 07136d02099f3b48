package bridge

import (
	"time"

	"unisched/estimator"
)

// Bounds of what is learnt of luck. People write the reports that speeds are measured on: neither a job nor a user is to speak for the cluster.
const (
	maxPairs     = 8   // comparisons of one job
	maxUserPairs = 100 // and of the jobs of one user in a day; a fabric remembers four times as many
	// leastCompared is how long a run is measured before its speed says anything; warm is when it has done so for certain. In between it must have run for half as long as the run that
	// it is held against: a run begins with cold caches and a compiler, and that is no luck.
	leastCompared = 2 * time.Minute
	warm          = 30 * time.Minute
)

// compareRuns teaches how much the speed of a job's runs differs, from the run in progress as soon as it has been measured for a while.
func (b *Bridge) compareRuns(now time.Time, rec *Record) {
	n := len(rec.Samples)
	if n < 2 || rec.Taught.Pairs >= maxPairs {
		return
	}
	s := rec.Samples[n-1]
	if !longEnough(s) || !s.At.After(rec.Taught.Compared) {
		return
	}
	for i := n - 2; i >= 0; i-- {
		o := rec.Samples[i]
		if !longEnough(o) || o.Batch != s.Batch || !o.Shape.Equal(s.Shape) {
			continue
		}
		if measured(s) < min(measured(o)/2, warm.Seconds()) {
			return
		}
		if b.lore.mayTeachLuck(rec.Key.User, now) {
			b.lore.fabric = b.lore.fabric.Learn(estimator.Outcome{Again: []estimator.Sample{o, s}}, now)
			b.lore.dirty = true
			rec.Taught.Pairs++
		}
		break
	}
	rec.Taught.Compared, rec.dirty = s.At, true
}

// measured is how long a sample's run was measured, in seconds.
func measured(s estimator.Sample) float64 { return s.IterTime * float64(s.N) }

// longEnough reports whether a run was measured for long enough to say anything about luck: of iterations of a minute, two minutes are not.
func longEnough(s estimator.Sample) bool {
	return !s.Profile && s.N >= estimator.LeastCompared && measured(s) >= leastCompared.Seconds()
}

// mayTeachLuck counts a comparison of a user's, and reports whether he has any left today.
func (l *lore) mayTeachLuck(user string, now time.Time) bool {
	if day := now.UTC().Truncate(24 * time.Hour); l.luckOf == nil || !l.luckDay.Equal(day) {
		l.luckOf, l.luckDay = map[string]int{}, day
	}
	l.luckOf[user]++
	return l.luckOf[user] <= maxUserPairs
}
