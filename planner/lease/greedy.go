package lease

import (
	"math"
	"slices"

	"unisched/planner/reward"
)

// order sorts jobs for a greedy candidate: less goes first, ties by Run.
func (in *instance) order(key func(*job) [2]float64) []int {
	return in.orderFrom(nil, func(ji int) [2]float64 { return key(&in.jobs[ji]) })
}

// orderFrom sorts jobs by keys that go by the job's index, starting from an order that is nearly the one asked for within each group, if the first keys are
// numbers of groups (0, 1, 2); nil: none is known. What comes out does not depend on it.
func (in *instance) orderFrom(known []int, key func(ji int) [2]float64) []int {
	n := len(in.jobs)
	if len(in.places) < 2*n {
		in.places = make([]place, 2*n)
	}
	list, spare := in.places[:0:n], in.places[n:2*n]
	for ji := range spare {
		spare[ji] = place{key(ji), ji}
	}
	for group := 0.; group < 3 && known != nil; group++ {
		for _, ji := range known {
			if spare[ji].key[0] == group {
				list = append(list, spare[ji])
			}
		}
	}
	if len(list) < n {
		list = append(list[:0], spare...)
	}
	out := make([]int, n)
	for i, p := range sortPlaces(list, spare) {
		out[i] = p.job
	}
	return out
}

// byLaxity is the order by laxity alone.
func (in *instance) byLaxity() []int {
	if in.laxities == nil {
		in.laxities = in.order(func(j *job) [2]float64 { return [2]float64{j.laxity()} })
	}
	return in.laxities
}

// byGain is the order by density, then laxity.
func (in *instance) byGain() []int {
	if in.gains == nil {
		in.gains = in.order(func(j *job) [2]float64 { return [2]float64{-j.density(), j.laxity()} })
	}
	return in.gains
}

// byClaim is all jobs with a deadline ahead by laxity, then the others by density: nearly the order of many lists.
func (in *instance) byClaim() []int {
	if in.claims == nil {
		in.claims = make([]int, 0, len(in.jobs))
		for _, ji := range in.byLaxity() {
			if !math.IsInf(in.jobs[ji].laxity(), 1) {
				in.claims = append(in.claims, ji)
			}
		}
		for _, ji := range in.byGain() {
			if math.IsInf(in.jobs[ji].laxity(), 1) {
				in.claims = append(in.claims, ji)
			}
		}
	}
	return in.claims
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
	return in.fill(in.orderFrom(in.byClaim(), func(ji int) [2]float64 {
		j := &in.jobs[ji]
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
