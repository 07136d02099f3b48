package metrics

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/bridge/news"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) time.Time { return noon.Add(d) }

// scrape reads what Prometheus would, by series; the process's own are left out.
func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	out := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		name, value, ok := cutLast(line)
		switch {
		case strings.HasPrefix(line, "#") || strings.HasPrefix(line, "unisched_process_"):
		case !ok || !strings.HasPrefix(name, "unisched_"):
			t.Errorf("odd line %q", line)
		default:
			out[name] = value
		}
	}
	return out
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// some picks the series whose name begins with one of the prefixes and whose value is not 0.
func some(all map[string]string, prefixes ...string) map[string]string {
	out := map[string]string{}
	for name, v := range all {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) && v != "0" {
				out[strings.TrimPrefix(name, "unisched_")] = v
			}
		}
	}
	return out
}

// crowd is a view of n jobs with texts of strangers in every field.
func crowd(n, cycle int) *bridge.View {
	v := &bridge.View{Cycle: int64(cycle), At: in(time.Duration(cycle) * 10 * time.Second), Stage: bridge.StageStrict, SeenAt: noon}
	phases := bridge.Phases()
	for i := range n {
		class := []planner.Class{planner.Strict, planner.Soft, planner.BestEffort, planner.Profiler, "evil\"}\nunisched_jobs{"}[i%5]
		met := i%4 - 1
		v.Jobs = append(v.Jobs, bridge.JobView{
			ID: slurm.JobID(i + 1), Name: fmt.Sprintf("job%d\"}\n", i), User: fmt.Sprint("user", i), Account: fmt.Sprint("acct", i), Class: class, Phase: phases[i%len(phases)],
			Submitted: noon, Ended: noon, Met: &met, Held: float64(i), Tiers: []planner.Tier{{At: in(time.Hour), Value: 1}}, Laxity: time.Duration(i%3-1) * time.Hour,
			Forecasts: []estimator.Forecast{{Left: planner.Exactly(float64(i%7) * 100)}},
			Events:    []bridge.Event{{N: 1, At: in(time.Second), What: string(bridge.Profiling), Text: "x"}},
		})
	}
	v.LastPlan = planner.Plan{ID: fmt.Sprint("p", cycle), Now: v.At, Candidate: fmt.Sprint("candidate", cycle), Solver: planner.SolverStats{Status: fmt.Sprint("s", cycle), Gap: -1}}
	return v
}

// case 54: the number of series does not depend on the jobs, nor on any text that comes from outside.
func TestSeriesAreConstant(t *testing.T) {
	m := New(func() time.Time { return noon }, "v1")
	w := news.New(noon)
	before := scrape(t, m)
	for cycle, n := range []int{1, 10000, 3} {
		v := crowd(n, cycle+1)
		m.View(v, w.Next(v))
		m.Cycle(noon, time.Second, errors.New(fmt.Sprint("error", cycle)), 10)
		m.Note(bridge.Note{Kind: fmt.Sprint("kind", cycle), Outcome: bridge.Outcome(fmt.Sprint("o", cycle))})
		m.Request(slurm.KindRead, 200+cycle, time.Second)
		m.Notice(fmt.Sprint("n", cycle))
		after := scrape(t, m)
		if len(after) != len(before) {
			for name := range after {
				if _, ok := before[name]; !ok {
					t.Errorf("new: %s", name)
				}
			}
			t.Fatalf("%d jobs: %d series, %d before", n, len(after), len(before))
		}
	}
	if n := len(before); n > 700 {
		t.Errorf("%d series", n)
	}
	t.Logf("%d series", len(before))
}

var foreign = regexp.MustCompile(`(?i)user|acct|job[0-9]|node[0-9]|evil`)

func TestNoForeignText(t *testing.T) {
	m := New(func() time.Time { return noon }, "v1")
	v := crowd(50, 1)
	m.View(v, news.New(noon).Next(v))
	for name := range scrape(t, m) {
		if foreign.MatchString(name) {
			t.Errorf("series %s", name)
		}
	}
}

func TestView(t *testing.T) {
	m := New(func() time.Time { return in(time.Minute) }, "v1")
	w := news.New(in(-time.Hour))
	met, late, missed := 0, 1, -1
	ended := func(id slurm.JobID, class planner.Class, met *int, held float64, told ...float64) bridge.JobView {
		j := bridge.JobView{ID: id, Class: class, Phase: bridge.Completed, Ended: noon, Met: met, Held: held}
		for k, f := range told {
			j.Forecasts = append(j.Forecasts, estimator.Forecast{Ran: 100 * float64(k), Left: planner.Exactly(f)})
		}
		return j
	}
	v := &bridge.View{
		Cycle: 1, At: noon, Stage: bridge.Canary, Paused: true, SeenAt: in(-2 * time.Second), Suspect: "x", Standstills: []bridge.Standstill{{}, {}},
		GPUs: bridge.GPUCount{Total: 16, Managed: 6, Other: 4, Free: 6, Holes: 2},
		Jobs: []bridge.JobView{
			ended(1, planner.Strict, &met, 400, 200), ended(2, planner.Strict, &missed, 0), ended(3, planner.Soft, &late, 1000, 1000, 450),
			{ID: 4, Class: planner.BestEffort, Phase: bridge.Running}, {ID: 5, Class: planner.BestEffort, Phase: bridge.Checkpointing},
			{ID: 6, Class: planner.Strict, Phase: bridge.Waiting, Tiers: []planner.Tier{{At: in(time.Hour)}}, Laxity: -1},
			{ID: 7, Class: planner.Soft, Phase: bridge.Admitted, Submitted: in(-90 * time.Second), Profile: bridge.Profile{Steps: []planner.Shape{{1}}}},
			{ID: 8, Class: planner.Soft, Phase: bridge.Profiling, Submitted: in(-90 * time.Second), Events: []bridge.Event{{N: 1, At: in(-20 * time.Second), What: "profiling"}}},
			{ID: 9, Phase: bridge.Unmanaged},
		},
		Snapshot: planner.Snapshot{Luck: .12},
		Actions:  bridge.ActionCounts{Preemptions: 3, Lost: 1, BadPlans: 2, Jumps: 4, Doubted: 9, Stalls: 10, Suspect: 5, CheckpointsConfirmed: 6, CheckpointsUnconfirmed: 7, CheckpointsFailed: 8},
		LastPlan: planner.Plan{ID: "p", Now: in(-30 * time.Second), Candidate: "last", Entries: make([]planner.Entry, 4), Objective: 7.5, Margin: 1.5, Solver: planner.SolverStats{Status: "time-limit", Gap: .25, Solve: 1500 * time.Millisecond}},
	}
	for range 2 { // what was seen already does not count again
		m.View(v, w.Next(v))
	}
	m.Note(bridge.Note{What: "action", Kind: "start", Outcome: bridge.Done})
	m.Note(bridge.Note{What: "refused", Kind: "hold", Outcome: bridge.Refused})
	m.Note(bridge.Note{What: "order"})
	m.Request(slurm.KindWrite, 0, 30*time.Millisecond)
	m.Request(slurm.KindList, 511, time.Second)
	m.Token(in(11 * time.Minute))
	m.Reports(5, 2, 1, 0)
	m.Reports(6, 2, 1, 1)
	m.Notice("limited")
	m.LogDropped(12)
	m.Cycle(noon, 1500*time.Millisecond, fmt.Errorf("records: %w", journal.ErrLocked), 4096)
	got := scrape(t, m)
	want := map[string]string{
		`jobs{class="strict",phase="completed"}`: "2", `jobs{class="soft",phase="completed"}`: "1", `jobs{class="besteffort",phase="running"}`: "1",
		`jobs{class="besteffort",phase="checkpointing"}`: "1", `jobs{class="strict",phase="waiting"}`: "1", `jobs{class="soft",phase="admitted"}`: "1",
		`jobs{class="soft",phase="profiling"}`: "1", `jobs{class="",phase="unmanaged"}`: "1",
		`jobs_ended_total{class="strict",phase="completed"}`: "2", `jobs_ended_total{class="soft",phase="completed"}`: "1",
		`slo_total{class="strict",result="met"}`: "1", `slo_total{class="strict",result="missed"}`: "1", `slo_total{class="soft",result="late"}`: "1",
		`leases`: "3", `deadlines_at_risk{class="strict"}`: "1", `profile_wait_longest_seconds`: "90", `profile_wait_seconds_sum`: "70", `profile_wait_seconds_count`: "1",
		`gpus{state="total"}`: "16", `gpus{state="held"}`: "6", `gpus{state="other"}`: "4", `gpus{state="free"}`: "6", `gpus{state="holes"}`: "2",
		`stage{stage="canary"}`: "1", `paused`: "1", `slurm_up`: "1", `snapshot_suspect`: "1", `preemption_stopped_partitions`: "2",
		`snapshot_age_seconds`: "62", `plan_age_seconds`: "90", `cycle_age_seconds`: "58.5",
		`rounds_total{source="cached"}`: "1", `solver_rounds_total{status="time-limit"}`: "1", `solver_seconds_sum`: "1.5", `solver_seconds_count`: "1",
		`plan_gap`: "0.25", `run_speed_spread`: "0.12", `plan_margin`: "1.5", `plan_objective`: "7.5", `plan_jobs`: "4", `plans_refused_total`: "2",
		`preemptions_total`: "3", `preempted_lost_total`: "1", `prediction_jumps_total`: "4", `progress_doubted_total`: "9", `stalls_total`: "10", `suspect_snapshots_total`: "5",
		`checkpoints_total{outcome="confirmed"}`: "6", `checkpoints_total{outcome="unconfirmed"}`: "7", `checkpoints_total{outcome="failed"}`: "8",
		`prediction_ratio_sum`: "3", `prediction_ratio_count`: "2", `forecast_error_sum`: "1", `forecast_error_count`: "3",
		`actions_total{kind="start",outcome="done"}`: "1", `actions_total{kind="hold",outcome="refused"}`: "1",
		`rest_requests_total{code="none"}`: "1", `rest_requests_total{code="511"}`: "1", `rest_seconds_count{kind="write"}`: "1", `rest_seconds_sum{kind="write"}`: "0.03",
		`rest_seconds_count{kind="list"}`: "1", `rest_seconds_sum{kind="list"}`: "1", `token_seconds_left`: "600",
		`node_reports_total{result="taken"}`: "6", `node_reports_total{result="refused"}`: "2", `node_reports_total{result="full"}`: "1", `node_reports_total{result="resync"}`: "1",
		`notices_total{result="limited"}`: "1", `log_lines_dropped_total`: "12", `cycles_total`: "1", `cycle_failures_total`: "1", `cycle_seconds_sum`: "1.5",
		`cycle_seconds_count`: "1", `journal_bytes`: "4096", `build_info{version="v1"}`: "1",
	}
	have := map[string]string{}
	for name, v := range some(got, "unisched_") {
		if !strings.Contains(name, "_bucket") {
			have[name] = v
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
	// Prediction ratios of 2 and 1 (the forecast of 200 took 400); errors of 0.5, 0 and 0.5.
	for name, want := range map[string]string{`prediction_ratio_bucket{le="1.05"}`: "1", `prediction_ratio_bucket{le="2"}`: "2", `forecast_error_bucket{le="0.3"}`: "1", `forecast_error_bucket{le="0.5"}`: "3"} {
		if got := got["unisched_"+name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestUnknownIsNaN(t *testing.T) {
	m := New(func() time.Time { return noon }, "v1")
	m.Token(time.Time{})
	got := scrape(t, m)
	for _, name := range []string{"plan_gap", "token_seconds_left", "plan_age_seconds", "snapshot_age_seconds", "cycle_age_seconds"} {
		if v, err := strconv.ParseFloat(got["unisched_"+name], 64); err != nil || v == v {
			t.Errorf("%s is %q", name, got["unisched_"+name])
		}
	}
}

func TestSources(t *testing.T) {
	for in, want := range map[string]string{"milp": "solver", "second": "solver", "rounded": "rounded", "last": "cached", "llf": "greedy", "slack-srsf": "greedy", "fallback": "fallback", "": "other"} {
		if got := sourceOf(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// Scrapes, requests and cycles come at the same time.
func TestConcurrentUse(t *testing.T) {
	m := New(time.Now, "v1")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				m.Request(slurm.KindRead, 200, time.Millisecond)
				m.Notice("sent")
				m.Token(time.Now())
				scrape(t, m)
			}
		})
	}
	w := news.New(noon)
	for k := range 20 {
		v := crowd(30, k+1)
		m.View(v, w.Next(v))
		m.Cycle(v.At, time.Second, nil, 1)
	}
	group.Wait()
	if got := scrape(t, m)[`unisched_rest_requests_total{code="200"}`]; got != "80" {
		t.Errorf("%s requests", got)
	}
}
