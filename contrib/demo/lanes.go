package main

import (
	"cmp"
	"slices"
	"time"
)

// lane is one GPU of a node over time. Which GPU of a node a job held is not recorded, only how many: the lanes show the numbers.
type lane struct {
	node string
	gpu  int
	bars []bar
}

// slack is how far two stays may overlap on a lane: Slurm's times are whole seconds.
const slack = 1500 * time.Millisecond

// lanes lays bars out on the GPUs of the nodes, lowest free GPU first.
func (r *result) lanes(bars []bar) []lane {
	var out []lane
	for _, n := range r.nodes {
		first := len(out)
		for g := range n.GPUs {
			out = append(out, lane{node: n.Name, gpu: g})
		}
		free := make([]time.Time, n.GPUs)
		for _, b := range bars {
			if b.node != n.Name {
				continue
			}
			order := make([]int, n.GPUs)
			for g := range order {
				order[g] = g
			}
			// Free ones by number, then whichever comes free first.
			slices.SortStableFunc(order, func(x, y int) int {
				rank := func(g int) time.Time {
					if !free[g].After(b.from.Add(slack)) {
						return time.Time{}
					}
					return free[g]
				}
				return cmp.Or(rank(x).Compare(rank(y)), cmp.Compare(x, y))
			})
			for _, g := range order[:min(b.gpus, n.GPUs)] {
				free[g] = b.to
				out[first+g].bars = append(out[first+g].bars, b)
			}
		}
	}
	return out
}

func sortBars(bars []bar) {
	slices.SortFunc(bars, func(x, y bar) int {
		return cmp.Or(x.from.Compare(y.from), cmp.Compare(y.gpus, x.gpus), cmp.Compare(x.job.id, y.job.id), cmp.Compare(x.node, y.node))
	})
}

// span is the time that a chart has to show: to the last end, or the last deadline.
func (r *result) span(bars []bar) time.Duration {
	var last time.Time
	for _, b := range bars {
		if b.to.After(last) {
			last = b.to
		}
	}
	for _, o := range r.jobs {
		if d := o.deadline(); d.After(last) {
			last = d
		}
	}
	return last.Sub(r.began)
}
