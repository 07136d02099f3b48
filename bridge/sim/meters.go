package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// queue is who waits for GPUs now, by the fewest GPUs that would do: a short list, sorted by size.
type queue struct {
	sizes []queued
	jobs  int
	gpus  int // wanted in all
}

type queued struct{ gpus, jobs int }

// add lets n more jobs of a size wait (or fewer, when n is negative).
func (q *queue) add(gpus, n int) {
	i, found := slices.BinarySearchFunc(q.sizes, gpus, func(s queued, g int) int { return cmp.Compare(s.gpus, g) })
	if !found {
		q.sizes = slices.Insert(q.sizes, i, queued{gpus: gpus})
	}
	q.sizes[i].jobs += n
	q.jobs += n
	q.gpus += n * gpus
}

// fits is how many of the free GPUs those who wait would take if they were given out now, the smallest first.
func (q *queue) fits(free int) int {
	used := 0
	for _, s := range q.sizes {
		if s.gpus <= 0 {
			continue
		}
		n := min(s.jobs, (free-used)/s.gpus)
		if n <= 0 && s.jobs > 0 {
			break // the larger ones do not fit either
		}
		used += n * s.gpus
	}
	return used
}

// least is the fewest GPUs that a job runs on.
func (a *account) least() int {
	least := a.job.GPUs
	for _, c := range a.job.Counts {
		least = min(least, c)
	}
	return least
}

// waits moves a job into or out of the queue.
func (b *books) waits(a *account, yes bool) {
	switch {
	case yes && !a.waiting:
		b.queue.add(a.least(), 1)
	case !yes && a.waiting:
		b.queue.add(a.least(), -1)
	}
	a.waiting = yes
}

// heed adds up what the unit with index i saw for d seconds: GPUs held, jobs waiting, and GPUs that were free while somebody waited whom they would
// have served.
func (b *books) heed(i int, d float64) {
	for len(b.busy) <= i {
		b.busy = append(b.busy, sample{})
	}
	hole := float64(b.queue.fits(b.cfg.Nodes*b.cfg.GPUsPerNode-b.held)) * d
	s := &b.busy[i]
	s.held += d * float64(b.held)
	s.waiting += d * float64(b.queue.jobs)
	s.wanted += d * float64(b.queue.gpus)
	s.hole += hole
	b.holes += hole
	if b.degraded {
		b.blindHoles += hole
	}
}

// ran is how long the job's runs have held GPUs until now, in seconds, profile runs aside.
func (a *account) ran(now time.Time) float64 {
	if a.stay == nil || a.stay.profile {
		return a.worked
	}
	return a.worked + now.Sub(a.stay.at).Seconds()
}

// foresee writes down what the policy was told of the running jobs: of each when a unit and a sixteenth of what was forecast before have passed.
func (b *books) foresee(s planner.Snapshot) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != planner.Running || j.Class == planner.Profiler || j.Foreign {
			continue
		}
		a := b.ids.of(slurm.JobID(j.Run.Job))
		if a == nil || a.stay == nil || a.stay.profile {
			continue
		}
		ran := a.ran(s.Now)
		if ran < a.nextLook {
			continue
		}
		left, ok := leftOf(j.Estimate, j.Current.Shape())
		if !ok {
			continue
		}
		a.nextLook = ran + max(b.cfg.Unit.Seconds(), (ran+left.Mid)/16)
		a.forecasts = append(a.forecasts, estimator.Forecast{Job: j.Run.Job, Class: j.Class, GPUs: a.job.GPUs, At: s.Now, Left: left, Ran: ran})
	}
}

// leftOf is the run time left on a shape in seconds, suspensions included: the relative errors of iterations and speed are taken as independent. (The
// loop draws samples, estimator.DurationOf; here every policy's forecasts are looked at, and this is cheap.)
func leftOf(e planner.Estimate, s planner.Shape) (planner.Interval, bool) {
	v, ok := e.SpeedOf(s)
	if !ok || !(v.Mid > 0) || !(e.Iterations.Mid > 0) {
		return planner.Interval{}, false
	}
	work, over := e.Iterations.Mid/v.Mid, e.Suspensions*(e.Resume.Mid+e.Checkpoint.Mid)
	less := math.Hypot(1-e.Iterations.Low/e.Iterations.Mid, v.High/v.Mid-1)
	more := math.Hypot(e.Iterations.High/e.Iterations.Mid-1, 1-v.Low/v.Mid)
	return planner.Interval{Low: work * max(1-less, 0), Mid: work + over, High: work*(1+more) + 2*over}, true
}

// score compares the forecasts of a job that has completed with what came true, and forgets them.
func (b *books) score(a *account, end time.Time) {
	if len(a.forecasts) == 0 {
		return
	}
	rep := estimator.ScoreForecasts(a.forecasts, []estimator.Finished{{Job: a.forecasts[0].Job, Ran: a.ran(end), At: end}})
	a.forecasts = nil
	for _, g := range rep.Groups {
		switch {
		case g.By == "all":
			b.foresight.add(g)
		case g.By == "age" && g.Value == "50%":
			b.midway.add(g)
		}
	}
}

// foresight sums up how good forecasts were.
type foresight struct{ n, err, bias, cover float64 }

func (f *foresight) add(g estimator.ForecastGroup) {
	n := float64(g.N)
	f.n += n
	f.err += n * g.Error
	f.bias += n * g.Bias
	f.cover += n * g.Coverage
}

// of is a sum over the number of forecasts, nil without any.
func (f foresight) of(sum float64) *float64 {
	if f.n == 0 {
		return nil
	}
	v := sum / f.n
	return &v
}

// Account is what one kind of fault has cost.
type Account struct {
	// Events is how often the fault happened: rounds planned without a proven solution, plans that promised too much, runs that ended unasked.
	Events int `json:"events"`
	// Misses counts SLO jobs that lost value for this reason; each job is in one account. Value is what they lost, in jobs of full value.
	Misses int     `json:"misses"`
	Value  float64 `json:"lost_value"`
	// GPU is the time that the fault cost, in GPU-seconds: see [Accounts].
	GPU float64 `json:"gpu_s"`
}

// Accounts say why SLO jobs lost value, and what it cost. A job is in the first that applies.
type Accounts struct {
	// Runtime: one of its runs ended without being asked to. GPU: work lost by such ends, and loading again after them.
	Runtime Account `json:"runtime_retries"`
	// Solver: its newest plan was made without a proven solution. GPU: GPUs left free under such plans while somebody waited whom they would have served.
	Solver Account `json:"solver_degradation"`
	// Prediction: its newest plan counted on a better deadline than the one met. GPU: what these jobs held.
	Prediction Account `json:"prediction_error"`
	// Crowding: no plan ever counted on more; there was not enough room (or the policy wanted it so). GPU: what these jobs held.
	Crowding Account `json:"crowding"`
}

// book enters a job that lost value.
func (s *Accounts) book(a *account, o Outcome) {
	to := &s.Crowding
	switch {
	case a.retries > 0:
		to = &s.Runtime
	case a.greedy:
		to = &s.Solver
	case a.promised >= 0 && (o.Tier < 0 || o.Tier > a.promised):
		to = &s.Prediction
	}
	to.Misses++
	to.Value += o.Miss
	if to == &s.Prediction || to == &s.Crowding {
		to.GPU += a.held
	}
}

// Tenant is what one account (or user, where the trace knows no accounts) got.
type Tenant struct {
	Name         string   `json:"name"`
	Jobs         int      `json:"jobs"`
	Unfinished   int      `json:"unfinished"`
	HeldGPU      float64  `json:"held_gpu_s"`
	WeightedMiss *float64 `json:"weighted_miss"`
	JCTP50       *float64 `json:"jct_p50_s"`
	JCTP95       *float64 `json:"jct_p95_s"`
	JCTP99       *float64 `json:"jct_p99_s"`
	BEJCTMean    *float64 `json:"be_jct_mean_s"`
	BEJCTP95     *float64 `json:"be_jct_p95_s"`
	WaitP50      *float64 `json:"queue_wait_p50_s"`
	WaitP95      *float64 `json:"queue_wait_p95_s"`
	Preemptions  int      `json:"preemptions"`
}

// Tenants are the figures of each account that the outcomes name, or of each user where they name no account; those that held the most GPU time first.
func Tenants(outcomes []Outcome) []Tenant {
	name := func(o Outcome) string { return o.Account }
	if !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Account != "" }) {
		name = func(o Outcome) string { return o.User }
	}
	by := map[string][]Outcome{}
	for _, o := range outcomes {
		if n := name(o); n != "" {
			by[n] = append(by[n], o)
		}
	}
	out := make([]Tenant, 0, len(by))
	for n, os := range by {
		out = append(out, tenant(n, os))
	}
	slices.SortFunc(out, func(a, b Tenant) int { return cmp.Or(cmp.Compare(b.HeldGPU, a.HeldGPU), cmp.Compare(a.Name, b.Name)) })
	return out
}

func tenant(name string, outcomes []Outcome) Tenant {
	t := Tenant{Name: name, Jobs: len(outcomes)}
	var miss, jct, be, wait []float64
	for _, o := range outcomes {
		t.HeldGPU += o.Held
		t.Preemptions += o.Preemptions
		if o.Class.SLO() {
			miss = append(miss, o.Miss)
		}
		if o.Begin >= 0 {
			wait = append(wait, (o.Begin - o.Submit).Seconds())
		}
		if o.End < 0 {
			t.Unfinished++
			continue
		}
		jct = append(jct, (o.End - o.Submit).Seconds())
		if o.Class == planner.BestEffort {
			be = append(be, jct[len(jct)-1])
		}
	}
	t.WeightedMiss, t.BEJCTMean, t.BEJCTP95 = mean(miss), mean(be), quantile(be, 0.95)
	t.JCTP50, t.JCTP95, t.JCTP99 = quantile(jct, 0.5), quantile(jct, 0.95), quantile(jct, 0.99)
	t.WaitP50, t.WaitP95 = quantile(wait, 0.5), quantile(wait, 0.95)
	return t
}

// Summarize makes the figures that follow from outcomes alone, for those who have no run: completion times, misses, waits and preemptions.
func Summarize(outcomes []Outcome) Figures {
	f := Figures{Jobs: len(outcomes)}
	var jct, be, wait, stops, miss, strict, soft []float64
	for _, o := range outcomes {
		if o.End < 0 {
			f.Unfinished++
		} else {
			jct = append(jct, (o.End - o.Submit).Seconds())
			if o.Class == planner.BestEffort {
				be = append(be, (o.End - o.Submit).Seconds())
			}
		}
		if o.Begin >= 0 {
			wait = append(wait, (o.Begin - o.Submit).Seconds())
		}
		stops = append(stops, float64(o.Preemptions))
		f.Preemptions += o.Preemptions
		switch o.Class {
		case planner.Strict:
			strict = append(strict, o.Miss)
		case planner.Soft:
			soft = append(soft, o.Miss)
		default:
			continue
		}
		miss = append(miss, o.Miss)
		if o.Tier < 0 {
			f.SLOLost++
		}
	}
	f.WeightedMiss, f.StrictMiss, f.SoftMiss = mean(miss), mean(strict), mean(soft)
	f.BEJCTMean, f.BEJCTP50, f.BEJCTP95, f.BEJCTP99 = mean(be), quantile(be, 0.5), quantile(be, 0.95), quantile(be, 0.99)
	f.JCTMean, f.WaitMean, f.WaitP50, f.WaitP95 = mean(jct), mean(wait), quantile(wait, 0.5), quantile(wait, 0.95)
	f.WaitP99, f.WaitMax = quantile(wait, 0.99), quantile(wait, 1)
	f.PreemptMean, f.PreemptP99, f.PreemptMax = mean(stops), quantile(stops, 0.99), quantile(stops, 1)
	return f
}

// maxTenants bounds the tenants in the figures; the result has all.
const maxTenants = 20

// gauge fills in what the meters show.
func (b *books) gauge(r *Result) {
	f := &r.Figures
	f.HoleGPU = b.holes
	if all := b.integral + b.holes; all > 0 {
		share := b.holes / all
		f.HoleShare = &share
	}
	f.Forecasts, f.ForecastError, f.ForecastBias = int(b.foresight.n), b.foresight.of(b.foresight.err), b.foresight.of(b.foresight.bias)
	f.ForecastCover, f.ForecastMid = b.foresight.of(b.foresight.cover), b.midway.of(b.midway.err)
	f.Accounts.Solver.Events, f.Accounts.Solver.GPU = b.timeouts, b.blindHoles
	f.Accounts.Runtime.Events, f.Accounts.Prediction.Events = f.Retries, f.PredictionMisses
	for _, a := range b.all {
		f.Accounts.Runtime.GPU += a.wasted
	}
	unit := b.cfg.Unit.Seconds()
	for _, s := range b.busy {
		r.Waiting = append(r.Waiting, s.waiting/unit)
		r.Wanted = append(r.Wanted, s.wanted/unit)
		r.Holes = append(r.Holes, s.hole/unit)
	}
	r.Tenants = Tenants(r.Outcomes)
	f.Tenants = r.Tenants[:min(len(r.Tenants), maxTenants)]
	f.TenantsLeftOut = len(r.Tenants) - len(f.Tenants)
}

// queueMean is the mean number of jobs that waited from the first submission to the last.
func queueMean(waiting []float64, units int) *float64 {
	return mean(waiting[:max(min(units, len(waiting)), 0)])
}

// unitsUntil is how many units have begun by an instant.
func (b *books) unitsUntil(t time.Time) int {
	return int(math.Floor(float64(t.Sub(start))/float64(b.cfg.Unit))) + 1
}
