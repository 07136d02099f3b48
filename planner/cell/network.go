package cell

import (
	"cmp"
	"slices"
	"strings"
)

// Network holds the cells above nodes: leaf switches or base blocks (level 0), and what is above them, as the cluster is wired. Nodes are indices; a node
// whose path is not known is in no cell. The zero value has no cells. A Network is not changed after it is made.
type Network struct {
	cells []Group // by level, then name
}

// Group is one cell above nodes.
type Group struct {
	Name  string
	Level int
	Nodes []int // rising
}

// NewNetwork groups nodes by their paths: for each node the names of its switches or blocks, nearest first. Cells that hold the same nodes as one
// below them, and a cell that holds all nodes, are left out: they say nothing.
func NewNetwork(paths [][]string) Network {
	type key struct {
		level int
		name  string
	}
	at := map[key]int{} // lookup only
	var all []Group
	for n, path := range paths {
		for level, name := range path {
			if name == "" {
				continue
			}
			k := key{level, name}
			i, ok := at[k]
			if !ok {
				i = len(all)
				at[k] = i
				all = append(all, Group{Name: name, Level: level})
			}
			all[i].Nodes = append(all[i].Nodes, n)
		}
	}
	slices.SortFunc(all, func(a, b Group) int { return cmp.Or(cmp.Compare(a.Level, b.Level), strings.Compare(a.Name, b.Name)) })
	var w Network
	home := make([]int, len(paths)) // the largest cell kept so far around each node, plus one
	for _, g := range all {
		first := home[g.Nodes[0]]
		same := first > 0 && len(w.cells[first-1].Nodes) == len(g.Nodes)
		if same || len(g.Nodes) == len(paths) {
			continue
		}
		w.cells = append(w.cells, g)
		for _, n := range g.Nodes {
			home[n] = len(w.cells)
		}
	}
	return w
}

// Groups lists the cells by level, then name. The caller must not change them.
func (w Network) Groups() []Group { return w.cells }

// Order appends to buf the cells (indices into Groups) with at least gpus free, the smallest that will do first: by level, then the fewest free GPUs, so
// that a job breaks no cell that a larger one could need. free is by node; what is overfull counts as nothing.
func (w Network) Order(free []int, gpus int, buf []int) []int {
	sum := make([]int, len(w.cells))
	from := len(buf)
	for i, g := range w.cells {
		for _, n := range g.Nodes {
			sum[i] += max(0, free[n])
		}
		if sum[i] >= gpus {
			buf = append(buf, i)
		}
	}
	slices.SortFunc(buf[from:], func(a, b int) int {
		return cmp.Or(cmp.Compare(w.cells[a].Level, w.cells[b].Level), cmp.Compare(sum[a], sum[b]), cmp.Compare(a, b))
	})
	return buf
}
