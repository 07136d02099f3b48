package bridge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// makeSnapshot turns what Slurm shows and what we know into the value that a plan is made from. at is the instant of the round.
func (b *Bridge) makeSnapshot(at time.Time) planner.Snapshot {
	s := planner.Snapshot{Schema: 1, Now: at, Unit: b.cfg.Unit, SLOUnits: b.cfg.SLOUnits, Luck: b.lore.fabric.Luck.Spread(), MaxPreemptions: b.cfg.MaxCheckpoints,
		HourlyPreemptions: b.cfg.MaxPreemptionsPerHour, Preempted: b.preempted(at), JobHourlyPreemptions: b.cfg.MaxJobPreemptionsPerHour}
	watched := b.onlyWatched()
	planned := make([]bool, len(b.seen.Jobs))
	s.Jobs = make([]planner.Job, 0, len(b.seen.Jobs))
	for i := range b.seen.Jobs {
		rec := b.seenRecs[i]
		if rec == nil || !rec.Phase.Ours() || (!b.acts(rec) && !watched[rec.Original.Partition]) {
			continue
		}
		if pj, ok := b.plannerJob(at, rec, &b.seen.Jobs[i]); ok {
			s.Jobs = append(s.Jobs, pj)
			planned[i] = true
		}
	}
	s.Accounts = b.accounts(at, planned)
	factor := shareFactors(s.Accounts)
	for i := range s.Jobs {
		s.Jobs[i].ShareFactor = factor[s.Jobs[i].Account]
	}
	s.Jobs = append(s.Jobs, b.competitors(planned)...)
	inOrder := true // as Slurm shows them, mostly
	for i := 1; i < len(s.Jobs) && inOrder; i++ {
		inOrder = s.Jobs[i-1].Run.Compare(s.Jobs[i].Run) <= 0
	}
	if !inOrder {
		slices.SortFunc(s.Jobs, func(a, c planner.Job) int { return a.Run.Compare(c.Run) })
	}
	s.Nodes = b.plannerNodes(at, s.Jobs, planned)
	return s
}

// plannerJob is one job of ours as planning sees it.
func (b *Bridge) plannerJob(at time.Time, rec *Record, job *slurm.Job) (planner.Job, bool) {
	pj := planner.Job{
		Run: rec.ID(), Name: rec.Name, User: rec.User, Account: rec.Account, QOS: rec.QOS, Class: rec.Class(),
		Weight:    b.cfg.weightOf(rec.Account, rec.QOS),
		Submitted: rec.FirstSubmit, WaitingSince: rec.FirstSubmit, Blocked: rec.Blocked, Preemptible: b.preemptible(rec, job), Preempted: rec.cuts(at), Started: rec.Started,
		Needs: needsOf(rec, job), Estimate: b.untold(at, rec), Elastic: rec.Wish.Elastic(),
		Asked: rec.Original.GPUs, Attained: rec.gpuSeconds(at),
	}
	if rec.LastOnGPUs.After(pj.WaitingSince) {
		pj.WaitingSince = rec.LastOnGPUs
	}
	if n := len(rec.Wish.Tiers); n > 0 {
		pj.Tiers = make([]planner.Tier, n)
		for i, t := range rec.Wish.Tiers {
			pj.Tiers[i] = planner.Tier{At: t.At, Value: t.Value}
		}
	}
	if job.TimeLimit > 0 {
		pj.TimeLeft = job.TimeLimit
		if job.State == slurm.StateRunning {
			pj.TimeLeft = max(job.TimeLimit-at.Sub(job.Start), 0)
		}
	}
	switch rec.Phase {
	case Running, Profiling:
		pj.State, pj.Current, pj.LeaseUntil = planner.Running, rec.Placement, b.minRun(rec, rec.LeaseUntil)
	case Starting:
		// Its GPUs are spoken for although Slurm has not started it yet.
		pj.State, pj.Current, pj.LeaseUntil = planner.Running, rec.Target.Placement, rec.Target.Until
		if !pj.LeaseUntil.After(at) {
			pj.LeaseUntil = at.Add(b.cfg.Unit / 2)
		}
	case Checkpointing:
		pj.State, pj.Current = planner.Leaving, rec.Placement
	case Requeueing:
		pj.State = planner.Waiting
		if job.HasFlag(slurm.FlagCompleting) && len(job.NodeGPUs) > 0 {
			pj.State, pj.Current = planner.Leaving, placementOf(job)
		}
	default:
		pj.State = planner.Waiting
	}
	if pj.State == planner.Waiting {
		pj.Needs.Exclude = merged(pj.Needs.Exclude, b.forbidden(rec, job, at))
	}
	if pj.State != planner.Waiting && len(pj.Current) == 0 {
		return pj, false // Slurm does not say where it is
	}
	pj.Unmeasured = pj.Preemptible && b.unmeasured(at, rec)
	pj.Estimate = rec.doubted(pj.Estimate, at)
	b.profileAs(&pj, rec, at)
	pj.Estimate.Speeds = withShape(pj.Estimate.Speeds, pj.Current, pj.State)
	return pj, true
}

// unmeasured reports whether the first lease of the job is its profile and has shown nothing yet. A job that says nothing in its first lease is not waited for.
func (b *Bridge) unmeasured(at time.Time, rec *Record) bool {
	switch {
	case !rec.Profile.FirstLease || len(rec.Samples) > 0:
		return false
	case !rec.Started:
		return true
	}
	return rec.Phase == Running && rec.Restart == 0 && at.Before(rec.LeaseUntil)
}

// profileAs presents a job that is being measured: one shape, and the rest of the step as its work.
func (b *Bridge) profileAs(pj *planner.Job, rec *Record, at time.Time) {
	if pj.Class != planner.Profiler {
		return
	}
	left := b.stepTime(rec)
	if rec.Phase == Profiling && !rec.Run.Ready.IsZero() {
		left = max(left-at.Sub(rec.Run.Ready), time.Second)
	}
	shape := rec.Profile.Steps[0]
	pj.Tiers, pj.Elastic = nil, false
	pj.Estimate.Speeds = []planner.ShapeSpeed{{Shape: shape, Speed: planner.Exactly(1)}}
	pj.Estimate.Iterations = planner.Exactly(left.Seconds())
	pj.Estimate.Suspensions, pj.Estimate.Reaches = 0, 1
	pj.Needs.Partition, pj.Needs.MaxNodes = b.cfg.ProfilePartition, len(shape)
}

// withShape makes sure that the shape a job holds now is among its speeds: Slurm may have packed it in a way that nobody planned.
func withShape(speeds []planner.ShapeSpeed, p planner.Placement, state planner.JobState) []planner.ShapeSpeed {
	if state == planner.Waiting || len(speeds) == 0 {
		return speeds
	}
	if slices.ContainsFunc(speeds, func(s planner.ShapeSpeed) bool { return p.Has(s.Shape) }) {
		return speeds
	}
	shape := p.Shape()
	near := slices.MinFunc(speeds, func(a, b planner.ShapeSpeed) int {
		return cmp.Compare(abs(a.Shape.GPUs()-shape.GPUs()), abs(b.Shape.GPUs()-shape.GPUs()))
	})
	return append(slices.Clone(speeds), planner.ShapeSpeed{Shape: shape, Speed: near.Speed})
}

func abs(n int) int { return max(n, -n) }

// preemptible reports whether a plan may stop the job.
func (b *Bridge) preemptible(rec *Record, job *slurm.Job) bool {
	return b.whyNotPreempted(rec, job) == ""
}

// needsOf is what a placement must offer besides GPUs.
func needsOf(rec *Record, job *slurm.Job) planner.Needs {
	q, o := &job.Request, &rec.Original
	n := planner.Needs{
		GPUType: q.GPUType, Exclusive: q.Exclusive, Partition: o.Partition, Exclude: sorted(q.ExcludedNodes),
		MemPerNodeMB: q.MemPerNodeMB, Limit: job.TimeLimit,
	}
	cpus, gpus := max(q.CPUs, q.Tasks, 1), max(q.GPUs, 1)
	if cpus%gpus == 0 {
		n.CPUsPerGPU = cpus / gpus
	} else {
		nodes := max(q.Nodes.Min, 1)
		n.CPUsPerNode = (cpus + nodes - 1) / nodes
	}
	if q.MemPerCPUMB > 0 {
		n.MemPerGPUMB = q.MemPerCPUMB * int64(n.CPUsPerGPU)
		n.MemPerNodeMB = q.MemPerCPUMB * int64(n.CPUsPerNode)
	}
	if len(o.RequiredNodes) > 0 {
		n.Only = sorted(o.RequiredNodes)
	}
	if fixedNodes(*o) && o.Nodes.Min > 0 && !rec.Wish.Elastic() {
		n.MaxNodes = o.Nodes.Min
	} else if !rec.Wish.Elastic() {
		n.MaxNodes = o.Nodes.Max
	}
	if rule, err := constraintOf(job.Constraint); err == nil {
		n.Features = rule.all
		n.AnyFeature = rule.any
	}
	return n
}

// sorted is a list in order, nil for an empty one.
func sorted(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}

// merged is the union of two sorted lists.
func merged(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// maxCompetitors bounds the unmanaged waiting jobs that a plan looks at, in Slurm's order.
const maxCompetitors = 50

// waitReasons are those of a pending job that Slurm would start as soon as its turn comes.
var waitReasons = []string{"", "None", "Priority", "Resources", "ReqNodeNotAvail"}

// competitors are the pending jobs that are not ours and that Slurm could start, in Slurm's order: no victim is preempted for GPUs that Slurm would
// give to one of them, and they get their turn in the plan like everybody else.
func (b *Bridge) competitors(planned []bool) []planner.Job {
	var out []*slurm.Job
	for i := range b.seen.Jobs {
		job := &b.seen.Jobs[i]
		if planned[i] || !b.competes(job) {
			continue
		}
		if b.partitionNodes(job.Partition) == 0 {
			continue
		}
		out = append(out, job)
	}
	slices.SortFunc(out, func(x, y *slurm.Job) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.ID, y.ID))
	})
	if len(out) > maxCompetitors {
		out = out[:maxCompetitors]
	}
	var jobs []planner.Job
	for _, job := range out {
		jobs = append(jobs, b.competitor(job))
	}
	return jobs
}

func (b *Bridge) competitor(job *slurm.Job) planner.Job {
	rec := &Record{Original: originalOf(job)}
	needs := needsOf(rec, job)
	needs.Exclude = merged(needs.Exclude, b.forbidden(rec, job, b.seen.At))
	work := job.TimeLimit
	if work <= 0 {
		work = 24 * time.Hour
	}
	return planner.Job{
		Run: planner.Run{Job: planner.JobID(job.ID), Restart: job.Restarts}, Name: job.Name, User: job.User, Account: job.Account, QOS: job.QOS,
		Class: planner.BestEffort, State: planner.Waiting, Weight: 1, Submitted: job.Submit, WaitingSince: job.Submit, Foreign: true,
		Needs: needs,
		Estimate: planner.Estimate{
			Speeds:     []planner.ShapeSpeed{{Shape: ownShape(rec.Original, b.gpusPerNode(job.Partition)), Speed: planner.Exactly(1)}},
			Iterations: planner.Interval{Low: work.Seconds() / 10, Mid: work.Seconds() / 2, High: work.Seconds()},
			Reaches:    1, Basis: "its time limit",
		},
	}
}

// partitionNodes is the number of nodes that a partition shares with ours.
func (b *Bridge) partitionNodes(name string) int {
	n := 0
	for i := range b.seen.Nodes {
		if node := &b.seen.Nodes[i]; slices.Contains(node.Partitions, name) && b.ourNode(node) {
			n++
		}
	}
	return n
}

// ourNode reports whether plans may use a node: one of the managed partitions, or of the one for profiles, which may have nodes of its own.
func (b *Bridge) ourNode(n *slurm.Node) bool {
	return slices.ContainsFunc(n.Partitions, func(p string) bool {
		return slices.Contains(b.cfg.Partitions, p) || p != "" && p == b.cfg.ProfilePartition
	})
}

// plannerNodes are the nodes of the managed partitions, with what jobs outside of the plan hold on them.
func (b *Bridge) plannerNodes(at time.Time, jobs []planner.Job, planned []bool) []planner.Node {
	down := map[string]bool{}
	for _, p := range b.seen.Partitions {
		down[p.Name] = !p.Up
	}
	held, closings := b.heldByNode(jobs, planned), closingsOf(at, b.seen.Reservations)
	out := make([]planner.Node, 0, len(b.seen.Nodes))
	for i := range b.seen.Nodes {
		n := &b.seen.Nodes[i]
		if !b.ourNode(n) {
			continue
		}
		pn := planner.Node{Name: n.Name, GPUs: n.TotalGPUs(), CPUs: n.CPUs, MemMB: n.MemMB, Usable: n.Usable, Why: n.Reason}
		for _, p := range n.Partitions {
			if !down[p] {
				pn.Partitions = append(pn.Partitions, p)
			}
		}
		pn.Features = sorted(n.Features)
		pn.GPUType = kindOf(n)
		b.serviceOf(&pn, n)
		b.wiringOf(&pn, n)
		closings.apply(at, &pn)
		reservedNow(&pn, n)
		o := held[n.Name]
		if o == nil {
			o = &others{}
		}
		// What the node itself says is in use and no job accounts for is somebody's: a job that is not understood, say.
		pn.OtherGPUs, pn.OtherUntil = min(max(o.gpus, n.UsedGPUs()-o.planned), pn.GPUs), o.until
		pn.OtherCPUs, pn.OtherMemMB = max(n.AllocCPUs-o.cpus, 0), max(n.AllocMemMB-o.mem, 0)
		out = append(out, pn)
	}
	return out
}

// kindOf is the type of a node's GPUs; of a node with several "a+b", which no job can ask for: which of them are free nobody says, so those who ask for one
// type are not planned there.
func kindOf(n *slurm.Node) string {
	var kinds []string
	for _, g := range n.GPUs {
		if g.Type != "" && !g.MIG && !slices.Contains(kinds, g.Type) {
			kinds = append(kinds, g.Type)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, "+")
}

// onMixedNodesOnly reports whether GPUs of the type are to be had in the partition, and only on nodes with several.
func (b *Bridge) onMixedNodesOnly(partition, typ string) bool {
	mixed := false
	for i := range b.seen.Nodes {
		n := &b.seen.Nodes[i]
		if typ == "" || !slices.Contains(n.Partitions, partition) || !slices.ContainsFunc(n.GPUs, func(g slurm.GPUs) bool { return g.Type == typ }) {
			continue
		}
		if kindOf(n) == typ {
			return false
		}
		mixed = true
	}
	return mixed
}

// holds reports whether a job has its GPUs. One whose state is not understood has what Slurm shows of it.
func holds(job *slurm.Job) bool {
	return job.State != slurm.StatePending && !job.State.Finished() || job.HasFlag(slurm.FlagCompleting)
}

// others is what is held on a node: GPUs by jobs outside of the plan (running ones and those still completing) with the first end among them, CPUs and
// memory by jobs in it, and GPUs that are, or are about to be, theirs.
type others struct {
	gpus, cpus int
	planned    int
	mem        int64
	until      time.Time
}

// heldByNode sums up, in one pass over the jobs, what plannerNodes needs of each node.
func (b *Bridge) heldByNode(jobs []planner.Job, planned []bool) map[string]*others {
	held := make(map[string]*others, len(b.seen.Nodes))
	memory := make([]others, len(b.seen.Nodes))
	of := func(name string) *others {
		o := held[name]
		if o == nil {
			if len(memory) == 0 { // of a node that Slurm does not show
				memory = make([]others, 1)
			}
			o, memory = &memory[0], memory[1:]
			held[name] = o
		}
		return o
	}
	for i := range b.seen.Jobs {
		job := &b.seen.Jobs[i]
		if !holds(job) || planned[i] { // a planned job's own placement is in the plan
			continue
		}
		for _, g := range job.NodeGPUs {
			of(g.Node).gpus += g.Count
		}
		for _, name := range job.Nodes {
			o := of(name)
			if o.until.IsZero() || !job.End.IsZero() && job.End.Before(o.until) {
				o.until = job.End
			}
		}
	}
	for i := range jobs {
		j := &jobs[i]
		for _, s := range j.Current {
			of(s.Node).planned += s.GPUs
		}
		if len(j.Current) == 0 || !b.holdsNow(j.Run) {
			continue
		}
		for _, s := range j.Current {
			o := of(s.Node)
			o.cpus += j.Needs.CPUs(s.GPUs)
			o.mem += j.Needs.MemMB(s.GPUs)
		}
	}
	return held
}

// holdsNow reports whether a planned job holds its placement in Slurm already (a starting one does not).
func (b *Bridge) holdsNow(run planner.Run) bool {
	rec := b.records[slurmID(run)]
	return rec != nil && rec.Phase != Starting
}
