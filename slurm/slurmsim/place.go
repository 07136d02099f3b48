package slurmsim

import (
	"slices"
	"strings"
	"time"

	"unisched/slurm"
)

// node is a compute node with what is free on it.
type node struct {
	Node
	index              int
	freeGPUs, freeCPUs int
	up, drained        bool
	reason             string
	holders            map[*job]int
	epilog             time.Duration // how long jobs complete there, when longer than usual
	failing            int           // launches that will fail
	power              slurm.Power
	resume             time.Duration // from asleep to up
	upAt               time.Time     // of one that wakes

	view slurm.Node // as it was shown last, by
	seen nodeKey
}

// nodeKey is what the view of a node follows from.
type nodeKey struct {
	gpus, cpus  int
	up, drained bool
	reason      string
	power       slurm.Power
}

func (n *node) usable() bool { return n.up && !n.drained && n.power != slurm.Falling }

// find is the reason why a job cannot start, with its kind.
type verdict uint8

const (
	fits       verdict = iota
	busy               // not now
	impossible         // never, in Slurm's view: the job is put on hold
	limited            // a limit of the partition: it waits
	nodeDown           // a node that it requires is not available
)

// place finds nodes for a job among those not in closed. It follows what was measured: required nodes are taken as they are; GPUs per node are met
// exactly; GPUs per job are packed onto the first node, one at least left for each further node.
func (c *Cluster) place(j *job, closed map[*node]bool) ([]share, verdict, string) {
	part, _ := c.partition(j.partition)
	if why := c.limit(j); why != "" {
		return nil, limited, why
	}
	q := j.req
	if most, ok := c.cfg.GroupGPUs[j.sub.Account]; ok && c.accountGPUs(j.sub.Account)+q.gpus() > most {
		return nil, limited, "AssocGrpGRES"
	}
	var all []*node
	for _, n := range c.nodes {
		if part.has(n.Name) && !slices.Contains(q.excluded, n.Name) && hasFeatures(n, j.sub.Constraint) {
			all = append(all, n)
		}
	}
	if len(q.required) > 0 {
		return c.placeRequired(j, all, closed)
	}
	if !c.everFits(j, all) {
		return nil, impossible, "BadConstraints"
	}
	var open []*node
	reserved := false
	for _, n := range all {
		switch {
		case !n.usable() || closed[n] || n.freeGPUs <= 0 || n.freeCPUs <= 0:
		case c.spoken(j, n):
			reserved = true
		default:
			open = append(open, n)
		}
	}
	most := len(open)
	if q.maxNodes > 0 {
		most = min(most, q.maxNodes)
	}
	if part.MaxNodes > 0 {
		most = min(most, part.MaxNodes)
	}
	for n := max(q.nodes, 1); n <= most; n++ {
		if s := pickNodes(j, open, n); s != nil {
			return s, fits, ""
		}
	}
	if reserved {
		return nil, nodeDown, reservedReason
	}
	return nil, busy, "Resources"
}

// accountGPUs is what the running jobs of an account hold.
func (c *Cluster) accountGPUs(account string) int {
	held := 0
	for _, n := range c.nodes {
		for j, g := range n.holders {
			if j.sub.Account == account {
				held += g
			}
		}
	}
	return held
}

// reservedReason is Slurm's word for a job that a reservation ahead keeps off the nodes; it keeps nobody else waiting.
const reservedReason = "ReqNodeNotAvail, Reserved for maintenance"

// limit is the limit of its partition that keeps a job from starting, "" when there is none. Slurm shows it also on a job that would wait anyway.
func (c *Cluster) limit(j *job) string {
	part, ok := c.partition(j.partition)
	switch {
	case !ok || part.Down:
		return "PartitionDown"
	case part.MaxGPUs != 0 && j.req.gpus() > part.MaxGPUs:
		return "QOSMaxGRESPerJob"
	case part.MaxNodes > 0 && j.req.nodes > part.MaxNodes:
		return "PartitionNodeLimit"
	case part.MaxTime > 0 && (j.limit == 0 || j.limit > part.MaxTime):
		return "PartitionTimeLimit"
	}
	return ""
}

func (c *Cluster) placeRequired(j *job, all []*node, closed map[*node]bool) ([]share, verdict, string) {
	q := j.req
	var want []*node
	for _, name := range q.required {
		n := c.byNode[name]
		if !slices.Contains(all, n) {
			return nil, impossible, "BadConstraints"
		}
		want = append(want, n)
	}
	slices.SortFunc(want, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	if q.nodes > 0 && len(want) > q.nodes {
		want = want[:q.nodes] // a longer list than the number of nodes: the first ones are taken
	}
	room := 0
	for _, n := range want {
		if q.perNode > n.GPUs {
			return nil, impossible, "BadConstraints"
		}
		room += n.GPUs
	}
	if q.gpus() > room {
		return nil, impossible, "BadConstraints"
	}
	for _, n := range want {
		if !n.usable() {
			return nil, nodeDown, "ReqNodeNotAvail, UnavailableNodes:" + n.Name
		}
	}
	for _, n := range want {
		if c.spoken(j, n) {
			return nil, nodeDown, reservedReason
		}
	}
	for _, n := range want {
		if closed[n] {
			return nil, busy, "Resources"
		}
	}
	if s := spread(j, want); s != nil {
		return s, fits, ""
	}
	return nil, busy, "Resources"
}

// everFits reports whether the empty nodes could hold the job.
func (c *Cluster) everFits(j *job, all []*node) bool {
	q := j.req
	sizes := make([]int, 0, len(all))
	for _, n := range all {
		sizes = append(sizes, n.GPUs)
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	most := len(sizes)
	if q.maxNodes > 0 {
		most = min(most, q.maxNodes)
	}
	if q.nodes > most {
		return false
	}
	if q.perNode > 0 {
		return len(sizes) >= max(q.nodes, 1) && sizes[max(q.nodes, 1)-1] >= q.perNode
	}
	sum := 0
	for _, s := range sizes[:most] {
		sum += s
	}
	return sum >= q.perJob
}

// pickNodes finds n nodes that hold the job, the ones with the least to spare first.
func pickNodes(j *job, open []*node, n int) []share {
	q := j.req
	if q.perNode > 0 {
		if n > max(q.nodes, 1) {
			return nil // GPUs per node times nodes would be more than was asked for
		}
		cand := slices.DeleteFunc(slices.Clone(open), func(x *node) bool { return x.freeGPUs < q.perNode })
		slices.SortStableFunc(cand, func(a, b *node) int { return a.freeGPUs - b.freeGPUs })
		if len(cand) < n {
			return nil
		}
		return spread(j, cand[:n])
	}
	cand := slices.Clone(open)
	slices.SortStableFunc(cand, func(a, b *node) int { return b.freeGPUs - a.freeGPUs })
	if len(cand) < n {
		return nil
	}
	if n == 1 {
		best := -1
		for i, x := range cand {
			if x.freeGPUs >= q.perJob && (best < 0 || x.freeGPUs < cand[best].freeGPUs) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		return spread(j, cand[best:best+1])
	}
	return spread(j, cand[:n])
}

// spread puts a job on exactly these nodes, nil when they have not enough.
func spread(j *job, nodes []*node) []share {
	q := j.req
	left, cpus := q.gpus(), j.cpus()
	out := make([]share, 0, len(nodes))
	for i, n := range nodes {
		g := q.perNode
		if g == 0 {
			g = min(left-(len(nodes)-1-i), n.freeGPUs)
		}
		if g < 0 || g > n.freeGPUs || q.gpus() > 0 && g == 0 {
			return nil
		}
		left -= g
		out = append(out, share{node: n, gpus: g})
	}
	if left != 0 && q.perNode == 0 || q.perNode > 0 && left < 0 {
		return nil
	}
	for i := range out { // CPUs follow the GPUs
		n := cpus / len(out)
		if total := q.gpus(); total > 0 {
			n = (cpus*out[i].gpus + total - 1) / total
		}
		if out[i].cpus = max(n, 1); out[i].cpus > out[i].node.freeCPUs {
			return nil
		}
	}
	slices.SortFunc(out, func(a, b share) int { return a.node.index - b.node.index })
	return out
}

func (c *Cluster) partition(name string) (Partition, bool) {
	for _, p := range c.parts {
		if p.Name == name {
			return p, true
		}
	}
	return Partition{}, false
}

func (p Partition) has(node string) bool { return p.Nodes == nil || slices.Contains(p.Nodes, node) }

func hasFeatures(n *node, constraint string) bool {
	if constraint == "" {
		return true
	}
	if strings.Contains(constraint, "|") {
		return slices.ContainsFunc(strings.Split(constraint, "|"), func(f string) bool { return slices.Contains(n.Features, f) })
	}
	for _, f := range strings.Split(constraint, "&") {
		if !slices.Contains(n.Features, f) {
			return false
		}
	}
	return true
}

func (c *Cluster) take(j *job, shares []share) {
	j.alloc = shares
	for _, s := range shares {
		s.node.freeGPUs -= s.gpus
		s.node.freeCPUs -= s.cpus
		s.node.holders[j] += s.gpus
	}
}

func (c *Cluster) free(j *job) {
	j.lastNodes = j.lastNodes[:0]
	for _, s := range j.alloc {
		j.lastNodes = append(j.lastNodes, s.node)
	}
	for _, s := range j.alloc {
		s.node.freeGPUs += s.gpus
		s.node.freeCPUs += s.cpus
		delete(s.node.holders, j)
	}
	j.alloc = nil
}

// shownNode is a node as Slurm shows it.
func (c *Cluster) shownNode(n *node) slurm.Node {
	key := nodeKey{n.freeGPUs, n.freeCPUs, n.up, n.drained, n.reason, n.power}
	if c.cfg.Reuse && n.view.Name != "" && n.seen == key {
		return n.view
	}
	v := slurm.Node{Name: n.Name, State: slurm.NodeIdle, Usable: n.usable() && n.power == slurm.Up, PoweredDown: n.power == slurm.Asleep, Reason: n.reason, CPUs: n.CPUs, AllocCPUs: n.CPUs - n.freeCPUs, Sockets: 1,
		MemMB: n.MemMB, GPUs: []slurm.GPUs{{Type: "sim", Count: n.GPUs, Used: n.GPUs - n.freeGPUs}}, Features: slices.Clone(n.Features)}
	switch {
	case !n.up:
		v.State, v.Flags = slurm.NodeDown, []string{"NOT_RESPONDING"}
	case n.freeCPUs == 0 && n.CPUs > 0:
		v.State = slurm.NodeAllocated
	case n.freeCPUs < n.CPUs:
		v.State = slurm.NodeMixed
	}
	if n.drained {
		v.Flags = append([]string{"DRAIN"}, v.Flags...)
	}
	v.Flags = append(v.Flags, powerFlags(n.power)...)
	for _, p := range c.parts {
		if p.has(n.Name) {
			v.Partitions = append(v.Partitions, p.Name)
		}
	}
	n.view, n.seen = v, key
	return v
}

func (c *Cluster) shownPartition(p Partition) slurm.Partition {
	v := slurm.Partition{Name: p.Name, Up: !p.Down, MaxNodes: p.MaxNodes, MaxTime: p.MaxTime, DefaultTime: time.Hour}
	for _, n := range c.nodes {
		if p.has(n.Name) {
			v.Nodes = append(v.Nodes, n.Name)
		}
	}
	return v
}
