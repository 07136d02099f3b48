// Package ask answers questions about one published view of the loop: why a job waits or runs and what to expect of it, and what would become of one that were
// submitted or changed.
//
// It refuses to change anything, or to wait for the loop: a view is a value, and an answer depends on nothing else. The control socket calls it from its own
// goroutines; the command line and the page show what it says.
package ask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// Explanation is all that can be said of one job.
type Explanation struct {
	Schema int            `json:"schema_version"`
	At     time.Time      `json:"at"` // of the view
	Job    bridge.JobView `json:"job"`
	// Managed says that the job is ours to steer now.
	Managed bool `json:"managed"`
	// Slurm is what Slurm says, in words.
	Slurm string `json:"slurm"`
	// Verdict is the one sentence to read, Cause what binds.
	Verdict string `json:"verdict"`
	Cause   Cause  `json:"cause"`
	// Risk says why it will not do what its user wants, "" when nothing speaks against it.
	Risk string `json:"risk,omitempty"`
	// Start and Finish are what is expected; absent when the plan does not reach that far, or when it is too late to expect.
	Start  *Moment `json:"start,omitempty"`
	Finish *Moment `json:"finish,omitempty"`
	// Beyond says that they lie beyond the plan's horizon and come from playing the plan out: a guess at best.
	Beyond    bool       `json:"beyond_horizon,omitempty"`
	Deadlines []Deadline `json:"deadlines,omitempty"`
	Leases    []Lease    `json:"leases"`
	Audit     []Audit    `json:"audit"`
	Plan      string     `json:"plan,omitempty"` // id of the newest plan that decided about it
	PlanMade  time.Time  `json:"plan_made,omitzero"`
	// Helps is what would change it, each solved by the planner; only when asked for.
	Helps []Help `json:"helps,omitempty"`
}

// Cause is the binding constraint.
type Cause struct {
	Code string `json:"code"` // stable: see the Cause constants
	Text string `json:"text,omitempty"`
	// Do is what its user, or an admin, can do about it; "" when there is nothing to do.
	Do string `json:"do,omitempty"`
}

// Moment is an instant with its 80 % interval.
type Moment struct {
	Low  time.Time `json:"low"`
	Mid  time.Time `json:"mid"`
	High time.Time `json:"high"`
}

// Deadline is one of the job's with what is expected of it.
type Deadline struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
	// Chance is the probability to finish by then; absent when no end is expected.
	Chance *float64 `json:"chance,omitempty"`
	// Spare is from the expected (or true) end to At, in seconds.
	Spare   *float64 `json:"spare_s,omitempty"`
	Counted bool     `json:"counted,omitempty"` // the plan counts on it
	Met     bool     `json:"met,omitempty"`
}

// Lease is a stay of the job on GPUs: past, now, or planned.
type Lease struct {
	Run     int               `json:"run"`
	From    time.Time         `json:"from"`
	To      time.Time         `json:"to"`
	Kind    string            `json:"kind"` // past, now, plan
	Place   planner.Placement `json:"place"`
	Where   string            `json:"where"`
	Profile bool              `json:"profile,omitempty"`
}

// Audit is one thing that happened. ID is the journal's and the log's of the action of ours that it tells of; of what others did it is job, run and instant.
type Audit struct {
	ID string `json:"id"`
	bridge.Event
}

// Explain explains one job of a view.
func Explain(v *bridge.View, j bridge.JobView) Explanation {
	x := Explanation{Schema: bridge.ViewSchema, At: v.At, Job: j, Managed: j.Phase.Ours(), Slurm: SlurmSays(&j), Risk: j.Risk(), Leases: []Lease{}, Audit: []Audit{}}
	e := &explainer{v: v, j: &x.Job, x: &x}
	e.expect()
	e.deadlines()
	x.Cause = e.cause()
	x.Verdict = e.verdict()
	e.leases()
	for _, ev := range j.Events {
		id := cmp.Or(ev.Action, fmt.Sprintf("%d.%d@%s", j.ID, ev.Run, ev.At.UTC().Format("20060102T150405.000Z")))
		x.Audit = append(x.Audit, Audit{id, ev})
	}
	if j.Target.Plan != "" && j.Phase.Ours() {
		x.Plan = j.Target.Plan
		if j.Target.Plan == v.LastPlan.ID {
			x.PlanMade = v.LastPlan.Made
		}
	}
	return x
}

type explainer struct {
	v *bridge.View
	j *bridge.JobView
	x *Explanation
	// total is the distribution of the run time that the estimate foresees, ok when there is one.
	total estimator.Duration
	ok    bool
}

// run is the job's run as plans name it.
func (e *explainer) run() planner.Run {
	return planner.Run{Job: planner.JobID(e.j.ID), Restart: e.j.Restart}
}

// expect works out when it starts and ends.
func (e *explainer) expect() {
	j := e.j
	if !j.Phase.Ours() {
		return
	}
	if len(j.Estimate.Speeds) > 0 {
		shape := j.Estimate.Speeds[0].Shape
		if s := j.Placement.Shape(); j.Phase == bridge.Running && len(s) > 0 {
			if _, known := j.Estimate.SpeedOf(s); known {
				shape = s
			}
		}
		e.total, e.ok = estimator.DurationOf(j.Estimate, shape)
	}
	if !j.Phase.OnGPUs() {
		e.x.Start = e.start()
	}
	if !j.Forecast.IsZero() {
		f := &Moment{j.ForecastLow, j.Forecast, j.ForecastHigh}
		if f.Low.IsZero() {
			f.Low = f.Mid
		}
		if f.High.IsZero() {
			f.High = f.Mid
		}
		if s := e.x.Start; s != nil { // what may move the start moves the end
			f.Low, f.High = f.Low.Add(-s.Mid.Sub(s.Low)), f.High.Add(s.High.Sub(s.Mid))
		}
		if f.Low.Before(e.v.At) {
			f.Low = e.v.At
		}
		e.x.Finish = f
	}
}

// start is when the plan lets the job start, as early and as late as the jobs may end whose GPUs it is to take. A start that waits for the end of a lease, not of a
// job, is as sure as the plan.
func (e *explainer) start() *Moment {
	at := e.j.Target.StartBy
	if at.IsZero() {
		return nil
	}
	if at.Before(e.v.At) {
		at = e.v.At
	}
	m := &Moment{at, at, at}
	mine := slices.IndexFunc(e.v.LastPlan.Leases, func(l planner.Lease) bool { return l.Run == e.run() })
	if mine < 0 {
		return m
	}
	nodes := e.v.LastPlan.Leases[mine].Placement.Names()
	ends := map[planner.Run]planner.Lease{} // the last lease of those who are there before
	for _, l := range e.v.LastPlan.Leases {
		if l.Run != e.run() && !l.Until.After(at) && slices.ContainsFunc(l.Placement.Names(), func(n string) bool { return slices.Contains(nodes, n) }) {
			ends[l.Run] = l
		}
	}
	for i := range e.v.Jobs {
		o := &e.v.Jobs[i]
		l, ok := ends[planner.Run{Job: planner.JobID(o.ID), Restart: o.Restart}]
		if !ok || at.Sub(l.Until) > e.v.Unit || o.Forecast.IsZero() || o.Forecast.After(l.Until) {
			continue
		}
		if low := at.Add(-o.Forecast.Sub(o.ForecastLow)); !o.ForecastLow.IsZero() && low.Before(m.Low) {
			m.Low = low
		}
		if high := at.Add(o.ForecastHigh.Sub(o.Forecast)); high.After(m.High) {
			m.High = high
		}
	}
	if m.Low.Before(e.v.At) {
		m.Low = e.v.At
	}
	return m
}

// deadlines says of each what is expected.
func (e *explainer) deadlines() {
	j := e.j
	for i, t := range j.Tiers {
		d := Deadline{At: t.At, Value: t.Value, Met: j.Met != nil && *j.Met == i}
		d.Counted = j.Phase.Ours() && j.Target.Decision != "" && j.Target.Tier == i
		end := j.Forecast
		if !j.Ended.IsZero() {
			end = j.Ended
		}
		if !end.IsZero() {
			s := t.At.Sub(end).Seconds()
			d.Spare = &s
			if e.ok && j.Ended.IsZero() {
				p := e.chance(s)
				d.Chance = &p
			}
		}
		e.x.Deadlines = append(e.x.Deadlines, d)
	}
}

// chance is the probability to end no later than spare seconds after the expected end: the doubt about the run time, and about the start in three steps.
func (e *explainer) chance(spare float64) float64 {
	mid := e.total.Quantile(0.5)
	within := func(late time.Duration) float64 { return e.total.Within(mid + spare - late.Seconds()) }
	s := e.x.Start
	if s == nil {
		return within(0)
	}
	return (within(s.Low.Sub(s.Mid)) + 2*within(0) + within(s.High.Sub(s.Mid))) / 4
}

func (e *explainer) leases() {
	for _, s := range e.j.Stays {
		l := Lease{Run: s.Run, From: s.From, To: s.To, Kind: "past", Place: s.Placement, Where: s.Placement.String(), Profile: s.Profile}
		if s.To.IsZero() {
			l.Kind, l.To = "now", e.v.At
		}
		e.x.Leases = append(e.x.Leases, l)
	}
	if !e.j.Phase.Ours() || e.j.Blocked != "" && !e.j.Phase.OnGPUs() { // what a plan foresaw before it was held, say, does not come
		return
	}
	for _, l := range e.v.LastPlan.Leases {
		if l.Run != e.run() || !l.Until.After(e.v.At) {
			continue
		}
		from := l.From
		if from.Before(e.v.At) {
			from = e.v.At
		}
		e.x.Leases = append(e.x.Leases, Lease{Run: l.Run.Restart, From: from, To: l.Until, Kind: "plan", Place: l.Placement, Where: l.Placement.String()})
	}
}

// slurmWords explains the reasons that our own doing gives rise to, and the commonest others.
var slurmWords = map[string]string{
	"BeginTime":       "its begin time has not come",
	"JobHeldAdmin":    "held by an operator",
	"JobHeldUser":     "held by its user",
	"Dependency":      "waits for another job",
	"Resources":       "waits for resources",
	"Priority":        "others are before it in Slurm's order",
	"Reservation":     "waits for its reservation",
	"ReqNodeNotAvail": "a node that it needs is not available",

	"QOSMaxGRESPerUser":        "its user holds as many GPUs as its QOS lets one user have",
	"QOSGrpGRES":               "the jobs of its QOS hold as many GPUs as they may in all",
	"AssocGrpGRES":             "the jobs of its account hold as many GPUs as they may in all",
	"QOSMaxJobsPerUserLimit":   "its user runs as many jobs as its QOS lets one user have",
	"AssocMaxJobsLimit":        "as many jobs run as its user may have in this account",
	"DependencyNeverSatisfied": "waits for another job, which can never do what it waits for",
}

// SlurmSays is what Slurm says of a job, in words.
func SlurmSays(j *bridge.JobView) string {
	s := j.SlurmState
	if s == "" {
		return "nothing: the job is no longer shown"
	}
	if j.SlurmReason == "" {
		return s
	}
	s += " (" + j.SlurmReason + ")"
	if w := slurmWords[j.SlurmReason]; w != "" {
		s += ": " + w
	}
	switch {
	case j.SlurmReason == "BeginTime" && !j.Changed.Begin.IsZero():
		s += "; UniSched set it, and renews it while the job waits"
	case j.SlurmReason == "JobHeldAdmin" && j.Changed.Hold:
		s += "; UniSched holds it inside a move, and lets go at its end"
	}
	return s
}

func jobOf(v *bridge.View, id slurm.JobID) *bridge.JobView {
	for i := range v.Jobs {
		if v.Jobs[i].ID == id {
			return &v.Jobs[i]
		}
	}
	return nil
}
