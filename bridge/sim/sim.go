// Package sim drives the very loop of the daemon, bridge.Step, in virtual time against slurmsim: a trace of jobs goes in, what became of them under a
// policy comes out. It holds the clock, the scripts that the jobs run, the truth about their speed, and the books.
//
// It refuses to know better than the daemon: the bridge, its estimator and the policy see only what a real cluster would show them. What an oracle
// run or an ablation changes is what the policy is shown ([Lens]), never the loop. It reads no wall clock and no file; the command line calls it, with
// policies of its choice.
package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// Config is a simulated site and how it is run. Zero fields take the defaults named.
type Config struct {
	Nodes, GPUsPerNode int // required
	Unit               time.Duration
	SLOUnits           int
	// Poll is the grid of virtual time on which the loop runs; it runs only when something may have changed (default a tenth of a unit).
	Poll time.Duration
	Seed uint64
	// Noise is the standard deviation of the logarithm of a run's speed.
	Noise float64
	// Profile is the time that one profile takes, 0: nobody is profiled.
	Profile time.Duration
	// ProfileGPUs bounds the GPUs of a profile run (0: 2).
	ProfileGPUs int
	// Spread submits every job with a task for each GPU, so that it may be split over twice as many nodes as it needs; else it has a single task and stays on the fewest.
	Spread bool
	// ProfileNodes sets the last nodes apart for profiles (0: profiles share the nodes of all).
	ProfileNodes int
	// JobGPUHours is what one job may reserve under deadlines; the loop plans larger ones as best effort, and they still count as missed (0: no bound).
	JobGPUHours float64
	// WaitHours is how much longer best-effort jobs may have to wait for one job with deadlines, all together; as with JobGPUHours (0: no bound).
	WaitHours float64
	// NoSave lets checkpoints cost nothing.
	NoSave bool
	// Requeue is Slurm's own delay after a requeue (0: as measured).
	Requeue time.Duration
	// Streams is how many checkpoints shared storage reads or writes at full speed at once (0: any number).
	Streams int
	Speeds  Speeds
	Lenses  []Lens
	// Oracle lets everybody know the truth: it stands in for the estimator.
	Oracle bool
	// Shadow lets the loop only look, in the stage of that name: plain Slurm decides. Seen is then shown what the loop has published after each step.
	Shadow bool
	Seen   func(*bridge.View)
	// Clock times the policy, for figures that nothing depends on (nil: they are 0).
	Clock func() time.Time
	// Progress is told now and then how far it is.
	Progress func(Progress)
	// Look is shown what the daemon would show its people, after each step of the loop (nil: nobody looks).
	Look func(*bridge.View)
}

// Progress is how far a run is.
type Progress struct {
	Now         time.Duration // virtual, since the first submission
	Ended, Jobs int
}

// start is the virtual time of the first submission: a unit boundary of any unit that divides a day.
var start = time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)

func (c Config) filled() Config {
	if c.Unit <= 0 {
		c.Unit = 5 * time.Minute
	}
	if c.SLOUnits <= 0 {
		c.SLOUnits = 2
	}
	if c.Poll <= 0 {
		c.Poll = max(c.Unit/10, time.Second)
	}
	return c
}

func (c Config) clock() time.Time {
	if c.Clock == nil {
		return time.Time{}
	}
	return c.Clock()
}

// ErrInvariant means that something happened which can never be right: a fault of ours, not of the input.
var ErrInvariant = errors.New("invariant broken")

// world is one run.
type world struct {
	cfg     Config
	cluster *slurmsim.Cluster
	bridge  *bridge.Bridge
	wire    *wire
	books   *books
	truths  byJob[truth]
	jobs    []trace.Job // by submission
	next    int         // the next to be submitted
	steps   int
	seen    int64 // changes of the cluster at the last step
	moved   time.Time
	stepped time.Time // the last step
}

// Run plays the jobs, sorted by submission, under a policy until all are done, or nothing has moved for a week. The error is one of the loop or of an
// invariant; the result then tells how far it came.
func Run(ctx context.Context, cfg Config, jobs []trace.Job, policy bridge.Policy) (Result, error) {
	cfg = cfg.filled()
	if cfg.Nodes <= 0 || cfg.GPUsPerNode <= 0 {
		return Result{}, fmt.Errorf("%d nodes of %d GPUs are no cluster", cfg.Nodes, cfg.GPUsPerNode)
	}
	w := &world{cfg: cfg, jobs: jobs}
	w.books = newBooks(cfg)
	lead := 4 * cfg.Poll // the loop's first looks only look
	nodes := slurmsim.Nodes(cfg.Nodes, cfg.GPUsPerNode)
	delay := longDelay
	if cfg.Shadow { // no submit plugin: jobs start as Slurm likes
		delay = 0
	}
	w.cluster = slurmsim.New(slurmsim.Config{
		Seed: cfg.Seed, Start: start.Add(-lead), SubmitDelay: delay, RequeueDelay: cfg.Requeue, Streams: cfg.Streams, Quiet: true, Reuse: cfg.Look == nil && cfg.Seen == nil, Watch: w.books.moment,
	}, nodes, cfg.partitions(nodes)...)
	w.wire = &wire{Cluster: w.cluster, books: w.books}
	parts := bridge.Parts{Cluster: w.wire, Memory: forgetful{}, Reports: w.cluster.Reports}
	if cfg.Oracle {
		parts.Estimator = oracle{w}
		cfg.Lenses = append([]Lens{Oracle}, cfg.Lenses...)
	}
	parts.Log = func(_ time.Time, n bridge.Note) {
		if n.What == "plan-refused" {
			w.books.badPlan(n.Text)
		}
	}
	parts.Policy = &tap{inner: policy, lenses: cfg.Lenses, w: w}
	b, err := bridge.New(w.bridgeConfig(), parts, bridge.Restored{})
	if err != nil {
		return Result{}, err
	}
	w.bridge = b
	for range 3 {
		w.cluster.Advance(w.cluster.Now().Add(cfg.Poll))
		if err := b.Step(ctx, w.cluster.Now()); err != nil {
			return Result{}, err
		}
	}
	if err = w.loop(ctx); err == nil {
		w.drain()
		w.books.integrate(w.cluster.Now())
		err = w.books.audit()
	}
	return w.books.result(w, err), err
}

// partitions are gpu and profile on the same nodes, or on nodes of their own.
func (c Config) partitions(nodes []slurmsim.Node) []slurmsim.Partition {
	all, apart := slurmsim.Partition{Name: partition}, slurmsim.Partition{Name: profiling, MaxNodes: 2, MaxGPUs: max(c.ProfileGPUs, 2)}
	if k := len(nodes) - c.ProfileNodes; c.Profile > 0 && c.ProfileNodes > 0 && k > 0 {
		for i, n := range nodes {
			if i < k {
				all.Nodes = append(all.Nodes, n.Name)
			} else {
				apart.Nodes = append(apart.Nodes, n.Name)
			}
		}
	}
	return []slurmsim.Partition{all, apart}
}

// longDelay is how far ahead the begin time of a waiting job lies: nobody dies here, so that nothing has to start by itself.
const longDelay = 20 * 365 * 24 * time.Hour

// patience is the virtual time without any change, and without a job on GPUs, after which a run is given up.
const patience = 7 * 24 * time.Hour

func (w *world) bridgeConfig() bridge.Config {
	c := bridge.Defaults()
	c.Stage, c.Unit, c.SLOUnits, c.Poll, c.Delay = bridge.StageStrict, w.cfg.Unit, w.cfg.SLOUnits, w.cfg.Poll, longDelay
	c.ViewEvery, c.NoForecasts = 24*time.Hour, true // nobody looks
	if w.cfg.Shadow {
		c.Stage = bridge.Shadow
	}
	if w.cfg.Seen != nil || w.cfg.Look != nil {
		c.ViewEvery, c.NoForecasts = 0, false
	}
	c.Partitions, c.ProfilePartition, c.ProfileTime = []string{partition}, profiling, w.cfg.Profile
	if w.cfg.Profile <= 0 {
		c.ProfilePartition = ""
	}
	c.MaxCheckpoints, c.MaxStarts, c.MaxActions = w.cfg.Nodes*w.cfg.GPUsPerNode, w.cfg.Nodes*w.cfg.GPUsPerNode, 1<<30
	c.ProfileGPUs, c.Admission.JobGPUHours, c.Admission.WaitHours = w.cfg.ProfileGPUs, w.cfg.JobGPUHours, w.cfg.WaitHours
	c.StartTimeout = max(c.StartTimeout, c.Poll)
	c.CheckpointTimeout = max(c.CheckpointTimeout, 4*c.Poll)
	return c
}

// loop moves the time from one tick at which something may happen to the next.
func (w *world) loop(ctx context.Context) error {
	w.moved = start
	total := w.cfg.Nodes * w.cfg.GPUsPerNode
	for w.next < len(w.jobs) || w.books.open > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		tick := w.nextTick()
		for w.next < len(w.jobs) && !start.Add(w.jobs[w.next].Submit).After(tick) {
			w.submit(w.jobs[w.next], total)
			w.next++
		}
		w.cluster.Advance(tick)
		if edge := tick.Equal(tick.Truncate(w.cfg.Unit)) || tick.Equal(w.atLatest()); !edge && w.cluster.Changes() == w.seen && !w.books.restless() {
			continue
		}
		if w.cluster.Changes() != w.seen {
			w.moved = tick
		}
		w.steps++
		w.stepped = tick
		if err := w.bridge.Step(ctx, tick); err != nil {
			return err
		}
		w.seen = w.cluster.Changes()
		if w.cfg.Look != nil {
			w.cfg.Look(w.bridge.View())
		}
		if err := w.check(); err != nil {
			return err
		}
		if w.cfg.Seen != nil {
			w.cfg.Seen(w.bridge.View())
		}
		if w.cfg.Progress != nil && w.steps%64 == 0 {
			w.cfg.Progress(Progress{tick.Sub(start), w.books.ended, len(w.jobs)})
		}
		if tick.Sub(w.moved) > patience && w.next == len(w.jobs) && w.books.held == 0 {
			return nil
		}
	}
	return nil
}

// drain waits until the last jobs to end have let go of their GPUs: what they held counts as well.
func (w *world) drain() {
	for w.books.open == 0 && w.books.held > 0 && !w.cluster.Next().IsZero() {
		w.cluster.Advance(w.cluster.Next())
	}
}

// nextTick is the next instant of the grid that is a unit boundary or has an event before it.
func (w *world) nextTick() time.Time {
	now := w.cluster.Now()
	edge := now.Truncate(w.cfg.Unit).Add(w.cfg.Unit)
	if late := w.atLatest(); late.After(now) && late.Before(edge) {
		edge = late
	}
	next := edge
	if e := w.cluster.Next(); !e.IsZero() && e.Before(next) {
		next = e
	}
	if w.next < len(w.jobs) {
		if s := start.Add(w.jobs[w.next].Submit); s.Before(next) {
			next = s
		}
	}
	if w.cluster.Changes() != w.seen || w.books.restless() {
		next = now
	}
	tick := next.Truncate(w.cfg.Poll)
	if tick.Before(next) || !tick.After(now) {
		tick = tick.Add(w.cfg.Poll)
	}
	if tick.After(edge) {
		tick = edge
	}
	return tick
}

// atLatest is when the loop must look again although nothing happens: it mistrusts what it sees after a longer break.
func (w *world) atLatest() time.Time {
	if w.stepped.IsZero() {
		return time.Time{}
	}
	return w.stepped.Add(10 * w.cfg.Poll)
}

func (w *world) submit(j trace.Job, total int) {
	at := start.Add(j.Submit)
	w.cluster.Advance(at)
	if j.GPUs > total {
		w.books.rejected(j)
		return
	}
	t := truthOf(j, w.cfg.GPUsPerNode, w.cfg.Speeds)
	if w.cfg.NoSave {
		t.save = 0
	}
	asked := t.submission(w.cfg.Seed, w.cfg.Noise, w.cfg.Unit, at)
	if w.cfg.Spread {
		asked.Tasks = j.GPUs
	}
	id := w.cluster.Submit(asked)
	w.truths.set(id, t)
	w.books.submitted(id, j, at)
}

// known is what the lenses may know of a job.
func (w *world) known(t *truth, j *planner.Job, s *planner.Snapshot) Known {
	done := w.cluster.Iteration(slurm.JobID(j.Run.Job))
	k := Known{Left: max(t.job.Iterations-done, 1), Done: done, GPUs: t.job.GPUs, Duration: t.job.Duration, Speed: t.speedOf,
		Shown: &t.shown, Resume: t.loading, Checkpoint: t.save, Unit: s.Unit, Lease: s.Unit}
	if t.job.Metric != nil {
		k.Max = t.job.Metric.Max
	}
	if j.Class.SLO() {
		k.Lease *= time.Duration(max(s.SLOUnits, 1))
	}
	return k
}

// check looks for what can never be right.
func (w *world) check() error {
	if w.books.broken != nil {
		return w.books.broken
	}
	if held := w.cfg.Nodes*w.cfg.GPUsPerNode - w.cluster.FreeGPUs(); held != w.books.held {
		return fmt.Errorf("%d GPUs held in the cluster, %d in the books: %w", held, w.books.held, ErrInvariant)
	}
	return nil
}

// forgetful is a journal that nobody will ever open: nothing crashes here.
type forgetful struct{}

func (forgetful) Append(...journal.Entry) error { return nil }
func (forgetful) Compact([]journal.Entry) error { return nil }
func (forgetful) Size() int64                   { return 0 }

// wire stands between the bridge and the cluster and writes every call into the action log, of which the books keep a hash.
type wire struct {
	*slurmsim.Cluster
	books *books
}

// Update implements bridge.Cluster.
func (w *wire) Update(ctx context.Context, ref slurm.Ref, u slurm.Update) error {
	err := w.Cluster.Update(ctx, ref, u)
	w.books.acted(w.Now(), "update", ref.ID, fmt.Sprint(u.Hold, u.BeginTime, u.Nice, u.RequiredNodes, u.TRESPerNode, u.TRESPerJob, u.Partition), err)
	return err
}

// Signal implements bridge.Cluster.
func (w *wire) Signal(ctx context.Context, ref slurm.Ref, s slurm.Signal) error {
	err := w.Cluster.Signal(ctx, ref, s)
	w.books.acted(w.Now(), "signal", ref.ID, string(s.Name), err)
	return err
}

// Requeue implements bridge.Cluster.
func (w *wire) Requeue(ctx context.Context, ref slurm.Ref) error {
	err := w.Cluster.Requeue(ctx, ref)
	w.books.acted(w.Now(), "requeue", ref.ID, "", err)
	return err
}

// Rerun implements bridge.Cluster.
func (w *wire) Rerun(ctx context.Context, ref slurm.Ref) error {
	err := w.Cluster.Rerun(ctx, ref)
	w.books.acted(w.Now(), "rerun", ref.ID, "", err)
	return err
}

// ClearRequiredNodes implements bridge.Cluster.
func (w *wire) ClearRequiredNodes(ctx context.Context, ref slurm.Ref, tasks int) error {
	err := w.Cluster.ClearRequiredNodes(ctx, ref, tasks)
	w.books.acted(w.Now(), "unpin", ref.ID, "", err)
	return err
}
