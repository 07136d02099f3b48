package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// forever stands for times that nobody knows, in seconds.
const forever = 1e9

// option is a shape that a job may take, at iterations per second.
type option struct {
	shape planner.Shape
	gpus  int
	speed float64
}

// job is a job of the snapshot as a rival sees it. Times are seconds, counted from now.
type job struct {
	*planner.Job
	kind *kind
	// opts are the shapes it may take, by GPUs, then nodes, then speed; want is the part of one GPU count that the rival asks for.
	opts, want []option
	// held is the number of GPUs it holds, all of them on known nodes; work its iterations left.
	held int
	work float64
	// left is the time it needs from now on when it gets what it wants: the rest of its work, and the resume if it has to start again.
	left float64
	// tier is the first deadline that it can still meet (-1: none) and due its time.
	tier int
	due  float64
	// idle says why it cannot start at all, pin why it may only be kept (reason codes).
	idle, pin string
	// units is the length of the lease it would get.
	units int

	quota   int // index into the account quotas, -1 none
	pos     int // in the ranking; jobs that are not in it come last
	chosen  bool
	decided planner.Decision // empty: not yet
	place   planner.Placement
}

// gpus is the number of GPUs that the job wants.
func (j *job) gpus() int {
	if len(j.want) == 0 {
		return j.held
	}
	return j.want[0].gpus
}

// service is what is left of it in GPU-seconds.
func (j *job) service() float64 { return j.left * float64(max(1, j.gpus())) }

// alive reports whether it has a deadline that can be met.
func (j *job) alive() bool { return j.tier >= 0 }

// slack is how long it can wait and still meet its deadline.
func (j *job) slack() float64 { return j.due - j.left }

// running reports whether it holds GPUs that a plan may keep.
func (j *job) running() bool { return j.State == planner.Running }

// resizes reports whether a running job wants another number of GPUs than it holds.
func (j *job) resizes() bool { return len(j.want) > 0 && j.want[0].gpus != j.held }

// round is one snapshot being planned. Its memory is used again for the next one.
type round struct {
	s      planner.Snapshot
	o      Options
	jobs   []job
	floor  floor
	opts   []option
	sorter []sortable
	order  []int
	starts []int
	quotas []planner.Quota
	quota  []int // GPUs that accounts may hold beyond what their jobs run on now
}

// open reads a snapshot: nobody is ranked or placed yet. With steady, whatever runs is only kept.
func (r *round) open(s planner.Snapshot, o Options, steady bool) {
	r.s, r.o, r.opts = s, o, r.opts[:0]
	r.floor.open(s.Nodes, o.ProfileNodes)
	r.quotas, r.quota = s.Quotas(), r.quota[:0]
	for _, q := range r.quotas {
		r.quota = append(r.quota, q.Room)
	}
	r.jobs = slices.Grow(r.jobs[:0], len(s.Jobs))[:len(s.Jobs)]
	clear(r.jobs[len(r.jobs):cap(r.jobs)]) // they would keep old snapshots alive
	for i := range s.Jobs {
		r.read(&r.jobs[i], &s.Jobs[i], steady)
	}
	r.order = r.order[:0]
}

func (r *round) read(j *job, from *planner.Job, steady bool) {
	*j = job{Job: from, kind: r.floor.kindOf(&from.Needs, from.Class == planner.Profiler), units: 1, tier: -1, due: math.Inf(1), pos: math.MaxInt, work: iterations(from.Estimate.Iterations.Mid)}
	r.options(j)
	j.held = j.Current.GPUs()
	if j.quota = planner.QuotaOf(r.quotas, from); j.quota >= 0 && j.running() {
		r.quota[j.quota] -= j.held
	}
	j.ask(j.asked())
	switch {
	case j.State == planner.Running:
		if code, pinned := r.s.Pinned(from); pinned {
			j.pin = code
		} else if steady {
			j.pin = planner.ReasonRuns
		}
	case j.State == planner.Leaving:
		j.idle = planner.ReasonLeaving
	case j.Blocked != "" || j.State != planner.Waiting:
		j.idle = planner.ReasonBlocked
	case len(j.want) == 0:
		j.idle = planner.ReasonNeverFits
	}
	r.expect(j)
}

// options lists the usable shapes of a job: well-formed, of a known speed, small enough for an empty cluster, and not too slow.
func (r *round) options(j *job) {
	at := len(r.opts)
	for _, v := range j.Estimate.Speeds {
		if speed := v.Speed.Mid; speed > 0 && !math.IsInf(speed, 1) && v.Shape.Valid() && r.floor.couldHold(j.kind, v.Shape) {
			r.opts = append(r.opts, option{v.Shape, v.Shape.GPUs(), speed})
		}
	}
	opts := r.opts[at:len(r.opts):len(r.opts)]
	slices.SortStableFunc(opts, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.gpus, b.gpus), cmp.Compare(len(a.shape), len(b.shape)), cmp.Compare(b.speed, a.speed))
	})
	kept := opts[:0]
	for from := 0; from < len(opts); {
		to, best := from, 0.0
		for to < len(opts) && opts[to].gpus == opts[from].gpus {
			best = max(best, opts[to].speed)
			to++
		}
		for _, o := range opts[from:to] {
			if o.speed >= best*r.o.Spread {
				kept = append(kept, o)
			}
		}
		from = to
	}
	j.opts = kept
}

// asked is the number of GPUs that the user asked for, as far as it is known.
func (j *job) asked() int {
	if j.Asked > 0 && j.has(j.Asked) {
		return j.Asked
	}
	if j.held > 0 && j.State == planner.Running {
		return j.held
	}
	best := option{}
	for _, o := range j.opts {
		if o.speed > best.speed {
			best = o
		}
	}
	return best.gpus
}

func (j *job) has(gpus int) bool {
	return slices.ContainsFunc(j.opts, func(o option) bool { return o.gpus == gpus })
}

// ask makes the job want so many GPUs (0, or a number that it has no shape for: nothing but what it holds).
func (j *job) ask(gpus int) {
	j.want = nil
	for k, o := range j.opts {
		if o.gpus == gpus {
			n := k
			for n < len(j.opts) && j.opts[n].gpus == gpus {
				n++
			}
			j.want = j.opts[k:n]
			return
		}
	}
}

// expect works out left, tier and due from what the job wants.
func (r *round) expect(j *job) {
	j.left = r.estimate(j, j.gpus())
	j.tier, j.due = -1, math.Inf(1)
	if !j.Class.SLO() || j.Foreign {
		return
	}
	for k, t := range j.Tiers {
		if at := t.At.Sub(r.s.Now).Seconds(); t.Value > 0 && at >= j.left {
			j.tier, j.due = k, at
			return
		}
	}
}

// estimate is the time that the job needs from now on with so many GPUs. Whoever runs on so many already pays no resume.
func (r *round) estimate(j *job, gpus int) float64 {
	work, resume := j.workTime(gpus), 0.0
	if work == forever {
		return forever
	}
	if r.o.ChronusEstimates {
		return r.chronusEstimate(j, work)
	}
	if j.Started && !(j.running() && j.held == gpus) {
		resume = positive(j.Estimate.Resume.Mid)
	}
	return min(work+resume, forever)
}

// workTime is the time that the rest of the job's work takes on so many GPUs, without any interruption.
func (j *job) workTime(gpus int) float64 {
	speed := 0.0
	if j.running() && j.held == gpus {
		if v, ok := j.Estimate.SpeedOf(j.Current.Shape()); ok {
			speed = v.Mid
		}
	}
	if !(speed > 0) || math.IsInf(speed, 1) {
		speed = 0
		for _, o := range j.opts {
			if o.gpus == gpus {
				speed = max(speed, o.speed)
			}
		}
	}
	if speed == 0 {
		return forever
	}
	return min(j.work/speed, forever)
}

// knows reports whether a job is in the snapshot, whose jobs are in the order of their runs.
func (r *round) knows(id planner.JobID) bool {
	_, ok := slices.BinarySearchFunc(r.s.Jobs, id, func(j planner.Job, id planner.JobID) int { return cmp.Compare(j.Run.Job, id) })
	return ok
}

// iterations are those left, or so many that nobody waits for the job when the estimate is no number.
func iterations(v float64) float64 {
	if math.IsNaN(v) || v > forever*1e6 {
		return forever * 1e6
	}
	return max(0, v)
}

func positive(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, forever)
}

// sortable is a job's place in a ranking: less goes first.
type sortable struct {
	key [3]float64
	job int
}

// rank orders the jobs that the plan may decide about by key, then submission, then Run.
func (r *round) rank(key func(j *job) [3]float64) {
	r.sorter = r.sorter[:0]
	for i := range r.jobs {
		if j := &r.jobs[i]; j.idle == "" && j.pin == "" && !(j.Foreign && !j.running()) {
			r.sorter = append(r.sorter, sortable{key(j), i})
		}
	}
	slices.SortFunc(r.sorter, func(a, b sortable) int {
		for k := range a.key {
			if a.key[k] != b.key[k] {
				return cmp.Compare(a.key[k], b.key[k])
			}
		}
		return cmp.Or(r.jobs[a.job].Submitted.Compare(r.jobs[b.job].Submitted), cmp.Compare(a.job, b.job))
	})
	r.order = r.order[:0]
	for pos, x := range r.sorter {
		r.jobs[x.job].pos = pos
		r.order = append(r.order, x.job)
	}
}

// kind is what jobs with the same needs share.
type kind struct {
	needs planner.Needs
	// groups are the usable nodes that such a job may use, by GPU type.
	groups [][]int
	free   int // a count, used while jobs are selected
	// holds remembers which shapes an empty cluster can hold, full which shapes found no hole since GPUs last came free.
	shapes []planner.Shape
	holds  []bool
	full   []planner.Shape
	// fullLong is full for jobs that would outlast a reservation.
	fullLong []planner.Shape
}

// kindKey identifies needs.
type kindKey struct {
	gpuType, partition, rest string
	cpg, cpn                 int
	mpg, mpn                 int64
	exclusive, profiler      bool
	nodes, limit             int
}

func keyOf(n *planner.Needs) kindKey {
	k := kindKey{gpuType: n.GPUType, partition: n.Partition, cpg: n.CPUsPerGPU, cpn: n.CPUsPerNode, mpg: n.MemPerGPUMB, mpn: n.MemPerNodeMB,
		exclusive: n.Exclusive, nodes: n.MaxNodes}
	if n.Features != nil || n.AnyFeature != nil || n.Only != nil || n.Exclude != nil {
		k.rest = fmt.Sprintf("%q %q %v %q %q", n.Features, n.AnyFeature, n.Only == nil, n.Only, n.Exclude)
	}
	return k
}

// unitsOf is a length in whole units, rounded up.
func unitsOf(d, unit time.Duration) int {
	if unit <= 0 {
		return 1
	}
	return max(1, int((d+unit-1)/unit))
}
