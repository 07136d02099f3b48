package main

import (
	"context"
	"sync"
	"time"

	"unisched/planner/milp"
)

// pulse says whether the loop makes progress. Finished cycles are progress; within a cycle, so is work that somebody else does for it and that has a hard
// end of its own: a solver that runs within its limit, a request that Slurm is still allowed to answer (case 55). A loop that waits for
// anything else, or for longer, is stuck. All methods may be called from any goroutine.
type pulse struct {
	now func() time.Time
	// idle is how long nothing may happen, longest how long one cycle may take whatever it waits for.
	idle, longest time.Duration

	mu     sync.Mutex
	cycle  time.Time // end of the last cycle
	beat   time.Time // end of the last piece of work
	next   int
	within map[int]time.Time // the hard ends of work in progress
}

// longestCycle bounds a cycle of many slow calls: beyond it the daemon is better restarted.
const longestCycle = 20 * time.Minute

// newPulse makes one that begins alive. period is the watchdog's, poll the loop's.
func newPulse(now func() time.Time, period, poll time.Duration) *pulse {
	t := now()
	return &pulse{now: now, idle: period + 2*poll, longest: longestCycle, cycle: t, beat: t, within: map[int]time.Time{}}
}

// finished notes the end of a cycle.
func (p *pulse) finished() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cycle = p.now()
}

// work notes that something begins which ends within bound, and returns what to call at its end.
func (p *pulse) work(bound time.Duration) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id := p.next
	p.within[id] = p.now().Add(bound)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.within, id)
		p.beat = p.now()
	}
}

// alive reports whether there was progress of late.
func (p *pulse) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.cycle) <= p.idle {
		return true
	}
	if now.Sub(p.cycle) > p.longest {
		return false
	}
	for _, end := range p.within {
		if !now.After(end) {
			return true
		}
	}
	return now.Sub(p.beat) <= p.idle
}

// solver wraps a solver so that its runs count as work. It kills its child at twice the limit at the latest; what is on top is for starting the child and
// reading what it left.
func (p *pulse) solver(solve milp.Solver) milp.Solver {
	return func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
		end := p.work(2*lim.Time + 10*time.Second)
		defer end()
		return solve(ctx, m, lim)
	}
}
