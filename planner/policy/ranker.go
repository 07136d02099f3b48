package policy

import (
	"context"

	"unisched/planner"
)

// ranker is a preemptive policy that is all ranking: every round whoever ranks highest runs, on the GPUs asked for.
type ranker struct {
	name  string
	o     Options
	key   func(r *round, j *job) [3]float64
	begin func(r *round) // before the ranking; may be nil
	round round
}

func (k *ranker) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	r := &k.round
	r.open(s, k.o, false)
	if k.begin != nil {
		k.begin(r)
	}
	r.rank(func(j *job) [3]float64 {
		if j.Profiles() {
			return [3]float64{first}
		}
		return k.key(r, j)
	})
	r.settle(inPlace)
	return r.plan(k.name)
}

// The classes of a ranking. Profilers always go first: they are few, small and over in minutes, and without them a deadline is not even
// known to be in danger. Their authors give all rivals a profile for nothing.
const (
	first = iota
	urgent
	normal
	last
)
