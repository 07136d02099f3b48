package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unisched/estimator"
	"unisched/planner"
)

// DurationOptions of [Durations].
type DurationOptions struct {
	Jobs int
	Seed uint64
	// Progress hears how many of how many jobs are done; nil: nobody.
	Progress func(done, of int)
}

// Durations simulates the life of jobs whose step times and learning curves are measured ones, with noise, leases and preemptions, forecasts the remaining run time
// at 25, 50 and 75 % of each, and scores the forecasts. Four of five jobs declare their iterations, the others stop on a metric.
func Durations(speeds, curves []File, opt DurationOptions) (estimator.ForecastReport, error) {
	models, _, err := readSpeed(speeds, SpeedOptions{Format: "pollux"})
	if err != nil {
		return estimator.ForecastReport{}, err
	}
	runs, err := readCurves(curves, "pollux")
	if err != nil {
		return estimator.ForecastReport{}, err
	}
	if len(models) == 0 {
		return estimator.ForecastReport{}, fmt.Errorf("%w: no step times to draw jobs from", ErrOption)
	}
	rng := rand.New(rand.NewPCG(opt.Seed, 1))
	fabs := make([]estimator.Fabric, len(models)) // each learnt from the other models
	for i, m := range models {
		fabs[i].Without = []string{m.name}
		for k, o := range models {
			if k != i {
				fabs[i] = fabs[i].Learn(estimator.Outcome{Key: o.name, Job: o.job(o.rows)}, time.Time{})
			}
		}
	}
	var fs []estimator.Forecast
	var done []estimator.Finished
	for id := range opt.Jobs {
		k := rng.IntN(len(models))
		l := newLife(planner.JobID(id+1), models[k], runs, rng)
		if l == nil {
			continue
		}
		l.run(&fabs[k])
		fs = append(fs, l.forecasts...)
		if opt.Progress != nil {
			opt.Progress(id+1, opt.Jobs)
		}
		done = append(done, estimator.Finished{Job: l.id, Ran: l.total})
		// The cluster learns what the job has taught about suspending.
		for i := range fabs {
			fabs[i] = fabs[i].Learn(estimator.Outcome{Key: models[k].name, Job: estimator.Job{}, NewResumes: l.job.Resumes, NewCheckpoints: l.job.Checkpoints,
				LeasesEnded: l.leases, Cuts: l.cuts}, l.now)
		}
	}
	return estimator.ScoreForecasts(fs, done), nil
}

// life is one simulated job.
type life struct {
	id    planner.JobID
	job   estimator.Job
	rng   *rand.Rand
	now   time.Time
	step  float64 // true seconds per iteration
	need  float64 // true iterations
	curve []estimator.Point
	cutP  float64
	// what happened
	events       []event
	total        float64
	leases, cuts int
	forecasts    []estimator.Forecast
}

// event is the state of a job after ran seconds.
type event struct {
	ran, iters float64
	job        estimator.Job
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newLife(id planner.JobID, m speedModel, runs []run, rng *rand.Rand) *life {
	prof, rest := m.split()
	row := rest[rng.IntN(len(rest))]
	if rng.IntN(4) == 0 {
		row = prof[rng.IntN(len(prof))]
	}
	duration := 3600 * math.Exp(1.2*rng.NormFloat64())
	duration = min(max(duration, 1200), 86400)
	l := &life{id: id, rng: rng, now: epoch, step: row.time, need: math.Ceil(duration / row.time)}
	l.job = estimator.Job{Requested: row.shape, Scale: estimator.LocalBatch}
	unit := 5 * time.Minute
	switch u := rng.Float64(); {
	case u < 0.35:
		l.job.Class = planner.Strict
	case u < 0.6:
		l.job.Class = planner.Soft
	default:
		l.job.Class = planner.BestEffort
	}
	if l.job.Class.SLO() {
		unit *= 2
	}
	l.job.Lease = unit
	slack := 1.1 + 0.9*rng.Float64()
	l.job.Deadline = epoch.Add(planner.Seconds(slack*duration) + 10*time.Minute)
	l.cutP = 0.25
	if l.job.Class.SLO() {
		l.cutP = 1 - 1/slack
	}
	for _, p := range prof {
		if p.batch == row.batch {
			l.job.Samples = append(l.job.Samples, estimator.Sample{Shape: p.shape, Batch: p.batch, Profile: true, N: 50, StdErr: 0.02 * p.time,
				IterTime: p.time * (1 + 0.02*rng.NormFloat64()), At: epoch})
		}
	}
	l.job.Stop = estimator.Stop{Kind: estimator.Iterations, Iterations: int64(l.need)}
	if rng.IntN(5) == 0 && len(runs) > 0 {
		l.metric(runs[rng.IntN(len(runs))])
	}
	return l
}

// metric makes the job stop on a metric: a measured curve, stretched so that it reaches 99 % of its best value at the true iterations.
func (l *life) metric(r run) {
	best := 0.0
	for _, p := range r.points {
		best = max(best, p.Value)
	}
	i := slices.IndexFunc(r.points, func(p estimator.Point) bool { return p.Value >= 0.99*best })
	if i < 1 {
		return
	}
	stretch := l.need / float64(r.points[i].Iter)
	for _, p := range r.points {
		p.Iter = int64(math.Round(float64(p.Iter) * stretch))
		l.curve = append(l.curve, p)
	}
	l.need = float64(l.curve[i].Iter)
	l.job.Stop = estimator.Stop{Kind: estimator.Metric, Metric: "val_acc", Up: true, Target: 0.99 * best, Max: l.curve[len(l.curve)-1].Iter}
	if r.group == "imagenet" {
		l.job.Stop.Milestones = []int{30, 60, 80}
	}
}

// run lives the job lease by lease, then forecasts from the states at 25, 50 and 75 %.
func (l *life) run(fab *estimator.Fabric) {
	resume := func() float64 {
		return 30 * (1 + math.Log2(float64(l.job.Requested.GPUs()))) * math.Exp(0.15*l.rng.NormFloat64())
	}
	ran, iters := 0.0, 0.0
	for iters < l.need {
		lease := l.job.Lease.Seconds()
		pace := l.step * (1 + 0.05*l.rng.NormFloat64()/math.Sqrt(lease/60))
		n := min(lease/pace, l.need-iters)
		ran, iters = ran+n*pace, iters+n
		l.leases++
		l.now = epoch.Add(planner.Seconds(ran))
		l.job.Samples = append(slices.Clone(l.job.Samples), estimator.Sample{Shape: l.job.Requested, Batch: l.job.Samples[0].Batch, IterTime: pace, StdErr: 0.02 * pace, At: l.now})
		l.job.Done = int64(iters)
		l.job.RanSeconds = ran
		for len(l.job.Curve) < len(l.curve) && float64(l.curve[len(l.job.Curve)].Iter) <= iters {
			l.job.Curve = l.curve[:len(l.job.Curve)+1]
		}
		if iters < l.need && l.rng.Float64() < l.cutP {
			l.cuts++
			c, r := 4*math.Exp(0.15*l.rng.NormFloat64()), resume()
			s := estimator.SRSample{GPUs: l.job.Requested.GPUs(), Nodes: l.job.Requested.Nodes()}
			s.Seconds = c
			l.job.Checkpoints = append(slices.Clone(l.job.Checkpoints), s)
			s.Seconds = r
			l.job.Resumes = append(slices.Clone(l.job.Resumes), s)
			ran += c + r
		}
		l.events = append(l.events, event{ran, iters, l.job})
	}
	l.total = ran
	for _, at := range []float64{0.25, 0.5, 0.75} {
		i := slices.IndexFunc(l.events, func(e event) bool { return e.ran >= at*l.total })
		if i < 0 || l.events[i].ran > (at+0.1)*l.total {
			continue
		}
		e := l.events[i]
		e.job.RanSeconds = e.ran
		now := epoch.Add(planner.Seconds(e.ran))
		d, ok := estimator.DurationOf(fab.Estimate(e.job, now), e.job.Requested)
		if !ok {
			continue
		}
		l.forecasts = append(l.forecasts, estimator.Forecast{Job: l.id, Class: l.job.Class, GPUs: l.job.Requested.GPUs(), At: now, Left: d.Interval(), Ran: e.ran})
	}
	if l.job.Class.SLO() {
		l.leases, l.cuts = 0, 0
	}
}
