package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/planner"
)

// scene is a small cluster: jobs 12 (strict) and 13 (best effort) run on n1 and n2, and 20 is the one to be explained. change makes the case.
func scene(change func(v *bridge.View, j *bridge.JobView)) (*bridge.View, bridge.JobView) {
	in := func(d time.Duration) time.Time { return noon.Add(d) }
	on := func(node string, g int) planner.Placement {
		return planner.NewPlacement(planner.Share{Node: node, GPUs: g})
	}
	est := func(shape planner.Shape, seconds float64) planner.Estimate {
		return planner.Estimate{Speeds: []planner.ShapeSpeed{{Shape: shape, Speed: planner.Interval{Low: 0.95, Mid: 1, High: 1.05}}},
			Iterations: planner.Exactly(seconds), Resume: planner.Exactly(40), Checkpoint: planner.Interval{Low: 3, Mid: 4, High: 20}, Reaches: 1, Basis: "3 leases"}
	}
	v := &bridge.View{Schema: 1, At: noon, Stage: bridge.StageStrict, Unit: 5 * time.Minute, NextPlan: in(3 * time.Minute), GPUs: bridge.GPUCount{Total: 16, Managed: 12, Free: 4},
		Nodes: []bridge.NodeView{{Name: "n1", GPUs: 8, Usable: true, Managed: 8}, {Name: "n2", GPUs: 8, Usable: true, Managed: 4}}}
	run := func(id planner.JobID) planner.Run { return planner.Run{Job: id} }
	v.Snapshot = planner.Snapshot{Schema: 1, Now: in(-2 * time.Minute), Unit: v.Unit, SLOUnits: 2,
		Nodes: []planner.Node{{Name: "n1", GPUs: 8, CPUs: 64, MemMB: 1 << 19, Usable: true}, {Name: "n2", GPUs: 8, CPUs: 64, MemMB: 1 << 19, Usable: true}},
		Jobs: []planner.Job{{Run: run(12), Class: planner.Strict, State: planner.Running, Current: on("n1", 8)}, {Run: run(13), Class: planner.BestEffort, State: planner.Running, Current: on("n2", 4)},
			{Run: run(20), Class: planner.Strict, State: planner.Waiting, Estimate: est(planner.Shape{8}, 3600)}}}
	v.LastPlan = planner.Plan{Schema: 1, ID: "p1", Now: in(-2 * time.Minute), Made: in(-115 * time.Second), Unit: v.Unit,
		Entries: []planner.Entry{{Run: run(12), Decision: planner.Keep, Placement: on("n1", 8)}, {Run: run(13), Decision: planner.Keep, Placement: on("n2", 4)}, {Run: run(20), Decision: planner.Wait}},
		Leases:  []planner.Lease{{Run: run(12), From: in(-2 * time.Minute), Until: in(13 * time.Minute), Placement: on("n1", 8)}, {Run: run(20), From: in(13 * time.Minute), Until: in(78 * time.Minute), Placement: on("n1", 8)}}}
	v.Jobs = []bridge.JobView{
		{ID: 12, Ref: "12", Name: "urgent", User: "bo", Class: planner.Strict, Phase: bridge.Running, Placement: on("n1", 8), Forecast: in(12 * time.Minute), ForecastLow: in(10 * time.Minute), ForecastHigh: in(16 * time.Minute), Estimate: est(planner.Shape{8}, 720)},
		{ID: 13, Ref: "13", Name: "small", User: "chen", Class: planner.BestEffort, Phase: bridge.Running, Placement: on("n2", 4)},
	}
	j := bridge.JobView{ID: 20, Ref: "20", Name: "train", User: "anna", Account: "lab", Class: planner.Strict, Phase: bridge.Waiting, Since: in(-20 * time.Minute), SlurmState: "PENDING", SlurmReason: "BeginTime",
		GPUs: 8, Submitted: in(-20 * time.Minute), Tiers: []planner.Tier{{At: in(2 * time.Hour), Value: 100}}, Laxity: time.Hour, Estimate: est(planner.Shape{8}, 3600), Left: planner.Interval{Low: 3400, Mid: 3600, High: 3800},
		Target:   bridge.Target{Decision: planner.Wait, Rank: 3, Tier: 0, Plan: "p1", StartBy: in(13 * time.Minute), Finish: in(75 * time.Minute), Reason: planner.Reason{Code: planner.ReasonOutbid, Text: "jobs that earn more now hold the GPUs"}},
		Forecast: in(75 * time.Minute), ForecastLow: in(72 * time.Minute), ForecastHigh: in(79 * time.Minute), Changed: bridge.Changed{Begin: in(2 * time.Minute)}, Stop: "3600 iterations", Profile: bridge.Profile{Done: true, Note: "profiled"},
		Events: []bridge.Event{{At: in(-20 * time.Minute), What: "admitted", Text: "class strict"}}}
	change(v, &j)
	if j.Target.StartBy.IsZero() { // a plan that lets it wait has no lease for it
		v.LastPlan.Leases = v.LastPlan.Leases[:1]
	}
	v.Jobs = append(v.Jobs, j)
	return v, j
}

// bestEffort takes the deadline off, and what the plan foresaw.
func bestEffort(j *bridge.JobView) {
	j.Class, j.Tiers, j.Laxity = planner.BestEffort, nil, 0
	j.Events[0].Text = "class besteffort"
	j.Target.Tier, j.Target.StartBy, j.Target.Finish = -1, time.Time{}, time.Time{}
	j.Forecast, j.ForecastLow, j.ForecastHigh = time.Time{}, time.Time{}, time.Time{}
}

// TestReasons compares what explain says for each reason, word for word, with testdata/reasons.
func TestReasons(t *testing.T) {
	wait := func(code, text string) func(*bridge.View, *bridge.JobView) {
		return func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.Target.Reason = planner.Reason{Code: code, Text: text}
		}
	}
	for _, tt := range []struct {
		name, cause string
		change      func(v *bridge.View, j *bridge.JobView)
	}{
		{"by-plan", ask.CausePlanned, func(*bridge.View, *bridge.JobView) {}},
		{"profile", ask.CauseProfile, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.Phase, j.Profile = bridge.Admitted, bridge.Profile{Steps: []planner.Shape{{1}, {2}, {1, 1}}}
			j.Target.Reason = planner.Reason{Code: planner.ReasonFull, Text: "16 of the 16 GPUs it could use are held by jobs that may not be stopped now"}
		}},
		{"no-hole", ask.CauseNoHole, wait(planner.ReasonNoHole, "8 GPUs are free, but not where and how it can use them")},
		{"outbid-slo", ask.CauseSLO, wait(planner.ReasonOutbid, "jobs that earn more now hold the GPUs")},
		{"budget", ask.CauseBudget, wait(planner.ReasonBudget, "no more than 2 jobs may be stopped in this round")},
		{"quota", ask.CauseQuota, wait(planner.ReasonQuota, "account lab holds 8 of the 8 GPUs that it may hold at once")},
		{"comment", ask.CauseComment, func(_ *bridge.View, j *bridge.JobView) {
			*j = bridge.JobView{ID: 20, Ref: "20", Name: "train", User: "anna", Phase: bridge.Unmanaged, GPUs: 8, SlurmState: "PENDING", SlurmReason: "Resources", Why: "comment: byte 9: clas: unknown key; did you mean class?"}
		}},
		{"user-hold", ask.CauseHold, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.SlurmReason, j.Blocked, j.BlockedBy, j.Changed = "JobHeldUser", "held (JobHeldUser): release it with scontrol release", bridge.BlockHold, bridge.Changed{}
			j.Target.Reason = planner.Reason{Code: planner.ReasonBlocked, Text: j.Blocked}
		}},
		{"begin-time", ask.CauseBegin, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.Blocked, j.BlockedBy, j.Changed = "begin time 2026-12-01 18:00:00 UTC set by its user", bridge.BlockBegin, bridge.Changed{}
			j.Target.Reason = planner.Reason{Code: planner.ReasonBlocked, Text: j.Blocked}
		}},
		{"checkpoint", ask.CauseCheckpoint, func(v *bridge.View, j *bridge.JobView) {
			j.Phase, j.Since, j.Changed = bridge.Starting, noon.Add(-8*time.Second), bridge.Changed{Nice: true, NiceIs: -50, Pinned: []string{"n1"}}
			j.Target.Decision, j.Target.Placement = planner.Start, v.Jobs[0].Placement
			j.Target.StartBy, j.Target.Until, j.SlurmReason = noon.Add(-2*time.Minute), noon.Add(73*time.Minute), "Resources"
			v.LastPlan.Leases = []planner.Lease{{Run: planner.Run{Job: 20}, From: j.Target.StartBy, Until: j.Target.Until, Placement: j.Target.Placement}}
			v.Jobs[0].Phase, v.Jobs[0].Since = bridge.Checkpointing, noon.Add(-8*time.Second)
		}},
		{"node-drained", ask.CauseNode, func(v *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			v.Snapshot.Nodes[1].Usable, v.Snapshot.Nodes[1].Why = false, "DRAIN: fan replaced tomorrow"
			v.Snapshot.Jobs[2].Needs.Only = []string{"n2"}
			j.Target.Reason = planner.Reason{Code: planner.ReasonFull, Text: "the nodes that could hold it are not usable or are held by others now"}
		}},
		{"never-fits", ask.CauseDoomed, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.GPUs = 64
			j.Target.Reason = planner.Reason{Code: planner.ReasonNeverFits, Text: "no set of nodes of this cluster can hold any of its shapes"}
		}},
		{"outbid", ask.CauseOutbid, func(v *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.GPUs, j.Estimate.Speeds[0].Shape = 2, planner.Shape{2}
			v.Snapshot.Jobs[0].Class = planner.BestEffort
			v.LastPlan.Entries[1].Placement = planner.NewPlacement(planner.Share{Node: "n2", GPUs: 8})
		}},
		{"late", ask.CauseLate, func(_ *bridge.View, j *bridge.JobView) {
			j.Target.Tier, j.Laxity, j.Tiers[0].At = -1, -30*time.Minute, noon.Add(30*time.Minute)
			j.Target.Reason = planner.Reason{Code: planner.ReasonLate, Text: "no deadline of it can be met any more, others go first"}
		}},
		{"dependency", ask.CauseDependency, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.SlurmReason, j.Blocked, j.BlockedBy, j.Changed = "Dependency", "waits for afterok:17(unfulfilled)", bridge.BlockDependency, bridge.Changed{}
		}},
		{"limit", ask.CauseLimit, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.SlurmReason, j.Blocked, j.BlockedBy = "QOSMaxGRESPerUser", "Slurm would keep it waiting: QOSMaxGRESPerUser", bridge.BlockLimit
		}},
		{"reservation", ask.CauseLimit, func(_ *bridge.View, j *bridge.JobView) {
			bestEffort(j)
			j.Blocked, j.BlockedBy = "its nodes are reserved (maint) until 2026-12-01 18:00 UTC", bridge.BlockLimit
		}},
		{"shadow", ask.CauseStage, func(v *bridge.View, j *bridge.JobView) {
			v.Stage, j.Watched, j.SlurmReason, j.Changed = bridge.Shadow, true, "Resources", bridge.Changed{}
		}},
		{"no-plan", ask.CauseNoPlan, func(_ *bridge.View, j *bridge.JobView) { bestEffort(j); j.Target = bridge.Target{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := ask.Explain(scene(tt.change))
			if x.Cause.Code != tt.cause {
				t.Errorf("cause %s, want %s", x.Cause.Code, tt.cause)
			}
			var out bytes.Buffer
			a := testApp()
			a.out, a.output = &out, "table"
			a.explain(x)
			golden(t, filepath.Join("testdata", "reasons", tt.name+".txt"), out.String())
			for line := range strings.Lines(out.String()) {
				if n := columns(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%d columns wide: %s", n, line)
				}
			}
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
}
