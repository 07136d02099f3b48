package main

import (
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/planner"
)

// view is what the daemons of the scripts show.
func view() *bridge.View {
	in := func(d time.Duration) time.Time { return noon.Add(d) }
	share := func(node string, g int) planner.Placement {
		return planner.NewPlacement(planner.Share{Node: node, GPUs: g})
	}
	estimate := planner.Estimate{
		Speeds: []planner.ShapeSpeed{
			{Shape: planner.Even(1, 4), Speed: planner.Interval{Low: 2.9, Mid: 3.2, High: 3.4}},
			{Shape: planner.Even(2, 2), Speed: planner.Interval{Low: 2.1, Mid: 2.5, High: 2.8}},
		},
		Iterations: planner.Exactly(9000), Resume: planner.Interval{Low: 30, Mid: 40, High: 60}, Checkpoint: planner.Exactly(4), Reaches: 1,
		Basis: "profile 1+2+2",
	}
	missed := -1
	return &bridge.View{
		Schema: bridge.ViewSchema, At: in(-4 * time.Second), Cycle: 812, Stage: bridge.StageStrict, Unit: 5 * time.Minute, Cluster: "hpc",
		Slurm: "26.05.5", API: "v0.0.45", SeenAt: in(-5 * time.Second), NextPlan: in(3 * time.Minute),
		GPUs:    bridge.GPUCount{Total: 12, Managed: 6, Other: 2, Free: 4},
		Counts:  []bridge.PhaseCount{{Phase: bridge.Running, Jobs: 1}, {Phase: bridge.Waiting, Jobs: 1}},
		Actions: bridge.ActionCounts{Done: 40, Refused: 1, Rounds: 30, Greedy: 2},
		Jobs: []bridge.JobView{
			{ID: 12, Ref: "12", Name: "train", User: "alice", Class: planner.Strict, Phase: bridge.Running, Since: in(-10 * time.Minute),
				SlurmState: "RUNNING", GPUs: 4, Placement: share("n1", 4), LeaseUntil: in(3 * time.Minute), Submitted: in(-time.Hour),
				Tiers:    []planner.Tier{{At: in(6 * time.Hour), Value: 100}},
				Target:   bridge.Target{Decision: planner.Keep, Placement: share("n1", 4), Reason: planner.Reason{Code: planner.ReasonRuns, Text: "holds a lease and keeps it"}},
				Estimate: estimate, Forecast: in(50 * time.Minute), ForecastLow: in(46 * time.Minute), ForecastHigh: in(58 * time.Minute), Laxity: 5*time.Hour + 10*time.Minute, Iter: 1200, SavedIter: 1100, Preemptions: 1,
				Stays:      []bridge.Stay{{From: in(-50 * time.Minute), To: in(-30 * time.Minute), Placement: share("n2", 4)}, {Run: 1, From: in(-10 * time.Minute), Placement: share("n1", 4)}},
				GPUSeconds: 7200, Stop: "after 9000 iterations", Profile: bridge.Profile{Done: true, Note: "1+2+2"},
				Forecasts: []estimator.Forecast{{Job: 12, Class: planner.Strict, GPUs: 4, At: in(-time.Minute), Left: planner.Exactly(3000), Ran: 540}},
				Returns:   []bridge.Return{{Run: 1, Reached: 1100, Saved: 1100, Resumed: 1100}}, Changed: bridge.Changed{Nice: true, NiceIs: 100},
				Events: []bridge.Event{{At: in(-time.Hour), What: "admitted", Text: "strict, deadline 18:00"}, {At: in(-10 * time.Minute), Run: 1, What: "running", Text: "on n1:4"}}},
			{ID: 1235, Ref: "1234_1", Name: "sweep\x1b[31m of many very long words \xff 日本語", User: "bob", Class: planner.Soft, Phase: bridge.Waiting,
				Since: in(-time.Minute), SlurmState: "PENDING", SlurmReason: "BeginTime", GPUs: 8, Submitted: in(-2 * time.Hour),
				Tiers: []planner.Tier{{At: in(time.Hour), Value: 100}, {At: in(2 * time.Hour), Value: 20}},
				Target: bridge.Target{Decision: planner.Wait, Rank: 3, Tier: -1, StartBy: in(time.Hour),
					Reason: planner.Reason{Code: planner.ReasonOutbid, Text: "others earn more with these GPUs now, and the words of this reason go on beyond one line of a terminal"}},
				Forecast: in(3 * time.Hour), Laxity: 20 * time.Minute, Changed: bridge.Changed{Begin: in(2 * time.Minute)}},
			{ID: 1234, Ref: "1234_2", Name: "sweep", User: "bob", Class: planner.BestEffort, Phase: bridge.Starting, SlurmState: "PENDING",
				GPUs: 1, Target: bridge.Target{Decision: planner.Start, Placement: share("n2", 1), Until: in(5 * time.Minute), Rank: 1}},
			{ID: 14, Ref: "14", Name: "late", User: "carol", Class: planner.Strict, Phase: bridge.Completed, Ended: in(-time.Minute),
				Tiers: []planner.Tier{{At: in(-time.Hour), Value: 100}}, Met: &missed, Exit: "0", Held: 1000,
				Forecasts: []estimator.Forecast{
					{Job: 14, Class: planner.Strict, GPUs: 4, At: in(-time.Minute - 1000*time.Second), Left: planner.Interval{Low: 950, Mid: 1100, High: 1300}, Finish: in(140 * time.Second)},
					{Job: 14, Class: planner.Strict, GPUs: 4, At: in(-time.Minute - 500*time.Second), Ran: 500, Left: planner.Interval{Low: 380, Mid: 400, High: 450}, Finish: in(40 * time.Second)},
				}},
			{ID: 15, Ref: "15", Name: "plain", User: "dave", Phase: bridge.Unmanaged, Why: "comment: byte 9: clas: unknown key", SlurmState: "RUNNING", GPUs: 2},
			{ID: 16, Ref: "16", Name: "big", User: "erin", Class: planner.BestEffort, Phase: bridge.Waiting, SlurmState: "PENDING", SlurmReason: "JobHeldUser", GPUs: 512,
				NoPreempt: "no checkpoint declared", Blocked: "held by its user", Profile: bridge.Profile{Steps: []planner.Shape{{1}, {1, 1}}}, Target: bridge.Target{Decision: planner.Wait, Reason: planner.Reason{Code: planner.ReasonNeverFits, Text: "512 GPUs, the cluster has 12"}}},
		},
		LastPlan: planner.Plan{
			Schema: 1, ID: "p812", Now: in(-2 * time.Minute), Unit: 5 * time.Minute, Candidate: "milp", Objective: 123.4, Margin: 5.6,
			Solver: planner.SolverStats{Status: "optimal"}, Made: in(-115 * time.Second),
			Leases: []planner.Lease{{Run: planner.Run{Job: 12, Restart: 1}, From: in(-2 * time.Minute), Until: in(48 * time.Minute), Placement: share("n1", 4)},
				{Run: planner.Run{Job: 1235}, From: in(63 * time.Minute), Until: in(103 * time.Minute), Placement: planner.NewPlacement(planner.Share{Node: "n1", GPUs: 4}, planner.Share{Node: "n2", GPUs: 4})}},
			Entries: []planner.Entry{
				{Run: planner.Run{Job: 12, Restart: 1}, Decision: planner.Keep, Placement: share("n1", 4), LeaseUntil: in(3 * time.Minute), Rank: 1,
					Finish: in(50 * time.Minute), Reason: planner.Reason{Code: planner.ReasonRuns}},
				{Run: planner.Run{Job: 1234}, Decision: planner.Start, Placement: planner.NewPlacement(planner.Share{Node: "node-with-a-long-name-01", GPUs: 4},
					planner.Share{Node: "node-with-a-long-name-02", GPUs: 4}), LeaseUntil: in(5 * time.Minute), Rank: 2, Reason: planner.Reason{Code: planner.ReasonStarts}},
			},
		},
		Before: planner.Plan{Schema: 1, ID: "p811", Now: in(-7 * time.Minute), Made: in(-7*time.Minute + 2*time.Second), Unit: 5 * time.Minute, Candidate: "milp",
			Entries: []planner.Entry{
				{Run: planner.Run{Job: 9}, Decision: planner.Keep, Placement: share("n2", 2)},
				{Run: planner.Run{Job: 12, Restart: 1}, Decision: planner.Keep, Placement: share("n1", 4), Finish: in(43 * time.Minute)},
				{Run: planner.Run{Job: 1234}, Decision: planner.Wait},
			}},
		Nodes:    []bridge.NodeView{{Name: "n1", GPUs: 4, Usable: true, Managed: 4}, {Name: "n2", GPUs: 4, Usable: true, Managed: 1}, {Name: "n10", GPUs: 4, Why: "drained: a fan\x1b[31m"}},
		Snapshot: planner.Snapshot{Schema: 1, Now: noon, Unit: 5 * time.Minute, SLOUnits: 2},
	}
}
