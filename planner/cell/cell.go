// Package cell counts and hands out GPUs of a node as buddy cells (blocks of 1, 2, 4, 8, ... GPUs, as in HiveD, OSDI'20).
//
// It knows numbers of GPUs only: which nodes exist, who may use them and who deserves them is decided by its callers, the
// packer and the model of planner/lease. It does not pick GPU indices for Slurm, which does that itself: the free count of a node
// is its capacity, and a node with any free count f offers floor(f / 2^l) blocks of level l (6 free = a 4-block and a 2-block).
package cell

import "math/bits"

// Level is the smallest level whose blocks hold g GPUs: blocks of level l have 2^l GPUs. Level(0) is 0.
func Level(g int) int {
	if g <= 1 {
		return 0
	}
	return bits.Len(uint(g - 1))
}

// Blocks is the number of blocks of size GPUs among free GPUs of one node (0 when free is negative).
func Blocks(free, size int) int {
	if free <= 0 || size <= 0 {
		return 0
	}
	return free / size
}

// Fit ranks a node with free GPUs for a share of g GPUs: less is better, and what splits the smallest block comes first. ok is false when
// the share does not fit. An exact fit is best; then the node whose smallest usable free block is lowest, then the fullest node.
func Fit(free, g int) (rank int, ok bool) {
	switch {
	case g <= 0 || free < g:
		return 0, false
	case free == g:
		return 0, true
	}
	level := Level(g)
	usable := uint(free) >> level << level
	split := bits.Len(uint(free))
	if usable != 0 {
		split = bits.TrailingZeros(usable)
	}
	return (split+1)<<20 | min(free, 1<<20-1), true
}
