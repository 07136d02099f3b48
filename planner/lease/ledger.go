package lease

import (
	"slices"

	"unisched/planner"
	"unisched/planner/cell"
)

// ledger keeps the rows of the model for one choice of columns, without a solver: GPUs of this unit, blocks of every share
// size, prefix rows and the preemption budget. It is what the greedy candidates are built on.
type ledger struct {
	in     *instance
	choice []int // column per job
	// Per pool: GPUs used now, and their bound.
	use, room []int
	// Per pool and size: blocks that starts need, blocks that nodes offer.
	need, offer [][]int
	free        []int // per node, less what kept jobs hold
	// Per pool and tau: GPU-units of work due.
	pre, preCap [][]float64
	stops       int
	accounts    accountBook
}

// newLedger starts from every job's base column. Rows that the base already breaks (kept jobs beyond a node's capacity) get the base as their
// bound.
func newLedger(in *instance) *ledger {
	np := in.ruled
	l := &ledger{in: in, choice: make([]int, len(in.jobs)), use: make([]int, np), room: make([]int, np),
		free: make([]int, len(in.nodes)), accounts: newAccountBook(in)}
	for i, n := range in.nodes {
		l.free[i] = n.gpus
	}
	for p := range in.ruled {
		l.need = append(l.need, make([]int, len(in.sizes)))
		offer := make([]int, len(in.sizes))
		for _, n := range in.pools[p].nodes {
			for k, size := range in.sizes {
				offer[k] += cell.Blocks(l.free[n], size)
			}
		}
		l.offer = append(l.offer, offer)
		l.pre = append(l.pre, make([]float64, len(in.taus)))
		caps := make([]float64, len(in.taus))
		for k, tau := range in.taus {
			caps[k] = in.cfg.Rho * float64(in.pools[p].gpus) * (tau - float64(in.lead))
		}
		l.preCap = append(l.preCap, caps)
	}
	for j := range in.jobs {
		l.choice[j] = in.jobs[j].base
		l.add(j, in.jobs[j].base, 1)
	}
	l.accounts.lift()
	for p := range in.ruled {
		l.room[p] = max(in.pools[p].gpus, l.use[p])
		for k := range in.taus {
			l.preCap[p][k] = max(l.preCap[p][k], l.pre[p][k])
		}
	}
	return l
}

// demand is the coefficient of a column in the prefix row tau.
func (in *instance) demand(c column, tau float64) float64 {
	switch {
	case c.pool < 0:
		return 0
	case c.holds:
		return float64(c.gpus) * max(0, min(tau-float64(in.lead), c.left))
	case c.tier < 0:
		return 0
	}
	b := in.cfg
	due := max(0, (1+b.Beta)*c.left-max(0, c.due-b.Delta-tau))
	return float64(c.gpus) * max(0, min(tau-float64(in.lead), c.left, due))
}

// add books (sign 1) or unbooks (sign -1) a column.
func (l *ledger) add(ji, ci, sign int) {
	in, j := l.in, &l.in.jobs[ji]
	c := j.cols[ci]
	switch c.kind {
	case keep:
		for p, g := range j.curOn {
			l.use[p] += sign * g
		}
		for _, sh := range j.Current {
			if n, ok := in.index[sh.Node]; ok {
				l.hold(n, sign*sh.GPUs)
			}
		}
	case start:
		o := j.opts[c.opt]
		for _, p := range in.pools[o.pool].supers {
			l.use[p] += sign * o.gpus
			for k, size := range in.sizes {
				l.need[p][k] += sign * blocks(o.shape, size)
			}
		}
	}
	if j.State == planner.Running && j.pinned == "" && c.kind != keep {
		l.stops += sign
	}
	l.accounts.add(in, j, c, sign)
	if (c.tier >= 0 || c.holds) && c.pool >= 0 {
		for _, p := range in.pools[c.pool].supers {
			for k, tau := range in.taus {
				l.pre[p][k] += float64(sign) * in.demand(c, tau)
			}
		}
	}
}

// hold takes g GPUs of a node from, or gives them back to, the blocks on offer.
func (l *ledger) hold(n, g int) {
	before := l.free[n]
	l.free[n] -= g
	for p := range l.in.ruled {
		if l.in.pools[p].member[n] {
			for k, size := range l.in.sizes {
				l.offer[p][k] += cell.Blocks(l.free[n], size) - cell.Blocks(before, size)
			}
		}
	}
}

// blocks is the number of blocks of a size that a shape takes.
func blocks(s planner.Shape, size int) int {
	n := 0
	for _, g := range s {
		n += g / size
	}
	return n
}

// try changes a job's column if every row still holds; otherwise nothing changes.
func (l *ledger) try(ji, ci int) bool {
	old := l.choice[ji]
	if old == ci {
		return true
	}
	l.add(ji, old, -1)
	l.add(ji, ci, 1)
	if l.holds() {
		l.choice[ji] = ci
		return true
	}
	l.add(ji, ci, -1)
	l.add(ji, old, 1)
	return false
}

// holds reports whether every row holds. The budget is kept by the order in which candidates are filled, not here, since they start
// with all movable jobs stopped.
func (l *ledger) holds() bool {
	const tol = 1e-9
	for p := range l.in.ruled {
		if l.use[p] > l.room[p] {
			return false
		}
		for k := range l.in.sizes {
			if l.need[p][k] > max(0, l.offer[p][k]) {
				return false
			}
		}
		for k := range l.in.taus {
			if l.pre[p][k] > l.preCap[p][k]+tol {
				return false
			}
		}
	}
	return l.accounts.holds(l.in)
}

// objective is the sum of rewards of a choice.
func (in *instance) objective(choice []int) float64 {
	sum := 0.0
	for j, c := range choice {
		sum += in.jobs[j].cols[c].obj
	}
	return sum
}

// column finds a job's column, or -1.
func (j *job) column(k kind, opt, tier int) int {
	return slices.IndexFunc(j.cols, func(c column) bool { return c.kind == k && c.opt == opt && c.tier == tier })
}
