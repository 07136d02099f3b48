// Package policy holds the rivals: ways to make plans that others use, as pure functions of the same snapshots, one file each, and
// FIFO with backfill as an offline twin that tells what would have become of a list of arrivals under plain Slurm.
//
// It refuses to be clever on its own account: a rival does what its authors describe, with the estimates, overheads and topology that UniSched's own
// policy gets too, and no rival reads a clock or starts a solver itself. Every plan passes planner.Check. The simulator, the reports and the daemon
// (when it is told to run one of them) call [New].
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"unisched/planner"
	"unisched/planner/milp"
)

// Policy makes plans; it never fails. It may remember what it promised to whom, and is not safe for concurrent use.
type Policy interface {
	Plan(ctx context.Context, s planner.Snapshot) planner.Plan
}

// ErrUnknown is wrapped by the error of New for a name that is not in Names.
var ErrUnknown = errors.New("unknown policy")

// Options are the settings of all rivals; zero fields take the defaults named. A rival reads only what concerns it.
type Options struct {
	// Solve is asked by chronus, tetrisched and 3sigma; without it, or when it fails, they plan greedily. Limits bound one solve
	// (default 5 s).
	Solve  milp.Solver
	Limits milp.Limits
	// Spread is the least speed, as a share of the fastest shape with as many GPUs, at which a rival accepts a less consolidated shape
	// (default 0.5; 1 accepts the fastest ones only). CHRONUS takes the fewest nodes whatever this says.
	Spread float64
	// Guard is the slack below which slack and slacksrsf put a feasible SLO job first (defaults 30 min and 10 min).
	Guard time.Duration
	// GuardBySlack lets them put the least slack first among guarded jobs, where the base rule orders them otherwise.
	GuardBySlack bool
	// Threshold is the attained service in GPU-seconds that separates the two queues of tiresias (default 3600).
	Threshold float64
	// Share is the part of the jobs, worst finish-time fairness first, to which themis offers GPUs (default 0.8), Lease the length
	// of its leases (default 300 s).
	Share float64
	Lease time.Duration
	// PlanAhead is the window of tetrisched and 3sigma (default 900 s); Most bounds the jobs in one of their programs (default 200).
	PlanAhead time.Duration
	Most      int
	// ChronusEstimates makes every rival plan on d(1 + resume/lease)1.1, as CHRONUS itself always does.
	ChronusEstimates bool
	// ChronusLease is the lease of CHRONUS for SLO jobs, rounded up to whole units (default 20 min).
	ChronusLease time.Duration
	// ChronusTick is the period at which CHRONUS judges jobs and looks for whom to start, as its artifact does every five minutes; in between it fills what
	// becomes free (default 0: it looks in every round).
	ChronusTick time.Duration
	// ChronusPrune keeps the program of chronus-sticky within the artifact's 400 jobs by leaving out those of least value per GPU and lease, where it
	// otherwise packs greedily. That is no part of CHRONUS, and makes it stronger under load.
	ChronusPrune bool
	// ProfileNodes is how many nodes (the last by name) CHRONUS keeps for profiling alone (default 0: wherever a profiler's needs allow).
	ProfileNodes int
}

func (o Options) filled() Options {
	if !(o.Spread > 0 && o.Spread <= 1) {
		o.Spread = 0.5
	}
	if !(o.Share > 0 && o.Share <= 1) {
		o.Share = 0.8
	}
	if !(o.Threshold > 0) {
		o.Threshold = 3600
	}
	for _, f := range []struct {
		v *time.Duration
		d time.Duration
	}{{&o.Lease, 300 * time.Second}, {&o.PlanAhead, 900 * time.Second}, {&o.ChronusLease, 20 * time.Minute}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	if o.Limits.Time <= 0 {
		o.Limits.Time = 5 * time.Second
	}
	o.Most = cmp.Or(max(0, o.Most), 200)
	o.ProfileNodes = max(0, o.ProfileNodes)
	return o
}

// makers lists the rivals in the order of all tables.
var makers = []struct {
	name string
	make func(Options) Policy
}{
	{"fifo", newFIFO}, {"backfill", newBackfill}, {"srtf", newSRTF}, {"srsf", newSRSF}, {"edf", newEDF}, {"llf", newLLF}, {"slack", newSlack},
	{"slacksrsf", newSlackSRSF}, {"tiresias", newTiresias}, {"themis", newThemis}, {"optimus", newOptimus}, {"tetrisched", newTetriSched},
	{"3sigma", newThreeSigma}, {"genie", newGenie}, {"chronus", newChronus}, {"chronus-sticky", newChronusSticky}, {"elasticflow", newElasticFlow},
}

// Names lists the rivals in a fixed order.
func Names() []string {
	out := make([]string, len(makers))
	for i, m := range makers {
		out[i] = m.name
	}
	return out
}

// New makes the rival of that name. The error wraps ErrUnknown.
func New(name string, o Options) (Policy, error) {
	for _, m := range makers {
		if m.name == name {
			o = o.filled()
			if name != "chronus" && name != "chronus-sticky" {
				o.ProfileNodes = 0
			}
			return m.make(o), nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
}
