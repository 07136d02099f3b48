package lease

import (
	"slices"

	"unisched/planner"
)

// growGain is what a move onto free GPUs must save, in units of run time, beyond all it costs: estimates are no better than that.
const growGain = 1

// grow lets elastic jobs have the GPUs that nobody else takes: those that start, start on more; those that run on fewer move when that ends them
// sooner by more than a unit, checkpoint, resume and lost work included. The model cannot see this: it counts the work of one unit, and a move
// pays over all that is left. Nobody is hurt, since every waiting job that fits has its place already, and the lease is as short as any.
func (in *instance) grow(r packed) packed {
	any := slices.ContainsFunc(in.jobs, func(j job) bool { return j.Elastic && len(j.opts) > 1 })
	if !any {
		return r
	}
	g := r
	g.choice, g.places = slices.Clone(r.choice), slices.Clone(r.places)
	moved := g.stops(in)
	for _, ji := range g.byGain(in, func(j *job) bool { return j.Elastic && j.pinned == "" && j.idle == "" }) {
		j := &in.jobs[ji]
		c := j.cols[g.choice[ji]]
		now, finish := j.curr, 0.0
		switch c.kind {
		case wait:
			continue
		case keep:
			if in.bounded && moved >= in.stopCap {
				continue
			}
			finish = max(0, j.n-j.ov)/j.curr.phi - growGain - in.cfg.Latency.Seconds()/in.unit
		case start:
			now = j.opts[c.opt]
			finish = j.n / now.phi
		}
		if g.growTo(in, ji, now, finish) && c.kind == keep {
			moved++
		}
	}
	g.score(in)
	return g
}

// growTo gives the job the fastest of its wider shapes that is free and on which it finishes before so many units.
func (r *packed) growTo(in *instance, ji int, now option, finish float64) bool {
	j, at := &in.jobs[ji], r.places[ji]
	tier := j.cols[r.choice[ji]].tier
	r.floor.take(j, at, -1)
	for k, o := range j.opts {
		ci := j.column(start, k, tier)
		if ci < 0 || o.gpus <= now.gpus || o.phi <= now.phi || j.n/o.phi >= finish {
			continue
		}
		if p, ok := r.floor.place(j, in.hurried(j, o, tier)); ok {
			r.choice[ji], r.places[ji] = ci, p
			r.floor.take(j, p, 1)
			return true
		}
	}
	r.floor.take(j, at, 1)
	return false
}

// stops counts the running jobs that the candidate stops or moves.
func (r *packed) stops(in *instance) int {
	n := 0
	for ji := range in.jobs {
		if in.jobs[ji].State == planner.Running && in.jobs[ji].cols[r.choice[ji]].kind != keep {
			n++
		}
	}
	return n
}

// worthAColumn reports whether a shape is to be looked at beside those seen so far (GPUs and largest share of each), which are faster: as many as the
// site says, and of an elastic job the fastest of each GPU count, so that it finds a place however few GPUs are free.
func (in *instance) worthAColumn(j *job, s planner.Shape, seen [][2]int) bool {
	const most = 12 // whatever a job declares, the model stays small
	if slices.Contains(seen, [2]int{s.GPUs(), s[0]}) || len(seen) >= max(most, in.cfg.Shapes) {
		return false
	}
	newCount := !slices.ContainsFunc(seen, func(k [2]int) bool { return k[0] == s.GPUs() })
	return len(seen) < in.cfg.Shapes || j.Elastic && newCount
}
