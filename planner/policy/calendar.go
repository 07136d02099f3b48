package policy

import (
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/cell"
)

// booking is a share of a node that somebody holds or will hold.
type booking struct {
	from, until time.Time
	gpus, cpus  int
	mem         int64
	alone       bool
}

// calendar holds who uses which node when.
type calendar struct {
	nodes []planner.Node
	index map[string]int // lookup only
	books [][]booking    // by node
}

// never is later than every booking that ends.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func newCalendar(nodes []planner.Node) *calendar {
	c := &calendar{nodes: nodes, index: make(map[string]int, len(nodes)), books: make([][]booking, len(nodes))}
	for i, n := range nodes {
		c.index[n.Name] = i
	}
	return c
}

// book enters a placement.
func (c *calendar) book(n planner.Needs, p planner.Placement, from, until time.Time) {
	for _, sh := range p {
		if i, ok := c.index[sh.Node]; ok {
			c.books[i] = append(c.books[i], booking{from, until, sh.GPUs, n.CPUs(sh.GPUs), n.MemMB(sh.GPUs), n.Exclusive})
		}
	}
}

// room returns the free GPUs of a node over [from, until), and whether CPUs, memory and exclusiveness leave room for a share of g GPUs.
func (c *calendar) room(i, g int, n planner.Needs, from, until time.Time) (int, bool) {
	node := c.nodes[i]
	least, ok := node.FreeGPUs(), true
	at := func(t time.Time) {
		gpus, cpus, mem, tenants, alone := 0, 0, int64(0), 0, false
		for _, b := range c.books[i] {
			if !b.from.After(t) && b.until.After(t) {
				gpus, cpus, mem, tenants, alone = gpus+b.gpus, cpus+b.cpus, mem+b.mem, tenants+1, alone || b.alone
			}
		}
		least = min(least, node.FreeGPUs()-gpus)
		ok = ok && !alone && !(n.Exclusive && (tenants > 0 || node.Held())) &&
			(n.CPUs(g) == 0 || cpus+n.CPUs(g)+node.OtherCPUs <= node.CPUs) && (n.MemMB(g) == 0 || mem+n.MemMB(g)+node.OtherMemMB <= node.MemMB)
	}
	at(from)
	for _, b := range c.books[i] {
		if b.from.After(from) && b.from.Before(until) {
			at(b.from)
		}
	}
	return least, ok && least >= g
}

// place finds nodes of one GPU type for a shape over [from, until): per share the node where it breaks the smallest block.
func (c *calendar) place(n planner.Needs, shape planner.Shape, from, until time.Time) (planner.Placement, bool) {
	if !shape.Valid() || n.MaxNodes > 0 && len(shape) > n.MaxNodes {
		return nil, false
	}
	var kinds []string
	for _, node := range c.nodes {
		if node.Usable && !slices.Contains(kinds, node.GPUType) {
			kinds = append(kinds, node.GPUType)
		}
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		if p, ok := c.placeOn(kind, n, shape, from, until); ok {
			return p, true
		}
	}
	return nil, false
}

func (c *calendar) placeOn(kind string, n planner.Needs, shape planner.Shape, from, until time.Time) (planner.Placement, bool) {
	shares := make([]planner.Share, 0, len(shape))
	used := make([]bool, len(c.nodes))
	for _, g := range shape {
		best, bestRank := -1, 0
		for i, node := range c.nodes {
			if used[i] || !node.Usable || node.GPUType != kind || node.GPUs < g || n.Allows(node) != "" {
				continue
			}
			free, ok := c.room(i, g, n, from, until)
			if !ok {
				continue
			}
			if rank, ok := cell.Fit(free, g); ok && (best < 0 || rank < bestRank) {
				best, bestRank = i, rank
			}
		}
		if best < 0 {
			return nil, false
		}
		used[best] = true
		shares = append(shares, planner.Share{Node: c.nodes[best].Name, GPUs: g})
	}
	return planner.NewPlacement(shares...), true
}

// earliest finds the first time from now on at which one of the shapes fits for so long: now, or when some booking ends.
func (c *calendar) earliest(n planner.Needs, shapes []planner.Shape, now time.Time, length time.Duration) (time.Time, planner.Placement, bool) {
	times := []time.Time{now}
	for _, bs := range c.books {
		for _, b := range bs {
			if b.until.After(now) && b.until.Before(never) {
				times = append(times, b.until)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	for _, t := range times {
		for _, s := range shapes {
			if p, ok := c.place(n, s, t, t.Add(length)); ok {
				return t, p, true
			}
		}
	}
	return time.Time{}, nil, false
}
