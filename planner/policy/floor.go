package policy

import (
	"slices"

	"unisched/planner"
	"unisched/planner/cell"
)

// spot is what a node still offers while a plan is made.
type spot struct {
	gpus, cpus int
	mem        int64
	// tenants, fresh (those that the plan, not the snapshot, put there; freshCPUs and freshMem: those of them that need such) and alone
	// (those that want the node for themselves) are counts.
	tenants, fresh, freshCPUs, freshMem, alone int

	held, usable bool
	// slack is how many GPUs a job may take that outlasts a reservation on this node.
	slack int
}

// floor is all nodes. Its memory is used again from round to round.
type floor struct {
	nodes []planner.Node
	spots []spot
	// closing are the nodes that are to be closed, mostly none: only they tell time limits apart.
	closing []planner.Node
	index   map[string]int    // lookup only
	kinds   map[kindKey]*kind // lookup only
	list    []*kind
	used    []int
	// profile is how many nodes, the last ones, are for profilers alone.
	profile int
}

func (f *floor) open(nodes []planner.Node, profile int) {
	f.profile = min(profile, len(nodes))
	f.nodes, f.spots, f.list, f.closing = nodes, f.spots[:0], f.list[:0], f.closing[:0]
	if f.index == nil {
		f.index, f.kinds = map[string]int{}, map[kindKey]*kind{}
	}
	clear(f.index)
	clear(f.kinds)
	for i, n := range nodes {
		f.index[n.Name] = i
		f.spots = append(f.spots, spot{gpus: n.FreeGPUs(), cpus: n.CPUs - n.OtherCPUs, mem: n.MemMB - n.OtherMemMB, held: n.Held(),
			usable: n.Usable && n.GPUs > 0, slack: n.GPUs})
		if n.ClosesIn > 0 {
			f.closing = append(f.closing, n)
		}
	}
}

// kindOf finds the kind of a job, with the nodes that it may use.
func (f *floor) kindOf(n *planner.Needs, profiler bool) *kind {
	key := keyOf(n)
	key.profiler = profiler && f.profile > 0
	key.limit = planner.LimitClass(f.closing, n.Limit)
	allowed := func(i int) bool {
		return f.spots[i].usable && (f.profile == 0 || profiler == (i >= len(f.nodes)-f.profile)) && n.Allows(f.nodes[i]) == ""
	}
	if k, ok := f.kinds[key]; ok {
		return k
	}
	k := &kind{needs: *n}
	var types []string
	for i, node := range f.nodes {
		if !slices.Contains(types, node.GPUType) && allowed(i) {
			types = append(types, node.GPUType)
		}
	}
	slices.Sort(types)
	for _, t := range types {
		var group []int
		for i, node := range f.nodes {
			if node.GPUType == t && allowed(i) {
				group = append(group, i)
			}
		}
		k.groups = append(k.groups, group)
	}
	f.kinds[key] = k
	f.list = append(f.list, k)
	return k
}

// couldHold reports whether nodes that nobody of the snapshot uses can hold a shape.
func (f *floor) couldHold(k *kind, shape planner.Shape) bool {
	for i, s := range k.shapes {
		if s.Equal(shape) {
			return k.holds[i]
		}
	}
	ok := false
	if n := k.needs.MaxNodes; n <= 0 || len(shape) <= n {
		for _, group := range k.groups {
			ok = ok || f.emptyHolds(k, shape, group)
		}
	}
	k.shapes, k.holds = append(k.shapes, shape), append(k.holds, ok)
	return ok
}

// emptyHolds matches the largest share first with any node that is large enough; sizes alone decide, so counting is exact.
func (f *floor) emptyHolds(k *kind, shape planner.Shape, group []int) bool {
	for n, g := range shape {
		fit := 0
		for _, i := range group {
			node := &f.nodes[i]
			cpus, mem := k.needs.CPUs(g), k.needs.MemMB(g)
			if node.FreeGPUs() >= g && (cpus <= 0 || node.CPUs-node.OtherCPUs >= cpus) && (mem <= 0 || node.MemMB-node.OtherMemMB >= mem) &&
				!(k.needs.Exclusive && node.Held()) {
				fit++
			}
		}
		if fit < n+1 {
			return false
		}
	}
	return true
}

// take books a placement (sign 1) or gives it back (-1); fresh says that the plan put it there.
func (f *floor) take(n *planner.Needs, p planner.Placement, sign int, fresh bool) {
	for _, sh := range p {
		i, ok := f.index[sh.Node]
		if !ok {
			continue
		}
		x := &f.spots[i]
		x.gpus -= sign * sh.GPUs
		x.cpus -= sign * n.CPUs(sh.GPUs)
		x.mem -= int64(sign) * n.MemMB(sh.GPUs)
		x.tenants += sign
		if fresh {
			x.fresh += sign
			x.freshCPUs += sign * boolInt(n.CPUs(sh.GPUs) > 0)
			x.freshMem += sign * boolInt(n.MemMB(sh.GPUs) > 0)
		}
		if n.Exclusive {
			x.alone += sign
		}
	}
	if sign < 0 {
		for _, k := range f.list {
			k.full, k.fullLong = k.full[:0], k.fullLong[:0]
		}
	}
}

// holds reports whether a share fits on node i now.
func (f *floor) holds(n *planner.Needs, i, g int, long bool) bool {
	x := &f.spots[i]
	cpus, mem := n.CPUs(g), n.MemMB(g)
	return x.usable && x.gpus >= g && (cpus <= 0 || x.cpus >= cpus) && (mem <= 0 || x.mem >= mem) && x.alone == 0 &&
		!(n.Exclusive && (x.held || x.tenants > 0)) && !(long && x.slack < g)
}

// mayStay reports whether a running job can be kept where it is. Beside fresh tenants it must fit in what they use; without them it may stay in
// any case, since a node that its kept jobs overfill is the snapshot's doing.
func (f *floor) mayStay(n *planner.Needs, p planner.Placement) bool {
	for _, sh := range p {
		i, ok := f.index[sh.Node]
		if !ok || f.spots[i].fresh == 0 {
			continue
		}
		x := &f.spots[i]
		if x.gpus < sh.GPUs || x.freshCPUs > 0 && x.cpus < n.CPUs(sh.GPUs) || x.freshMem > 0 && x.mem < n.MemMB(sh.GPUs) || x.alone > 0 || n.Exclusive {
			return false
		}
	}
	return true
}

// put finds nodes for a shape, each share where it breaks the smallest block; long says that the job outlasts a reservation.
func (f *floor) put(k *kind, shape planner.Shape, long bool) (planner.Placement, bool) {
	full := &k.full
	if long {
		full = &k.fullLong
	}
	for _, s := range *full {
		if s.Equal(shape) {
			return nil, false
		}
	}
	for _, group := range k.groups {
		if f.match(k, shape, group, long) {
			shares := make([]planner.Share, len(shape))
			for n, i := range f.used {
				shares[n] = planner.Share{Node: f.nodes[i].Name, GPUs: shape[n]}
			}
			return planner.NewPlacement(shares...), true
		}
	}
	*full = append(*full, shape)
	return nil, false
}

// match leaves the nodes found in f.used.
func (f *floor) match(k *kind, shape planner.Shape, group []int, long bool) bool {
	f.used = f.used[:0]
	for _, g := range shape {
		best, bestRank := -1, 0
		for _, i := range group {
			if f.spots[i].gpus < g {
				continue
			}
			rank, ok := cell.Fit(f.spots[i].gpus, g)
			if ok && (best < 0 || rank < bestRank) && !slices.Contains(f.used, i) && f.holds(&k.needs, i, g, long) {
				best, bestRank = i, rank
				if rank == 0 {
					break // nothing fits better
				}
			}
		}
		if best < 0 {
			return false
		}
		f.used = append(f.used, best)
	}
	return true
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
