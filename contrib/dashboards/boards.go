package main

import "fmt"

// one is a panel with one query.
func one(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

// now is a number with a colour.
func now(title, unit, expr string, red float64) panel {
	p := one(title, unit, expr, "")
	p.stat, p.width, p.red = true, 4, red
	return p
}

// low is a number that is red below a bound.
func low(title, unit, expr string, below float64) panel {
	p := now(title, unit, expr, 0)
	p.redBelow = below
	return p
}

func stacked(p panel) panel { p.stack = true; return p }

// quantiles shows the median and the 95th percentile of a histogram.
func quantiles(title, unit, name string) panel {
	p := panel{title: title, unit: unit}
	for _, q := range []struct{ value, name string }{{"0.5", "median"}, {"0.95", "95 %"}} {
		p.queries = append(p.queries, query{fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket[$__rate_interval])))", q.value, name), q.name})
	}
	return p
}

// boards are all dashboards.
func boards() []board { return []board{operations(), planning()} }

// operations is for whoever is on call.
func operations() board {
	return board{id: "unisched-operations", title: "UniSched: operations", about: "Is the daemon well, and does Slurm do what it asks?", rows: []row{
		{"Now", []panel{
			low("Slurm answers", "bool_yes_no", "unisched_slurm_up", 1),
			now("Last look at Slurm", "s", "unisched_snapshot_age_seconds", 180),
			now("Last cycle", "s", "unisched_cycle_age_seconds", 120),
			low("Token left", "s", "unisched_token_seconds_left", 1800),
			now("Snapshot suspect", "bool_yes_no", "unisched_snapshot_suspect", 1),
			now("Partitions without preemption", "none", "unisched_preemption_stopped_partitions", 1),
			now("Deadlines at risk", "none", "sum(unisched_deadlines_at_risk)", 3),
			now("Greedy mode", "bool_yes_no", "unisched_greedy_mode", 1),
			now("Paused", "bool_yes_no", "unisched_paused", 1),
			now("Plan's age", "s", "unisched_plan_age_seconds", 1800),
			low("May write", "bool_yes_no", "unisched_leader", 1),
			{title: "Stage", unit: "none", stat: true, width: 4, queries: []query{{"unisched_stage == 1", "{{stage}}"}}},
		}},
		{"Cluster", []panel{
			stacked(panel{title: "GPUs", unit: "none", queries: []query{{`unisched_gpus{state=~"held|other|free"}`, "{{state}}"}}}),
			{title: "Holes", unit: "none", about: "GPUs that are free on nodes in partial use.", queries: []query{{`unisched_gpus{state="holes"}`, "holes"}, {`unisched_gpus{state="free"}`, "free"}}},
			stacked(one("Jobs by phase", "none", `sum by (phase) (unisched_jobs{phase!~"completed|failed|cancelled|released|unmanaged"})`, "{{phase}}")),
		}},
		{"Actions", []panel{
			stacked(one("Actions per minute", "none", "sum by (kind) (60 * rate(unisched_actions_total[$__rate_interval]))", "{{kind}}")),
			one("Refused and unknown, per minute", "none", `sum by (kind, outcome) (60 * rate(unisched_actions_total{outcome=~"refused|unknown"}[$__rate_interval]))`, "{{kind}} {{outcome}}"),
			one("Checkpoints within an hour", "none", "increase(unisched_checkpoints_total[1h])", "{{outcome}}"),
			{title: "Preemptions within an hour", unit: "none", queries: []query{{"increase(unisched_preemptions_total[1h])", "preempted"}, {"increase(unisched_preempted_lost_total[1h])", "did not come back"}}},
			one("Jobs ended within an hour", "none", "sum by (phase) (increase(unisched_jobs_ended_total[1h]))", "{{phase}}"),
			one("Notices within an hour", "none", "increase(unisched_notices_total[1h])", "{{result}}"),
		}},
		{"Slurm's REST", []panel{
			stacked(one("Requests per second by status", "reqps", "sum by (code) (rate(unisched_rest_requests_total[$__rate_interval]))", "{{code}}")),
			one("Seconds, 95 %", "s", "histogram_quantile(0.95, sum by (le, kind) (rate(unisched_rest_seconds_bucket[$__rate_interval])))", "{{kind}}"),
			one("Suspect snapshots within an hour", "none", "increase(unisched_suspect_snapshots_total[1h])", "suspect"),
		}},
		{"Daemon", []panel{
			quantiles("Cycle", "s", "unisched_cycle_seconds"),
			{title: "Cycles within ten minutes", unit: "none", queries: []query{{"increase(unisched_cycles_total[10m])", "all"}, {"increase(unisched_cycle_failures_total[10m])", "failed"}}},
			{title: "Memory and journal", unit: "bytes", queries: []query{{"unisched_process_resident_memory_bytes", "memory"}, {"unisched_journal_bytes", "journal"}}},
			one("CPU", "percentunit", "rate(unisched_process_cpu_seconds_total[$__rate_interval])", "cores"),
			one("Node reports per second", "none", "rate(unisched_node_reports_total[$__rate_interval])", "{{result}}"),
			one("Log lines dropped", "none", "increase(unisched_log_lines_dropped_total[1h])", "lines"),
		}},
	}}
}

// planning is for whoever judges the plans.
func planning() board {
	return board{id: "unisched-planning", title: "UniSched: planning", about: "Are deadlines met, are forecasts right, how are plans made?", rows: []row{
		{"Deadlines", []panel{
			{title: "Met", unit: "percentunit", stat: true, width: 6, redBelow: .8, about: "Share of the jobs with deadlines that ended within a day and met one.",
				queries: []query{{`sum(increase(unisched_slo_total{result!="missed"}[24h])) / sum(increase(unisched_slo_total[24h]))`, "met"}}},
			{title: "At risk", unit: "none", stat: true, width: 6, red: 3, queries: []query{{"sum(unisched_deadlines_at_risk)", "jobs"}}},
			{title: "Longest wait for a profile", unit: "s", stat: true, width: 6, red: 3600, queries: []query{{"unisched_profile_wait_longest_seconds", "wait"}}},
			{title: "Leases", unit: "none", stat: true, width: 6, queries: []query{{"unisched_leases", "leases"}}},
			stacked(one("Ended with deadlines, by day", "none", "sum by (class, result) (increase(unisched_slo_total[24h]))", "{{class}} {{result}}")),
			one("At risk", "none", "unisched_deadlines_at_risk", "{{class}}"),
			quantiles("Wait for the first profile", "s", "unisched_profile_wait_seconds"),
		}},
		{"Estimates", []panel{
			{title: "Run time over its first forecast", unit: "none", about: "1 is right, 2 took twice as long.", queries: []query{
				{"histogram_quantile(0.1, sum by (le) (rate(unisched_prediction_ratio_bucket[6h])))", "10 %"},
				{"histogram_quantile(0.5, sum by (le) (rate(unisched_prediction_ratio_bucket[6h])))", "median"},
				{"histogram_quantile(0.9, sum by (le) (rate(unisched_prediction_ratio_bucket[6h])))", "90 %"}}},
			one("Error of forecasts, mean", "percentunit", "rate(unisched_forecast_error_sum[6h]) / rate(unisched_forecast_error_count[6h])", "error"),
			one("Jumps of estimates within an hour", "none", "increase(unisched_prediction_jumps_total[1h])", "jumps"),
			{title: "Reports against what was seen, within an hour", unit: "none", about: "Doubted: claims that do not hold. Stalls: no iteration while the GPUs were busy.", queries: []query{
				{"increase(unisched_progress_doubted_total[1h])", "doubted"}, {"increase(unisched_stalls_total[1h])", "stalls"}}},
		}},
		{"Rounds", []panel{
			stacked(one("Where plans came from, by hour", "none", "increase(unisched_rounds_total[1h])", "{{source}}")),
			stacked(one("How the solver ended, by hour", "none", "increase(unisched_solver_rounds_total[1h])", "{{status}}")),
			quantiles("Solver", "s", "unisched_solver_seconds"),
			one("Gap", "percentunit", "unisched_plan_gap", "gap"),
			{title: "Objective and margin", unit: "none", queries: []query{{"unisched_plan_objective", "objective"}, {"unisched_plan_margin", "margin over the best other candidate"}}},
			{title: "Jobs in the plan", unit: "none", queries: []query{{"unisched_plan_jobs", "jobs"}, {"increase(unisched_plans_refused_total[1h])", "plans refused within an hour"}}},
		}},
	}}
}
