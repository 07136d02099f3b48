package lease

import (
	"unisched/planner"
	"unisched/planner/reward"
)

// way is a column without its tier: what is done with the job, and when it would finish at the earliest.
type way struct {
	kind   kind
	opt    int
	phi    float64
	gpus   int
	pool   int
	finish float64 // units from now
	left   float64 // units left after this lease
}

// ways lists what can be done with a job: wait, keep, start with each option.
func (in *instance) ways(j *job) []way {
	var ws []way
	lease := 1.0
	if j.Class.SLO() {
		lease = float64(in.lead)
	}
	latency := in.cfg.Latency.Seconds() / in.unit
	run := func(k kind, opt int, phi, work float64, gpus, pool int) {
		l := lease
		finish := work / phi
		left := finish
		if k == start {
			finish += latency
		}
		if in.s.MidLease(j.Job) || finish <= 1 {
			l = 1
		}
		ws = append(ws, way{k, opt, phi, gpus, pool, finish, max(0, left-l)})
	}
	if j.State == planner.Running {
		run(keep, -1, j.curr.phi, max(0, j.n-j.ov), j.curr.gpus, in.homePool(j))
	}
	if j.idle == "" && j.pinned == "" {
		moves := in.worthMoving(j)
		for i, o := range j.opts {
			same := o.shape.Equal(j.curr.shape)
			if j.State == planner.Waiting || moves && !same || j.shifts && same {
				run(start, i, o.phi, j.n, o.gpus, o.pool)
			}
		}
	}
	if j.pinned == "" {
		w := way{kind: wait, opt: -1, phi: 1, pool: -1, finish: 1 + latency + j.n, left: j.n}
		if len(j.opts) > 0 {
			w.gpus, w.pool = j.opts[0].gpus, j.opts[0].pool
		} else if j.State == planner.Running {
			w.gpus, w.pool = j.curr.gpus, in.homePool(j)
		}
		ws = append(ws, w)
	}
	return ws
}

// worthMoving reports whether a running job could gain enough by moving for moves to be in the model at all.
func (in *instance) worthMoving(j *job) bool {
	return j.State == planner.Running && j.Blocked == "" && (j.curr.phi < 0.9 || j.Elastic) && j.n > 2 // an elastic job may also give GPUs away
}

// homePool is the pool of a running job's nodes, -1 when it runs outside all of its pools.
func (in *instance) homePool(j *job) int {
	for _, o := range j.opts {
		inside := 0
		for _, sh := range j.Current {
			if i, ok := in.index[sh.Node]; ok && in.pools[o.pool].member[i] {
				inside += sh.GPUs
			}
		}
		if inside == j.curr.gpus {
			return o.pool
		}
	}
	return -1
}

// columns builds a job's columns: each way with each of the first tiers that it can still meet, and without a tier.
func (in *instance) columns(j *job) {
	ws := in.ways(j)
	var tiers []int
	// A job that is held back by somebody else claims nothing of the future; one that is only leaving does.
	if j.Class.SLO() && !j.Foreign && (j.idle == "" || j.idle == planner.ReasonLeaving) {
		most := 4
		if in.large() { // keeps the model small
			most = 2
		}
		tiers = in.openTiers(j, ws, most)
	}
	j.alive = len(tiers) > 0
	j.base = -1
	for _, w := range ws {
		earn, holds := in.earn(j, w), w.kind != wait && (j.Foreign || !j.Preemptible)
		for _, t := range tiers {
			if in.mayMeet(j, w, j.due[t]) {
				value := reward.Urgency(*j.Job) * j.reaches() * in.cfg.Reward.Tier(j.Tiers[t].Value)
				j.cols = append(j.cols, column{w.kind, w.opt, t, value*in.trust(j, w, t) + earn, value, w.gpus, w.pool, w.left, j.due[t], holds, nil, 0})
			}
		}
		if w.kind == wait || j.pinned != "" && w.kind == keep {
			j.base = len(j.cols)
		}
		if in.large() && w.kind == start && len(tiers) > 0 && !j.opts[w.opt].shape.Equal(j.opts[0].shape) {
			continue // who counts on no tier may take its best shape; the packer knows the others
		}
		j.cols = append(j.cols, column{w.kind, w.opt, -1, earn, 0, w.gpus, w.pool, w.left, 0, holds, nil, 0})
	}
	if len(j.cols) == 0 { // a job without any way waits
		j.base, j.cols = 0, []column{{kind: wait, opt: -1, tier: -1, pool: -1}}
	}
}

// large reports an instance whose model is kept smaller by leaving out what hardly ever decides.
func (in *instance) large() bool { return len(in.jobs) > 1500 }

// trust is how much of a tier's value can be counted on: the chance that the job meets it when its work takes longer or shorter than estimated by the usual
// luck of a run, and what the later tiers are still worth when it does not. A plan that waits until the last moment loses half of its deadlines, and
// best-effort work that could have waited was only put ahead.
func (in *instance) trust(j *job, w way, t int) float64 {
	sum, met := 0.0, 0.0
	for k := t; k < len(j.due) && good(j.Tiers[k].Value); k++ {
		p := in.chance(j, w, j.due[k])
		sum += max(0, p-met) * j.Tiers[k].Value
		met = max(met, p)
	}
	return min(1, sum/j.Tiers[t].Value)
}

// mayMeet reports whether a deadline can be counted on at all, for what it is worth with its chance: a job that is expected a little late is not given up for it.
func (in *instance) mayMeet(j *job, w way, due float64) bool {
	return w.finish <= due || in.chance(j, w, due) >= leastChance
}

// leastChance is the least chance of meeting a deadline for which it is still counted on.
const leastChance = 0.1

// riskUnits is the part of a job's risk that does not depend on its length, as a length in units: starts that are late, rounds that are skipped.
const riskUnits = 6

// openTiers are the first tiers (by index, so many at most) that some way meets and that are worth something.
func (in *instance) openTiers(j *job, ws []way, most int) []int {
	var open []int
	for t, due := range j.due {
		if len(open) == most {
			break
		}
		if !good(j.Tiers[t].Value) || j.Tiers[t].Value > 1e6 {
			continue
		}
		for _, w := range ws {
			if in.mayMeet(j, w, due) {
				open = append(open, t)
				break
			}
		}
	}
	return open
}

// reaches is the probability that the job ends as its user wants it to; what it earns by ending counts only with it. Nothing known: 1.
func (j *job) reaches() float64 {
	if p := j.Estimate.Reaches; p > 0 && p < 1 && !j.Foreign {
		return p
	}
	return 1
}

// earn is the reward of a way besides deadlines: work done in this unit as a part of what is left, ageing, and for a job that is kept the
// cost of the suspension that it is spared.
func (in *instance) earn(j *job, w way) float64 {
	if w.kind == wait {
		return 0
	}
	r, weight := in.cfg.Reward, reward.Claim(*j.Job)
	done, saved := reward.Done(j.n, 1, w.phi)*j.reaches(), 0.0
	if w.kind == keep {
		saved = reward.Saved(j.n, j.ov)
	}
	least := w.gpus
	for _, o := range j.opts {
		least = min(least, o.gpus)
	}
	age := in.age(j) * float64(least)
	if j.Unmeasured { // its first lease is its profile
		waited := j.waited(in.s.Now).Seconds() / in.unit
		asProfile := weight * (r.Profile + saved + r.Age(planner.Profiler, waited, j.n)*float64(least))
		plain := *j.Job
		plain.Unmeasured = false
		own := *j
		own.Job = &plain
		return max(asProfile, in.earn(&own, w))
	}
	switch {
	case j.Class == planner.Profiler && !j.Foreign:
		return weight*(r.Profile+saved) + age
	case !j.Class.SLO() || j.Foreign:
		return weight*(done+saved) + age
	case j.alive:
		return weight * (r.Filler*done + r.Stickiness*saved)
	}
	return weight*(r.Late*done+saved) + r.Late*age
}
