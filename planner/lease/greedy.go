package lease

import (
	"cmp"
	"math"
	"slices"

	"unisched/planner/reward"
)

// place is a job with its keys in an order.
type place struct {
	key [2]float64
	job int
}

// order sorts jobs for a greedy candidate: less goes first, ties by Run.
func (in *instance) order(key func(*job) [2]float64) []int {
	return in.orderBy(func(ji int) [2]float64 { return key(&in.jobs[ji]) })
}

// orderBy is order for keys that go by the job's index.
func (in *instance) orderBy(key func(ji int) [2]float64) []int {
	places := make([]place, len(in.jobs))
	for i := range in.jobs {
		places[i] = place{key(i), i}
	}
	slices.SortFunc(places, func(a, b place) int {
		for k := range a.key {
			switch x, y := a.key[k], b.key[k]; {
			case x < y:
				return -1
			case x > y:
				return 1
			case x != y: // one of them is no number
				return cmp.Compare(x, y)
			}
		}
		return a.job - b.job
	})
	out := make([]int, len(in.jobs))
	for i, p := range places {
		out[i] = p.job
	}
	return out
}

// laxity is the slack in units of the job's first open tier.
func (j *job) laxity() float64 { return j.slack }

// density is what running the job now earns per GPU, above waiting.
func (j *job) density() float64 { return j.gain }

// rate computes what orders ask for again and again, once the columns are known.
func (j *job) rate() {
	j.slack, j.gain = math.Inf(1), j.bestGain()
	for _, c := range j.cols {
		if c.tier >= 0 {
			j.slack = c.due - j.n
			break
		}
	}
	// Who is held back by others counts on no tier, but Slurm may be quicker than the next plan when they leave: the order it is given is that of the deadlines.
	if math.IsInf(j.slack, 1) && j.idle != "" && j.Class.SLO() && !j.Foreign {
		for t, due := range j.due {
			if good(j.Tiers[t].Value) && due >= j.n {
				j.slack = due - j.n
				break
			}
		}
	}
}

func (j *job) bestGain() float64 {
	best := 0.0
	for _, c := range j.cols {
		if c.kind != wait && c.tier < 0 && c.gpus > 0 {
			rest := 0.0
			if w := j.column(wait, -1, -1); w >= 0 {
				rest = j.cols[w].obj
			}
			best = max(best, (c.obj-rest)/float64(c.gpus))
		}
	}
	return best
}

// leastLaxity runs SLO jobs that can still meet a tier by slack, then the rest by reward per GPU.
func (in *instance) leastLaxity() []int {
	return in.fill(in.order(func(j *job) [2]float64 {
		if j.alive {
			return [2]float64{0, j.laxity() - 1e-6*reward.Urgency(*j.Job)}
		}
		return [2]float64{1, -j.density()}
	}))
}

// slackSRSF is shortest remaining service (time x GPUs) first, except that SLO jobs with less slack than the guard go before all.
func (in *instance) slackSRSF() []int {
	return in.fill(in.order(func(j *job) [2]float64 {
		gpus := j.curr.gpus
		if len(j.opts) > 0 {
			gpus = j.opts[0].gpus
		}
		if j.alive && j.laxity() <= in.cfg.Guard {
			return [2]float64{0, j.laxity()}
		}
		age := in.age(j)
		return [2]float64{1, j.n * float64(gpus) / (1 + age*float64(gpus))}
	}))
}

// fill walks jobs in order and gives each the best column that still fits: tiers from the best down, running before waiting, in place before
// anew, fast shapes before slow ones.
func (in *instance) fill(order []int) []int {
	l := newLedger(in)
	in.keepForBudget(l, order)
	for _, ji := range order {
		in.give(l, ji, l.choice[ji])
	}
	return l.choice
}

// give tries the job's columns in the order of preference; at is the column it must beat.
func (in *instance) give(l *ledger, ji, at int) {
	j := &in.jobs[ji]
	for _, ci := range j.preference() {
		if j.cols[ci].obj >= j.cols[at].obj && l.try(ji, ci) {
			return
		}
	}
}

// preference orders columns: tiers first (rising), then those without; within, keep, start by speed, wait.
func (j *job) preference() []int {
	if j.prefer == nil {
		j.prefer = j.byPreference()
	}
	return j.prefer
}

func (j *job) byPreference() []int {
	rank := func(c column) [3]int {
		tier, act := c.tier, 0
		if tier < 0 {
			tier = 1 << 20
		}
		switch c.kind {
		case start:
			act = 1
		case wait:
			act = 2
		}
		return [3]int{tier, act, c.opt}
	}
	out := make([]int, len(j.cols))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int {
		x, y := rank(j.cols[a]), rank(j.cols[b])
		return slices.Compare(x[:], y[:])
	})
	return out
}

// keepForBudget keeps as many running jobs as the preemption budget demands, best first.
func (in *instance) keepForBudget(l *ledger, order []int) {
	if !in.bounded {
		return
	}
	for _, ji := range order {
		if l.stops <= in.stopCap {
			return
		}
		j := &in.jobs[ji]
		if j.State == "running" && j.pinned == "" {
			if k := j.column(keep, -1, -1); k >= 0 {
				l.try(ji, k)
			}
		}
	}
}
