package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/slurm"
)

// Question is a job that is not submitted yet, as sbatch would be told about it.
type Question struct {
	Name       string `json:"name,omitempty"`
	User       string `json:"user,omitempty"`
	Account    string `json:"account,omitempty"`
	QOS        string `json:"qos,omitempty"`
	Partition  string `json:"partition,omitempty"`
	Command    string `json:"command,omitempty"` // path of the script: earlier jobs of the same one are remembered
	Comment    string `json:"comment"`
	Constraint string `json:"constraint,omitempty"`
	// GPUs in all, over Nodes (0: as many as it takes); GPUsPerNode when they are asked for per node.
	GPUs        int    `json:"gpus"`
	GPUsPerNode int    `json:"gpus_per_node,omitempty"`
	GPUType     string `json:"gpu_type,omitempty"`
	Nodes       int    `json:"nodes,omitempty"`
	Tasks       int    `json:"tasks,omitempty"`
	CPUsPerTask int    `json:"cpus_per_task,omitempty"`
	MemMB       int64  `json:"mem_mb,omitempty"` // per node
	LimitS      int64  `json:"time_limit_s,omitempty"`
	NoRequeue   bool   `json:"no_requeue,omitempty"`
}

// Answer is what would become of it.
type Answer struct {
	Explanation
	// Accepted: it would be managed, fits the cluster, and the plan counts on a deadline of it (or it has none). AtRisk: accepted or not, its deadline may well be missed.
	Accepted bool `json:"accepted"`
	AtRisk   bool `json:"at_risk"`
	// Measured says what would be measured first.
	Measured string `json:"measured,omitempty"`
	// Hurts lists the jobs that would lose a deadline by it.
	Hurts  []string `json:"hurts"`
	Solver string   `json:"solver"`
}

// Help is one change of a job and what would come of it, solved by the planner.
type Help struct {
	What   string   `json:"what"` // in words
	Change string   `json:"change"`
	Start  *Moment  `json:"start,omitempty"`
	Finish *Moment  `json:"finish,omitempty"`
	Chance *float64 `json:"chance,omitempty"` // of the deadline that counts
	Better bool     `json:"better"`
	Result string   `json:"result"` // in words
}

// Errors of an Asker.
var (
	ErrBusy     = errors.New("another what-if is being solved: try again in a moment")
	ErrQuestion = errors.New("question")
)

// SafeChance is the probability below which a deadline counts as at risk.
const SafeChance = 0.8

// Asker solves what-if questions with a planner of its own, one at a time: the loop's planner is never touched. Clock bounds how often.
type Asker struct {
	Config lease.Config
	// Solve makes the solver of one question (nil: greedy candidates alone).
	Solve func() milp.Solver
	Clock func() time.Time
	gate  gate
	// played is how the newest plan plays out to the end, by entry.
	played   []time.Time
	playedOf string
	// solved are the helps of the newest plan, by job.
	solved   map[slurm.JobID][]Help
	solvedOf string
}

// WhatIf answers what would become of a job that were submitted now.
func (a *Asker) WhatIf(ctx context.Context, v *bridge.View, q Question) (Answer, error) {
	job, err := q.job(v)
	if err != nil {
		return Answer{}, err
	}
	if err := a.gate.enter(ctx, a.Clock); err != nil {
		return Answer{}, err
	}
	defer a.gate.leave()
	s, err := v.Suppose(a.Clock(), job)
	if err != nil {
		return Answer{}, err
	}
	if s.Unmanaged != "" {
		x := Explanation{Schema: bridge.ViewSchema, At: v.At, Leases: []Lease{}, Audit: []Audit{}, Verdict: "It would be a plain Slurm job: not managed.", Risk: s.Unmanaged}
		x.Job.Name, x.Job.User, x.Job.GPUs, x.Job.Ref = q.Name, q.User, q.GPUs, "new"
		e := explainer{v: v, j: &bridge.JobView{Phase: bridge.Unmanaged, Why: s.Unmanaged, Ref: "ID"}}
		x.Cause = e.cause()
		x.Cause.Do = "unisched lint '...' checks the comment; unisched explain says the same of a submitted job."
		return Answer{Explanation: x, AtRisk: true, Hurts: []string{}}, nil
	}
	then := v.Snapshot
	then.Jobs = append(slices.Clone(then.Jobs), s.Job)
	plan := a.plan(ctx, v, then)
	w, j := supposed(v, s, then, plan)
	j, beyond := a.beyond(w, j)
	x := Explain(w, j)
	x.Beyond = beyond
	ans := Answer{Explanation: x, Hurts: hurts(v, then, plan), Solver: plan.Solver.Status}
	ans.judge()
	if s.Profile.Needed() {
		ans.Measured = fmt.Sprintf("%v first, about a minute each; the estimate is wide until then", s.Profile.Steps)
	}
	return ans, ctx.Err()
}

// supposed is a view in which the plan is the newest and the supposed job is one of the jobs.
func supposed(v *bridge.View, s *bridge.Supposed, then planner.Snapshot, plan planner.Plan) (*bridge.View, bridge.JobView) {
	w := *v
	w.LastPlan, w.Snapshot, w.Paused, w.Stage = plan, then, false, bridge.StageStrict
	j := s.View(v.At, plan)
	w.Jobs = append(slices.DeleteFunc(slices.Clone(v.Jobs), func(o bridge.JobView) bool { return o.ID == j.ID }), j)
	return &w, j
}

func (ans *Answer) judge() {
	x := &ans.Explanation
	ans.Accepted = x.Managed && x.Cause.Code != CauseDoomed && x.Cause.Code != CauseLate && (len(x.Deadlines) == 0 || slices.ContainsFunc(x.Deadlines, func(d Deadline) bool { return d.Counted }))
	ans.AtRisk = !ans.Accepted || x.Risk != ""
	for _, d := range x.Deadlines {
		if d.Counted && d.Chance != nil && *d.Chance < SafeChance {
			ans.AtRisk = true
		}
	}
}

// plan makes a plan with a planner of its own that remembers the newest one.
func (a *Asker) plan(ctx context.Context, v *bridge.View, s planner.Snapshot) planner.Plan {
	var solve milp.Solver
	if a.Solve != nil {
		solve = a.Solve()
	}
	p := lease.New(a.Config, solve)
	p.Reset(v.LastPlan)
	return p.Plan(ctx, s)
}

// hurts names the jobs for which the plan counts on less than the loop's own.
func hurts(v *bridge.View, then planner.Snapshot, plan planner.Plan) []string {
	out := []string{}
	for i, j := range then.Jobs {
		was, ok := v.LastPlan.Of(j.Run)
		if !ok || was.Tier < 0 || i >= len(plan.Entries) {
			continue
		}
		if e := plan.Entries[i]; e.Run == j.Run && (e.Tier < 0 || e.Tier > was.Tier) {
			name := fmt.Sprint(j.Run.Job)
			if o := jobOf(v, slurm.JobID(j.Run.Job)); o != nil {
				name = o.Ref
			}
			out = append(out, name)
		}
	}
	return out
}

// Explain explains a job, with what would change it, and with when it starts and ends where that lies beyond the plan's horizon: the plan is then played out to its
// end, as if no other decision were ever made. When the planner is busy, it is the plain explanation.
func (a *Asker) Explain(ctx context.Context, v *bridge.View, j bridge.JobView) Explanation {
	if !j.Phase.Ours() || j.Phase.OnGPUs() {
		return Explain(v, j)
	}
	if a.gate.enter(ctx, a.Clock) != nil {
		return Explain(v, j)
	}
	defer a.gate.leave()
	far, beyond := a.beyond(v, j)
	x := Explain(v, far)
	x.Beyond = beyond
	if a.solvedOf != v.LastPlan.ID || a.solved == nil { // somebody may watch: once a plan is enough
		a.solved, a.solvedOf = map[slurm.JobID][]Help{}, v.LastPlan.ID
	}
	helps, ok := a.solved[j.ID]
	if !ok {
		if helps = a.helps(ctx, v, j); ctx.Err() == nil {
			a.solved[j.ID] = helps
		}
	}
	x.Helps = helps
	return x
}

// beyond plays the plan out for a job that the plan neither starts nor ends within its horizon. It is for whoever is inside the gate.
func (a *Asker) beyond(v *bridge.View, j bridge.JobView) (bridge.JobView, bool) {
	if !j.Forecast.IsZero() || !j.Phase.Ours() || j.Phase.OnGPUs() || j.Left.Mid <= 0 || j.Blocked != "" {
		return j, false
	}
	k := slices.IndexFunc(v.LastPlan.Entries, func(e planner.Entry) bool { return e.Run.Job == planner.JobID(j.ID) && e.Run.Restart == j.Restart })
	if k < 0 || v.LastPlan.Entries[k].Reason.Code == planner.ReasonNeverFits {
		return j, false
	}
	if a.playedOf != v.LastPlan.ID || v.LastPlan.ID == "" {
		a.played, a.playedOf = lease.PlayOut(v.Snapshot, v.LastPlan, a.Config), v.LastPlan.ID
	}
	if k >= len(a.played) || a.played[k].IsZero() {
		return j, false
	}
	j.Forecast = a.played[k]
	if j.Profile.Needed() { // what was played out is the step that measures it
		j.Forecast = j.Forecast.Add(planner.Seconds(j.Left.Mid))
	}
	j.ForecastLow, j.ForecastHigh = j.Forecast.Add(-planner.Seconds(j.Left.Mid-j.Left.Low)), j.Forecast.Add(planner.Seconds(j.Left.High-j.Left.Mid))
	if j.Target.StartBy.IsZero() {
		j.Target.StartBy = j.Forecast.Add(-planner.Seconds(j.Left.Mid))
	}
	return j, true
}

// Helps tries changes of a waiting job: fewer GPUs, a later deadline. Only those that were solved are returned.
func (a *Asker) Helps(ctx context.Context, v *bridge.View, j bridge.JobView) ([]Help, error) {
	if !j.Phase.Ours() || j.Phase.OnGPUs() || j.Blocked != "" {
		return nil, nil
	}
	if err := a.gate.enter(ctx, a.Clock); err != nil {
		return nil, err
	}
	defer a.gate.leave()
	return a.helps(ctx, v, j), ctx.Err()
}

// helps is for whoever is inside the gate.
func (a *Asker) helps(ctx context.Context, v *bridge.View, j bridge.JobView) []Help {
	if j.Blocked != "" {
		return nil
	}
	now := Explain(v, j)
	var out []Help
	for g := j.GPUs / 2; g >= 1 && len(out) < 2 && ctx.Err() == nil; g /= 2 {
		if j.GPUs%g != 0 {
			continue
		}
		s, err := v.SupposeGPUs(a.Clock(), j.ID, g)
		if err != nil {
			break
		}
		h := a.try(ctx, v, s, now)
		h.What, h.Change = fmt.Sprintf("on %d GPUs instead of %d", g, j.GPUs), fmt.Sprintf("gpus=%d", g)
		out = append(out, h)
	}
	if due := j.Due(); !due.IsZero() && (j.Risk() != "" || lowChance(now)) {
		if h, ok := a.later(ctx, v, j, now); ok {
			out = append(out, h)
		}
	}
	return out
}

func lowChance(x Explanation) bool {
	return slices.ContainsFunc(x.Deadlines, func(d Deadline) bool { return d.Counted && d.Chance != nil && *d.Chance < SafeChance })
}

// later looks for a deadline that the plan would count on: the expected end and a little, then twice and four times as far away.
func (a *Asker) later(ctx context.Context, v *bridge.View, j bridge.JobView, now Explanation) (Help, bool) {
	k := slices.IndexFunc(v.Snapshot.Jobs, func(p planner.Job) bool { return p.Run.Job == planner.JobID(j.ID) })
	if k < 0 || len(j.Tiers) == 0 {
		return Help{}, false
	}
	last := j.LastDeadline()
	miss := v.Unit
	if now.Finish != nil {
		miss = max(miss, now.Finish.High.Sub(last))
	} else if j.Left.High > 0 {
		miss = max(miss, v.At.Add(planner.Seconds(j.Left.High)).Sub(last))
	}
	for _, f := range []float64{1, 2, 4} {
		shift := niceSpan(time.Duration(math.Min(f*float64(miss), float64(30*24*time.Hour))))
		then := v.Snapshot
		then.Jobs = slices.Clone(then.Jobs)
		p := &then.Jobs[k]
		p.Tiers = slices.Clone(p.Tiers)
		for i := range p.Tiers {
			p.Tiers[i].At = p.Tiers[i].At.Add(shift)
		}
		plan := a.plan(ctx, v, then)
		e, ok := plan.Of(p.Run)
		if ctx.Err() != nil || !ok {
			return Help{}, false
		}
		if e.Tier < 0 {
			continue
		}
		w, o := *v, j
		o.Tiers = p.Tiers
		o.Target = bridge.Target{Decision: e.Decision, Placement: e.Placement, Until: e.LeaseUntil, Rank: e.Rank, Tier: e.Tier, Plan: plan.ID, Reason: e.Reason, StartBy: e.StartBy, Finish: e.Finish}
		o.Laxity += shift
		o.Forecast, o.ForecastLow, o.ForecastHigh = e.Finish, e.Finish, e.Finish
		if !e.Finish.IsZero() {
			o.ForecastLow, o.ForecastHigh = e.Finish.Add(-planner.Seconds(j.Left.Mid-j.Left.Low)), e.Finish.Add(planner.Seconds(j.Left.High-j.Left.Mid))
		}
		w.LastPlan, w.Snapshot = plan, then
		h := helpOf(Explain(&w, o), now)
		h.What, h.Change = "with a deadline "+about(shift)+" later", "deadline+"+shift.String()
		if h.Chance == nil || *h.Chance >= SafeChance || f == 4 {
			return h, true
		}
	}
	return Help{}, false
}

// niceSpan rounds up to what a person would write.
func niceSpan(d time.Duration) time.Duration {
	step := 5 * time.Minute
	switch {
	case d > 24*time.Hour:
		step = 6 * time.Hour
	case d > 6*time.Hour:
		step = time.Hour
	case d > time.Hour:
		step = 15 * time.Minute
	}
	return (d + step - 1) / step * step
}

func (a *Asker) try(ctx context.Context, v *bridge.View, s *bridge.Supposed, now Explanation) Help {
	then := v.Snapshot
	then.Jobs = slices.Clone(then.Jobs)
	for i := range then.Jobs {
		if then.Jobs[i].Run == s.Job.Run {
			then.Jobs[i] = s.Job
		}
	}
	return helpOf(Explain(supposed(v, s, then, a.plan(ctx, v, then))), now)
}

// helpOf compares what would be with what is.
func helpOf(x, now Explanation) Help {
	h := Help{Start: x.Start, Finish: x.Finish, Result: x.Verdict}
	was := 0.0
	for _, d := range now.Deadlines {
		if d.Chance != nil {
			was = math.Max(was, *d.Chance)
		}
	}
	for _, d := range x.Deadlines {
		if d.Counted && d.Chance != nil {
			h.Chance = d.Chance
		}
	}
	earlier := func(a, b *Moment) int {
		switch {
		case a == nil && b == nil:
			return 0
		case b == nil:
			return -1
		case a == nil:
			return 1
		}
		if d := a.Mid.Sub(b.Mid).Abs(); d < time.Minute {
			return 0
		}
		return a.Mid.Compare(b.Mid)
	}
	switch {
	case len(now.Deadlines) > 0 && h.Chance != nil:
		h.Better = *h.Chance > was+0.02
	case len(now.Deadlines) > 0:
		h.Better = now.Risk != "" && x.Risk == ""
	default:
		h.Better = cmp.Or(earlier(x.Finish, now.Finish), earlier(x.Start, now.Start)) < 0
	}
	return h
}
