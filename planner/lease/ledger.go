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

// newLedger starts from every job's base column.
func newLedger(in *instance) *ledger {
	l := *in.base // room, preCap and the accounts' bounds never change
	l.choice, l.use, l.free = slices.Clone(l.choice), slices.Clone(l.use), slices.Clone(l.free)
	l.need, l.offer, l.pre = cloneRows(l.need), cloneRows(l.offer), cloneRows(l.pre)
	l.accounts.use, l.accounts.pre = slices.Clone(l.accounts.use), cloneRows(l.accounts.pre)
	return &l
}

func cloneRows[T any](rows [][]T) [][]T {
	out := make([][]T, len(rows))
	for i := range rows {
		out[i] = slices.Clone(rows[i])
	}
	return out
}

// emptyLedger computes the rows of every job's base column. Rows that the base already breaks (kept jobs beyond a node's capacity) get the base as their
// bound.
func (in *instance) emptyLedger() *ledger {
	np := in.ruled
	l := &ledger{in: in, choice: make([]int, len(in.jobs)), use: make([]int, np), room: make([]int, np),
		free: make([]int, len(in.nodes)), accounts: newAccountBook(in)}
	for i, n := range in.nodes {
		l.free[i] = n.gpus
	}
	for p := range in.ruled {
		l.need = append(l.need, make([]int, len(in.sizes)))
		l.offer = append(l.offer, in.offers(p))
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
	in.alone(l)
	for p := range in.ruled {
		l.room[p] = max(in.pools[p].gpus, l.use[p])
		for k := range in.taus {
			l.preCap[p][k] = max(l.preCap[p][k], l.pre[p][k])
		}
	}
	return l
}

// alone lifts rows so that none refuses a deadline of a job which nobody else is in the way of: Rho keeps a part of the GPUs back, and a gang that takes
// nearly all of them cannot do with the rest. Of the ways to meet it the least demanding counts, so that waiting for longer is refused as before.
func (in *instance) alone(l *ledger) {
	for ji := range in.jobs {
		j := &in.jobs[ji]
		for t := range j.Tiers {
			var least *column
			for ci := range j.cols {
				c := &j.cols[ci]
				if c.tier == t && c.demand != nil && (least == nil || slices.Compare(c.demand, least.demand) < 0) {
					least = c
				}
			}
			if least == nil {
				continue
			}
			for _, p := range in.pools[least.pool].supers {
				if float64(least.gpus) <= in.cfg.Rho*float64(in.pools[p].gpus) {
					continue // it fits within the margin
				}
				for k, d := range least.demand {
					l.preCap[p][k] = max(l.preCap[p][k], d)
				}
			}
		}
	}
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

// demands computes the coefficients of all columns in all prefix rows.
func (in *instance) demands() {
	n := 0
	for ji := range in.jobs {
		for _, c := range in.jobs[ji].cols {
			if c.pool >= 0 && (c.tier >= 0 || c.holds) {
				n++
			}
		}
	}
	all := make([]float64, n*len(in.taus))
	for ji := range in.jobs {
		cols := in.jobs[ji].cols
		for ci := range cols {
			if c := &cols[ci]; c.pool >= 0 && (c.tier >= 0 || c.holds) {
				c.demand, all = all[:len(in.taus):len(in.taus)], all[len(in.taus):]
				for k, tau := range in.taus {
					c.demand[k] = in.demand(*c, tau)
				}
			}
		}
	}
}

// add books (sign 1) or unbooks (sign -1) a column.
func (l *ledger) add(ji, ci, sign int) {
	in, j := l.in, &l.in.jobs[ji]
	c := &j.cols[ci]
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
	if c.demand != nil {
		for _, p := range in.pools[c.pool].supers {
			pre := l.pre[p]
			for k, d := range c.demand {
				pre[k] += float64(sign) * d
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
