// Package metrics shows the daemon to Prometheus. Every name begins with unisched_; no label ever holds a job, a user, an account, a node or any other
// text from outside, and every series exists from the start, so their number never changes (case 54).
//
// It refuses to measure: it is handed each published view with what is new in it, each line of the loop's log and each request to Slurm, by the daemon,
// and turns them into numbers. It decides nothing and alerts nobody: the rules are in etc/prometheus, each metric is explained in docs/metrics.md.
package metrics

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/bridge/news"
	"unisched/planner"
	"unisched/slurm"
)

const space = "unisched"

// Metrics is the registry and all that is in it. View, Cycle and Note are for the loop's goroutine; the others may be called from any.
type Metrics struct {
	reg *prometheus.Registry
	now func() time.Time
	ages

	jobs, gpus, stage, atRisk, resting                          *prometheus.GaugeVec
	leases, profileWait, gap, margin, objective, planJobs, luck prometheus.Gauge
	slurmUp, suspect, paused, stopped, leader, journal, token   prometheus.Gauge

	rounds, solves, actions, checkpoints, ended, slo, reports, rest, notices                          *prometheus.CounterVec
	cycles, cycleFailures, suspects, badPlans, preemptions, lost, jumps, doubted, stalls, logsDropped prometheus.Counter
	cycleSeconds, solveSeconds, profileWaits, prediction, forecast                                    prometheus.Histogram
	restSeconds                                                                                       *prometheus.HistogramVec

	last counted
}

// ages are instants whose age is shown when somebody asks.
type ages struct{ plan, seen, cycle instant }

// counted is what a counter of the daemon's stood at when it was last looked at.
type counted struct {
	plan                                                                          string
	bad, preempted, lost, jumps, doubted, stalls, suspect, confirmed, unconfirmed int64
	failed, taken, refused, full, resyncs                                         int64
}

// New makes the registry. clock is the wall clock against which ages are shown, version the daemon's own.
func New(clock func() time.Time, version string) *Metrics {
	m := &Metrics{reg: prometheus.NewRegistry(), now: clock}
	m.gauges()
	m.counters()
	m.histograms()
	begin := clock()
	m.gaugeFunc("up_seconds", "Time since the daemon began.", func() float64 { return m.now().Sub(begin).Seconds() })
	m.gaugeFunc("plan_age_seconds", "Age of the plan that is carried out; NaN before the first.", m.plan.age(m.now))
	m.gaugeFunc("snapshot_age_seconds", "Age of the last good look at Slurm; NaN before the first.", m.seen.age(m.now))
	m.gaugeFunc("cycle_age_seconds", "Time since the last cycle of the loop finished, well or not; NaN before the first.", m.cycle.age(m.now))
	info := m.gaugeVec("build_info", "1; the label is the daemon's version.", []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.reg.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{Namespace: space}))
	return m
}

// Handler serves the metrics; no more than a few scrapes at once.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second, DisableCompression: true})
}

// Cycle takes the end of one cycle: when it began, how long it took, how it ended, and the size of the journal then.
func (m *Metrics) Cycle(began time.Time, took time.Duration, err error, journalBytes int64) {
	m.cycles.Inc()
	if err != nil {
		m.cycleFailures.Inc()
	}
	m.cycleSeconds.Observe(took.Seconds())
	m.cycle.set(began.Add(took))
	m.journal.Set(float64(journalBytes))
	set(m.leader, !errors.Is(err, journal.ErrLocked))
}

// View takes a published view and what is new in it.
func (m *Metrics) View(v *bridge.View, changes []news.Change) {
	if v == nil || v.Cycle == 0 {
		return
	}
	m.state(v)
	m.queue(v)
	m.round(v.LastPlan)
	m.totals(v.Actions)
	for _, c := range changes {
		m.change(c)
	}
}

// state is how the daemon itself is.
func (m *Metrics) state(v *bridge.View) {
	for _, s := range bridge.Stages() {
		set(m.stage.WithLabelValues(string(s)), v.Stage == s)
	}
	set(m.paused, v.Paused)
	set(m.slurmUp, v.Trouble == "")
	set(m.suspect, v.Suspect != "")
	m.stopped.Set(float64(len(v.Standstills)))
	m.seen.set(v.SeenAt)
	g := v.GPUs
	for state, n := range map[string]int{"total": g.Total, "held": g.Managed, "other": g.Other, "free": g.Free, "holes": g.Holes} {
		m.gpus.WithLabelValues(state).Set(float64(n))
	}
}

// queue is how the jobs stand.
func (m *Metrics) queue(v *bridge.View) {
	type cell struct {
		class planner.Class
		phase bridge.Phase
	}
	count, leases, wait := map[cell]int{}, 0, time.Duration(0)
	for i := range v.Jobs {
		j := &v.Jobs[i]
		count[cell{classOf(j.Class), j.Phase}]++
		if j.Phase.OnGPUs() {
			leases++
		}
		if j.Phase == bridge.Admitted && j.Profile.Needed() && j.Blocked == "" {
			wait = max(wait, v.At.Sub(j.Submitted))
		}
	}
	for _, c := range classes {
		for _, p := range bridge.Phases() {
			m.jobs.WithLabelValues(string(c), string(p)).Set(float64(count[cell{c, p}]))
		}
	}
	m.leases.Set(float64(leases))
	m.profileWait.Set(wait.Seconds())
	m.luck.Set(v.Snapshot.Luck)
	risk := news.AtRisk(v)
	for _, c := range sloClasses {
		m.atRisk.WithLabelValues(string(c)).Set(float64(risk[c]))
	}
}

// round takes a plan that was not seen before.
func (m *Metrics) round(p planner.Plan) {
	id := p.ID + " " + p.Now.UTC().Format(time.RFC3339Nano)
	if p.ID == "" || id == m.last.plan {
		return
	}
	m.last.plan = id
	m.plan.set(p.Now)
	m.rounds.WithLabelValues(sourceOf(p.Candidate)).Inc()
	s := p.Solver
	m.solves.WithLabelValues(oneOf(s.Status, solverStatuses)).Inc()
	if s.Status != "skipped" {
		m.solveSeconds.Observe(s.Solve.Seconds())
	}
	set(m.resting.WithLabelValues(), s.Status == "skipped" && s.Error != "")
	m.gap.Set(known(s.Gap))
	m.margin.Set(p.Margin)
	m.objective.Set(p.Objective)
	m.planJobs.Set(float64(len(p.Entries)))
}

// totals takes the loop's own counts.
func (m *Metrics) totals(a bridge.ActionCounts) {
	l := &m.last
	rise(m.badPlans, a.BadPlans, &l.bad)
	rise(m.preemptions, a.Preemptions, &l.preempted)
	rise(m.lost, a.Lost, &l.lost)
	rise(m.jumps, a.Jumps, &l.jumps)
	rise(m.doubted, a.Doubted, &l.doubted)
	rise(m.stalls, a.Stalls, &l.stalls)
	rise(m.suspects, a.Suspect, &l.suspect)
	rise(m.checkpoints.WithLabelValues("confirmed"), a.CheckpointsConfirmed, &l.confirmed)
	rise(m.checkpoints.WithLabelValues("unconfirmed"), a.CheckpointsUnconfirmed, &l.unconfirmed)
	rise(m.checkpoints.WithLabelValues("failed"), a.CheckpointsFailed, &l.failed)
}

// change takes what is new of one job.
func (m *Metrics) change(c news.Change) {
	j := c.Job
	if !c.ProfileBegan.IsZero() {
		m.profileWaits.Observe(max(c.ProfileBegan.Sub(j.Submitted).Seconds(), 0))
	}
	if !c.Ended {
		return
	}
	m.ended.WithLabelValues(string(classOf(j.Class)), string(j.Phase)).Inc()
	if j.Met != nil && (j.Class == planner.Strict || j.Class == planner.Soft) {
		result := "met"
		switch {
		case *j.Met < 0:
			result = "missed"
		case *j.Met > 0:
			result = "late"
		}
		m.slo.WithLabelValues(string(j.Class), result).Inc()
	}
	if j.Phase != bridge.Completed || j.Held <= 0 {
		return
	}
	for i, f := range j.Forecasts {
		if told := f.Ran + f.Left.Mid; i == 0 && told > 0 {
			m.prediction.Observe(j.Held / told)
		}
		if left := j.Held - f.Ran; left > 0 {
			m.forecast.Observe(abs(f.Left.Mid-left) / left)
		}
	}
}

// Note takes a line of the loop's log; those that say what became of an action count.
func (m *Metrics) Note(n bridge.Note) {
	if n.Outcome != "" {
		m.actions.WithLabelValues(oneOf(n.Kind, actionKinds), oneOf(string(n.Outcome), outcomes)).Inc()
	}
}

// Reports takes the sums of the node listener.
func (m *Metrics) Reports(taken, refused, full, resyncs int64) {
	l := &m.last
	rise(m.reports.WithLabelValues("taken"), taken, &l.taken)
	rise(m.reports.WithLabelValues("refused"), refused, &l.refused)
	rise(m.reports.WithLabelValues("full"), full, &l.full)
	rise(m.reports.WithLabelValues("resync"), resyncs, &l.resyncs)
}

// Request takes one request to slurmrestd: its kind, the HTTP status (0: no answer) and how long it took.
func (m *Metrics) Request(kind slurm.RequestKind, status int, took time.Duration) {
	m.rest.WithLabelValues(codeOf(status)).Inc()
	m.restSeconds.WithLabelValues(string(kind)).Observe(took.Seconds())
}

// Token takes when the Slurm token ends; the zero time when that is not known.
func (m *Metrics) Token(ends time.Time) {
	left := known(-1)
	if !ends.IsZero() {
		left = ends.Sub(m.now()).Seconds()
	}
	m.token.Set(left)
}

// Notice takes what became of one notice: sent, failed, dropped (queue full) or limited.
func (m *Metrics) Notice(result string) {
	m.notices.WithLabelValues(oneOf(result, noticeResults)).Inc()
}

// LogDropped takes log lines that nobody read in time.
func (m *Metrics) LogDropped(lines int) { m.logsDropped.Add(float64(lines)) }
