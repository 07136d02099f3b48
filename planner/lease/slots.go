package lease

import (
	"context"
	"math"
	"time"

	"unisched/planner"
	"unisched/planner/milp"
)

// The prefix rows of the model treat work as divisible, and a gang is not: on a cluster of two nodes, where one job is half of it, they count on
// deadlines that no schedule meets. For clusters this small the literal model of lease slots (UniSched, section 4) is affordable: a binary per job and
// unit, GPUs and blocks counted per unit, every further start paid for. It gives one more candidate, and where it is solved to the end, a better one.

// Bounds of the slot model.
const (
	slotNodes = 4
	slotJobs  = 40
	slotUnits = 24
	// slotNodeLimit bounds the search, so that its outcome does not depend on the machine.
	slotNodeLimit = 2000
)

// slotted reports whether the slot model is to be asked: few nodes that all jobs may use alike, few jobs, one shape each.
func (in *instance) slotted() bool {
	if len(in.pools) != 1 || len(in.pools[0].nodes) > slotNodes || len(in.jobs) == 0 || len(in.jobs) > slotJobs || in.wake > 0 {
		return false
	}
	slo := false
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if j.Foreign || j.Elastic {
			return false
		}
		slo = slo || j.alive
	}
	return slo
}

// slotModel is the literal model of an instance.
type slotModel struct {
	in   *instance
	m    milp.Model
	run  []int   // column of a job's unit 0; -1 none
	met  [][]int // columns of a job's tiers
	span int
	idx  []int32
	val  []float64
}

func (sm *slotModel) term(col int, v float64) {
	if v != 0 {
		sm.idx, sm.val = append(sm.idx, int32(col)), append(sm.val, v)
	}
}

func (sm *slotModel) row(lo, hi float64) {
	if len(sm.idx) > 0 {
		sm.m.AddRow(lo, hi, sm.idx, sm.val)
	}
	sm.idx, sm.val = sm.idx[:0], sm.val[:0]
}

func (in *instance) slotModel() *slotModel {
	sm := &slotModel{in: in, run: make([]int, len(in.jobs)), met: make([][]int, len(in.jobs)), span: slotUnits}
	for ji := range in.jobs {
		sm.run[ji] = -1
		j := &in.jobs[ji]
		if len(j.opts) > 0 && (j.idle == "" || j.idle == planner.ReasonLeaving) || j.State == planner.Running {
			sm.addJob(ji)
		}
	}
	sm.capacity()
	return sm
}

// shapeOf is the shape that a job is counted with, and its relative speed.
func (j *job) shapeOf() option {
	if j.State == planner.Running || len(j.opts) == 0 {
		return j.curr
	}
	return j.opts[0]
}

// addJob adds a job's columns (its units, its starts, its tiers) and its own rows.
func (sm *slotModel) addJob(ji int) {
	in, j := sm.in, &sm.in.jobs[ji]
	o := j.shapeOf()
	// Work in units of this shape; a running job goes on without paying for a start, all others pay for each.
	again := j.ov
	if j.State != planner.Running {
		again = min(planner.Seconds(j.Estimate.Resume.Mid+j.Estimate.Checkpoint.Mid).Seconds()/in.unit, maxUnits)
	}
	work := max(1e-3, (j.n-j.ov)/o.phi)
	longest := int(math.Ceil(min(work+2*again, slotUnits)))
	first, held := 0.0, 0
	if j.State == planner.Running {
		first = 1
		switch {
		case !j.Preemptible || j.Blocked != "":
			held = longest
		case j.pinned != "":
			held = max(1, int(math.Ceil(j.LeaseUntil.Sub(in.s.Now).Seconds()/in.unit-planner.LeaseEpsilon)))
		}
	}
	claim := in.slotClaim(j, work)
	sm.run[ji] = sm.m.Cols()
	for k := range sm.span {
		lo, hi := 0.0, 1.0
		if k < min(held, longest) {
			lo = 1
		}
		if k == 0 && j.idle != "" {
			hi = 0
		}
		sm.m.AddCol(claim(k), lo, hi, true)
	}
	starts := sm.m.Cols()
	for range sm.span {
		sm.m.AddCol(-claim(0)*again, 0, 1, false)
	}
	at := func(k int) int { return sm.run[ji] + k }
	for k := range sm.span {
		sm.term(starts+k, 1)
		sm.term(at(k), -1)
		if k > 0 {
			sm.term(at(k-1), 1)
			sm.row(0, math.Inf(1))
		} else {
			sm.row(-first, math.Inf(1))
		}
		for more := 1; j.Class.SLO() && more < in.lead && k+more < sm.span && float64(more) < work; more++ {
			sm.term(at(k+more), 1)
			sm.term(starts+k, -1)
			sm.row(0, math.Inf(1))
		}
	}
	for k := range sm.span { // nobody runs on when he is done
		sm.term(at(k), 1)
	}
	for k := range sm.span {
		sm.term(starts+k, -again)
	}
	spare := 1.0
	if j.Class.SLO() {
		spare = float64(in.lead)
	}
	sm.row(math.Inf(-1), math.Ceil(work)+spare-1)
	sm.tiers(ji, starts, work, again, first)
}

// slotClaim is what running a unit earns besides deadlines, a little more the sooner.
func (in *instance) slotClaim(j *job, work float64) func(k int) float64 {
	w := way{kind: start, opt: -1, phi: 1, gpus: j.shapeOf().gpus}
	each := in.earn(j, w) / min(1, work)
	return func(k int) float64 { return each * (1 - 0.01*float64(k)) }
}

// tiers adds a binary for each tier that can be met, worth its value when it is met with the margin, a little less without.
func (sm *slotModel) tiers(ji, starts int, work, again, first float64) {
	in, j := sm.in, &sm.in.jobs[ji]
	sm.met[ji] = make([]int, len(j.Tiers))
	for t := range j.Tiers {
		sm.met[ji][t] = -1
	}
	if !j.alive {
		return
	}
	meets := func(col int, due float64) {
		for k := range sm.span {
			sm.term(sm.run[ji]+k, min(1, max(0, due-float64(k))))
			if float64(k) < due {
				sm.term(starts+k, -again)
			}
		}
		past := max(0, work-max(0, due-float64(sm.span))) // what lies beyond the horizon is done there
		paid := 0.0
		if first == 0 && !j.Started {
			paid = again // the first start of a new job costs nothing
		}
		sm.term(col, -max(0, past-paid))
		sm.row(-paid, math.Inf(1))
	}
	var all []int
	best := 0.0
	for t, due := range j.due {
		if j.column(wait, -1, t) < 0 && j.column(keep, -1, t) < 0 && j.column(start, 0, t) < 0 {
			continue
		}
		value := 0.0
		for _, c := range j.cols {
			if c.tier == t {
				value = c.slo
			}
		}
		best = max(best, value)
		col := sm.m.AddCol((1-in.cfg.Risk)*value, 0, 1, true)
		sm.met[ji][t] = col
		meets(col, due)
		safe := sm.m.AddCol(in.cfg.Risk*value, 0, 1, true)
		meets(safe, due-in.cfg.Delta-in.cfg.Beta*work)
		sm.term(safe, 1)
		sm.term(col, -1)
		sm.row(math.Inf(-1), 0)
		all = append(all, col)
	}
	for _, col := range all {
		sm.term(col, 1)
	}
	sm.row(math.Inf(-1), 1)
}

// capacity bounds GPUs and blocks in every unit, and the jobs stopped in the first.
func (sm *slotModel) capacity() {
	in := sm.in
	total, sizes := in.pools[0].gpus, in.sizes
	for k := range sm.span {
		for ji := range in.jobs {
			if sm.run[ji] >= 0 {
				sm.term(sm.run[ji]+k, float64(in.jobs[ji].shapeOf().gpus))
			}
		}
		sm.row(math.Inf(-1), float64(total))
		for _, size := range sizes {
			offer := 0
			for _, n := range in.pools[0].nodes {
				offer += in.nodes[n].gpus / size
			}
			for ji := range in.jobs {
				if sm.run[ji] >= 0 {
					sm.term(sm.run[ji]+k, float64(blocks(in.jobs[ji].shapeOf().shape, size)))
				}
			}
			sm.row(math.Inf(-1), float64(offer))
		}
	}
	if !in.bounded {
		return
	}
	movable := 0
	for ji := range in.jobs {
		if j := &in.jobs[ji]; j.State == planner.Running && j.pinned == "" && sm.run[ji] >= 0 {
			sm.term(sm.run[ji], 1)
			movable++
		}
	}
	sm.row(float64(movable-in.stopCap), math.Inf(1))
}

// choice reads what happens now, and the tiers counted on.
func (sm *slotModel) choice(x []float64) []int {
	in := sm.in
	out := make([]int, len(in.jobs))
	for ji := range in.jobs {
		j := &in.jobs[ji]
		out[ji] = j.base
		if sm.run[ji] < 0 {
			continue
		}
		tier := -1
		for t, col := range sm.met[ji] {
			if col >= 0 && x[col] > 0.5 {
				tier = t
			}
		}
		k, opt := wait, -1
		switch runs := x[sm.run[ji]] > 0.5; {
		case runs && j.State == planner.Running:
			k = keep
		case runs:
			k, opt = start, 0
		}
		if ci := j.column(k, opt, tier); ci >= 0 {
			out[ji] = ci
		} else if ci := j.column(k, opt, -1); ci >= 0 {
			out[ji] = ci
		}
	}
	return out
}

// slots asks for the candidate of the slot model. solved says that no other schedule earns more by it.
func (p *Policy) slots(ctx context.Context, in *instance, stats *planner.SolverStats) (r packed, solved, ok bool) {
	sm := in.slotModel()
	lim := p.cfg.Limits
	lim.Gap, lim.Nodes = max(lim.Gap, 0.001), slotNodeLimit
	if lim.Time /= 2; lim.Time <= 0 {
		lim.Time = 500 * time.Millisecond
	}
	sol, err := p.solve(ctx, &sm.m, lim)
	stats.Solve += sol.Wall
	if err != nil || len(sol.X) != sm.m.Cols() || sm.m.Feasible(sol.X, 1e-6) != nil {
		return packed{}, false, false
	}
	r = in.pack("slots", sm.choice(sol.X))
	return r, sol.Status == milp.Optimal && len(r.misfits) == 0, true
}

// playsBetter reports whether a schedule of the slot model meets more, played out by the list scheduler that all plans are, than the best of the other candidates:
// its own objective cannot be compared with theirs.
func (in *instance) playsBetter(r, other packed) bool {
	units := slotUnits
	a, _ := in.played(r, units)
	b, _ := in.played(other, units)
	return a > b
}
