package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// made is a cluster out of thin air: jobs put one after the other on nodes of 8 GPUs, seen at one moment. It costs nothing to make, whatever its size, and moves when
// it is seen at a later moment. Nothing in it was decided by a scheduler.
type made struct {
	nodes, jobs int
	seed        uint64
	begin       time.Time // of the first job
}

// Hostile texts are among the names and events: whatever a user writes must be shown as it is, and do nothing.
const hostile = `<img src=x onerror="document.title='owned'">"';</script>&amp;`

type madeJob struct {
	from, to  time.Time
	submitted time.Time
	place     planner.Placement
	class     planner.Class
	gpus      int
	user      string
	name      string
	due       time.Time
}

// schedule puts the jobs on lanes, each on the aligned block that is free first.
func (m made) schedule() []madeJob {
	rng := rand.New(rand.NewPCG(m.seed, 2))
	lanes := make([][8]time.Time, m.nodes)
	for n := range lanes {
		for l := range lanes[n] {
			lanes[n][l] = m.begin
		}
	}
	people := []string{"anna", "bo", "chen", "dora", "emil", "farah", "goran", "hana", "ines", "jun"}
	works := []string{"bert", "resnet", "asr", "vit", "diffusion", "gnn", "nerf", "llm-sft", "reward", "unet"}
	jobs := make([]madeJob, m.jobs)
	for i := range jobs {
		j := &jobs[i]
		j.gpus = []int{1, 1, 1, 2, 2, 4, 4, 8, 8, 16}[rng.IntN(10)]
		j.class = []planner.Class{planner.Strict, planner.Soft, planner.Soft, planner.BestEffort}[rng.IntN(4)]
		j.user, j.name = people[rng.IntN(len(people))], fmt.Sprintf("%s-%d", works[rng.IntN(len(works))], i%9+1)
		if i%97 == 5 {
			j.name = hostile
		}
		d := (time.Duration(min(max(60*math.Exp(rng.NormFloat64()), 10), 600)) * time.Minute)
		per, count := min(j.gpus, 8), max(1, j.gpus/8)
		j.from = m.begin.Add(1000 * time.Hour)
		var at [2]int
		for n := 0; n+count <= m.nodes; n++ {
			for l := 0; l+per <= 8; l += per {
				free := m.begin
				for k := n; k < n+count; k++ {
					for x := l; x < l+per; x++ {
						if lanes[k][x].After(free) {
							free = lanes[k][x]
						}
					}
				}
				if free.Before(j.from) {
					j.from, at = free, [2]int{n, l}
				}
			}
		}
		j.to = j.from.Add(d)
		j.submitted = j.from.Add(-time.Duration(rng.IntN(6*3600)) * time.Second)
		for k := at[0]; k < at[0]+count; k++ {
			j.place = append(j.place, planner.Share{Node: fmt.Sprintf("n%03d", k+1), GPUs: per})
			for x := at[1]; x < at[1]+per; x++ {
				lanes[k][x] = j.to.Add(time.Duration(rng.IntN(120)) * time.Second)
			}
		}
		if j.class.SLO() {
			j.due = j.to.Add(time.Duration(rng.IntN(100)-12) * time.Minute)
		}
	}
	return jobs
}

// seen is the view of it at one moment.
func (m made) seen(now time.Time) *bridge.View {
	const unit = 5 * time.Minute
	v := &bridge.View{Schema: bridge.ViewSchema, At: now, Cycle: int64(now.Sub(m.begin) / time.Second), Stage: bridge.StageStrict, Unit: unit, Cluster: "made", Slurm: "26.05.5",
		SeenAt: now, NextPlan: now.Truncate(unit).Add(unit), LastPlan: planner.Plan{Schema: 1, ID: fmt.Sprint("p", now.Unix()), Now: now.Truncate(unit), Made: now, Unit: unit, Candidate: "milp"}}
	held := map[string]int{}
	counts := map[bridge.Phase]int{}
	for i, j := range m.schedule() {
		if j.submitted.After(now) {
			continue
		}
		view := m.job(v, i, j)
		counts[view.Phase]++
		if view.Phase == bridge.Running {
			for _, s := range j.place {
				held[s.Node] += s.GPUs
			}
		}
		v.Jobs = append(v.Jobs, view)
	}
	for p, n := range counts {
		v.Counts = append(v.Counts, bridge.PhaseCount{Phase: p, Jobs: n})
	}
	slices.SortFunc(v.Counts, func(a, b bridge.PhaseCount) int { return slices.Compare([]byte(a.Phase), []byte(b.Phase)) })
	for n := range m.nodes {
		name := fmt.Sprintf("n%03d", n+1)
		node := bridge.NodeView{Name: name, GPUType: "a100", Usable: n%37 != 11, GPUs: 8, Managed: held[name]}
		if !node.Usable {
			node.Why = "drained: " + hostile
		}
		v.Nodes = append(v.Nodes, node)
		v.GPUs.Total += 8
		v.GPUs.Managed += node.Managed
	}
	v.GPUs.Free = v.GPUs.Total - v.GPUs.Managed
	for t := now.Add(-24 * unit).Truncate(unit); t.Before(now); t = t.Add(unit) {
		v.Loads = append(v.Loads, bridge.Load{At: t, Total: v.GPUs.Total, Managed: v.GPUs.Total * (70 + int(t.Unix()/300%7)*4) / 100})
	}
	return v
}

// job is one of them as the view shows it, and its part of the plan.
func (m made) job(v *bridge.View, i int, j madeJob) bridge.JobView {
	now, id := v.At, slurm.JobID(1000+i)
	x := bridge.JobView{ID: id, Ref: id.String(), Name: j.name, User: j.user, Account: "lab", Class: j.class, GPUs: j.gpus, Submitted: j.submitted, Since: j.submitted,
		Phase: bridge.Waiting, SlurmState: "PENDING", SlurmReason: "BeginTime", Stop: "val_acc>=0.9, at most 20000 iterations", Forecast: j.to, ForecastLow: j.to.Add(-4 * time.Minute),
		ForecastHigh: j.to.Add(7 * time.Minute), Events: []bridge.Event{{At: j.submitted, What: "admitted", Text: "class " + string(j.class)}}}
	if !j.due.IsZero() {
		x.Tiers = []planner.Tier{{At: j.due, Value: 100}}
		x.Laxity = j.due.Sub(now) - j.to.Sub(j.from)
	}
	stay := bridge.Stay{From: j.from, Placement: j.place}
	switch {
	case !j.to.After(now):
		x.Phase, x.SlurmState, x.SlurmReason, x.Ended, x.Exit, stay.To = bridge.Completed, "", "", j.to, "COMPLETED, exit 0", j.to
		met := 0
		if !j.due.IsZero() && j.due.Before(j.to) {
			met = -1
		}
		if !j.due.IsZero() {
			x.Met = &met
		}
		x.Events = append(x.Events, bridge.Event{At: j.to, What: "completed", Text: hostile})
	case !j.from.After(now):
		x.Phase, x.SlurmState, x.SlurmReason, x.Placement, x.LeaseUntil, x.Since = bridge.Running, "RUNNING", "", j.place, v.NextPlan, j.from
		x.Target = bridge.Target{Decision: planner.Keep, Placement: j.place, Reason: planner.Reason{Code: planner.ReasonRuns, Text: "keeps its place"}, Plan: v.LastPlan.ID}
		x.Iter = int64(now.Sub(j.from) / time.Second)
		for k := int64(1); k <= 40; k++ {
			x.Curve = append(x.Curve, estimator.Point{Iter: x.Iter * k / 40, Value: 0.95 - 0.8/math.Sqrt(float64(k))})
		}
	default:
		x.Target = bridge.Target{Decision: planner.Wait, StartBy: j.from, Finish: j.to, Rank: i, Reason: planner.Reason{Code: planner.ReasonOutbid, Text: "jobs that earn more now hold the GPUs"}, Plan: v.LastPlan.ID}
	}
	if x.Phase != bridge.Waiting {
		x.Stays = []bridge.Stay{stay}
		x.Events = append(x.Events, bridge.Event{At: j.from, What: "running", Text: "on " + j.place.String()})
	}
	if j.to.After(now) {
		if from, until := later(j.from, v.LastPlan.Now), earlier(j.to, v.LastPlan.Now.Add(2*time.Hour)); until.After(from) {
			v.LastPlan.Leases = append(v.LastPlan.Leases, planner.Lease{Run: planner.Run{Job: planner.JobID(id)}, From: from, Until: until, Placement: j.place})
		}
	}
	return x
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
