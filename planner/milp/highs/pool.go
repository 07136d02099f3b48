package highs

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"unisched/planner/milp"
)

// maxIdle bounds the children that wait for the next request.
const maxIdle = 2

// pool owns the children of one solver.
type pool struct {
	Options
	mu   sync.Mutex
	idle []*child
}

// take returns a child that waits, or none.
func (p *pool) take() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

// give takes a child back, if there is room for it.
func (p *pool) give(c *child) {
	p.mu.Lock()
	room := len(p.idle) < maxIdle && !p.Once
	if room {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !room {
		c.discard()
	}
}

// end retires the children that wait.
func (p *pool) end() {
	for c := p.take(); c != nil; c = p.take() {
		c.discard()
	}
}

// solve has a child solve the model and judges what it says. A child that was asked before and dies without an answer proves nothing against the model:
// a fresh one is asked once more in what is left of the time.
func (p *pool) solve(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
	none := milp.Solution{Bound: math.Inf(1)}
	if err := m.Validate(); err != nil {
		return none, fmt.Errorf("highs: %w", err)
	}
	if m.Cols() == 0 { // the binding panics on it
		return milp.Solution{Status: milp.Optimal, X: []float64{}}, nil
	}
	if !available && p.Exe == "" {
		return none, fmt.Errorf("highs: %w", ErrUnavailable)
	}
	deadline := time.Now().Add(max(time.Duration(p.KillFactor*float64(lim.Time)), lim.Time+killSlack))
	told := lim
	if p.childTime > 0 {
		told.Time = p.childTime
	}
	req := request{Limits: told, Nice: p.Nice, Model: m}
	target := m
	if lim.Relax {
		relaxed := *m
		relaxed.Int = make([]bool, m.Cols())
		target = &relaxed
	}
	for c := p.take(); ; c = nil {
		known := c != nil
		if !known {
			var err error
			if c, err = p.start(ctx); err != nil {
				return none, err
			}
		}
		req.Asked = c.asked + 1
		fate := c.ask(ctx, deadline, encodeRequest(req), maxAnswer(m.Cols()))
		if known && c.gone() && !fate.killed && ctx.Err() == nil {
			c.discard()
			continue
		}
		if fate.startErr != nil {
			c.discard()
			return none, fmt.Errorf("highs: files: %w", fate.startErr)
		}
		sol, again, err := judge(target, lim, fate, func() remains {
			c.retire()
			return readRemains(c.left[0], c.left[1], m.Cols())
		})
		if again {
			p.give(c)
		} else {
			c.discard()
		}
		if err != nil {
			return sol, fmt.Errorf("highs: %w", err)
		}
		return sol, nil
	}
}

// start makes a new child.
func (p *pool) start(ctx context.Context) (*child, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("highs: %w: %w", ErrKilled, ctx.Err())
	}
	exe, err := p.executable()
	if err != nil {
		return nil, fmt.Errorf("highs: executable: %w", err)
	}
	c, err := spawn(exe, p.TempDir, p.env)
	if err != nil {
		return nil, fmt.Errorf("highs: start: %w: %w", ErrCrashed, err)
	}
	return c, nil
}

// executable returns the absolute path of the child's executable, since the child runs in another folder.
func (o Options) executable() (string, error) {
	if o.Exe != "" {
		return filepath.Abs(o.Exe)
	}
	return os.Executable()
}
