package lease

import (
	"unisched/planner"
	"unisched/planner/cell"
)

// wiring finds the cells above a pool's nodes, and the nodes of each.
func (in *instance) wiring(nodes []int) (cell.Network, [][]int) {
	paths, any := make([][]string, len(nodes)), false
	for k, i := range nodes {
		if n := &in.s.Nodes[i]; n.Switch != "" {
			paths[k] = append([]string{n.Switch}, n.Above...)
			any = true
		}
	}
	if !any {
		return cell.Network{}, nil
	}
	net := cell.NewNetwork(paths)
	groups := make([][]int, len(net.Groups()))
	for g, c := range net.Groups() {
		for _, k := range c.Nodes {
			groups[g] = append(groups[g], nodes[k])
		}
	}
	return net, groups
}

// placeTogether puts a job of several nodes under the smallest switch, or into the smallest block, that can hold it.
func (f *floor) placeTogether(j *job, o option, pool *pool) (planner.Placement, bool) {
	free := make([]int, len(pool.nodes))
	for k, i := range pool.nodes {
		free[k] = f.gpus[i]
	}
	for _, g := range pool.net.Order(free, o.gpus, nil) {
		if p, ok := f.placeOn(j, o, pool.groups[g]); ok {
			return p, true
		}
	}
	return nil, false
}

// align reads which cells of a node are free now.
func (n *nodeInfo) align(node planner.Node) {
	n.aligned = -1
	if len(node.Busy) == 0 {
		return
	}
	tree := cell.NewTree(node.GPUs)
	n.freeNow = node.GPUs
	for _, g := range node.Busy {
		if tree.Take(g) {
			n.freeNow--
		}
	}
	n.aligned = tree.Largest()
}

// scattered reports whether a share would be spread over cells that belong to several sockets or NVLink groups, as far as that is known: Slurm picks the
// GPUs, but it cannot pick together what is not free together.
func (f *floor) scattered(i, g int) bool {
	n := &f.in.nodes[i]
	return n.aligned >= 0 && f.gpus[i] == n.freeNow && n.aligned < 1<<cell.Level(g)
}
