package bridge

import (
	"time"

	"unisched/hooks/gpu"
	"unisched/hooks/progress"
	"unisched/slurm"
)

// What nodes measure of their GPUs is told per device and by the node; what is held against a job's claims is the work of its own devices. This file joins the two, and
// refuses to guess: a device that cannot be told, a value that nobody gives, a node of several that says nothing, and there is no figure at all. Unknown is not idle.

// GPULook is what one node told last of its GPUs.
type GPULook struct {
	Node   string
	At     time.Time // when it came, by our clock
	Report gpu.Report
}

// GPULooks hands over the newest look at each node, sorted by node. One that has fallen silent keeps its last, with the time at which that came.
type GPULooks func() []GPULook

// longestLook is the most that one look may stand for: what a node did in a longer silence nobody knows.
const longestLook = time.Minute

// nodeWork is what was measured of one run on one of its nodes and not taken in yet.
type nodeWork struct{ seconds, busy float64 } // busy: device-seconds of work, by the devices

// work is the same of a run on all of its nodes.
type work struct {
	restart int
	nodes   map[string]nodeWork
}

// tenure is one run's part of a node.
type tenure struct {
	rec *Record
	job *slurm.Job
	on  slurm.NodeGPUs
}

// takeLooks turns what the nodes measured since the last cycle into what is known of the runs on them. It is called when the newest snapshot has been followed.
func (b *Bridge) takeLooks(now time.Time) {
	if b.parts.GPULooks == nil || b.suspect != "" {
		return
	}
	looks := b.parts.GPULooks()
	heard := make(map[string]time.Time, len(looks))
	var tenures map[string][]tenure
	for _, l := range looks {
		was := b.looked[l.Node]
		heard[l.Node] = l.At
		if was.IsZero() || !l.At.After(was) {
			continue
		}
		if tenures == nil {
			tenures = b.tenures()
		}
		for _, t := range tenures[l.Node] {
			if t.rec.Run.Start.After(was.Add(-clockSkew)) {
				continue // a part of that time was somebody else's
			}
			if busy, ok := busyOf(l.Report, b.devicesOf(l.Node), t.on); ok {
				t.rec.worked(now, t.job, l.Node, min(l.At.Sub(was), longestLook).Seconds(), busy)
			}
		}
	}
	b.looked = heard
}

// tenures are the runs in progress by the nodes that they are on.
func (b *Bridge) tenures() map[string][]tenure {
	out := map[string][]tenure{}
	for i := range b.seen.Jobs {
		j, rec := &b.seen.Jobs[i], b.seenRecs[i]
		if rec == nil || !rec.Phase.OnGPUs() || j.State != slurm.StateRunning || j.HasFlag(slurm.FlagCompleting) || j.Restarts != rec.Restart {
			continue
		}
		for _, g := range j.NodeGPUs {
			out[g.Node] = append(out[g.Node], tenure{rec, j, g})
		}
	}
	return out
}

// devicesOf is how many GPUs Slurm has on a node.
func (b *Bridge) devicesOf(node string) int {
	for i := range b.seen.Nodes {
		if n := &b.seen.Nodes[i]; n.Name == node {
			return n.TotalGPUs()
		}
	}
	return 0
}

// busyOf sums up how busy a run's devices on a node are, 0 to their number. Slurm numbers devices as their files are (/dev/nvidia0, ...), the vendor's tools otherwise: a part of
// a node's devices is known only where the node tells the numbers of the files, all of them without a gap; the whole of them always.
func busyOf(r gpu.Report, devices int, on slurm.NodeGPUs) (sum float64, ok bool) {
	byFile, n, told := make([]*gpu.Sample, devices), 0, true
	for i := range r.GPUs {
		s := &r.GPUs[i]
		if s.Slice >= 0 {
			continue
		}
		if n++; s.Health != gpu.Well || s.MIG == "on" || !s.Utilization.Known {
			return 0, false
		}
		if m := int(s.Minor.N); s.Minor.Known && m >= 0 && m < devices && byFile[m] == nil {
			byFile[m] = s
		} else {
			told = false
		}
		sum += s.Utilization.N / 100
	}
	switch {
	case n == 0 || n != devices || on.Other:
		return 0, false
	case on.Count == n:
		return sum, true
	case !told || len(on.Indices) != on.Count || on.Count == 0:
		return 0, false
	}
	sum = 0
	for _, i := range on.Indices {
		if i < 0 || i >= n {
			return 0, false
		}
		sum += byFile[i].Utilization.N / 100
	}
	return sum, true
}

// worked takes in what one node measured; when all nodes of the run have, that is one figure of its work.
func (r *Record) worked(now time.Time, job *slurm.Job, node string, seconds, busy float64) {
	if r.work.restart != r.Restart || r.work.nodes == nil {
		r.work = work{r.Restart, map[string]nodeWork{}}
	}
	w := r.work.nodes[node]
	r.work.nodes[node] = nodeWork{w.seconds + seconds, w.busy + seconds*busy}
	u := progress.Usage{Seconds: progress.MaxUsage}
	for _, g := range job.NodeGPUs {
		w, ok := r.work.nodes[g.Node]
		if !ok || w.seconds <= 0 {
			return
		}
		u.Seconds = min(u.Seconds, w.seconds)
		u.GPUs += g.Count
		u.Busy += w.busy / w.seconds
	}
	u.Busy /= float64(max(u.GPUs, 1))
	r.work.nodes = nil
	r.measure(now, &u)
}
