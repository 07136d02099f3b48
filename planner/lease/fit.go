package lease

import (
	"slices"

	"unisched/planner"
)

// maxFitSteps bounds the search for a packing; beyond it a set of starts counts as one that does not fit.
const maxFitSteps = 4000

// fitter searches node sets for a list of starts, depth first.
type fitter struct {
	f     *floor
	jobs  []int
	opt   func(ji int) option
	found []planner.Placement
	// homes are nodes that one of the jobs moves away from: to it they are not as others, since it must not be seated where it is.
	homes map[string]bool // lookup only
	steps int
}

// fitAll places all the starts, biggest first, or tells that no way was found. The floor is as before afterwards.
func (f *floor) fitAll(jobs []int, opt func(int) option) ([]planner.Placement, bool) {
	x := &fitter{f: f, jobs: jobs, opt: opt, found: make([]planner.Placement, len(jobs)), homes: map[string]bool{}}
	for _, ji := range jobs {
		for _, sh := range f.in.jobs[ji].Current {
			x.homes[sh.Node] = true
		}
	}
	if !x.job(0) {
		return nil, false
	}
	return x.found, true
}

func (x *fitter) job(k int) bool {
	if k == len(x.jobs) {
		return true
	}
	return x.share(k, 0, nil)
}

// share seats share m of start k on every kind of node in turn: nodes that offer the same are tried once.
func (x *fitter) share(k, m int, on []planner.Share) bool {
	in, ji := x.f.in, x.jobs[k]
	j, o := &in.jobs[ji], x.opt(ji)
	if m == 0 && !x.f.within(j, o.gpus) {
		return false
	}
	if m == len(o.shape) {
		p := planner.NewPlacement(on...)
		if slices.Equal(p, j.Current) {
			return false
		}
		x.found[k] = p
		x.f.take(j, p, 1)
		ok := x.job(k + 1)
		x.f.take(j, p, -1)
		return ok
	}
	type face struct {
		gpus, cpus, tenants int
		mem                 int64
		home                string
	}
	var tried []face
	for _, i := range in.pools[o.pool].nodes {
		if x.steps >= maxFitSteps {
			return false
		}
		at := face{x.f.gpus[i], x.f.cpus[i], min(1, x.f.tenants[i]), x.f.mem[i], ""}
		name := in.s.Nodes[i].Name
		if x.homes[name] {
			at.home = name
		}
		taken := slices.ContainsFunc(on, func(s planner.Share) bool { return s.Node == name })
		if taken || o.awake && in.nodes[i].wake > 0 || !x.f.holds(j, i, o.shape[m]) || in.alikeNodes && slices.Contains(tried, at) {
			continue
		}
		x.steps++
		tried = append(tried, at)
		if x.share(k, m+1, append(slices.Clip(on), planner.Share{Node: name, GPUs: o.shape[m]})) {
			return true
		}
	}
	return false
}
