package lease

import (
	"math"
	"slices"

	"unisched/planner"
	"unisched/planner/reward"
)

// The prefix rows of the model treat work as divisible, and a gang is not: on a cluster of two nodes, where one job is half of it, they count on
// deadlines that no schedule meets. On clusters this small one more candidate is made by playing out what the list scheduler, which all plans are played
// out by, makes of a set of deadlines: while one of them is late, the one that costs most work for its value, of those that cannot wait until then, is given up (Moore,
// "An n job, one machine sequencing algorithm for minimizing the number of late jobs", 1968, who has one machine and one value).

// Bounds of that search.
const (
	giveUpNodes = 4
	giveUpJobs  = 40
	giveUpPlays = 60 // play-outs of one round
	giveUpUnits = 96 // units of each
	// giveUpLeast is the part of the least tier by which the candidate has to meet more than the best of the others.
	giveUpLeast = 0.4
)

// giveUp is the search.
type giveUp struct {
	in    *instance
	open  [][]int // the tiers that a job can still meet, best first
	tiers []int   // counted on, by job; -1 none
	units int     // played
}

// hope is what a set of deadlines came to.
type hope struct {
	choice []int
	value  float64 // of the deadlines met
	late   []int   // jobs that miss what they were counted on to meet
}

// small reports whether the candidate is to be made: few nodes that all jobs may use alike, few jobs.
func (in *instance) small() bool {
	return len(in.pools) == 1 && len(in.pools[0].nodes) <= giveUpNodes && len(in.jobs) <= giveUpJobs && in.wake <= 0 &&
		!slices.ContainsFunc(in.jobs, func(j job) bool { return j.Foreign || j.Elastic })
}

// givenUp is the candidate, if it plays out better than the best of the others: its objective cannot be compared with theirs, which count on deadlines
// that are not met.
func (in *instance) givenUp(lead packed) (packed, bool) {
	g := &giveUp{in: in}
	least, all, last := g.count()
	g.units = min(int(last)+2, giveUpUnits)
	beat, _ := in.played(lead, g.units)
	if beat += giveUpLeast * least; all <= beat { // nothing to gain, or nobody has a deadline
		return packed{}, false
	}
	best := g.search()
	if best.value <= beat {
		return packed{}, false
	}
	r := in.pack("given-up", best.choice)
	met, _ := in.played(r, g.units)
	return r, met > beat
}

// count counts on everything: the least tier, all of them together, and the last deadline, in units.
func (g *giveUp) count() (least, all, last float64) {
	in := g.in
	g.open, g.tiers = make([][]int, len(in.jobs)), make([]int, len(in.jobs))
	least = math.Inf(1)
	for ji := range in.jobs {
		j := &in.jobs[ji]
		g.tiers[ji] = -1
		for t := range j.due {
			if j.alive && slices.ContainsFunc(j.cols, func(c column) bool { return c.tier == t }) {
				g.open[ji] = append(g.open[ji], t)
				least, last = min(least, g.value(ji, t)), max(last, j.due[t])
			}
		}
		if len(g.open[ji]) > 0 {
			g.tiers[ji] = g.open[ji][0]
			all += g.value(ji, g.tiers[ji])
		}
	}
	return least, all, last
}

// search gives up deadlines until all others are met, and then takes back each of those given up with which more is met.
func (g *giveUp) search() hope {
	best, n := g.play(), 1
	for now := best; len(now.late) > 0 && n < giveUpPlays && g.drop(now.late); n++ {
		if now = g.play(); now.value > best.value {
			best = now
		}
	}
	for ji, open := range g.open {
		was := g.tiers[ji]
		if len(open) == 0 || was == open[0] || n >= giveUpPlays {
			continue
		}
		g.tiers[ji] = open[0]
		n++
		if now := g.play(); now.value > best.value {
			best = now
		} else {
			g.tiers[ji] = was
		}
	}
	return best
}

// drop gives up, of the deadlines for which work cannot wait until the first that is late, the one that costs most work for its value; its job may have a
// later one. (In the order of deadlines it would be those up to it; the list scheduler goes by slack.)
func (g *giveUp) drop(late []int) bool {
	due := math.Inf(1)
	for _, ji := range late {
		due = min(due, g.in.jobs[ji].due[g.tiers[ji]])
	}
	worst, most := -1, 0.0
	for ji, t := range g.tiers {
		if t < 0 || g.in.jobs[ji].due[t]-g.in.jobs[ji].n >= due {
			continue
		}
		j := &g.in.jobs[ji]
		gpus := j.curr.gpus
		if len(j.opts) > 0 {
			gpus = j.opts[0].gpus
		}
		if cost := j.n * float64(gpus) / g.value(ji, t); worst < 0 || cost > most {
			worst, most = ji, cost
		}
	}
	if worst < 0 {
		return false
	}
	rest := g.open[worst][slices.Index(g.open[worst], g.tiers[worst])+1:]
	if g.tiers[worst] = -1; len(rest) > 0 {
		g.tiers[worst] = rest[0]
	}
	return true
}

// value is what played counts for a tier.
func (g *giveUp) value(ji, t int) float64 {
	j := &g.in.jobs[ji]
	return j.Tiers[t].Value * reward.Urgency(*j.Job)
}

// play plays the list scheduler from now on, with those deadlines.
func (g *giveUp) play() hope {
	in, f := g.in, g.in.forecast()
	for ji := range in.jobs {
		j := &in.jobs[ji]
		e := planner.Entry{Decision: planner.Wait, Tier: g.tiers[ji]}
		if j.State == planner.Running {
			e.Decision, e.Placement, e.LeaseUntil = planner.Keep, j.Current, in.s.Now
			if j.pinned != "" {
				e.LeaseUntil = in.leaseUntil(j)
			}
		}
		f.seat(ji, e)
	}
	f.rankAll()
	f.slot(in.s.Now)
	h := hope{choice: make([]int, len(in.jobs))}
	for ji := range in.jobs {
		e := in.listed(ji, f)
		e.Tier = g.tiers[ji]
		h.choice[ji] = in.columnOf(ji, e)
	}
	f.run(g.units)
	for ji := range in.jobs {
		j := &in.jobs[ji]
		met := len(j.Tiers)
		for t, tier := range j.Tiers {
			if j.alive && !f.ended[ji].IsZero() && !f.ended[ji].After(tier.At) {
				h.value += g.value(ji, t)
				met = t
				break
			}
		}
		if t := g.tiers[ji]; t >= 0 && met > t && j.due[t] < float64(g.units) {
			h.late = append(h.late, ji)
		}
	}
	return h
}
