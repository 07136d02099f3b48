package bridge

import (
	"slices"
	"strconv"
	"strings"

	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/gres"
)

// shapeKey is what the shapes of a job follow from, but for the GPU counts that its user allows, which never change.
type shapeKey struct {
	gpus, tasks, perNode        int
	nodes                       slurm.MinMax
	tresNode, tresJob, tresTask string
}

func (b *Bridge) shapeKeyOf(rec *Record) shapeKey {
	o := &rec.Original
	return shapeKey{o.GPUs, o.Tasks, b.gpusPerNode(o.Partition), o.Nodes, o.TRESPerNode, o.TRESPerJob, o.TRESPerTask}
}

// shapesOf are the shapes of a job, made anew when what they follow from has changed. They are not to be written to.
func (b *Bridge) shapesOf(rec *Record) []planner.Shape { return b.shapesBy(rec, b.shapeKeyOf(rec)) }

// shapesBy is shapesOf for who knows the job's key already.
func (b *Bridge) shapesBy(rec *Record, k shapeKey) []planner.Shape {
	if rec.shapes == nil || rec.shapeKey != k {
		rec.shapes, rec.shapeKey = b.shapes(rec), k
	}
	return rec.shapes
}

// shapes are the ways in which a job may hold GPUs, best guess first, never empty: what it asked for, and, where the request leaves it open or the
// job is elastic, even splits on more nodes and other GPU counts. perNode is the largest node of its partition.
func (b *Bridge) shapes(rec *Record) []planner.Shape {
	o := rec.Original
	perNode := b.gpusPerNode(o.Partition)
	var out []planner.Shape
	add := func(s planner.Shape) {
		if len(s) > 0 && s[0] > 0 && !slices.ContainsFunc(out, s.Equal) {
			out = append(out, s)
		}
	}
	own := ownShape(o, perNode)
	add(own)
	if !reshapable(o) && o.GPUs > 0 && len(out) > 0 { // nothing of it is written, so it runs as it was asked for
		return out
	}
	counts := rec.Wish.GPUs
	if len(counts) == 0 || !reshapable(o) {
		counts = []int{o.GPUs}
	}
	for _, c := range counts {
		if c == o.GPUs && fixedNodes(o) {
			continue
		}
		least, most := nodeBounds(o, c, perNode)
		for nodes := least; nodes <= most && nodes <= 16; nodes++ {
			if c%nodes == 0 && c/nodes <= perNode && (nodes == 1 || fewest(c, perNode) == nodes || nodes == 2*fewest(c, perNode)) {
				add(planner.Even(nodes, c/nodes))
			}
		}
	}
	if least, most := nodeBounds(o, o.GPUs, perNode); !fixedNodes(o) && own.GPUs() == o.GPUs {
		if p := packed(o.GPUs, perNode); len(p) < fewest(o.GPUs, perNode) && len(p) >= least && len(p) <= most {
			add(p)
		}
	}
	if len(out) == 0 { // its user has taken its GPUs away; it is about to be given back
		out = append(out, planner.Shape{1})
	}
	return out
}

// nodeBounds are the numbers of nodes that so many GPUs may be split over. For the number that the user asked for: what --nodes says, and never more nodes
// than tasks, since a node without a task is of no use to the job. For another number (an elastic job) the user's --nodes says nothing, but a job of a
// single task is not spread wider than it must be.
func nodeBounds(o Original, gpus, perNode int) (least, most int) {
	switch {
	case gpus != o.GPUs && o.Tasks > 1:
		return 1, gpus
	case gpus != o.GPUs:
		return 1, fewest(gpus, perNode)
	}
	least = max(o.Nodes.Min, 1)
	most = o.Nodes.Max
	if most == 0 && o.TasksPerNode > 0 { // more nodes would be more tasks
		most = max(least, fewest(gpus, perNode))
	} else if most == 0 {
		most = max(least, min(gpus, o.Tasks), fewest(gpus, perNode))
	}
	return least, most
}

// packed is how Slurm puts so many GPUs on the fewest nodes: full ones first.
func packed(gpus, perNode int) planner.Shape {
	s := planner.Even(gpus/max(perNode, 1), perNode)
	if rest := gpus % max(perNode, 1); rest > 0 {
		s = append(s, rest)
	}
	return s
}

// fewest is the least number of nodes on which c GPUs split evenly.
func fewest(c, perNode int) int {
	for n := 1; n <= c; n++ {
		if c%n == 0 && c/n <= perNode {
			return n
		}
	}
	return c
}

// fixedNodes reports whether the user asked for GPUs per node, which fixes the split.
func fixedNodes(o Original) bool { return o.TRESPerNode != "" }

// ownShape is the request as a shape.
func ownShape(o Original, perNode int) planner.Shape {
	nodes := max(o.Nodes.Min, 1)
	if g := gresCount(o.TRESPerNode); g > 0 {
		return planner.Even(nodes, g)
	}
	if o.GPUs%nodes != 0 || o.GPUs/nodes > max(perNode, 1) {
		nodes = max(fewest(o.GPUs, max(perNode, 1)), nodes)
	}
	if o.GPUs%nodes == 0 {
		return planner.Even(nodes, o.GPUs/nodes)
	}
	// Uneven: as Slurm would pack it, full nodes first, one GPU at least on each.
	s := planner.Even(nodes, 1)
	left := o.GPUs - nodes
	for i := range s {
		more := min(left, max(perNode, 1)-1)
		s[i] += more
		left -= more
	}
	return s
}

// gresCount is the number of GPUs in a request string, whatever else it asks for; 0 when there are none or it cannot be read.
func gresCount(tres string) int {
	entries, err := gres.Parse(tres)
	if err != nil {
		return 0
	}
	n := int64(0)
	for _, e := range entries {
		if e.GPU() {
			n += e.Count
		}
	}
	return int(min(n, 1<<16))
}

// gpusPerNode is the size of the largest usable node of a partition (of any node when none is usable, at least 1).
func (b *Bridge) gpusPerNode(partition string) int {
	if n, ok := b.perNode[partition]; ok {
		return n
	}
	best, any := 0, 1
	for i := range b.seen.Nodes {
		n := &b.seen.Nodes[i]
		if !slices.Contains(n.Partitions, partition) {
			continue
		}
		any = max(any, n.TotalGPUs())
		if _, wakes := n.Power(); n.Usable || wakes {
			best = max(best, n.TotalGPUs())
		}
	}
	if best == 0 {
		best = any
	}
	if b.perNode == nil {
		b.perNode = map[string]int{}
	}
	b.perNode[partition] = best
	return best
}

// request is the part of an update that gives a pending job a shape.
type request struct {
	perNode      string
	nodes, tasks int
}

// requestFor rewrites the original request for a shape. change is false when the original already asks for exactly that.
func requestFor(o Original, s planner.Shape) (r request, change bool) {
	if !s.IsEven() || !reshapable(o) {
		return request{}, false
	}
	own := ownShape(o, 1<<16)
	if own.Equal(s) && (fixedNodes(o) || len(s) == 1) {
		return request{}, false
	}
	r = request{perNode: gresName(o) + ":" + strconv.Itoa(s[0]), nodes: len(s), tasks: tasksFor(o, s)}
	return r, true
}

// otherTasks reports whether the number of tasks is not the one asked for. With --ntasks-per-gpu Slurm shows several in turn, and computes the true one at the start.
func otherTasks(o Original, q slurm.Request) bool { return o.TasksPerGPU == 0 && q.Tasks != o.Tasks }

// tasksAlong is the number of tasks that goes along with whatever is written to a waiting job, 0 when none does: of a job with tasks per GPU Slurm would else make it that
// of the nodes, for good (seen on 24.11).
func (o Original) tasksAlong() int { return o.TasksPerGPU * o.GPUs }

// gresName is the request without its count: "gres/gpu" or "gres/gpu:v100".
func gresName(o Original) string {
	tres := o.TRESPerNode
	if tres == "" {
		tres = o.TRESPerJob
	}
	if i := strings.LastIndexAny(tres, ":="); i > 0 {
		return strings.Replace(tres[:i], "gres:", "gres/", 1)
	}
	return "gres/gpu"
}

// tasksFor scales the number of tasks: one per GPU stays one per GPU, one per node one per node.
func tasksFor(o Original, s planner.Shape) int {
	nodes := max(o.Nodes.Min, 1)
	switch {
	case o.Tasks <= 0:
		return 0
	case s.GPUs() == o.GPUs && o.Tasks >= len(s) && o.TasksPerNode == 0: // the same job, whatever nodes it is on
		return o.Tasks
	case o.Tasks == o.GPUs && o.GPUs > nodes:
		return s.GPUs()
	case o.Tasks == nodes:
		return len(s)
	case o.Tasks%nodes == 0:
		return o.Tasks / nodes * len(s)
	}
	return max(o.Tasks, len(s))
}
