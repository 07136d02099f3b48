package sim

import (
	"cmp"
	"math"
	"slices"

	"unisched/planner"
)

// Speeds are what is true about the speed of models: what a placement costs, and what another GPU count does. Jobs and policies are not told.
type Speeds struct {
	// Slowdown is model -> GPUs -> nodes -> relative speed, 1 on the fewest nodes.
	Slowdown map[string]map[int]map[int]float64
	// Weak is GPUs -> time of an iteration at a fixed local batch, relative to one GPU.
	Weak map[int]float64
	// Strong is model -> GPUs -> iterations per second at a fixed global batch, relative to one GPU.
	Strong map[string]map[int]float64
}

// Published are measured speeds, re-expressed as constants: the relative speed of five models by number of nodes (V100 nodes of the CHRONUS artifact,
// S-Lab-System-Group/ChronusArtifact, MIT), and the weak scaling of a GAN on V100 nodes with InfiniBand, the longest series of the same source.
// Strong scaling is not part of it; see the command's data folder.
func Published() Speeds {
	return Speeds{
		Slowdown: map[string]map[int]map[int]float64{
			"alexnet":      {2: {2: 0.745}, 4: {2: 0.397, 4: 0.325}, 6: {2: 0.331}, 8: {2: 0.508, 4: 0.268}},
			"vgg16":        {2: {2: 0.896}, 4: {2: 0.576, 4: 0.318}, 6: {2: 0.657}, 8: {2: 0.572, 4: 0.261}},
			"resnet101":    {2: {2: 0.991}, 4: {2: 0.969, 4: 0.954}, 6: {2: 0.949}, 8: {2: 0.948, 4: 0.803}},
			"mobilenet_v2": {2: {2: 0.996}, 4: {2: 0.972, 4: 0.794}, 6: {2: 0.958}, 8: {2: 0.930, 4: 0.627}},
			"inception_v3": {2: {2: 1.003}, 4: {2: 0.983, 4: 0.964}, 6: {2: 0.951}, 8: {2: 0.923, 4: 0.879}},
		},
		Weak: map[int]float64{1: 1, 2: 1.065, 4: 1.11, 8: 1.13, 16: 1.175, 32: 1.19},
	}
}

// Models are the models whose slowdown is known, in order.
func (s Speeds) Models() []string {
	out := make([]string, 0, len(s.Slowdown))
	for m := range s.Slowdown {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

// spread is the relative speed of a model on a shape against the fewest nodes: at most 1, linear in log(nodes / fewest) between the rows, the 8-GPU row
// beyond 8 GPUs and for counts that have none the next smaller one.
func (s Speeds) spread(model string, gpus, nodes, fewest int) float64 {
	table := s.Slowdown[model]
	ratio := float64(nodes) / float64(max(fewest, 1))
	if len(table) == 0 || ratio <= 1 || gpus <= 1 {
		return 1
	}
	row := 0
	for _, g := range sortedKeys(table) {
		if g <= gpus || row == 0 {
			row = g
		}
	}
	x := math.Log(ratio)
	x0, y0 := 0.0, 1.0
	for _, n := range sortedKeys(table[row]) {
		x1, y1 := math.Log(float64(n)), min(table[row][n], 1)
		if n <= 1 {
			continue
		}
		if x <= x1 {
			return y0 + (y1-y0)*(x-x0)/(x1-x0)
		}
		x0, y0 = x1, y1
	}
	return y0
}

// Relative is the speed in iterations per second of a job on a shape, relative to its requested GPUs on the fewest nodes. strong says that the global
// batch is fixed when the GPU count changes; else it is the local one.
func (s Speeds) Relative(model string, requested int, shape planner.Shape, perNode int, strong bool) float64 {
	g := shape.GPUs()
	v := s.spread(model, g, len(shape), (g+perNode-1)/max(perNode, 1))
	switch {
	case g == requested || g <= 0 || requested <= 0:
		return v
	case strong:
		row := s.Strong[model]
		return v * along(row, g) / along(row, requested)
	}
	return v * along(s.Weak, requested) / along(s.Weak, g)
}

// along reads a row of GPU counts, linear in the logarithm between its entries and flat beyond them; without a row speed does not depend on the count.
func along(row map[int]float64, gpus int) float64 {
	keys := sortedKeys(row)
	if len(keys) == 0 {
		return 1
	}
	i, found := slices.BinarySearch(keys, gpus)
	switch {
	case found:
		return row[gpus]
	case i == 0:
		return row[keys[0]]
	case i == len(keys):
		return row[keys[i-1]]
	}
	lo, hi := keys[i-1], keys[i]
	f := math.Log(float64(gpus)/float64(lo)) / math.Log(float64(hi)/float64(lo))
	return row[lo] + f*(row[hi]-row[lo])
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
