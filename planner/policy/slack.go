package policy

import (
	"cmp"
	"time"
)

// newSlack makes slack-guarded SRTF: shortest remaining time first, but a deadline that can still be met and whose slack has shrunk
// below the guard (30 min) goes before everybody. No paper: ten lines that anybody would write, and hard to beat.
//
// Several guarded jobs go in the order of the base rule, which loses far fewer deadlines than least slack first (Options.GuardBySlack): there jobs
// of equal slack take turns, and the longest, least likely to be saved, win.
func newSlack(o Options) Policy {
	return guarded("slack", o, cmp.Or(max(0, o.Guard), 30*time.Minute), func(j *job) float64 { return j.left })
}

func guarded(name string, o Options, guard time.Duration, value func(*job) float64) Policy {
	return &ranker{name: name, o: o, key: func(_ *round, j *job) [3]float64 {
		if j.alive() && j.slack() < guard.Seconds() {
			if o.GuardBySlack {
				return [3]float64{urgent, j.slack()}
			}
			return [3]float64{urgent, value(j)}
		}
		return [3]float64{normal, value(j)}
	}}
}
