package lease

import (
	"cmp"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// forecast plays a packed choice out over the coming units with a plain list scheduler: what runs goes on until it ends, SLO jobs without
// slack go first and may push out best-effort work, everybody else fills what is free in order of rank. It gives the Gantt, the
// expected starts and ends, and the slices that later rounds fall back on.
type forecast struct {
	in    *instance
	floor *floor
	tier  []int               // counted on, by job
	left  []float64           // units of work left at the best shape
	place []planner.Placement // where a job is now
	phi   []float64
	until []time.Time // end of a lease that may not be cut
	since []time.Time // begin of the current stay
	begun []time.Time
	ended []time.Time
	order []int
	full  []bool // options (by what they need) that found no hole in this slot: nothing gets free within one
	out   []planner.Lease
}

func (in *instance) unroll(p *planner.Plan, r packed) {
	n := len(in.jobs)
	f := &forecast{in: in, floor: newFloor(in), tier: make([]int, n), left: make([]float64, n), place: make([]planner.Placement, n),
		phi: make([]float64, n), until: make([]time.Time, n), since: make([]time.Time, n), begun: make([]time.Time, n), ended: make([]time.Time, n)}
	for ji := range in.jobs {
		f.seat(ji, p.Entries[ji])
	}
	f.order = in.order(func(j *job) [2]float64 {
		if j.alive {
			return [2]float64{0, j.laxity()}
		}
		return [2]float64{1, -j.density()}
	})
	t := in.s.Now
	for k := range in.cfg.Horizon {
		next := planner.LeaseEnd(t, in.s.Unit, 1)
		if k > 0 {
			f.slot(t)
		}
		f.work(t, next)
		t = next
	}
	for ji := range in.jobs {
		f.close(ji, t)
		p.Entries[ji].StartBy, p.Entries[ji].Finish = f.begun[ji], f.ended[ji]
	}
	slices.SortFunc(f.out, func(a, b planner.Lease) int { return cmp.Or(a.From.Compare(b.From), a.Run.Compare(b.Run)) })
	p.Leases = f.out
}

// seat puts a job where the decision says.
func (f *forecast) seat(ji int, e planner.Entry) {
	j := &f.in.jobs[ji]
	f.tier[ji], f.left[ji] = e.Tier, j.n
	if e.Decision == planner.Keep {
		f.left[ji] = max(0, j.n-j.ov)
	}
	if len(e.Placement) > 0 {
		f.sit(ji, e.Placement, f.in.s.Now, e.LeaseUntil)
	}
}

func (f *forecast) sit(ji int, p planner.Placement, at, until time.Time) {
	j := &f.in.jobs[ji]
	f.place[ji], f.since[ji], f.until[ji], f.phi[ji] = p, at, until, 1
	shape := p.Shape()
	if shape.Equal(j.curr.shape) {
		f.phi[ji] = j.curr.phi
	}
	for _, o := range j.opts {
		if o.shape.Equal(shape) {
			f.phi[ji] = o.phi
		}
	}
	if f.begun[ji].IsZero() {
		f.begun[ji] = at
	}
	f.floor.take(j, p, 1)
}

// rise takes a job off its nodes.
func (f *forecast) rise(ji int, at time.Time) {
	f.close(ji, at)
	f.floor.take(&f.in.jobs[ji], f.place[ji], -1)
	f.place[ji] = nil
}

// close writes the lease of a stay that ends.
func (f *forecast) close(ji int, at time.Time) {
	if len(f.place[ji]) > 0 && f.since[ji].Before(at) {
		f.out = append(f.out, planner.Lease{Run: f.in.jobs[ji].Run, From: f.since[ji], Until: at, Placement: f.place[ji]})
	}
}

// work lets every seated job run until next; those that end leave then.
func (f *forecast) work(t, next time.Time) {
	units := next.Sub(t).Seconds() / f.in.unit
	for ji := range f.in.jobs {
		if len(f.place[ji]) == 0 {
			continue
		}
		need := f.left[ji] / f.phi[ji]
		if need <= units && !f.in.jobs[ji].stuck() {
			f.ended[ji] = t.Add(time.Duration(need * float64(f.in.s.Unit)))
			f.left[ji] = 0
			f.rise(ji, next)
			continue
		}
		f.left[ji] = max(1e-6, f.left[ji]-units*f.phi[ji])
	}
}

// stuck reports a running job whose work left is not known: it never ends in a forecast.
func (j *job) stuck() bool { return j.n >= maxUnits/1000 }

// slot decides who runs from t on.
func (f *forecast) slot(t time.Time) {
	f.full = make([]bool, f.in.alike)
	now := t.Sub(f.in.s.Now).Seconds() / f.in.unit
	var urgent, rest []int
	for _, ji := range f.order {
		j := &f.in.jobs[ji]
		if len(f.place[ji]) > 0 || !f.ended[ji].IsZero() || j.idle != "" && j.idle != planner.ReasonLeaving || len(j.opts) == 0 {
			continue
		}
		if f.tier[ji] >= 0 && f.slack(ji, now) <= f.in.cfg.Guard {
			urgent = append(urgent, ji)
		} else {
			rest = append(rest, ji)
		}
	}
	slices.SortStableFunc(urgent, func(a, b int) int { return cmp.Compare(f.slack(a, now), f.slack(b, now)) })
	for _, ji := range urgent {
		if !f.try(ji, t) {
			f.push(ji, t)
		}
	}
	for _, ji := range rest {
		f.try(ji, t)
	}
}

func (f *forecast) slack(ji int, now float64) float64 {
	if f.tier[ji] < 0 {
		return math.Inf(1)
	}
	return f.in.jobs[ji].due[f.tier[ji]] - now - f.left[ji]
}

// try seats a waiting job on free nodes.
func (f *forecast) try(ji int, t time.Time) bool {
	j := &f.in.jobs[ji]
	for _, o := range j.opts {
		if f.full[o.like] {
			continue
		}
		if p, ok := f.floor.place(j, o); ok {
			units := 1
			if j.Class.SLO() {
				units = f.in.lead
			}
			f.sit(ji, p, t, planner.LeaseEnd(t, f.in.s.Unit, units))
			return true
		}
		f.full[o.like] = true
	}
	return false
}

// push makes room for an SLO job without slack: best-effort jobs leave, the worst paid first, until it fits; those that left in vain return.
func (f *forecast) push(ji int, t time.Time) {
	const tries = 16
	var pushed []int
	j := &f.in.jobs[ji]
	pool, gpus := j.opts[0].pool, 0
	for _, n := range f.in.pools[pool].nodes {
		gpus += max(0, f.floor.gpus[n])
	}
	tried := 0
	for k := len(f.order) - 1; k >= 0 && tried < tries; k-- {
		v := f.order[k]
		victim := &f.in.jobs[v]
		if len(f.place[v]) == 0 || f.tier[v] >= 0 || victim.Foreign || !victim.Preemptible || f.until[v].After(t) || !f.near(v, pool) {
			continue
		}
		pushed = append(pushed, v)
		f.floor.take(victim, f.place[v], -1)
		if gpus += f.place[v].GPUs(); gpus < j.opts[0].gpus {
			continue
		}
		tried++
		clear(f.full)
		if f.try(ji, t) {
			break
		}
	}
	for k := len(pushed) - 1; k >= 0; k-- {
		v := pushed[k]
		victim := &f.in.jobs[v]
		if f.floor.covers(victim, f.place[v]) {
			f.floor.take(victim, f.place[v], 1)
			continue
		}
		f.close(v, t)
		f.place[v] = nil
		f.left[v] = min(maxUnits, f.left[v]+victim.ov)
	}
}

// near reports whether a seated job holds a node of a pool.
func (f *forecast) near(ji, pool int) bool {
	for _, sh := range f.place[ji] {
		if i, ok := f.in.index[sh.Node]; ok && f.in.pools[pool].member[i] {
			return true
		}
	}
	return false
}
