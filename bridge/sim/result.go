package sim

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// Figures are the measures of one run. Rates are fractions 0..1, times seconds; a figure without jobs is nil, null in JSON.
type Figures struct {
	Name       string `json:"name"`
	Jobs       int    `json:"jobs"`
	Unfinished int    `json:"unfinished"` // rejected and failed ones too
	// WeightedMiss is the mean over SLO jobs of 1 - value of the best tier met / full value.
	WeightedMiss *float64 `json:"weighted_miss"`
	StrictMiss   *float64 `json:"strict_miss"`
	SoftMiss     *float64 `json:"soft_miss"`
	BEJCTMean    *float64 `json:"be_jct_mean_s"`
	BEJCTP50     *float64 `json:"be_jct_p50_s"`
	BEJCTP95     *float64 `json:"be_jct_p95_s"`
	BEJCTP99     *float64 `json:"be_jct_p99_s"`
	JCTMean      *float64 `json:"jct_mean_s"`
	WaitMean     *float64 `json:"queue_wait_mean_s"` // until the first GPU
	WaitP50      *float64 `json:"queue_wait_p50_s"`
	WaitP95      *float64 `json:"queue_wait_p95_s"`
	WaitP99      *float64 `json:"queue_wait_p99_s"`
	WaitMax      *float64 `json:"queue_wait_max_s"`
	// QueueMean is the mean number of jobs waiting from the first submission to the last.
	QueueMean *float64 `json:"queue_jobs_mean"`
	// ProfileWait is the longest time from a submission to the first profile run.
	ProfileWait    *float64 `json:"profile_wait_max_s"`
	Profiles       int      `json:"profiled_jobs"`
	SolverP50      *float64 `json:"solver_p50_s"`
	SolverMax      *float64 `json:"solver_max_s"`
	SolverTimeouts int      `json:"solver_timeouts"`
	CachedRounds   int      `json:"cached_rounds"`
	Rounds         int      `json:"rounds"`
	PlanSeconds    float64  `json:"plan_s"`
	Steps          int      `json:"steps"`
	// Utilization is the share of GPU time held from the first submission to the last; Makespan the time to the last end.
	Utilization *float64 `json:"gpu_utilization"`
	Makespan    float64  `json:"makespan_s"`
	Preemptions int      `json:"preemptions"`
	PreemptMean *float64 `json:"preemptions_per_job_mean"`
	PreemptP99  *float64 `json:"preemptions_per_job_p99"`
	PreemptMax  *float64 `json:"preemptions_per_job_max"`
	HeldGPU     float64  `json:"held_gpu_s"`
	SavingGPU   float64  `json:"checkpoint_gpu_s"`
	LoadingGPU  float64  `json:"resume_gpu_s"`
	ProfileGPU  float64  `json:"profile_gpu_s"`
	LostGPU     float64  `json:"lost_gpu_s"`
	// HoleGPU is the time that GPUs were free while jobs waited which they would have served (the smallest first), HoleShare its part of held and hole time.
	// The seconds between a job's end and the next start are in it, and so is Slurm's own delay after a requeue.
	HoleGPU   float64  `json:"hole_gpu_s"`
	HoleShare *float64 `json:"hole_share"`
	// Forecasts of the run time left of running jobs, against what came true: relative error, bias, truths within the 80 % interval, error at half time.
	Forecasts     int      `json:"forecasts"`
	ForecastError *float64 `json:"forecast_mean_rel_error"`
	ForecastBias  *float64 `json:"forecast_mean_rel_bias"`
	ForecastCover *float64 `json:"forecast_coverage_80"`
	ForecastMid   *float64 `json:"forecast_half_time_rel_error"`
	// The three accounts of what went wrong: plans without the solver, plans that came out otherwise, runs that ended without being asked to.
	SolverMisses     int `json:"solver_misses"`
	PredictionMisses int `json:"prediction_misses"`
	Retries          int `json:"runtime_retries"`
	SLOLost          int `json:"slo_lost"` // SLO jobs that met none of their deadlines
	// Accounts part the misses by cause, each job once.
	Accounts Accounts `json:"accounts"`
	// Tenants are the largest ones, by GPU time held.
	Tenants        []Tenant `json:"tenants,omitempty"`
	TenantsLeftOut int      `json:"tenants_left_out,omitempty"`
	Actions        int      `json:"actions"`
	Refused        int      `json:"actions_refused"`
	BadPlans       int      `json:"plans_refused"`
	BadPlanWhy     string   `json:"first_refusal,omitempty"`
	Hash           string   `json:"action_log_sha256"`
	Wall           float64  `json:"wall_s"`
	Error          string   `json:"error,omitempty"`
}

// Outcome is what became of one job.
type Outcome struct {
	ID, User, Account string
	Class             planner.Class
	GPUs              int
	Submit, Duration  time.Duration
	// Begin is the first time on GPUs, End that of completion, both since the first submission and -1 when there was none.
	Begin, End  time.Duration
	Due         time.Duration // the first deadline, since the submission; 0: none
	Rejected    bool
	Miss        float64 // 0..1, of SLO jobs
	Tier        int     // met, -1 none
	Preemptions int
	Held        float64 // GPU-seconds
}

// Result is what a run showed.
type Result struct {
	Figures
	Outcomes []Outcome
	Stays    []Stay
	Busy     []float64 // GPUs held, mean by unit
	Waiting  []float64 // jobs waiting, likewise; Wanted: the GPUs they wait for; Holes: free GPUs that they could have
	Wanted   []float64
	Holes    []float64
	Tenants  []Tenant
	Unit     time.Duration
	GPUs     int
}

// result closes the books.
func (b *books) result(w *world, err error) Result {
	r := Result{Unit: b.cfg.Unit, GPUs: b.cfg.Nodes * b.cfg.GPUsPerNode, Stays: b.stays}
	f := &r.Figures
	b.integrate(w.cluster.Now())
	for w.next < len(w.jobs) { // cut short
		b.rejected(w.jobs[w.next])
		w.next++
	}
	f.Jobs = len(b.all)
	var jct, be, wait, profile, stops []float64
	var miss, strict, soft []float64
	lastSubmit, lastEnd := start, start
	for _, a := range b.all {
		o := a.outcome()
		r.Outcomes = append(r.Outcomes, o)
		if a.at.After(lastSubmit) {
			lastSubmit = a.at
		}
		if o.End < 0 {
			f.Unfinished++
		} else {
			lastEnd = later(lastEnd, a.end)
			jct = append(jct, (o.End - o.Submit).Seconds())
			if o.Class == planner.BestEffort {
				be = append(be, (o.End - o.Submit).Seconds())
			}
		}
		if o.Begin >= 0 {
			wait = append(wait, (o.Begin - o.Submit).Seconds())
		}
		if !a.profiled.IsZero() {
			profile = append(profile, a.profiled.Sub(a.at).Seconds())
		}
		stops = append(stops, float64(a.stops))
		f.Preemptions += a.stops
		f.HeldGPU += a.held
		f.SavingGPU += a.saving
		f.LoadingGPU += a.loading
		f.ProfileGPU += a.measuring
		f.LostGPU += a.lost
		f.Retries += a.retries
		if !o.Class.SLO() {
			continue
		}
		miss = append(miss, o.Miss)
		if o.Class == planner.Strict {
			strict = append(strict, o.Miss)
		} else {
			soft = append(soft, o.Miss)
		}
		if o.Tier < 0 {
			f.SLOLost++
		}
		if a.promised >= 0 && (o.Tier < 0 || o.Tier > a.promised) {
			f.PredictionMisses++
		}
		if a.greedy && o.Miss > 0 {
			f.SolverMisses++
		}
		if o.Miss > 0 {
			f.Accounts.book(a, o)
		}
	}
	f.WeightedMiss, f.StrictMiss, f.SoftMiss = mean(miss), mean(strict), mean(soft)
	f.BEJCTMean, f.BEJCTP50, f.BEJCTP95, f.BEJCTP99 = mean(be), quantile(be, 0.5), quantile(be, 0.95), quantile(be, 0.99)
	f.JCTMean, f.WaitMean, f.WaitP50, f.WaitP95 = mean(jct), mean(wait), quantile(wait, 0.5), quantile(wait, 0.95)
	f.WaitP99, f.WaitMax = quantile(wait, 0.99), quantile(wait, 1)
	f.ProfileWait, f.Profiles = quantile(profile, 1), len(profile)
	f.PreemptMean, f.PreemptP99, f.PreemptMax = mean(stops), quantile(stops, 0.99), quantile(stops, 1)
	var solves []float64
	for _, s := range b.solves {
		solves = append(solves, s.Seconds())
	}
	f.SolverP50, f.SolverMax = quantile(solves, 0.5), quantile(solves, 1)
	f.SolverTimeouts, f.CachedRounds, f.Rounds, f.PlanSeconds, f.Steps = b.timeouts, b.cached, b.rounds, b.plans.Seconds(), w.steps
	f.Makespan = lastEnd.Sub(start).Seconds()
	b.use(&r, lastSubmit)
	b.gauge(&r)
	f.QueueMean = queueMean(r.Waiting, b.unitsUntil(lastSubmit))
	f.Actions, f.Refused, f.BadPlans = b.actions, b.refused, b.badPlans
	f.BadPlanWhy = b.badWhy
	f.Hash = hex.EncodeToString(b.log.Sum(nil))
	if err != nil {
		f.Error = err.Error()
	}
	return r
}

// use fills in how busy the GPUs were.
func (b *books) use(r *Result, until time.Time) {
	sum, n := 0.0, 0
	for i, s := range b.busy {
		r.Busy = append(r.Busy, s.held/b.cfg.Unit.Seconds())
		if !start.Add(time.Duration(i) * b.cfg.Unit).After(until) {
			sum += s.held
			n++
		}
	}
	if n > 0 {
		u := sum / (float64(n) * b.cfg.Unit.Seconds() * float64(r.GPUs))
		r.Utilization = &u
	}
}

// audit compares what the stays add up to with the time integral of the GPUs held, and finds jobs that are neither ended nor open.
func (b *books) audit() error {
	sum, open := 0.0, 0
	for _, a := range b.all {
		sum += a.held
		if a.stay != nil {
			if b.open == 0 {
				return fmt.Errorf("all jobs ended, and job %s holds GPUs: %w", a.job.ID, ErrInvariant)
			}
			sum += b.last.Sub(a.stay.at).Seconds() * float64(a.stay.gpus)
		}
		if !a.done && !a.rejected {
			open++
		}
	}
	if math.Abs(sum-b.integral) > 1e-6*(1+b.integral) {
		return fmt.Errorf("stays hold %.3f GPU-seconds, the integral is %.3f: %w", sum, b.integral, ErrInvariant)
	}
	if open != b.open {
		return fmt.Errorf("%d jobs are open, %d should be: %w", open, b.open, ErrInvariant)
	}
	return nil
}

func (a *account) outcome() Outcome {
	j := a.job
	o := Outcome{ID: j.ID, User: j.User, Account: j.Account, Class: j.Class, GPUs: j.GPUs, Submit: a.at.Sub(start), Duration: j.Duration, Begin: -1, End: -1,
		Rejected: a.rejected, Tier: -1, Preemptions: a.stops, Held: a.held}
	if !a.began.IsZero() {
		o.Begin = a.began.Sub(start)
	}
	if a.done && a.state == slurm.StateCompleted {
		o.End = a.end.Sub(start)
	}
	if len(j.Tiers) == 0 {
		return o
	}
	o.Miss, o.Due = 1, j.Tiers[0].After
	for i, t := range j.Tiers {
		// Slurm and deadlines count whole seconds.
		if o.End >= 0 && (o.End-o.Submit).Truncate(time.Second) <= t.After {
			o.Tier, o.Miss = i, 1-t.Value/j.Tiers[0].Value
			break
		}
	}
	return o
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func mean(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	sum /= float64(len(v))
	return &sum
}

// quantile is the value below which a share q lies (nearest rank); 1 is the largest.
func quantile(v []float64, q float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	s := slices.Clone(v)
	slices.Sort(s)
	x := s[max(int(math.Ceil(q*float64(len(s))))-1, 0)]
	return &x
}
