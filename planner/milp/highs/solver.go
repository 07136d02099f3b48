// Package highs solves a milp.Model with HiGHS in a child process. It is the one impure room of the planner: it
// starts processes, reads clocks and writes temporary files, so that nothing else of the planner has to. It refuses
// to believe its child: whatever the child says, hangs at, or dies of, the caller gets a solution that passed
// Model.Feasible, or a typed error, before a hard deadline. The daemon, the simulator and the benchmarks call New;
// their main functions (and TestMain of tests) call MaybeChild first, since the child is the same executable.
//
// Why a child: HiGHS polls its time limit rarely in some phases, a crash in C++ takes its process along, and the Go
// binding gives back nothing at the time limit. HiGHS writes every incumbent to a file as it finds it, so what the
// child had found outlives the child.
package highs

import (
	"context"
	"errors"
	"time"

	"unisched/planner/milp"
)

var (
	// ErrUnavailable: this executable was built without cgo, so there is no HiGHS in it.
	ErrUnavailable = errors.New("built without HiGHS")
	// ErrCrashed: the child died, or ended without a whole answer, and left no usable incumbent.
	ErrCrashed = errors.New("solver crashed")
	// ErrKilled: the child was killed at the hard deadline or because the context ended, and left no usable incumbent.
	ErrKilled = errors.New("solver killed")
	// ErrNoSolution: a limit ended the search before any solution was found, or HiGHS gave up.
	ErrNoSolution = errors.New("no solution within the limits")
	// ErrInfeasible: HiGHS says that no solution exists. Callers who know one know better.
	ErrInfeasible = errors.New("model infeasible")
	// ErrInvalid: the child claimed a solution that fails our own check, and left no usable incumbent.
	ErrInvalid = errors.New("solver's claim fails the check")
)

// Defaults of milp.Limits and Options.
const (
	defaultTime     = 2 * time.Second
	defaultGap      = 1e-3
	defaultMemoryMB = 4096
	defaultKill     = 2.0
	// killSlack is added to the hard deadline of very short limits: starting a process on a loaded host must fit.
	killSlack = 250 * time.Millisecond
	// pipeSlack is how long a dead child's pipes may stay open, held by something it started.
	pipeSlack = 200 * time.Millisecond
	// tolerance is the feasibility and integrality tolerance of every solution we hand out.
	tolerance = 1e-6
)

// Options say how children run. The zero value is ready to use.
type Options struct {
	// Exe is the executable to start, whose main calls MaybeChild; default: the running one.
	Exe string
	// TempDir is where each solve makes and removes its own folder; default: the system's.
	TempDir string
	// KillFactor times Limits.Time is the hard deadline, from outside, of the whole call; default 2. It never lies
	// less than a quarter of a second above the limit.
	KillFactor float64
	// Nice is added to the niceness of the child; default 0.
	Nice int
	// Once gives every solve a child of its own, so that what it used is on this process's account for finished children when the solve returns.
	Once bool

	env       []string      // tests: more environment for the child
	childTime time.Duration // tests: the limit told to the child instead of Limits.Time
}

// New returns a milp.Solver that runs HiGHS in a child process, which it asks again and again as long as all goes well: a solve that ended in
// anything but a checked optimum ends the child as well, and the next call starts another. The solver may be called concurrently; each call then has
// a child of its own. What a call returns does not depend on the calls before it. When the solver is no longer referenced, or the process ends, its
// children leave by themselves.
//
// Defaults of zero limits: 2 s, gap 0.001, no node limit, 4 GiB. Its errors wrap one of the errors above, or
// milp.ErrModel for a malformed model. The solution returned with an error has no X but may have a Bound.
func New(o Options) milp.Solver {
	solve, _ := Open(o)
	return solve
}

// Open is New with a way to end the children that wait for the next call, so that the processor time of all is that of finished children. A solver may be
// called after that, which starts a child again.
func Open(o Options) (solve milp.Solver, end func()) {
	if o.KillFactor < 1 {
		o.KillFactor = defaultKill
	}
	p := &pool{Options: o}
	return func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
		start := time.Now()
		sol, err := p.solve(ctx, m, withDefaults(lim))
		sol.Wall = time.Since(start)
		return sol, err
	}, p.end
}

func withDefaults(lim milp.Limits) milp.Limits {
	if lim.Time <= 0 {
		lim.Time = defaultTime
	}
	if lim.Gap <= 0 {
		lim.Gap = defaultGap
	}
	if lim.MemoryMB <= 0 {
		lim.MemoryMB = defaultMemoryMB
	}
	return lim
}
