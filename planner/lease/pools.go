package lease

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"unisched/planner"
	"unisched/planner/cell"
)

// nodeInfo is a node as the model sees it: what jobs of the snapshot may use of it.
type nodeInfo struct {
	gpus, cpus int
	mem        int64
	held       bool // by others: no exclusive use
	usable     bool
	aligned    int     // the largest aligned cell that is free as long as nobody comes or goes; -1 not known
	freeNow    int     // GPUs that are free now, when aligned is known
	wake       float64 // units until a job that is started here gets a node that is up
}

// pool is a set of usable nodes of one GPU type that some job may use. Capacity rows exist per pool.
type pool struct {
	member []bool // by node index
	nodes  []int
	gpus   int
	// supers are the pools with rows (this one included, if it has) that contain it: what runs here uses their capacity too.
	supers []int
	// net are the cells above the pool's nodes, groups the nodes of each of them.
	net    cell.Network
	groups [][]int
}

// pools finds the node sets of all jobs. Jobs with the same needs share pools; equal sets are one pool.
type poolIndex struct {
	in      *instance
	closing []planner.Node   // nodes that take no job beyond a time
	needs   []planner.Needs  // those met so far, newest last, at most maxKnown
	found   [][]int          // their pools
	byNeed  map[string][]int // lookup only, when there are more
	bySet   map[string]int   // lookup only
	byLike  map[likeness]int // lookup only
	holds   []bool           // by like: an empty pool can hold it
}

// likeness is what an option needs of its pool.
type likeness struct {
	pool, nodes, first, rest  int // a shape whose shares but the first are alike is these three
	odd                       string
	cpusPerNode, cpusPerGPU   int
	memPerNodeMB, memPerGPUMB int64
	exclusive                 bool
}

// maxKnown bounds the different needs that are compared one by one.
const maxKnown = 8

// of returns the pools that a job with these needs may use, one per GPU type, by type name.
func (x *poolIndex) of(n planner.Needs) []int {
	for k, known := range x.needs {
		if x.sameNodes(known, n) {
			return x.found[k]
		}
	}
	ps := x.search(n)
	if len(x.needs) < maxKnown {
		x.needs, x.found = append(x.needs, n), append(x.found, ps)
	}
	return ps
}

// sameNodes reports that two needs ask the same of a node, GPUs, CPUs and memory aside.
func (x *poolIndex) sameNodes(a, b planner.Needs) bool {
	return a.GPUType == b.GPUType && a.Partition == b.Partition && slices.Equal(a.Features, b.Features) && slices.Equal(a.AnyFeature, b.AnyFeature) &&
		(a.Only == nil) == (b.Only == nil) && slices.Equal(a.Only, b.Only) && slices.Equal(a.Exclude, b.Exclude) &&
		(a.Limit == b.Limit || planner.LimitClass(x.closing, a.Limit) == planner.LimitClass(x.closing, b.Limit))
}

// search finds the pools of needs that were not met lately.
func (x *poolIndex) search(n planner.Needs) []int {
	key := fmt.Sprintf("%q %q %q %q %v %q %q %d", n.GPUType, n.Partition, n.Features, n.AnyFeature, n.Only == nil, n.Only, n.Exclude,
		planner.LimitClass(x.closing, n.Limit))
	if ps, ok := x.byNeed[key]; ok {
		return ps
	}
	in := x.in
	var kinds []string
	allowed := make([]bool, len(in.nodes))
	for i, node := range in.s.Nodes {
		if in.nodes[i].usable && node.GPUs > 0 && n.Allows(node) == "" {
			allowed[i] = true
			if !slices.Contains(kinds, node.GPUType) {
				kinds = append(kinds, node.GPUType)
			}
		}
	}
	slices.Sort(kinds)
	var ps []int
	for _, kind := range kinds {
		p := pool{member: make([]bool, len(in.nodes))}
		var set strings.Builder
		for i, node := range in.s.Nodes {
			if allowed[i] && node.GPUType == kind {
				p.member[i] = true
				p.nodes = append(p.nodes, i)
				p.gpus += in.nodes[i].gpus
				fmt.Fprintf(&set, "%d,", i)
			}
		}
		id, ok := x.bySet[set.String()]
		if !ok {
			id = len(in.pools)
			p.net, p.groups = in.wiring(p.nodes)
			in.pools = append(in.pools, p)
			x.bySet[set.String()] = id
		}
		ps = append(ps, id)
	}
	x.byNeed[key] = ps
	return ps
}

// maxRuled bounds the pools that have rows. Everybody may have node lists of their own; the packer honours them all.
const maxRuled = 32

// nest puts the pools that most jobs use first, as many as get rows, and fills supers, once all pools are known.
func (in *instance) nest() {
	jobs, order := make([]int, len(in.pools)), make([]int, len(in.pools))
	for p := range order {
		order[p] = p
	}
	for ji := range in.jobs {
		for _, o := range in.jobs[ji].opts {
			jobs[o.pool]++
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(jobs[b], jobs[a]), cmp.Compare(a, b)) })
	at, sorted := make([]int, len(order)), make([]pool, len(order))
	for p, old := range order {
		at[old], sorted[p] = p, in.pools[old]
	}
	in.pools, in.ruled = sorted, min(len(sorted), maxRuled)
	for ji := range in.jobs {
		for k := range in.jobs[ji].opts {
			in.jobs[ji].opts[k].pool = at[in.jobs[ji].opts[k].pool]
		}
	}
	for a := range in.pools {
		in.pools[a].supers = nil
		for b := range in.ruled {
			inside := true
			for _, n := range in.pools[a].nodes {
				if !in.pools[b].member[n] {
					inside = false
					break
				}
			}
			if inside {
				in.pools[a].supers = append(in.pools[a].supers, b)
			}
		}
	}
}

// hosts counts the nodes of a pool that could ever hold a share, with all managed jobs away.
func (x *poolIndex) hosts(p int, j *planner.Job, g int) int {
	n := 0
	for _, i := range x.in.pools[p].nodes {
		node := x.in.nodes[i]
		if node.gpus >= g && node.cpus >= j.Needs.CPUs(g) && node.mem >= j.Needs.MemMB(g) && !(j.Needs.Exclusive && node.held) {
			n++
		}
	}
	return n
}

// canHold reports whether a pool, empty of managed jobs, could hold a shape. Nodes that hold a larger share hold a smaller one
// too, so counting is enough.
func (x *poolIndex) canHold(p int, j *planner.Job, s planner.Shape) bool {
	for i, g := range s {
		if i+1 < len(s) && s[i+1] == g {
			continue
		}
		if x.hosts(p, j, g) < i+1 {
			return false
		}
	}
	return true
}

// like numbers what an option needs of its pool, and tells whether the pool could hold it at all: jobs that need the same are looked at once.
func (x *poolIndex) like(j *planner.Job, s planner.Shape, p int) (id int, fits bool) {
	n := j.Needs
	key := likeness{pool: p, nodes: len(s), first: s[0], rest: s[len(s)-1], cpusPerNode: n.CPUsPerNode, cpusPerGPU: n.CPUsPerGPU,
		memPerNodeMB: n.MemPerNodeMB, memPerGPUMB: n.MemPerGPUMB, exclusive: n.Exclusive}
	if len(s) > 1 && s[1] != key.rest {
		key.odd = s.String()
	}
	id, ok := x.byLike[key]
	if !ok {
		id = x.in.alike
		x.in.alike++
		x.byLike[key] = id
		x.holds = append(x.holds, x.canHold(p, j, s))
	}
	return id, x.holds[id]
}
