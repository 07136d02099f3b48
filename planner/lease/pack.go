package lease

import (
	"cmp"
	"slices"

	"unisched/planner"
)

// packed is a candidate with real placements: what is done with every job, and what it earns.
type packed struct {
	name   string
	choice []int
	places []planner.Placement
	floor  *floor
	obj    float64
	met    int
	// homeless marks jobs that the candidate started but no hole was found for, misfits those and the ones that had to take another shape.
	homeless []bool
	misfits  []int
	// raced names the foreign job that would take GPUs that a start counted on, by job.
	raced map[int]planner.Run // lookup only
	note  string
}

// pack turns a choice of columns into placements: kept jobs stay, starts go biggest first, then nobody is stopped in vain, then free GPUs go to
// whoever earns most with them.
func (in *instance) pack(name string, choice []int) packed {
	r := packed{name: name, choice: slices.Clone(choice), places: make([]planner.Placement, len(in.jobs)), floor: newFloor(in),
		homeless: make([]bool, len(in.jobs))}
	var starts []int
	for ji := range in.jobs {
		switch in.jobs[ji].cols[choice[ji]].kind {
		case keep:
			r.keep(in, ji)
		case start:
			starts = append(starts, ji)
		}
	}
	slices.SortStableFunc(starts, func(a, b int) int {
		x, y := in.jobs[a].opts[in.jobs[a].cols[choice[a]].opt], in.jobs[b].opts[in.jobs[b].cols[choice[b]].opt]
		return cmp.Or(cmp.Compare(y.shape[0], x.shape[0]), cmp.Compare(y.gpus, x.gpus),
			cmp.Compare(in.jobs[a].laxity(), in.jobs[b].laxity()), cmp.Compare(a, b))
	})
	r.seat(in, starts)
	r.reprieve(in)
	r.yieldToForeign(in)
	r.reprieve(in)
	r.stayPut(in)
	r.obeyBudget(in)
	r.obeyQuotas(in)
	r.reprieve(in) // those who were to go for starts that were taken back
	r.fillFree(in)
	r.score(in)
	return r
}

func (r *packed) keep(in *instance, ji int) {
	r.places[ji] = in.jobs[ji].Current
	r.floor.take(&in.jobs[ji], in.jobs[ji].Current, 1)
}

// seat places all starts with the shapes chosen: greedily, then by search; failing that, whoever finds no hole takes another shape or waits.
func (r *packed) seat(in *instance, starts []int) {
	opt := func(ji int) option {
		c := in.jobs[ji].cols[r.choice[ji]]
		return in.hurried(&in.jobs[ji], in.jobs[ji].opts[c.opt], c.tier)
	}
	placed := 0
	for _, ji := range starts {
		p, ok := r.floor.place(&in.jobs[ji], opt(ji))
		if !ok || slices.Equal(p, in.jobs[ji].Current) {
			break
		}
		r.places[ji] = p
		r.floor.take(&in.jobs[ji], p, 1)
		placed++
	}
	if placed == len(starts) {
		return
	}
	for _, ji := range starts[:placed] {
		r.floor.take(&in.jobs[ji], r.places[ji], -1)
		r.places[ji] = nil
	}
	if found, ok := r.floor.fitAll(starts, opt); ok {
		for k, ji := range starts {
			r.places[ji] = found[k]
			r.floor.take(&in.jobs[ji], found[k], 1)
		}
		return
	}
	for _, ji := range starts {
		if was := r.choice[ji]; !r.start(in, ji) {
			r.homeless[ji] = true
			r.misfits = append(r.misfits, ji)
			r.demote(in, ji)
		} else if was != r.choice[ji] {
			r.misfits = append(r.misfits, ji)
		}
	}
}

// start places a job with its column's shape, else with another that still meets the same tier.
func (r *packed) start(in *instance, ji int) bool {
	j := &in.jobs[ji]
	c := j.cols[r.choice[ji]]
	for k := -1; k < len(j.opts); k++ {
		opt := k
		if k < 0 {
			opt = c.opt
		} else if k == c.opt {
			continue
		}
		ci := j.column(start, opt, c.tier)
		if ci < 0 {
			continue
		}
		if p, ok := r.floor.place(j, in.hurried(j, j.opts[opt], c.tier)); ok && !slices.Equal(p, j.Current) {
			r.choice[ji], r.places[ji] = ci, p
			r.floor.take(j, p, 1)
			return true
		}
	}
	return false
}

// demote takes a start back: the job waits, with the best tier, not above the one counted on, that waiting still meets.
func (r *packed) demote(in *instance, ji int) {
	j := &in.jobs[ji]
	r.places[ji] = nil
	tier, to := j.cols[r.choice[ji]].tier, j.column(wait, -1, -1)
	for t := tier; t >= 0 && t < len(j.Tiers); t++ {
		if ci := j.column(wait, -1, t); ci >= 0 {
			to = ci
			break
		}
	}
	r.choice[ji] = to
}

// reprieve keeps stopped jobs whose GPUs nobody took, best first: there are no victims in vain.
func (r *packed) reprieve(in *instance) {
	for _, ji := range r.byGain(in, func(j *job) bool { return j.State == planner.Running }) {
		j := &in.jobs[ji]
		if j.cols[r.choice[ji]].kind == wait && r.floor.mayStay(j) {
			ci := j.column(keep, -1, j.cols[r.choice[ji]].tier)
			if ci < 0 {
				ci = j.column(keep, -1, -1)
			}
			r.choice[ji] = ci
			r.keep(in, ji)
		}
	}
}

// obeyBudget keeps stopped jobs, best first, until no more are stopped than may be; starts on their nodes are taken back. Candidates keep the
// budget by themselves unless the snapshot holds more than its nodes do.
func (r *packed) obeyBudget(in *instance) {
	if !in.bounded {
		return
	}
	var stopped []int
	for _, ji := range r.byGain(in, func(j *job) bool { return j.State == planner.Running }) {
		if in.jobs[ji].cols[r.choice[ji]].kind != keep {
			stopped = append(stopped, ji)
		}
	}
	for len(stopped) > in.stopCap {
		ji := stopped[0]
		stopped = stopped[1:]
		if len(r.places[ji]) > 0 { // a move
			r.floor.take(&in.jobs[ji], r.places[ji], -1)
			r.demote(in, ji)
		}
		for other := range in.jobs {
			if o := &in.jobs[other]; o.cols[r.choice[other]].kind == start && meet(r.places[other], in.jobs[ji].Current) {
				r.floor.take(o, r.places[other], -1)
				r.demote(in, other)
			}
		}
		r.choice[ji] = in.jobs[ji].column(keep, -1, -1)
		r.keep(in, ji)
	}
}

// fillFree starts waiting jobs on GPUs that are left.
func (r *packed) fillFree(in *instance) {
	full := make([]bool, in.alike) // options that found no hole: nothing gets free in here
	for _, ji := range r.byGain(in, func(j *job) bool { return j.State == planner.Waiting }) {
		j := &in.jobs[ji]
		if c := j.cols[r.choice[ji]]; c.kind != wait || j.idle != "" {
			continue
		}
		tier := j.cols[r.choice[ji]].tier
		for k := range j.opts {
			ci := j.column(start, k, tier)
			if ci < 0 {
				ci = j.column(start, k, -1)
			}
			if ci < 0 || j.cols[ci].obj < j.cols[r.choice[ji]].obj {
				continue
			}
			if full[j.opts[k].like] || !r.floor.within(j, j.opts[k].gpus) {
				continue
			}
			o := in.hurried(j, j.opts[k], j.cols[ci].tier)
			if p, ok := r.floor.place(j, o); ok {
				r.choice[ji], r.places[ji] = ci, p
				r.floor.take(j, p, 1)
				break
			}
			full[o.like] = full[o.like] || !o.awake
		}
	}
}

// byGain orders the jobs that pass by density, then laxity.
func (r *packed) byGain(in *instance, pass func(*job) bool) []int {
	out := make([]int, 0, len(in.jobs))
	for _, ji := range in.byGain() {
		if pass(&in.jobs[ji]) {
			out = append(out, ji)
		}
	}
	return out
}

// score counts what the packed choice earns and how many jobs count on a tier.
func (r *packed) score(in *instance) {
	r.obj, r.met = in.objective(r.choice), 0
	for ji, c := range r.choice {
		if in.jobs[ji].cols[c].tier >= 0 {
			r.met++
		}
	}
}
