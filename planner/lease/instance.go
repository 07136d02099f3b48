package lease

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/reward"
)

// maxUnits bounds every duration of the model, in units.
const maxUnits = 1e6

// instance is a snapshot in the terms of the model: units of time, node sets, and per job its options and columns.
type instance struct {
	s     planner.Snapshot
	cfg   Config
	unit  float64 // seconds
	lead  int     // units of an SLO lease
	nodes []nodeInfo
	index map[string]int // node name to index; lookup only
	pools []pool
	ruled int       // the first so many pools have rows
	sizes []int     // share sizes that have block rows, rising
	taus  []float64 // prefix rows, rising, units
	jobs  []job
	alike int // numbers of like options
	// All jobs in the orders of byGain, byLaxity and byClaim, once somebody asked.
	gains, laxities, claims []int
	base                    *ledger // every job at its base column
	// places is memory of orderFrom.
	places []place
	// What ceiling found, once somebody asked.
	cap    float64
	capped bool
	quotas []planner.Quota
	wake   float64 // the longest wake of any node
	// stopCap bounds the jobs stopped or moved; bounded is false when nothing does.
	stopCap int
	bounded bool
	// alikeNodes reports that all jobs may use the same nodes, so that nodes offering the same are interchangeable.
	alikeNodes bool
}

// kind is what a column does with a job in this round.
type kind uint8

const (
	wait kind = iota
	keep
	start // of a running job: a move
)

// option is a shape in a pool. Columns of kind start name one.
type option struct {
	shape planner.Shape
	gpus  int
	phi   float64 // speed relative to the job's best
	pool  int
	awake bool // no node that has to be woken: the deadline counted on would be lost
	like  int  // options with the same number need the same of a node set
}

// column is one way to treat a job, with its reward.
type column struct {
	kind kind
	opt  int // of kind start: index into options; else -1
	tier int // index into the job's tiers counted on, -1 none
	obj  float64
	slo  float64 // the part of obj that the tier is worth, before trust
	gpus int
	pool int     // for prefix rows; -1 when unknown
	left float64 // units of work left after this lease, at this column's speed
	due  float64 // the tier's deadline in units from now
	// holds: it cannot be stopped once it runs, so that all its work weighs on the units to come.
	holds bool
	// due work by prefix row, of columns that have any: demand of each tau.
	demand []float64
	rank   int32 // among the job's columns that some choice can hold; -1: none can, see prune
}

// job is a snapshot's job in terms of the model.
type job struct {
	*planner.Job
	opts   []option
	curr   option // of a running job
	curOn  []int  // GPUs of Current by pool with rows
	shifts bool   // may move to another node on its own shape
	quota  int    // index into quotas, -1 none
	// n is the work left in units at the best option, with the cost of expected suspensions; ov is what one suspension now costs.
	n, ov   float64
	doubt   doubt
	due     []float64 // deadlines in units from now, by tier
	alive   bool      // an SLO job with a tier that can still be met
	counted bool      // the plan that is being played out counts on a tier of it
	pinned  string    // reason code: may only be kept
	idle    string    // reason code: may only wait
	idleWhy string
	cols    []column
	base    int // column with no claim: keep for pinned jobs, else wait without a tier
	// What orders and greedy candidates ask for again and again: laxity, density, and preference once somebody asked.
	slack, gain float64
	prefer      []int
	live        int // columns that some choice can hold
}

func newInstance(s planner.Snapshot, cfg Config) *instance {
	if s.Unit <= 0 {
		s.Unit = 5 * time.Minute
	}
	if s.SLOUnits <= 0 {
		s.SLOUnits = 2
	}
	if s.Luck > cfg.Risk && s.Luck <= 1 && !cfg.FixedRisk {
		cfg.Risk = s.Luck
	}
	in := &instance{s: s, cfg: cfg, unit: s.Unit.Seconds(), lead: s.SLOUnits, index: make(map[string]int, len(s.Nodes))}
	in.quotas = s.Quotas()
	in.stopCap, in.bounded = s.Budget()
	for i, n := range s.Nodes {
		in.index[n.Name] = i
		info := nodeInfo{gpus: n.FreeGPUs(), cpus: n.CPUs - n.OtherCPUs, mem: n.MemMB - n.OtherMemMB, held: n.Held(), usable: n.Usable, wake: max(0, n.Wake.Seconds()/in.unit)}
		in.wake = max(in.wake, info.wake)
		info.align(n)
		in.nodes = append(in.nodes, info)
	}
	x := &poolIndex{in: in, byNeed: map[string][]int{}, bySet: map[string]int{}, byLike: map[likeness]int{}}
	for _, n := range s.Nodes {
		if n.ClosesIn > 0 {
			x.closing = append(x.closing, n)
		}
	}
	in.jobs = make([]job, len(s.Jobs))
	for i := range s.Jobs {
		in.jobs[i] = job{Job: &s.Jobs[i], quota: planner.QuotaOf(in.quotas, &s.Jobs[i])}
		in.options(x, &in.jobs[i])
	}
	in.nest()
	in.alikeNodes = len(in.pools) <= 1
	for i := range in.jobs {
		in.times(&in.jobs[i])
	}
	in.markShifts()
	for i := range in.jobs {
		in.columns(&in.jobs[i])
		in.jobs[i].rate()
	}
	in.pickSizes()
	in.pickTaus()
	in.demands()
	in.prune()
	return in
}

// good reports whether an estimate is a number that can be planned with.
func good(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// options lists the job's shapes worth a column: fastest first, of every GPU count and spread one.
func (in *instance) options(x *poolIndex, j *job) {
	in.constraints(j)
	speeds := make([]planner.ShapeSpeed, 0, len(j.Estimate.Speeds))
	for _, v := range j.Estimate.Speeds {
		if v.Shape.Valid() && (good(v.Speed.Mid) || j.Foreign) && (j.Needs.MaxNodes <= 0 || v.Shape.Nodes() <= j.Needs.MaxNodes) {
			speeds = append(speeds, v)
		}
	}
	if len(speeds) == 0 {
		if j.State == planner.Waiting && j.idle == "" {
			j.idle, j.idleWhy = planner.ReasonNeverFits, "no shape with a usable speed estimate is known for it"
		}
		return
	}
	slices.SortStableFunc(speeds, func(a, b planner.ShapeSpeed) int {
		return cmp.Or(cmp.Compare(b.Speed.Mid, a.Speed.Mid), cmp.Compare(a.Shape.Nodes(), b.Shape.Nodes()), slices.Compare(b.Shape, a.Shape))
	})
	top := speeds[0].Speed.Mid
	phi := func(v planner.Interval) float64 {
		if j.Foreign || !good(v.Mid) {
			return 1
		}
		return max(1e-3, v.Mid/top)
	}
	if j.State == planner.Running {
		j.curr = option{shape: j.Current.Shape(), gpus: j.Current.GPUs(), phi: 1}
		if v, ok := j.Estimate.SpeedOf(j.curr.shape); ok {
			j.curr.phi = phi(v)
		}
	}
	pools := x.of(j.Needs)
	var seen [][2]int
	barred := false // by the account's quota
	for _, v := range speeds {
		key := [2]int{v.Shape.GPUs(), v.Shape[0]}
		if !in.worthAColumn(j, v.Shape, seen) {
			continue
		}
		if j.quota >= 0 && v.Shape.GPUs() > in.quotas[j.quota].Room {
			barred = true
			continue
		}
		fits := false
		for _, p := range pools {
			if like, ok := x.like(j.Job, v.Shape, p); ok {
				fits = true
				j.opts = append(j.opts, option{shape: v.Shape, gpus: v.Shape.GPUs(), phi: phi(v.Speed), pool: p, like: like})
			}
		}
		if fits {
			seen = append(seen, key)
		}
	}
	if len(j.opts) == 0 && j.State == planner.Waiting && j.idle == "" {
		j.idle, j.idleWhy = in.whyNever(j, speeds)
		if barred {
			q := in.quotas[j.quota]
			j.idle, j.idleWhy = planner.ReasonQuota, fmt.Sprintf("account %s may hold %d GPUs at once, %d with what it holds outside of the plan: too few for this job",
				q.Account, q.Max, q.Room)
		}
	}
}

// whyNever tells a job that fits no node set ever from one whose nodes are not available now.
func (in *instance) whyNever(j *job, speeds []planner.ShapeSpeed) (code, why string) {
	open := j.Needs
	open.Limit = time.Nanosecond // what is closed for a while is not never
	for _, v := range speeds {
		fits := true
		for i, g := range v.Shape {
			hosts := 0
			for _, n := range in.s.Nodes {
				if n.GPUs >= g && n.CPUs >= j.Needs.CPUs(g) && n.MemMB >= j.Needs.MemMB(g) && open.Allows(n) == "" {
					hosts++
				}
			}
			fits = fits && hosts > i
		}
		if fits {
			return planner.ReasonFull, "the nodes that could hold it are not usable or are held by others now" + in.outOfReach(j, open)
		}
	}
	return planner.ReasonNeverFits, "no set of nodes of this cluster can hold any of its shapes"
}

// constraints finds jobs that have no choice.
func (in *instance) constraints(j *job) {
	switch {
	case j.State == planner.Leaving:
		j.idle, j.idleWhy = planner.ReasonLeaving, "is writing its checkpoint"
	case j.State == planner.Running:
		if code, pinned := in.s.Pinned(j.Job); pinned {
			j.pinned = code
		} else if j.Blocked != "" { // stopped, it could not come back
			j.pinned = planner.ReasonNoPreempt
		}
	case j.State != planner.Waiting:
		j.idle, j.idleWhy = planner.ReasonBlocked, "is in a state that is not known"
	case j.Blocked != "":
		j.idle, j.idleWhy = planner.ReasonBlocked, j.Blocked
	}
}

// times converts estimates to units.
func (in *instance) times(j *job) {
	j.curOn = make([]int, in.ruled)
	for p := range in.ruled {
		for _, sh := range j.Current {
			if i, ok := in.index[sh.Node]; ok && j.State == planner.Running && in.pools[p].member[i] {
				j.curOn[p] += sh.GPUs
			}
		}
	}
	e := j.Estimate
	units := func(seconds float64) float64 {
		return min(planner.Seconds(seconds).Seconds()/in.unit, maxUnits)
	}
	resume := units(e.Resume.Mid)
	switch {
	case j.State == planner.Running:
		// Work that was not saved counts for one unit at most: never confirming a checkpoint must not make a job untouchable.
		j.ov = resume + units(e.Checkpoint.Mid) + min(1, units(e.Unsaved))
	case j.Started:
		j.ov = resume
	}
	work := float64(maxUnits) / 1000 // nothing known: long
	if j.Foreign {
		if j.TimeLeft > 0 {
			work = min(j.TimeLeft.Seconds()/in.unit, maxUnits)
		}
	} else if sec, ok := in.workSeconds(j); ok {
		work = units(sec)
		if j.Class.SLO() {
			j.doubt = in.doubtOf(j, sec)
		}
	}
	suspensions := min(max(0, finite(e.Suspensions)), 1000)
	if limit := j.TimeLeft.Seconds() / in.unit; limit > 0 && !j.Foreign { // every run ends at its time limit
		suspensions = min(suspensions+math.Floor(min(work/limit, 1000)), 1000)
	}
	j.n = min(max(work, 1e-3)+suspensions*resume+j.ov, maxUnits)
	for _, t := range j.Tiers {
		j.due = append(j.due, min(max(t.At.Sub(in.s.Now).Seconds()/in.unit, -maxUnits), maxUnits))
	}
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// workSeconds is the time that the iterations left take at the fastest shape.
func (in *instance) workSeconds(j *job) (float64, bool) {
	q := 0.5
	if j.Class.SLO() {
		q = in.cfg.Quantile
	}
	top := 0.0
	for _, v := range j.Estimate.Speeds {
		if s := v.Speed.At(1 - q); good(s) && good(v.Speed.Mid) && v.Shape.Valid() {
			top = max(top, s)
		}
	}
	it := j.Estimate.Iterations.At(q)
	if !good(top) || math.IsNaN(it) || math.IsInf(it, 0) {
		return 0, false
	}
	return max(0, it) / top, true
}

// pickSizes chooses the share sizes that get block rows: powers of two and every size asked for, the most wanted ones when there are many.
func (in *instance) pickSizes() {
	const most = 12
	count := map[int]int{} // summed, then sorted by a total key
	for i := range in.jobs {
		for _, o := range in.jobs[i].opts {
			for _, g := range o.shape {
				if g > 1 && in.jobs[i].State == planner.Waiting {
					count[g]++
				}
			}
		}
	}
	for g := range count {
		in.sizes = append(in.sizes, g)
	}
	slices.SortFunc(in.sizes, func(a, b int) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	in.sizes = in.sizes[:min(len(in.sizes), most)]
	slices.Sort(in.sizes)
}

// pickTaus lists the prefix rows: every second unit to 24, then coarser, as far as a deadline reaches.
func (in *instance) pickTaus() {
	last := 0.0
	for i := range in.jobs {
		for _, c := range in.jobs[i].cols {
			if c.tier >= 0 {
				last = max(last, c.due)
			}
		}
	}
	step, growth := float64(max(2, in.lead)), 1.25
	if in.large() {
		step, growth = 2*step, 1.5
	}
	for tau := float64(in.lead) + float64(max(2, in.lead)); len(in.taus) < 60; {
		in.taus = append(in.taus, tau)
		if tau >= last {
			break
		}
		if tau < 24 {
			tau += step
		} else {
			tau *= growth
		}
	}
}

// waited is how long a job has waited since it last held GPUs.
func (j *job) waited(now time.Time) time.Duration {
	since := j.WaitingSince
	if since.IsZero() {
		since = j.Submitted
	}
	if j.State == planner.Running || since.IsZero() || now.Before(since) {
		return 0
	}
	return now.Sub(since)
}

func (in *instance) age(j *job) float64 {
	left := j.n
	if j.Foreign { // a time limit, which says little of how long a plain job runs
		left = 0
	}
	return in.cfg.Reward.Age(j.Class, j.waited(in.s.Now).Seconds()/in.unit, left) * reward.Weight(*j.Job)
}
