package main

import (
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/policy"
)

// replay works out what plain Slurm would have done: the same jobs, submitted at the same moments with the same time limits, each running uninterrupted
// on what it asked for, for as long as it has been measured to take.
func (r *result) replay() {
	overhead := r.startup()
	var arrivals []policy.Arrival
	for _, o := range r.jobs {
		o.Length = o.uninterrupted(overhead)
		arrivals = append(arrivals, policy.Arrival{
			Run: planner.Run{Job: planner.JobID(o.id)}, Submit: o.Submitted, Shapes: []planner.Shape{o.shape}, Duration: o.Length,
			Limit: time.Duration(o.limit) * time.Minute,
		})
	}
	for _, got := range policy.Backfill(r.nodes, arrivals, 0) {
		i := slices.IndexFunc(r.jobs, func(o *outcome) bool { return planner.JobID(o.id) == got.Run.Job })
		r.jobs[i].PlainStart, r.jobs[i].PlainEnd, r.jobs[i].PlainPlacement = got.Start, got.Finish, got.Placement
	}
}

// startup is the time from a start to the first iteration, measured on the runs that resumed.
func (r *result) startup() time.Duration {
	var all []time.Duration
	for _, o := range r.jobs {
		for _, ret := range o.view.Returns {
			for _, s := range o.Stays {
				if d := ret.At.Sub(s.From); s.Run == ret.Run && d > 0 {
					all = append(all, d)
				}
			}
		}
	}
	if len(all) == 0 {
		return time.Second
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// uninterrupted is how long the whole job takes on what it asked for: its measured pace there, times all of its iterations, and one start.
func (o *outcome) uninterrupted(startup time.Duration) time.Duration {
	var spent time.Duration
	var iters int64
	for i, s := range o.Stays {
		if s.Profile || !s.Placement.Shape().Equal(o.shape) || s.Run >= len(o.Runs) {
			continue
		}
		end := o.EndIter
		if s.Run+1 < len(o.Runs) {
			end = o.Runs[s.Run+1].Start
		}
		if n := end - o.Runs[s.Run].Start; n > 0 {
			spent += max(o.Stays[i].To.Sub(s.From)-startup, 0)
			iters += n
		}
	}
	if iters == 0 { // it never ran on what it asked for
		return time.Duration(o.limit) * time.Minute
	}
	return startup + time.Duration(float64(spent)/float64(iters)*float64(o.EndIter))
}
