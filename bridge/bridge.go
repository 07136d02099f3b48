// Package bridge is the loop that joins Slurm and the planner: observe, estimate, plan, check, apply.
//
// [Bridge.Step] is the whole of it, single-threaded, with time as an argument: the daemon calls it from a ticker, the simulator from an event
// heap, tests from a script. The package declares the small interfaces it needs ([Cluster], [Policy], [Memory], [Reports]) and refuses to know how
// they are met. It never deletes a job, never writes a comment, and never changes a job without a record on disk that says how to undo it.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"unisched/bridge/journal"
	"unisched/estimator"
	"unisched/hooks/progress"
	"unisched/planner"
	"unisched/slurm"
)

// Cluster is the part of Slurm that the bridge uses. [slurm.Client] is one; errors are those of package slurm.
type Cluster interface {
	State(ctx context.Context, now time.Time) (slurm.State, error)
	Job(ctx context.Context, id slurm.JobID) (slurm.Job, error)
	Update(ctx context.Context, ref slurm.Ref, u slurm.Update) error
	Signal(ctx context.Context, ref slurm.Ref, s slurm.Signal) error
	// Requeue sends an unfinished job back to the queue; a finished job is refused.
	Requeue(ctx context.Context, ref slurm.Ref) error
	// Rerun puts a finished, failed job back into the queue under its own id.
	Rerun(ctx context.Context, ref slurm.Ref) error
	// ClearRequiredNodes takes the node list off a waiting job and, above 0, writes the number of its tasks along.
	ClearRequiredNodes(ctx context.Context, ref slurm.Ref, tasks int) error
}

// Policy makes plans. It never fails: the worst plan keeps what runs and starts what fits.
type Policy interface {
	Plan(ctx context.Context, s planner.Snapshot) planner.Plan
}

// Memory is the journal: Append returns when the entries are on disk.
type Memory interface {
	Append(entries ...journal.Entry) error
	Compact(entries []journal.Entry) error
	Size() int64
}

// Reports hands over the progress that nodes sent since the last call, oldest first.
type Reports func() []progress.JobReport

// Estimator says what to expect of a job. Parts without one use what the bridge itself has learnt.
type Estimator interface {
	Estimate(id slurm.JobID, j estimator.Job, now time.Time) planner.Estimate
}

// Note is one line for the log: the loop never writes anywhere itself.
type Note struct {
	Level string // "debug", "info", "warn", "error"
	What  string
	Job   slurm.JobID // 0: not about one job
	Plan  string
	Text  string
	// Action is the journal's id of the action that the line is about, "" when it is about none; Kind is its name, Outcome what is known of its call.
	Action  string
	Kind    string
	Outcome Outcome
}

// Parts are what a Bridge is made of. Cluster, Policy and Memory must be set.
type Parts struct {
	Cluster Cluster
	Policy  Policy
	Memory  Memory
	Reports Reports
	// GPULooks, when set, tells what the nodes measure of their GPUs.
	GPULooks GPULooks
	// Estimator, when set, replaces the bridge's own.
	Estimator Estimator
	Log       func(now time.Time, n Note)
}

// Bridge steers the jobs of one cluster. Step and the functions it calls run in one goroutine; View and Order may be called from
// others.
type Bridge struct {
	cfg   Config
	parts Parts

	records map[slurm.JobID]*Record
	order   []*Record // records by id; nil: to be made
	turned  []*Record // the same, from another one on
	past    []*Record // ended, no longer in Slurm: kept for their people, bounded
	pastCut []*Record // those of past that were stopped or moved, in the same order
	lore    lore
	looked  map[string]time.Time // when the last look at a node's GPUs came
	early   []progress.JobReport // of runs that Slurm has not shown yet
	audit   []journal.Entry      // results to be written with the next records
	gone    []string             // keys of records to be dropped from the journal

	cycle      int64
	shown      time.Time                   // the newest View
	last       time.Time                   // the newest Step
	journalled time.Time                   // the newest entry of the process before
	seen       slurm.State                 // the newest good snapshot
	seenRecs   []*Record                   // of its jobs, nil for a plain one
	awaits     map[awaitedTask][]waiter    // of its jobs: those whose end others wait for, and who; lookup only
	spared     map[slurm.JobID]slurm.JobID // of those, who is not stopped, and for whom; lookup only
	trouble    string
	suspect    string
	unsaved    string                 // why the journal cannot be written, "" when it can
	since      time.Time              // when that began
	still      map[string]*standstill // by partition: whoever is preempted might not come back
	rival      rival
	acted      int       // actions of this cycle
	blind      bool      // it has lasted too long: every job is given back
	calm       time.Time // the newest snapshot that was trusted
	quiet      int       // cycles during which nothing disruptive is done
	paused     bool
	staging    staging
	stageNews  string               // what is new about the stages, until it has been told
	handsOff   bool                 // no daemon runs: on nobody is acted, whatever was changed is given back at once
	boundary   time.Time            // the last unit boundary that had its round
	rounded    time.Time            // the last round
	wake       string               // why the next round should come early
	freeGPUs   int                  // at the last look
	limits     map[string]limitMemo // limits of Slurm found by trying, by the group that shares them
	perNode    map[string]int       // largest node by partition, of the newest snapshot
	plan       planner.Plan
	before     planner.Plan // the plan before it
	loads      []Load
	free, soon map[string]int // memory of count
	snapshot   planner.Snapshot
	counts     ActionCounts
	carried    map[string][]charge // by account: charges of jobs whose records are gone
	spentSum   map[string]float64  // by account, as of cycle spentIn
	spentIn    int64
	crowded    map[string]int // best-effort jobs that wait, by partition, when new jobs were last judged; nil where nothing depends on it

	mu     sync.Mutex
	orders []waitingOrder
	view   atomic.Pointer[View]
}

// Restored is what a journal held.
type Restored struct {
	Entries []journal.Entry
	// Damaged says that the journal was lost: nothing disruptive is done in the first cycles.
	Damaged bool
}

// New makes a bridge from what the journal held. It makes no call to Slurm.
func New(cfg Config, parts Parts, from Restored) (*Bridge, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bridge configuration: %w", err)
	}
	if parts.Log == nil {
		parts.Log = func(time.Time, Note) {}
	}
	if parts.Reports == nil {
		parts.Reports = func() []progress.JobReport { return nil }
	}
	b := &Bridge{cfg: cfg, parts: parts, records: map[slurm.JobID]*Record{}, quiet: 1}
	if from.Damaged {
		b.quiet = 3
	}
	journalled, err := b.restore(from.Entries)
	if err != nil {
		return nil, err
	}
	b.settleStages(journalled)
	b.view.Store(&View{Schema: ViewSchema, Stage: b.staging.Default, Unit: cfg.Unit, Trouble: "no look at Slurm yet"})
	return b, nil
}

// Step is one cycle: observe, estimate, plan, check, apply. An error means that Slurm could not be read, or the journal not be
// written; nothing was changed then but what gives jobs back, and the next Step may come as usual.
func (b *Bridge) Step(ctx context.Context, now time.Time) error {
	b.cycle, b.acted = b.cycle+1, 0
	defer func() { b.last = now }()

	// 1. Observe: what people ordered, what Slurm shows, what the nodes report.
	b.clockBack(now)
	b.tellStages(now)
	b.takeOrders(now)
	if b.last.IsZero() { // the last call of the process before may still be under way
		for _, rec := range b.records {
			rec.DoubtTill = now.Add(doubtFor)
			rec.Run.Resent = rec.Run.Resent && rec.Run.Heard // written down before the call: it may not have been made
		}
	}
	state, err := b.parts.Cluster.State(ctx, now)
	if err != nil {
		b.troubled(now, err)
		return fmt.Errorf("look at Slurm: %w", err)
	}
	b.judge(now, state)
	reports := b.takeReports(now, append(b.early, b.parts.Reports()...))
	b.follow(now, state)
	b.rouseWhenFreed()
	b.early = b.stillEarly(b.takeReports(now, reports))
	b.takeLooks(now)

	// 2. Estimate: speed, iterations left and suspension cost of the jobs, when a plan is due; at once for those that are new.
	at, due := b.due(now)
	b.estimate(now, due)
	b.judgeAdmissions(now)
	if due {
		b.doubt(now)
	}

	// 3. Plan and check: at a unit boundary, or early when GPUs came free or something urgent arrived.
	if due {
		b.round(ctx, now, at)
	}

	// 4. Apply: from where each job stands towards where the plan wants it.
	saved := b.persist(now)
	if errors.Is(saved, journal.ErrLocked) { // another daemon has taken our place: hands off
		b.publish(now)
		return saved
	}
	err = b.act(ctx, now)
	if err == nil {
		err = b.persist(now)
	}
	err = cmp.Or(err, saved)
	b.publish(now)
	return err
}

// log passes a line to the daemon's log.
func (b *Bridge) log(now time.Time, level, what string, job slurm.JobID, format string, args ...any) {
	b.parts.Log(now, Note{Level: level, What: what, Job: job, Plan: b.plan.ID, Text: fmt.Sprintf(format, args...)})
}

// troubled remembers why Slurm could not be read. The old view stays, with its age.
func (b *Bridge) troubled(now time.Time, err error) {
	if b.trouble == "" {
		b.log(now, "warn", "slurm-unreachable", 0, "%v", err)
	}
	b.trouble = err.Error()
	if !errors.Is(err, slurm.ErrRateLimited) || now.Sub(b.seen.At) > 3*b.cfg.Poll { // a look that was turned away says nothing about Slurm
		b.quiet = max(b.quiet, 1) // the first look after trouble is only looked at
	}
	b.publish(now)
}
