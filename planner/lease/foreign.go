package lease

import (
	"slices"

	"unisched/planner"
)

// yieldToForeign settles the race with jobs that are not managed: while a start waits for its victim, the cluster itself would give GPUs that
// are free now to a foreign job that fits them. Such a foreign job is let through, and a start that counted on the same GPUs is
// taken back, so that nobody is stopped for GPUs that another job gets.
func (r *packed) yieldToForeign(in *instance) {
	waits := func(ji int) bool {
		j := &in.jobs[ji]
		return j.Foreign && j.idle == "" && j.State == planner.Waiting && j.cols[r.choice[ji]].kind == wait
	}
	some := false
	for ji := range in.jobs {
		some = some || waits(ji)
	}
	if !some {
		return
	}
	foreign := in.order(func(j *job) [2]float64 { return [2]float64{float64(j.Submitted.Unix()), 0} })
	foreign = slices.DeleteFunc(foreign, func(ji int) bool { return !waits(ji) })
	now := newFloor(in)
	for ji := range in.jobs {
		if j := &in.jobs[ji]; j.State == planner.Running || j.State == planner.Leaving {
			now.take(j, j.Current, 1)
		}
	}
	var delayed []int
	for _, ji := range in.order(func(j *job) [2]float64 { return [2]float64{j.laxity(), -j.density()} }) {
		j := &in.jobs[ji]
		if j.cols[r.choice[ji]].kind != start {
			continue
		}
		if now.covers(j, r.places[ji]) {
			now.take(j, r.places[ji], 1)
		} else {
			delayed = append(delayed, ji)
		}
	}
	for _, fi := range foreign {
		r.letThrough(in, fi, now, delayed)
	}
}

func (r *packed) letThrough(in *instance, fi int, now *floor, delayed []int) {
	f := &in.jobs[fi]
	for k, o := range f.opts {
		p, ok := now.place(f, o)
		ci := f.column(start, k, -1)
		if !ok || ci < 0 {
			continue
		}
		for _, ji := range delayed {
			j := &in.jobs[ji]
			if r.floor.covers(f, p) {
				break
			}
			if j.cols[r.choice[ji]].kind == start && meet(p, r.places[ji]) {
				r.floor.take(j, r.places[ji], -1)
				if r.raced == nil {
					r.raced = map[int]planner.Run{}
				}
				r.raced[ji] = f.Run
				r.demote(in, ji)
			}
		}
		if r.floor.covers(f, p) {
			now.take(f, p, 1)
			r.floor.take(f, p, 1)
			r.choice[fi], r.places[fi] = ci, p
			return
		}
	}
}

// covers reports whether a placement fits as it is.
func (f *floor) covers(j *job, p planner.Placement) bool {
	for _, sh := range p {
		if i, ok := f.in.index[sh.Node]; !ok || !f.holds(j, i, sh.GPUs) {
			return false
		}
	}
	return true
}

func meet(a, b planner.Placement) bool {
	return slices.ContainsFunc(a, func(s planner.Share) bool { return b.On(s.Node) > 0 })
}
