package bench

import (
	"context"
	"time"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp"
)

// Result is what one instance showed; times in seconds.
type Result struct {
	Schema    int     `json:"schema_version"`
	BuildS    float64 `json:"build_s"`
	SolveS    float64 `json:"solve_s"`
	PackS     float64 `json:"pack_s"`
	TotalS    float64 `json:"total_s"`
	Gap       float64 `json:"gap"`
	Objective float64 `json:"objective"`
	Candidate string  `json:"candidate"`
	SLOMet    int     `json:"slo_met"`
	SLOTotal  int     `json:"slo_total"`
	Greedy    Greedy  `json:"greedy"`
	Rows      int     `json:"rows"`
	Cols      int     `json:"cols"`
	Status    string  `json:"status"`

	Plan planner.Plan `json:"-"`
}

// Greedy is the best candidate that needs no solver.
type Greedy struct {
	Name      string  `json:"name"`
	Objective float64 `json:"objective"`
	SLOMet    int     `json:"slo_met"`
}

// Run plans one snapshot. clock measures; solve is the solver under test.
func Run(ctx context.Context, s planner.Snapshot, cfg lease.Config, solve milp.Solver, clock func() time.Time) Result {
	cfg.Clock = clock
	t0 := clock()
	plan := lease.New(cfg, solve).Plan(ctx, s)
	r := Result{Schema: 1, TotalS: clock().Sub(t0).Seconds(), BuildS: plan.Solver.Build.Seconds(), SolveS: plan.Solver.Solve.Seconds(),
		PackS: plan.Solver.Pack.Seconds(), Gap: plan.Solver.Gap, Objective: plan.Objective, Candidate: plan.Candidate,
		Rows: plan.Solver.Rows, Cols: plan.Solver.Cols, Status: plan.Solver.Status, Plan: plan}
	for _, j := range s.Jobs {
		if j.Class.SLO() {
			r.SLOTotal++
		}
	}
	for _, e := range plan.Entries {
		if e.Tier == 0 {
			r.SLOMet++
		}
	}
	for _, c := range plan.Scores {
		if (c.Candidate == "llf" || c.Candidate == "slack-srsf") && (r.Greedy.Name == "" || c.Objective > r.Greedy.Objective) {
			r.Greedy = Greedy{c.Candidate, c.Objective, c.SLOMet}
		}
	}
	return r
}
