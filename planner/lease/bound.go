package lease

import (
	"math"

	"unisched/planner/cell"
)

// prune marks the columns that break a row even when nobody else does anything: no choice can hold them, since every column of another job only adds to
// what rows bound. In a round brought forward that is most starts. Jobs with one column left have no choice.
func (in *instance) prune() {
	in.base = in.emptyLedger()
	for ji := range in.jobs {
		j := &in.jobs[ji]
		j.live = 0
		for ci := range j.cols {
			c := &j.cols[ci]
			c.rank = -1
			if ci == j.base || len(j.cols) == 1 || in.base.bears(j, ci) {
				c.rank = int32(j.live)
				j.live++
			}
		}
	}
}

// bears reports whether a job could change from its base to this column with all others at theirs.
func (l *ledger) bears(j *job, ci int) bool {
	const tol = 1e-9
	in, c, base := l.in, &j.cols[ci], &j.cols[j.base]
	if c.kind == start {
		o := j.opts[c.opt]
		for _, p := range in.pools[o.pool].supers {
			if l.use[p]+o.gpus > l.room[p] {
				return false
			}
			for k, size := range in.sizes {
				if n := blocks(o.shape, size); n > 0 && l.need[p][k]+n > max(0, l.offer[p][k]) {
					return false
				}
			}
		}
	}
	if c.kind == keep && base.kind != keep {
		for p, g := range j.curOn {
			if l.use[p]+g > l.room[p] {
				return false
			}
		}
	}
	if c.demand != nil && base.demand == nil {
		for _, p := range in.pools[c.pool].supers {
			for k, d := range c.demand {
				if l.pre[p][k]+d > l.preCap[p][k]+tol {
					return false
				}
			}
		}
	}
	return true
}

// ceiling bounds what any choice can earn, from one row alone: the GPUs of a pool with rows at the price that fits best, for the pool that bounds best. Where
// only GPUs are scarce it is as good as the relaxation's bound and costs a hundredth.
func (in *instance) ceiling() float64 {
	if in.capped {
		return in.cap
	}
	in.capped, in.cap = true, in.priced(-1, 0)
	for p := range min(in.ruled, 4) {
		lo, hi := 0.0, 0.0
		for ji := range in.jobs {
			j := &in.jobs[ji]
			for ci := range j.cols {
				if c := &j.cols[ci]; c.rank >= 0 {
					if g := in.takes(j, c, p); g > 0 {
						hi = max(hi, (c.obj-j.cols[j.base].obj)/float64(g))
					}
				}
			}
		}
		for range 48 {
			price := (lo + hi) / 2
			if in.excess(p, price) > 0 {
				lo = price
			} else {
				hi = price
			}
		}
		in.cap = min(in.cap, in.priced(p, hi), in.priced(p, lo))
	}
	return in.cap
}

// takes is what a column uses of a pool's GPUs now.
func (in *instance) takes(j *job, c *column, p int) int {
	switch c.kind {
	case keep:
		return j.curOn[p]
	case start:
		if in.contains(p, j.opts[c.opt].pool) {
			return c.gpus
		}
	}
	return 0
}

// best is the column that earns most when the GPUs of a pool (none: -1) have a price; among equals the one that takes least.
func (in *instance) best(j *job, p int, price float64) (net float64, gpus int) {
	net, gpus = math.Inf(-1), 0
	for ci := range j.cols {
		c := &j.cols[ci]
		if c.rank < 0 {
			continue
		}
		g := 0
		if p >= 0 {
			g = in.takes(j, c, p)
		}
		if v := c.obj - price*float64(g); v > net || v == net && g < gpus {
			net, gpus = v, g
		}
	}
	return net, gpus
}

// priced is the bound at one price: what the GPUs are worth, and what every job earns beyond what it pays.
func (in *instance) priced(p int, price float64) float64 {
	sum := 0.0
	if p >= 0 {
		sum = price * float64(in.base.room[p])
	}
	for ji := range in.jobs {
		net, _ := in.best(&in.jobs[ji], p, price)
		sum += net
	}
	return sum
}

// excess is how many GPUs of a pool more are wanted at a price than there are.
func (in *instance) excess(p int, price float64) int {
	n := -in.base.room[p]
	for ji := range in.jobs {
		_, g := in.best(&in.jobs[ji], p, price)
		n += g
	}
	return n
}

// proven reports that a candidate is as good as any other can be, but for a tenth of the gap of one best-effort job: a wider margin, once it is met round
// after round, makes those jobs wait.
func (in *instance) proven(r packed) bool { return in.ceiling()-r.obj <= in.cfg.Limits.Gap/10 }

// beside is what a choice earns besides the deadlines it counts on.
func (in *instance) beside(choice []int) float64 {
	rest := 0.0
	for ji := range in.jobs {
		c := &in.jobs[ji].cols[choice[ji]]
		rest += math.Abs(c.obj - c.slo)
	}
	return rest
}

// offers counts the blocks of every size that a pool's nodes offer with nobody on them.
func (in *instance) offers(p int) []int {
	offer := make([]int, len(in.sizes))
	for _, n := range in.pools[p].nodes {
		for k, size := range in.sizes {
			offer[k] += cell.Blocks(in.nodes[n].gpus, size)
		}
	}
	return offer
}
