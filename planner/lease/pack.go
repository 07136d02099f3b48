package lease

import (
	"cmp"
	"slices"

	"unisched/planner"
	"unisched/planner/cell"
)

// floor is what every node still offers while a plan is being packed.
type floor struct {
	in      *instance
	gpus    []int
	cpus    []int
	mem     []int64
	tenants []int
	alone   []int // tenants that want the node for themselves
}

func newFloor(in *instance) *floor {
	f := &floor{in: in}
	for _, n := range in.nodes {
		f.gpus, f.cpus, f.mem = append(f.gpus, n.gpus), append(f.cpus, n.cpus), append(f.mem, n.mem)
	}
	f.tenants, f.alone = make([]int, len(in.nodes)), make([]int, len(in.nodes))
	return f
}

// take books a placement (sign 1) or gives it back (-1).
func (f *floor) take(j *job, p planner.Placement, sign int) {
	for _, sh := range p {
		i, ok := f.in.index[sh.Node]
		if !ok {
			continue
		}
		f.gpus[i] -= sign * sh.GPUs
		f.cpus[i] -= sign * j.Needs.CPUs(sh.GPUs)
		f.mem[i] -= int64(sign) * j.Needs.MemMB(sh.GPUs)
		f.tenants[i] += sign
		if j.Needs.Exclusive {
			f.alone[i] += sign
		}
	}
}

// holds reports whether a share fits on node i now.
func (f *floor) holds(j *job, i, g int) bool {
	n := f.in.nodes[i]
	cpus, mem := j.Needs.CPUs(g), j.Needs.MemMB(g)
	return n.usable && f.gpus[i] >= g && (cpus <= 0 || f.cpus[i] >= cpus) && (mem <= 0 || f.mem[i] >= mem) && f.alone[i] == 0 &&
		!(j.Needs.Exclusive && (n.held || f.tenants[i] > 0))
}

// stays reports whether a running job could be kept where it is: kept jobs may exceed what the snapshot says only when nobody new joins them.
func (f *floor) stays(j *job) bool {
	for _, sh := range j.Current {
		i, ok := f.in.index[sh.Node]
		if !ok {
			continue
		}
		cpus, mem := j.Needs.CPUs(sh.GPUs), j.Needs.MemMB(sh.GPUs)
		if f.gpus[i] < sh.GPUs || cpus > 0 && f.cpus[i] < cpus || mem > 0 && f.mem[i] < mem || f.alone[i] > 0 ||
			j.Needs.Exclusive && (f.in.nodes[i].held || f.tenants[i] > 0) {
			return false
		}
	}
	return true
}

// place finds nodes for an option: under one switch when it spans nodes and one switch can hold it, else anywhere in its pool. Each share
// goes where it breaks the smallest block.
func (f *floor) place(j *job, o option) (planner.Placement, bool) {
	pool := &f.in.pools[o.pool]
	if len(o.shape) > 1 && len(pool.switches) > 0 {
		if p, ok := f.placeUnderSwitch(j, o, pool.switches); ok {
			return p, true
		}
	}
	return f.placeOn(j, o.shape, pool.nodes)
}

// placeUnderSwitch tries the switches with the fewest free GPUs first.
func (f *floor) placeUnderSwitch(j *job, o option, switches [][]int) (planner.Placement, bool) {
	free, order := make([]int, len(switches)), make([]int, 0, len(switches))
	for k, nodes := range switches {
		for _, i := range nodes {
			free[k] += max(0, f.gpus[i])
		}
		if free[k] >= o.gpus {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(free[a], free[b]), cmp.Compare(a, b)) })
	for _, k := range order {
		if p, ok := f.placeOn(j, o.shape, switches[k]); ok {
			return p, true
		}
	}
	return nil, false
}

func (f *floor) placeOn(j *job, shape planner.Shape, nodes []int) (planner.Placement, bool) {
	used := make([]int, 0, len(shape))
	for _, g := range shape {
		best, bestRank := -1, 0
		for _, i := range nodes {
			rank, ok := cell.Fit(f.gpus[i], g)
			if ok && (best < 0 || rank < bestRank) && f.holds(j, i, g) && !slices.Contains(used, i) {
				best, bestRank = i, rank
				if rank == 0 {
					break // nothing fits better
				}
			}
		}
		if best < 0 {
			return nil, false
		}
		used = append(used, best)
	}
	shares := make([]planner.Share, len(shape))
	for k, i := range used {
		shares[k] = planner.Share{Node: f.in.s.Nodes[i].Name, GPUs: shape[k]}
	}
	return planner.NewPlacement(shares...), true
}

// packed is a candidate with real placements: what is done with every job, and what it earns.
type packed struct {
	name   string
	choice []int
	places []planner.Placement
	floor  *floor
	obj    float64
	met    int
	// homeless marks jobs that the candidate started but no hole was found for.
	homeless []bool
	// raced names the foreign job that would take GPUs that a start counted on, by job.
	raced map[int]planner.Run // lookup only
	note  string
}

// pack turns a choice of columns into placements: kept jobs stay, starts go biggest first, then nobody is stopped in vain, then free GPUs go to
// whoever earns most with them.
func (in *instance) pack(name string, choice []int) packed {
	r := packed{name: name, choice: slices.Clone(choice), places: make([]planner.Placement, len(in.jobs)), floor: newFloor(in),
		homeless: make([]bool, len(in.jobs))}
	var starts []int
	for ji := range in.jobs {
		switch in.jobs[ji].cols[choice[ji]].kind {
		case keep:
			r.keep(in, ji)
		case start:
			starts = append(starts, ji)
		}
	}
	slices.SortStableFunc(starts, func(a, b int) int {
		x, y := in.jobs[a].opts[in.jobs[a].cols[choice[a]].opt], in.jobs[b].opts[in.jobs[b].cols[choice[b]].opt]
		return cmp.Or(cmp.Compare(y.shape[0], x.shape[0]), cmp.Compare(y.gpus, x.gpus),
			cmp.Compare(in.jobs[a].laxity(), in.jobs[b].laxity()), cmp.Compare(a, b))
	})
	for _, ji := range starts {
		if !r.start(in, ji) {
			r.homeless[ji] = true
			r.demote(in, ji)
		}
	}
	r.reprieve(in)
	r.yieldToForeign(in)
	r.reprieve(in)
	r.fillFree(in)
	r.score(in)
	return r
}

func (r *packed) keep(in *instance, ji int) {
	r.places[ji] = in.jobs[ji].Current
	r.floor.take(&in.jobs[ji], in.jobs[ji].Current, 1)
}

// start places a job with its column's shape, else with another that still meets the same tier.
func (r *packed) start(in *instance, ji int) bool {
	j := &in.jobs[ji]
	c := j.cols[r.choice[ji]]
	for k := -1; k < len(j.opts); k++ {
		opt := k
		if k < 0 {
			opt = c.opt
		} else if k == c.opt {
			continue
		}
		ci := j.column(start, opt, c.tier)
		if ci < 0 {
			continue
		}
		if p, ok := r.floor.place(j, j.opts[opt]); ok && !slices.Equal(p, j.Current) {
			r.choice[ji], r.places[ji] = ci, p
			r.floor.take(j, p, 1)
			return true
		}
	}
	return false
}

// demote takes a start back: the job waits, with its tier if waiting still meets it.
func (r *packed) demote(in *instance, ji int) {
	j := &in.jobs[ji]
	r.places[ji] = nil
	ci := j.column(wait, -1, j.cols[r.choice[ji]].tier)
	if ci < 0 {
		ci = j.column(wait, -1, -1)
	}
	r.choice[ji] = ci
}

// reprieve keeps stopped jobs whose GPUs nobody took, best first: there are no victims in vain.
func (r *packed) reprieve(in *instance) {
	for _, ji := range r.byGain(in, func(j *job) bool { return j.State == planner.Running }) {
		j := &in.jobs[ji]
		if j.cols[r.choice[ji]].kind == wait && r.floor.stays(j) {
			ci := j.column(keep, -1, j.cols[r.choice[ji]].tier)
			if ci < 0 {
				ci = j.column(keep, -1, -1)
			}
			r.choice[ji] = ci
			r.keep(in, ji)
		}
	}
}

// fillFree starts waiting jobs on GPUs that are left.
func (r *packed) fillFree(in *instance) {
	full := make([]bool, in.alike) // options that found no hole: nothing gets free in here
	for _, ji := range r.byGain(in, func(j *job) bool { return j.State == planner.Waiting }) {
		j := &in.jobs[ji]
		if c := j.cols[r.choice[ji]]; c.kind != wait || j.idle != "" {
			continue
		}
		tier := j.cols[r.choice[ji]].tier
		for k := range j.opts {
			ci := j.column(start, k, tier)
			if ci < 0 {
				ci = j.column(start, k, -1)
			}
			if ci < 0 || j.cols[ci].obj < j.cols[r.choice[ji]].obj {
				continue
			}
			if full[j.opts[k].like] {
				continue
			}
			if p, ok := r.floor.place(j, j.opts[k]); ok {
				r.choice[ji], r.places[ji] = ci, p
				r.floor.take(j, p, 1)
				break
			}
			full[j.opts[k].like] = true
		}
	}
}

// byGain orders the jobs that pass by density, then laxity.
func (r *packed) byGain(in *instance, pass func(*job) bool) []int {
	var out []int
	for _, ji := range in.order(func(j *job) [2]float64 { return [2]float64{-j.density(), j.laxity()} }) {
		if pass(&in.jobs[ji]) {
			out = append(out, ji)
		}
	}
	return out
}

// score counts what the packed choice earns and how many jobs count on a tier.
func (r *packed) score(in *instance) {
	r.obj, r.met = in.objective(r.choice), 0
	for ji, c := range r.choice {
		if in.jobs[ji].cols[c].tier >= 0 {
			r.met++
		}
	}
}
