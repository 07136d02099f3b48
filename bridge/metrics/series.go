package metrics

import (
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm"
)

// The values of labels. Each list is closed: what is not in it counts as "other".
var (
	classes        = []planner.Class{planner.Strict, planner.Soft, planner.BestEffort, ""}
	sloClasses     = []planner.Class{planner.Strict, planner.Soft}
	sources        = []string{"solver", "rounded", "cached", "greedy", "fallback", other}
	solverStatuses = []string{"optimal", "time-limit", "node-limit", "failed", "skipped", other}
	actionKinds    = append(bridge.ActionNames(), other)
	outcomes       = []string{string(bridge.Done), string(bridge.Refused), string(bridge.Unknown), other}
	ends           = []bridge.Phase{bridge.Completed, bridge.Failed, bridge.Cancelled}
	codes          = []string{"200", "400", "401", "403", "404", "422", "429", "500", "502", "503", "504", "511", "none", other}
	noticeResults  = []string{"sent", "failed", "dropped", "limited", other}
)

const other = "other"

// classOf is a class as it is counted: profilers count under their own wish, everything unknown as "".
func classOf(c planner.Class) planner.Class {
	if slices.Contains(classes, c) {
		return c
	}
	return ""
}

// sourceOf says how the plan of a candidate came about.
func sourceOf(candidate string) string {
	switch candidate {
	case "milp", "second":
		return "solver"
	case "rounded":
		return "rounded"
	case "last":
		return "cached"
	case "fallback", "rejected":
		return "fallback"
	case "":
		return other
	}
	return "greedy"
}

func codeOf(status int) string {
	if status == 0 {
		return "none"
	}
	return oneOf(strconv.Itoa(status), codes)
}

func oneOf(v string, list []string) string {
	if slices.Contains(list, v) {
		return v
	}
	return other
}

func (m *Metrics) gauges() {
	m.jobs = m.gaugeVec("jobs", "Jobs known to the daemon, by class (\"\" for unmanaged ones without one) and phase.", []string{"class", "phase"}, words(classes), words(bridge.Phases()))
	m.gpus = m.gaugeVec("gpus", "GPUs of usable managed nodes: total, held by managed jobs, by other jobs, free, and free on nodes in partial use (holes).", []string{"state"},
		[]string{"total", "held", "other", "free", "holes"})
	m.stage = m.gaugeVec("stage", "1 for the stage in force.", []string{"stage"}, words(bridge.Stages()))
	m.atRisk = m.gaugeVec("deadlines_at_risk", "Jobs with deadlines that are expected to miss them all.", []string{"class"}, words(sloClasses))
	m.resting = m.gaugeVec("greedy_mode", "1 while the solver is left alone after failures in a row.", nil)
	m.leases = m.gauge("leases", "Managed jobs that hold GPUs.")
	m.profileWait = m.gauge("profile_wait_longest_seconds", "How long the job that has waited longest for its profile run has waited since its submission.")
	m.luck = m.gauge("run_speed_spread", "How much the speeds of one job's runs differ, as measured here: the standard deviation of their logarithm; 0 until measured.")
	m.gap = m.gauge("plan_gap", "Relative distance of the plan's value to the solver's bound; NaN when there is none.")
	m.margin = m.gauge("plan_margin", "How much the plan earns more than the best other candidate.")
	m.objective = m.gauge("plan_objective", "What the plan earns, in the planner's own reward.")
	m.planJobs = m.gauge("plan_jobs", "Jobs that the plan decides on.")
	m.slurmUp = m.gauge("slurm_up", "1 when the newest look at Slurm succeeded.")
	m.suspect = m.gauge("snapshot_suspect", "1 while nothing disruptive is done because the snapshot, or the journal, is not to be trusted.")
	m.paused = m.gauge("paused", "1 while an operator has paused the daemon.")
	m.stopped = m.gauge("preemption_stopped_partitions", "Partitions in which nobody is preempted because preempted jobs do not come back.")
	m.leader = m.gauge("leader", "1 while this daemon may write; 0 when another one has taken its place.")
	m.journal = m.gauge("journal_bytes", "Size of the journal.")
	m.token = m.gauge("token_seconds_left", "Time until the Slurm token ends, by its own claim; NaN without one.")
	m.gap.Set(math.NaN())
	m.token.Set(math.NaN())
}

func (m *Metrics) counters() {
	m.rounds = m.counterVec("rounds_total", "Rounds of planning, by what made the plan that won.", []string{"source"}, sources)
	m.solves = m.counterVec("solver_rounds_total", "Rounds of planning, by how the solver ended.", []string{"status"}, solverStatuses)
	m.actions = m.counterVec("actions_total", "Writes to Slurm, by kind of action and what is known of the call.", []string{"kind", "outcome"}, actionKinds, outcomes)
	m.checkpoints = m.counterVec("checkpoints_total", "Checkpoints asked for: confirmed by the job or its return, not confirmed in time, or the job failed at the signal.", []string{"outcome"},
		[]string{"confirmed", "unconfirmed", "failed"})
	m.ended = m.counterVec("jobs_ended_total", "Managed jobs that ended, by class and how.", []string{"class", "phase"}, words(classes), words(ends))
	m.slo = m.counterVec("slo_total", "Ended jobs with deadlines: met the first one, a later one (soft), or none.", []string{"class", "result"}, words(sloClasses), []string{"met", "late", "missed"})
	m.reports = m.counterVec("node_reports_total", "Reports of node watchers: taken, refused (signature or form), turned away for want of room, or taken with a wish to send all again.", []string{"result"},
		[]string{"taken", "refused", "full", "resync"})
	m.rest = m.counterVec("rest_requests_total", "Requests to slurmrestd, by HTTP status (none: no answer).", []string{"code"}, codes)
	m.notices = m.counterVec("notices_total", "Notices by command or webhook.", []string{"result"}, noticeResults)
	m.cycles = m.counter("cycles_total", "Cycles of the loop that finished.")
	m.cycleFailures = m.counter("cycle_failures_total", "Cycles that finished with an error: Slurm could not be read or the journal not be written.")
	m.suspects = m.counter("suspect_snapshots_total", "Looks at Slurm that were not to be trusted.")
	m.badPlans = m.counter("plans_refused_total", "Plans that the judge refused.")
	m.preemptions = m.counter("preemptions_total", "Runs that ended because they were asked to leave, profile runs aside.")
	m.lost = m.counter("preempted_lost_total", "Jobs that were asked to leave and did not come back.")
	m.jumps = m.counter("prediction_jumps_total", "Estimates that left the 80 % interval of the same job's forecast before.")
	m.doubted = m.counter("progress_doubted_total", "Jobs whose reports of progress do not hold against what was seen of them.")
	m.stalls = m.counter("stalls_total", "Runs that made no iteration for two units while their GPUs were busy.")
	m.logsDropped = m.counter("log_lines_dropped_total", "Log lines that nobody read in time.")
}

func (m *Metrics) histograms() {
	h := func(name, help string, buckets ...float64) prometheus.Histogram {
		x := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help, Buckets: buckets})
		m.reg.MustRegister(x)
		return x
	}
	m.cycleSeconds = h("cycle_seconds", "Time that one cycle of the loop took.", .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120)
	m.solveSeconds = h("solver_seconds", "Wall clock of the solver in one round, rounds without it left out.", .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60)
	m.profileWaits = h("profile_wait_seconds", "Time from the submission to the first profile run.", 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
	m.prediction = h("prediction_ratio", "Run time of a completed job over its first forecast: 1 is right, 2 took twice as long.", .25, .5, .7, .8, .9, .95, 1.05, 1.1, 1.25, 1.5, 2, 4)
	m.forecast = h("forecast_error", "Relative error of each forecast of the run time left, scored when the job completed.", .02, .05, .1, .2, .3, .5, 1, 2)
	m.restSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: "rest_seconds", Help: "Time that requests to slurmrestd took, reading the answer included.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 90}}, []string{"kind"})
	m.reg.MustRegister(m.restSeconds)
	for _, k := range slurm.RequestKinds {
		m.restSeconds.WithLabelValues(string(k))
	}
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help})
	m.reg.MustRegister(g)
	return g
}

func (m *Metrics) gaugeFunc(name, help string, f func() float64) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help}, f))
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Name: name, Help: help})
	m.reg.MustRegister(c)
	return c
}

// gaugeVec makes every series of the product of the values at once.
func (m *Metrics) gaugeVec(name, help string, labels []string, values ...[]string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help}, labels)
	m.reg.MustRegister(v)
	each(labels, values, func(vs []string) { v.WithLabelValues(vs...) })
	return v
}

// counterVec makes every series of the product of the values at once.
func (m *Metrics) counterVec(name, help string, labels []string, values ...[]string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Name: name, Help: help}, labels)
	m.reg.MustRegister(v)
	each(labels, values, func(vs []string) { v.WithLabelValues(vs...) })
	return v
}

// each calls f with every combination of the values.
func each(labels []string, values [][]string, f func([]string)) {
	if len(values) != len(labels) { // a label whose values are not known beforehand
		return
	}
	var walk func(done []string)
	walk = func(done []string) {
		if len(done) == len(values) {
			f(done)
			return
		}
		for _, v := range values[len(done)] {
			walk(append(slices.Clone(done), v))
		}
	}
	walk(nil)
}

// words turns named strings into plain ones.
func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// rise brings a counter up to what was counted elsewhere.
func rise(c prometheus.Counter, now int64, last *int64) {
	if d := now - *last; d > 0 {
		c.Add(float64(d))
	}
	*last = now
}

func set(g prometheus.Gauge, on bool) {
	if on {
		g.Set(1)
		return
	}
	g.Set(0)
}

// known is v, or NaN for the negative values that stand for "not known".
func known(v float64) float64 {
	if v < 0 {
		return math.NaN()
	}
	return v
}

func abs(v float64) float64 { return math.Abs(v) }

// instant is a time that one goroutine sets and others read.
type instant struct{ ns atomic.Int64 }

func (i *instant) set(t time.Time) {
	if !t.IsZero() {
		i.ns.Store(t.UnixNano())
	}
}

// age is how long ago the instant was, in seconds.
func (i *instant) age(now func() time.Time) func() float64 {
	return func() float64 {
		ns := i.ns.Load()
		if ns == 0 {
			return math.NaN()
		}
		return now().Sub(time.Unix(0, ns)).Seconds()
	}
}
