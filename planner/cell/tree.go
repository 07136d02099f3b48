package cell

import "slices"

// Cell is a block of GPUs of one node: GPUs First .. First+Size-1, Size a power of two.
type Cell struct{ First, Size int }

// Tree holds the GPUs of one node as buddy cells. A node whose count is no power of two has several roots, largest first
// (6 = 4+2). The zero value has no GPUs. A Tree is not safe for concurrent use.
type Tree struct {
	gpus int
	free []Cell // sorted by First
}

// NewTree returns the cells of a node with so many GPUs, all free.
func NewTree(gpus int) *Tree {
	t := &Tree{gpus: max(0, gpus)}
	for first := 0; first < t.gpus; {
		size := 1
		for first+2*size <= t.gpus && first%(2*size) == 0 {
			size *= 2
		}
		t.free = append(t.free, Cell{first, size})
		first += size
	}
	return t
}

// Free returns the free cells by First. The caller owns the slice.
func (t *Tree) Free() []Cell { return slices.Clone(t.free) }

// Alloc takes a cell of at least g GPUs (the next power of two) from the smallest free cell that holds it, splitting it down. It fails
// only when no free cell is large enough.
func (t *Tree) Alloc(g int) (Cell, bool) {
	if g <= 0 {
		return Cell{}, false
	}
	size, best := 1<<Level(g), -1
	for i, c := range t.free {
		if c.Size >= size && (best < 0 || c.Size < t.free[best].Size) {
			best = i
		}
	}
	if best < 0 {
		return Cell{}, false
	}
	c := t.free[best]
	var halves []Cell // the upper halves that splitting leaves
	for s := c.Size / 2; s >= size; s /= 2 {
		halves = append(halves, Cell{c.First + s, s})
	}
	slices.Reverse(halves)
	t.free = slices.Replace(t.free, best, best+1, halves...)
	return Cell{c.First, size}, true
}

// Take takes one GPU by its index, splitting the cell that it lies in. It reports false, and changes nothing, when that GPU is not free.
func (t *Tree) Take(gpu int) bool {
	i, ok := slices.BinarySearchFunc(t.free, gpu, func(c Cell, g int) int {
		switch {
		case c.First+c.Size <= g:
			return -1
		case c.First > g:
			return 1
		}
		return 0
	})
	if !ok {
		return false
	}
	var parts []Cell
	for c := t.free[i]; c.Size > 1; {
		half := c.Size / 2
		low, high := Cell{c.First, half}, Cell{c.First + half, half}
		if gpu < high.First {
			parts, c = append(parts, high), low
		} else {
			parts, c = append(parts, low), high
		}
	}
	slices.SortFunc(parts, func(a, b Cell) int { return a.First - b.First })
	t.free = slices.Replace(t.free, i, i+1, parts...)
	return true
}

// Largest is the size of the largest free cell, 0 when nothing is free.
func (t *Tree) Largest() int {
	most := 0
	for _, c := range t.free {
		most = max(most, c.Size)
	}
	return most
}

// Release gives back a cell that Alloc returned and merges buddies. It reports false, and changes nothing, for a cell that
// is no block of this tree or not wholly allocated.
func (t *Tree) Release(c Cell) bool {
	if c.Size <= 0 || c.Size&(c.Size-1) != 0 || c.First < 0 || c.First%c.Size != 0 || c.First+c.Size > t.gpus {
		return false
	}
	for _, f := range t.free {
		if f.First < c.First+c.Size && c.First < f.First+f.Size {
			return false
		}
	}
	for {
		buddy := Cell{c.First ^ c.Size, c.Size}
		i := slices.Index(t.free, buddy)
		parent := min(c.First, buddy.First)
		if i < 0 || parent+2*c.Size > t.gpus {
			break
		}
		t.free = slices.Delete(t.free, i, i+1)
		c = Cell{parent, 2 * c.Size}
	}
	i, _ := slices.BinarySearchFunc(t.free, c, func(a, b Cell) int { return a.First - b.First })
	t.free = slices.Insert(t.free, i, c)
	return true
}
