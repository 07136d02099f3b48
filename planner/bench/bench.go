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
	// Greedy is the best plain list scheduler (EDF, LLF, SRSF), GreedyCandidates the best of our own ways to plan without a solver, which do know
	// the model's rows.
	Greedy           Greedy   `json:"greedy"`
	GreedyCandidates Greedy   `json:"greedy_candidates"`
	Rivals           []Greedy `json:"rivals"` // every plain one
	Rows             int      `json:"rows"`
	Cols             int      `json:"cols"`
	Nonzeros         int      `json:"nonzeros"`
	Status           string   `json:"status"`
	// PeakRSSMB is for the caller to fill: parent and child.
	PeakRSSMB float64 `json:"peak_rss_mb"`

	Plan planner.Plan `json:"-"`
}

// Greedy is the best of some ways to plan without the model's optimum.
type Greedy struct {
	Name      string  `json:"name"`
	Objective float64 `json:"objective"`
	SLOMet    int     `json:"slo_met"`
	// Of a plain scheduler: what it meets when it goes on as it began, and what its first round followed by our list scheduler, with all
	// deadlines selected, meets.
	OwnOrder    int `json:"slo_met_own_order,omitempty"`
	AllSelected int `json:"slo_met_all_selected,omitempty"`
}

// Run plans one snapshot with the solver and, outside the time measured, without it. clock measures; solve is the solver under test.
func Run(ctx context.Context, s planner.Snapshot, cfg lease.Config, solve milp.Solver, clock func() time.Time) Result {
	cfg.Clock = clock
	nonzeros := 0
	counting := func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
		nonzeros = max(nonzeros, len(m.Value))
		return solve(ctx, m, lim)
	}
	t0 := clock()
	plan := lease.New(cfg, counting).Plan(ctx, s)
	r := Result{Schema: 1, TotalS: clock().Sub(t0).Seconds(), BuildS: plan.Solver.Build.Seconds(), SolveS: plan.Solver.Solve.Seconds(),
		PackS: plan.Solver.Pack.Seconds(), Gap: plan.Solver.Gap, Objective: plan.Objective, Candidate: plan.Candidate,
		Rows: plan.Solver.Rows, Cols: plan.Solver.Cols, Nonzeros: nonzeros, Status: plan.Solver.Status, Plan: plan}
	for _, j := range s.Jobs {
		if j.Class.SLO() {
			r.SLOTotal++
		}
	}
	r.SLOMet = metBy(s, lease.PlayOut(s, plan, cfg))
	r.Rivals = plain(s, cfg)
	r.Greedy = best(r.Rivals)
	own := lease.New(cfg, nil).Plan(ctx, s)
	r.GreedyCandidates = Greedy{Name: own.Candidate, Objective: own.Objective, SLOMet: metBy(s, lease.PlayOut(s, own, cfg))}
	return r
}

// metBy counts SLO jobs whose first tier is met by these ends.
func metBy(s planner.Snapshot, ends []time.Time) int {
	n := 0
	for i, end := range ends {
		if j := s.Jobs[i]; j.Class.SLO() && len(j.Tiers) > 0 && !end.IsZero() && !end.After(j.Tiers[0].At) {
			n++
		}
	}
	return n
}
