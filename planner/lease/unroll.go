package lease

import (
	"cmp"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// forecast plays a packed choice out over the coming units with a plain list scheduler: SLO jobs by slack, then what runs, then the rest
// by rank. It gives the Gantt, the expected starts and ends, and the slices that later rounds fall back on.
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
	order []claim // who may still want GPUs, by rank; the key is that of the slot at hand
	woken []bool  // nodes that were asleep and have been started on
	full  []bool  // options (by what they need) that found no hole in this slot: nothing gets free within one
	nodes [][]int // of place, -1 for one that is not in the snapshot
	fixed []bool  // jobs that may not be moved once they sit
	idle  []bool  // jobs that may only wait, for another reason than that they are leaving
	queue []claim // of the slot at hand
	// memory is where nodes are kept.
	memory []int
	// classes is memory of sort: the queue by class.
	classes [4][]claim
	out     []planner.Lease
	// key, when set, orders a slot instead of claim.
	key func(ji int, now time.Time) float64
}

func (in *instance) unroll(p *planner.Plan) {
	f := in.play(p.Entries, in.cfg.Horizon)
	for ji := range in.jobs {
		p.Entries[ji].StartBy, p.Entries[ji].Finish = f.begun[ji], f.ended[ji]
	}
	slices.SortFunc(f.out, func(a, b planner.Lease) int {
		if c := a.From.Compare(b.From); c != 0 {
			return c
		}
		return a.Run.Compare(b.Run)
	})
	p.Leases = f.out
}

// maxPlayedUnits bounds PlayOut: about 35 days of 5-minute units.
const maxPlayedUnits = 10000

// PlayOut plays a plan out to the end with the list scheduler that unrolls plans, as if no other decision were ever made and all estimates were
// true, and returns when each job would finish, by entry (zero: never, or not within some weeks). It measures what a plan's choice of tiers is
// worth.
func PlayOut(s planner.Snapshot, p planner.Plan, cfg Config) []time.Time {
	in := newInstance(s, cfg.filled())
	if len(p.Entries) != len(in.jobs) {
		return make([]time.Time, len(in.jobs))
	}
	return in.play(p.Entries, maxPlayedUnits).ended
}

// claim is a job that wants GPUs in a slot; less goes first, then who was earlier in the order.
type claim struct {
	key      float64
	rank, ji int
}

// forecast is an empty play-out.
func (in *instance) forecast() *forecast {
	n := len(in.jobs)
	f := &forecast{in: in, floor: newFloor(in), woken: make([]bool, len(in.nodes)), tier: make([]int, n), left: make([]float64, n), place: make([]planner.Placement, n),
		phi: make([]float64, n), until: make([]time.Time, n), since: make([]time.Time, n), begun: make([]time.Time, n), ended: make([]time.Time, n), nodes: make([][]int, n),
		fixed: make([]bool, n), idle: make([]bool, n), full: make([]bool, in.alike)}
	for ji := range in.jobs {
		j := &in.jobs[ji]
		f.fixed[ji] = j.Foreign || !j.Preemptible
		f.idle[ji] = j.idle != "" && j.idle != planner.ReasonLeaving
	}
	return f
}

// play runs the list scheduler for so many units, or until nobody is left.
func (in *instance) play(entries []planner.Entry, units int) *forecast {
	f := in.forecast()
	for ji := range in.jobs {
		f.seat(ji, entries[ji])
	}
	f.order = make([]claim, 0, len(in.jobs))
	for rank, ji := range in.orderFrom(in.byClaim(), func(ji int) [2]float64 {
		j := &in.jobs[ji]
		if j.counted {
			return [2]float64{0, j.laxity()}
		}
		return [2]float64{1, -j.density()}
	}) {
		f.order = append(f.order, claim{rank: rank, ji: ji})
	}
	f.run(units)
	return f
}

// run plays from the first slot on, which is already seated, for so many units or until nobody is left.
func (f *forecast) run(units int) {
	t := f.in.s.Now
	for k := range units {
		next := planner.LeaseEnd(t, f.in.s.Unit, 1)
		if k > 0 {
			f.slot(t)
		}
		if !f.work(t, next) && k > 0 {
			break // nobody runs, nobody will
		}
		t = next
	}
	for ji := range f.in.jobs {
		f.close(ji, t)
	}
}

// seat puts a job where the decision says.
func (f *forecast) seat(ji int, e planner.Entry) {
	j := &f.in.jobs[ji]
	f.tier[ji], f.left[ji], j.counted = -1, j.n, false
	if e.Tier >= 0 && e.Tier < len(j.due) {
		f.tier[ji], j.counted = e.Tier, true
	}
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
	if p.Has(j.curr.shape) {
		f.phi[ji] = j.curr.phi
	}
	for k := range j.opts {
		if o := &j.opts[k]; p.Has(o.shape) {
			f.phi[ji] = o.phi
		}
	}
	if f.begun[ji].IsZero() {
		f.begun[ji] = at
	}
	from := len(f.memory)
	for _, sh := range p {
		i, ok := f.in.index[sh.Node]
		if !ok {
			i = -1
		}
		f.memory = append(f.memory, i)
	}
	f.nodes[ji] = f.memory[from:len(f.memory):len(f.memory)]
	f.rouse(ji, p)
	f.book(ji, 1)
}

// book takes (sign 1) or gives back (-1) what a job holds.
func (f *forecast) book(ji, sign int) {
	if j := &f.in.jobs[ji]; j.quota >= 0 {
		f.floor.quota[j.quota] -= sign * f.place[ji].GPUs()
	}
	for k, i := range f.nodes[ji] {
		if i >= 0 {
			f.floor.book(&f.in.jobs[ji], i, f.place[ji][k].GPUs, sign)
		}
	}
}

// stays reports whether a job still fits where it was, on usable nodes or not.
func (f *forecast) stays(ji int) bool {
	if !f.floor.within(&f.in.jobs[ji], f.place[ji].GPUs()) {
		return false
	}
	for k, i := range f.nodes[ji] {
		if i >= 0 && !f.floor.fitsOn(&f.in.jobs[ji], i, f.place[ji][k].GPUs) {
			return false
		}
	}
	return true
}

// rise takes a job off its nodes.
func (f *forecast) rise(ji int, at time.Time) {
	f.close(ji, at)
	f.book(ji, -1)
	f.place[ji] = nil
}

// close writes the lease of a stay that ends.
func (f *forecast) close(ji int, at time.Time) {
	if len(f.place[ji]) > 0 && f.since[ji].Before(at) {
		f.out = append(f.out, planner.Lease{Run: f.in.jobs[ji].Run, From: f.since[ji], Until: at, Placement: f.place[ji]})
	}
}

// work lets every seated job run until next; those that end leave then. It reports whether anybody ran.
func (f *forecast) work(t, next time.Time) bool {
	ran := false
	units := next.Sub(t).Seconds() / f.in.unit
	for ji := range f.in.jobs {
		if len(f.place[ji]) == 0 {
			continue
		}
		ran = true
		need := f.left[ji] / f.phi[ji]
		if need <= units && !f.in.jobs[ji].stuck() {
			f.ended[ji] = t.Add(time.Duration(need * float64(f.in.s.Unit)))
			f.left[ji] = 0
			f.rise(ji, next)
			continue
		}
		f.left[ji] = max(1e-6, f.left[ji]-units*f.phi[ji])
	}
	return ran
}

// stuck reports a running job whose work left is not known: it never ends in a forecast.
func (j *job) stuck() bool { return j.n >= maxUnits/1000 }

// slot decides who runs from t on. Whoever may be moved gets up; then jobs sit down again in the order of claim, in place when nobody with a
// better claim took it. Those who come before everybody that waits find their places as they left them, and need not get up.
func (f *forecast) slot(t time.Time) {
	clear(f.full)
	now := t.Sub(f.in.s.Now).Seconds() / f.in.unit
	first := f.line(t, now)
	if f.floor.sound() {
		f.queue = slices.DeleteFunc(f.queue, func(c claim) bool { return c.key < first && len(f.place[c.ji]) > 0 })
	}
	if len(f.queue) == 0 {
		return
	}
	for _, c := range f.queue {
		if len(f.place[c.ji]) > 0 {
			f.book(c.ji, -1)
		}
	}
	f.sort()
	f.sitAgain(t)
}

// sitAgain seats the queue in its order: in place where that is still free, else anew.
func (f *forecast) sitAgain(t time.Time) {
	for _, c := range f.queue {
		ji := c.ji
		if len(f.place[ji]) > 0 {
			if f.stays(ji) {
				f.book(ji, 1)
				continue
			}
			f.close(ji, t)
			f.place[ji] = nil
			f.left[ji] = min(maxUnits, f.left[ji]+f.in.jobs[ji].ov)
		}
		f.try(ji, t)
	}
}

// line makes the queue of a slot, unsorted, and returns the least key of those in it that wait, +Inf when nobody does.
func (f *forecast) line(t time.Time, now float64) float64 {
	first := math.Inf(1)
	f.queue = f.queue[:0]
	still := f.order[:0]
	for _, c := range f.order {
		ji := c.ji
		seated := len(f.place[ji]) > 0
		if !seated && (!f.ended[ji].IsZero() || len(f.in.jobs[ji].opts) == 0 || f.idle[ji]) {
			continue // need not or cannot run, in no later slot either
		}
		still = append(still, c)
		switch {
		case seated && (f.fixed[ji] || f.until[ji].After(t)):
			continue // may not be moved
		case !f.ended[ji].IsZero() || f.idle[ji]:
			continue
		case f.key != nil:
			c.key = f.key(ji, t)
		default:
			c.key = f.claim(ji, now, c.rank)
		}
		if !seated {
			first = min(first, c.key)
		}
		f.queue = append(f.queue, c)
	}
	f.order = still
	return first
}

// sort puts the queue in order. Most of it is in order already, class by class, since the ranks of a class rise: only a class that is not is sorted.
func (f *forecast) sort() {
	for _, c := range f.queue {
		k := 0
		for k < len(f.classes)-1 && c.key >= float64(k+1)*classes {
			k++
		}
		f.classes[k] = append(f.classes[k], c)
	}
	f.queue = f.queue[:0]
	for k, part := range f.classes {
		if !slices.IsSortedFunc(part, claim.compare) {
			slices.SortFunc(part, claim.compare)
		}
		f.queue = append(f.queue, part...)
		f.classes[k] = part[:0]
	}
}

func (c claim) compare(o claim) int {
	if c.key != o.key {
		return cmp.Compare(c.key, o.key)
	}
	return c.rank - o.rank
}

// ample is the slack in units from which an SLO job lets running best-effort jobs go on.
const ample = 8

// classes lie so far apart in the keys of claims: further than any slack reaches.
const classes = 1e7

// claim orders jobs for a slot, less first: SLO jobs by slack, with a unit to the good of those that run; then who runs; then SLO jobs with
// ample slack; then the others by rank. A tier that is lost claims nothing special.
func (f *forecast) claim(ji int, now float64, rank int) float64 {
	seated := len(f.place[ji]) > 0
	slack := f.slack(ji, now)
	switch {
	case f.tier[ji] >= 0 && slack >= 0 && seated:
		return slack - 1
	case f.tier[ji] >= 0 && slack >= 0 && slack < ample:
		return slack
	case seated:
		return classes + float64(rank)
	case f.tier[ji] >= 0 && slack >= 0:
		return 2*classes + slack
	}
	return 3*classes + float64(rank)
}

func (f *forecast) slack(ji int, now float64) float64 {
	if f.tier[ji] < 0 {
		return math.Inf(1)
	}
	return f.in.jobs[ji].due[f.tier[ji]] - now - f.left[ji]
}

// tooSlow reports that a job would lose, on a slower shape, the tier that it can still meet on its best one: it rather waits for a hole of
// the right form. Without this rule most of the deadlines that a good plan counts on are lost as it unrolls.
func (f *forecast) tooSlow(ji int, o option, t time.Time) bool {
	if f.tier[ji] < 0 || o.phi >= 1 {
		return false
	}
	now := t.Sub(f.in.s.Now).Seconds() / f.in.unit
	due := f.in.jobs[ji].due[f.tier[ji]]
	return now+f.left[ji] <= due && now+f.left[ji]/o.phi > due
}

// try seats a waiting job on free nodes.
func (f *forecast) try(ji int, t time.Time) bool {
	j := &f.in.jobs[ji]
	for _, o := range j.opts {
		if f.full[o.like] || f.tooSlow(ji, o, t) || !f.floor.within(j, o.gpus) {
			continue
		}
		o := f.hurried(ji, o, t)
		if p, ok := f.floor.place(j, o); ok {
			units := 1
			if j.Class.SLO() {
				units = f.in.lead
			}
			f.sit(ji, p, t, planner.LeaseEnd(t, f.in.s.Unit, units))
			return true
		}
		f.full[o.like] = f.full[o.like] || !o.awake
	}
	return false
}
