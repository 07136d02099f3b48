package lease

import (
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
	fresh   []int // tenants that the plan, not the snapshot, put there
	alone   []int // tenants that want the node for themselves
	quota   []int // GPUs that accounts may still hold
}

func newFloor(in *instance) *floor {
	f := &floor{in: in}
	for _, n := range in.nodes {
		f.gpus, f.cpus, f.mem = append(f.gpus, n.gpus), append(f.cpus, n.cpus), append(f.mem, n.mem)
	}
	f.tenants, f.alone = make([]int, len(in.nodes)), make([]int, len(in.nodes))
	f.fresh = make([]int, len(in.nodes))
	for _, q := range in.quotas {
		f.quota = append(f.quota, q.Room)
	}
	return f
}

// take books a placement (sign 1) or gives it back (-1).
func (f *floor) take(j *job, p planner.Placement, sign int) {
	if j.quota >= 0 {
		f.quota[j.quota] -= sign * p.GPUs()
	}
	fresh := sign
	if slices.Equal(p, j.Current) {
		fresh = 0
	}
	for _, sh := range p {
		if i, ok := f.in.index[sh.Node]; ok {
			f.fresh[i] += fresh
			f.book(j, i, sh.GPUs, sign)
		}
	}
}

// book takes (sign 1) or gives back (-1) a share on node i.
func (f *floor) book(j *job, i, g, sign int) {
	f.gpus[i] -= sign * g
	f.cpus[i] -= sign * j.Needs.CPUs(g)
	f.mem[i] -= int64(sign) * j.Needs.MemMB(g)
	f.tenants[i] += sign
	if j.Needs.Exclusive {
		f.alone[i] += sign
	}
}

// holds reports whether a share fits on node i now.
func (f *floor) holds(j *job, i, g int) bool {
	return f.in.nodes[i].usable && f.fitsOn(j, i, g)
}

// mayStay reports whether a running job could be kept where it is: beside fresh tenants only if it fits, without them in any case, since a node
// that its kept jobs overfill is the snapshot's doing.
func (f *floor) mayStay(j *job) bool {
	if !f.within(j, j.curr.gpus) { // a start of its account took its place
		return false
	}
	for _, sh := range j.Current {
		if i, ok := f.in.index[sh.Node]; ok && f.fresh[i] > 0 && !f.fitsOn(j, i, sh.GPUs) {
			return false
		}
	}
	return true
}

// stays reports whether a placement fits, on usable nodes or not.
func (f *floor) stays(j *job, p planner.Placement) bool {
	if !f.within(j, p.GPUs()) {
		return false
	}
	for _, sh := range p {
		if i, ok := f.in.index[sh.Node]; ok && !f.fitsOn(j, i, sh.GPUs) {
			return false
		}
	}
	return true
}

// fitsOn reports whether a share fits on node i now, usable or not.
func (f *floor) fitsOn(j *job, i, g int) bool {
	cpus, mem := j.Needs.CPUs(g), j.Needs.MemMB(g)
	return f.gpus[i] >= g && (cpus <= 0 || f.cpus[i] >= cpus) && (mem <= 0 || f.mem[i] >= mem) && f.alone[i] == 0 &&
		!(j.Needs.Exclusive && (f.in.nodes[i].held || f.tenants[i] > 0))
}

// sound reports whether everybody on the floor fits on it beside all others: then whoever leaves finds his place again, whoever else has left.
func (f *floor) sound() bool {
	for i := range f.gpus {
		if f.gpus[i] < 0 || f.cpus[i] < 0 || f.mem[i] < 0 || f.alone[i] > 0 && (f.tenants[i] > 1 || f.in.nodes[i].held) {
			return false
		}
	}
	return !slices.ContainsFunc(f.quota, func(left int) bool { return left < 0 })
}

// place finds nodes for an option: under the smallest switch that can hold it when it spans nodes, else anywhere in its pool. Each share
// goes where it breaks the smallest block.
func (f *floor) place(j *job, o option) (planner.Placement, bool) {
	if !f.within(j, o.gpus) {
		return nil, false
	}
	pool := &f.in.pools[o.pool]
	if len(o.shape) > 1 && len(pool.groups) > 0 {
		if p, ok := f.placeTogether(j, o, pool); ok {
			return p, true
		}
	}
	return f.placeOn(j, o, pool.nodes)
}

func (f *floor) placeOn(j *job, o option, nodes []int) (planner.Placement, bool) {
	shape := o.shape
	used := make([]int, 0, len(shape))
	for _, g := range shape {
		best, bestRank := -1, 0
		for _, i := range nodes {
			rank, ok := cell.Fit(f.gpus[i], g)
			rank <<= 1
			if ok && f.scattered(i, g) {
				rank++
			}
			if f.in.nodes[i].wake > 0 {
				rank, ok = f.wakes(i, rank), ok && !o.awake
			}
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
