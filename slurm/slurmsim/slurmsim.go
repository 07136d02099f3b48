// Package slurmsim is slurmctld as a state machine in virtual time: jobs, nodes and partitions that behave as a real Slurm 24.11 to 26.05 was
// measured to behave, with training jobs of known speed inside.
//
// It starts no goroutine and reads no clock: [Cluster.Advance] moves the time and makes happen what was due, in a fixed order, so that equal calls
// with equal seeds give equal histories. An hour in which nothing happens costs nothing. It offers the same calls as slurm.Client ([Cluster.State],
// [Cluster.Update], ...), with the same typed refusals, and the calls of users and admins (Submit, Cancel, Hold, SetNode, ...). It refuses to know of
// plans: the bridge drives it through its own interface. Tests of the bridge and the simulator call it.
//
// Left out in this form: limits of arrays, heterogeneous jobs, permissions, jobs inside reservations, and preemption by Slurm itself.
package slurmsim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"unisched/hooks/progress"
	"unisched/slurm"
)

// Config is the site. Zero fields take the values of [Defaults].
type Config struct {
	Seed  uint64
	Start time.Time
	// LatencyMin and LatencyMax bound the time from a change to the scheduling pass that it causes; SchedInterval is the period of the passes
	// that come by themselves (a begin time that passes waits for one).
	LatencyMin, LatencyMax, SchedInterval time.Duration
	// BatchDelay, when set, replaces the latency by slurmctld's own rule: its loop looks once a second whether something changed, and lets this much
	// time go by between two passes (batch_sched_delay, 3 s).
	BatchDelay time.Duration
	// RequeueExit is the exit code that requeues, RequeueDelay how long a requeued job is kept from starting (AuthInfo cred_expire + 1 s).
	RequeueExit  int
	RequeueDelay time.Duration
	// Completing is the time from a job's end to its nodes being free.
	Completing time.Duration
	// MinJobAge is how long a finished job is remembered, NodeTimeout how long a dead node goes unnoticed.
	MinJobAge, NodeTimeout time.Duration
	// SubmitDelay is the begin time that the submit plugin gives to jobs that name UniSched in their comment; 0 = no plugin.
	SubmitDelay time.Duration
	// AgePerHour is the priority that an hour of waiting adds (PriorityWeightAge over PriorityMaxAge), counted from the moment from which a job could start: a requeue and a
	// begin time put that off.
	AgePerHour int64
	// GroupGPUs are the GPUs that the running jobs of an account may hold at once (the association's GrpTRES), for accounts that have such a limit.
	GroupGPUs map[string]int
	// BackfillInterval is the period of the backfill scheduler (bf_interval); below 0: none.
	BackfillInterval time.Duration
	// Streams is how many checkpoints shared storage reads or writes at full speed at once (0: any number).
	Streams int
	// Quiet keeps no History; Watch, when set, is told of every Moment as it happens.
	Quiet bool
	Watch func(Moment)
	// Reuse lets State write its answer over the one before the last, for a caller who keeps none for longer.
	Reuse bool
}

// MomentKind says what a Moment is about.
type MomentKind uint8

// The moments in a job's life. A stay on GPUs is Began, Trained (its script has loaded its state), perhaps Signalled, Left (its script is over) and
// Freed; Ended comes with the Left of the last stay, or alone when a waiting job is cancelled.
const (
	Began MomentKind = iota
	Trained
	Signalled
	Left
	Freed
	Ended
)

// Moment is one step in the life of a job, for those who keep accounts.
type Moment struct {
	At   time.Time
	Job  slurm.JobID
	Kind MomentKind
	// Run is the restart count of the run that it is about, Where what that run holds.
	Run   int
	Where []slurm.NodeGPUs
	// Iter is the iteration reached (Trained: loaded; Left: reached when it ended), Saved that of the newest checkpoint.
	Iter, Saved int64
	// State is how the job ended (Ended).
	State slurm.BaseState
	// Partition is where it runs (Began).
	Partition string
}

// Defaults are the figures measured on a cluster with default settings.
func Defaults() Config {
	return Config{
		Start:      time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC),
		LatencyMin: 500 * time.Millisecond, LatencyMax: 3 * time.Second, SchedInterval: 30 * time.Second,
		RequeueExit: 99, RequeueDelay: 121 * time.Second, Completing: 800 * time.Millisecond,
		MinJobAge: 300 * time.Second, NodeTimeout: 29 * time.Second, BackfillInterval: 30 * time.Second,
	}
}

// Partition is a set of nodes with the limits of its jobs (0: none).
type Partition struct {
	Name     string
	Nodes    []string // nil: all
	MaxNodes int
	MaxGPUs  int // of one job, by the partition's QOS; below 0: none at all
	MaxTime  time.Duration
	Down     bool
}

// Node is a compute node.
type Node struct {
	Name     string
	GPUs     int
	CPUs     int
	MemMB    int64
	Features []string
}

// Nodes returns n1 to nN, 4 CPUs and 16 GB for each GPU.
func Nodes(n, gpus int) []Node {
	out := make([]Node, n)
	for i := range out {
		out[i] = Node{Name: fmt.Sprintf("n%0*d", len(fmt.Sprint(n)), i+1), GPUs: gpus, CPUs: 4 * gpus, MemMB: int64(gpus) << 14}
	}
	return out
}

// Cluster is one simulated cluster. It is not safe for concurrent use.
type Cluster struct {
	cfg    Config
	now    time.Time
	rng    *rand.Rand
	nodes  []*node
	byNode map[string]*node
	parts  []Partition
	jobs   []*job // by id, which are handed out from 1 on; nil: forgotten
	lastID slurm.JobID

	events      events
	seq         int64
	pass        time.Time     // the scheduling pass that is due; zero: none
	passed      time.Time     // the last one
	phase       time.Duration // of slurmctld's loop within the second
	bfPhase     time.Duration // of backfill within its interval
	storage     storage
	reserved    []slurm.Reservation // by name
	backfilling bool                // one is due

	queue []*job                 // pending and eligible, in Slurm's order
	waits map[slurm.JobID][]*job // jobs that wait for another, by its id
	// deadlined are the jobs with a deadline of their own.
	deadlined []*job
	unshown   []*job // pending jobs whose reason the next pass finds

	sorted   []*job // by id, those that Slurm still knows
	changed  time.Time
	version  int64 // of everything that State shows
	shownAt  int64
	shown    slurm.State
	spare    slurm.State // the one before, to be written over
	spareAt  int64
	reports  []progress.JobReport
	history  []Event
	finished int
}

// Event is one thing that happened, for tests and traces.
type Event struct {
	At   time.Time
	Job  slurm.JobID
	What string
}

// String is one line.
func (e Event) String() string {
	return fmt.Sprintf("%s %d %s", e.At.Format("15:04:05.000"), e.Job, e.What)
}

// New makes a cluster at cfg.Start.
func New(cfg Config, nodes []Node, parts ...Partition) *Cluster {
	cfg = cfg.filled()
	c := &Cluster{cfg: cfg, now: cfg.Start, rng: rand.New(rand.NewPCG(cfg.Seed, 0x9e3779b97f4a7c15)), byNode: map[string]*node{},
		waits: map[slurm.JobID][]*job{}, parts: slices.Clone(parts), version: 1, changed: cfg.Start}
	if cfg.BatchDelay > 0 {
		c.phase = time.Duration(c.rng.Int64N(int64(time.Second)))
		c.bfPhase = time.Duration(c.rng.Int64N(int64(max(cfg.BackfillInterval, 1))))
		c.passed = cfg.Start
	}
	for _, n := range nodes {
		x := &node{Node: n, freeGPUs: n.GPUs, freeCPUs: n.CPUs, up: true, holders: map[*job]int{}}
		c.nodes = append(c.nodes, x)
		c.byNode[n.Name] = x
	}
	slices.SortFunc(c.nodes, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	for i, n := range c.nodes {
		n.index = i
	}
	slices.SortFunc(c.parts, func(a, b Partition) int { return strings.Compare(a.Name, b.Name) })
	return c
}

func (c Config) filled() Config {
	d := Defaults()
	if c.Start.IsZero() {
		c.Start = d.Start
	}
	for _, f := range []struct{ v, d *time.Duration }{
		{&c.LatencyMin, &d.LatencyMin}, {&c.LatencyMax, &d.LatencyMax}, {&c.SchedInterval, &d.SchedInterval}, {&c.RequeueDelay, &d.RequeueDelay},
		{&c.Completing, &d.Completing}, {&c.MinJobAge, &d.MinJobAge}, {&c.NodeTimeout, &d.NodeTimeout},
	} {
		if *f.v <= 0 {
			*f.v = *f.d
		}
	}
	c.LatencyMax = max(c.LatencyMax, c.LatencyMin)
	if c.BackfillInterval == 0 {
		c.BackfillInterval = d.BackfillInterval
	}
	if c.RequeueExit == 0 {
		c.RequeueExit = d.RequeueExit
	}
	return c
}

// Now is the virtual time.
func (c *Cluster) Now() time.Time { return c.now }

// event is something that happens at a time; equal times keep the order in which they were planned.
type event struct {
	at  time.Time
	seq int64
	do  func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *events) Push(x any) { *h = append(*h, x.(event)) }

// Pop implements heap.Interface.
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

func (c *Cluster) at(t time.Time, do func()) {
	if t.Before(c.now) {
		t = c.now
	}
	c.seq++
	heap.Push(&c.events, event{t, c.seq, do})
}

// Advance moves the time to t (never back) and makes everything happen that is due until then.
func (c *Cluster) Advance(t time.Time) {
	for len(c.events) > 0 && !c.events[0].at.After(t) {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	if t.After(c.now) {
		c.now = t
	}
}

// Next is when something will happen next, zero when nothing will.
func (c *Cluster) Next() time.Time {
	if len(c.events) == 0 {
		return time.Time{}
	}
	return c.events[0].at
}

// Reports hands over what the jobs reported since the last call, oldest first.
func (c *Cluster) Reports() []progress.JobReport {
	out := c.reports
	c.reports = nil
	return out
}

// History is everything that happened to jobs so far.
func (c *Cluster) History() []Event { return c.history }

func (c *Cluster) note(j *job, format string, args ...any) {
	if c.cfg.Quiet {
		return
	}
	c.history = append(c.history, Event{c.now, j.id, fmt.Sprintf(format, args...)})
}

// tell hands a moment of a job to the watcher.
func (c *Cluster) tell(j *job, kind MomentKind, iter int64) {
	if c.cfg.Watch == nil {
		return
	}
	m := Moment{At: c.now, Job: j.id, Kind: kind, Run: j.restarts, Iter: iter, Saved: j.saved, State: j.state, Partition: j.partition}
	for _, s := range j.alloc {
		if s.gpus > 0 {
			m.Where = append(m.Where, slurm.NodeGPUs{Node: s.node.Name, Count: s.gpus})
		}
	}
	c.cfg.Watch(m)
}

// Changes counts the changes of everything that State shows: as long as it stands still, State shows the same.
func (c *Cluster) Changes() int64 { return c.version }

// Iteration is the iteration that a job has truly reached, reported or not; 0 for a job that is not known.
func (c *Cluster) Iteration(id slurm.JobID) int64 {
	switch j := c.byID(id); {
	case j == nil:
		return 0
	case j.run != nil:
		return j.run.iter(c.now)
	default:
		return j.saved
	}
}

// touch marks a job as changed.
func (c *Cluster) touch(j *job) {
	j.fresh = false
	c.version++
	j.changed = c.version
	c.changed = c.now
}

// second cuts a time as slurmctld does, which keeps whole seconds.
func second(t time.Time) time.Time { return t.Truncate(time.Second) }
