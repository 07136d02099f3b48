package policy

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/milp/highs"
	"unisched/planner/plantest"
)

// The calibration plays a CHRONUS trace in rounds of five minutes on one huge node: no topology, true durations, a resume of 0.5(1+log2 g) minutes. It
// stands in for the simulator, to see whether the rules come near figures measured elsewhere. It needs the public traces in $UNISCHED_DATA.

func traceFile(t testing.TB, slice string) string {
	t.Helper()
	file := filepath.Join(os.Getenv("UNISCHED_DATA"), "traces", "chronus", "trace_job_Philly_"+slice+".csv")
	if _, err := os.Stat(file); os.Getenv("UNISCHED_DATA") == "" || err != nil {
		t.Skip("no traces: set UNISCHED_DATA")
	}
	return file
}

// chronusTrace reads the jobs submitted in the first days; every job has one shape on one node.
func chronusTrace(t testing.TB, slice string, days float64) []planner.Job {
	t.Helper()
	f, err := os.Open(traceFile(t, slice))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	num := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := math.Inf(1)
	for _, row := range rows[1:] {
		first = min(first, num(row[3]))
	}
	minutes := func(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
	var out []planner.Job
	for i, row := range rows[1:] {
		g, at := int(num(row[2])), num(row[3])-first
		if g <= 0 || at >= days*24*60 {
			continue
		}
		j := plantest.Job(i+1, num(row[6])/5, planner.Shape{g})
		j.Submitted = plantest.Now.Add(minutes(at))
		j.Estimate.Resume = planner.Exactly(30 * (1 + math.Log2(float64(g))))
		if row[10] == "0" {
			j.Class = planner.Strict
			values := strings.Split(row[9], "-")
			for k, due := range strings.Split(row[8], "-") {
				j.Tiers = append(j.Tiers, planner.Tier{At: j.Submitted.Add(minutes(num(due))), Value: 10 * num(values[k])})
			}
			if len(j.Tiers) > 1 {
				j.Class = planner.Soft
			}
		}
		out = append(out, j)
	}
	slices.SortStableFunc(out, func(a, b planner.Job) int { return a.Submitted.Compare(b.Submitted) })
	return out
}

// TestMain lets this executable be its own solver child, for the calibration with UNISCHED_SOLVER=1.
func TestMain(m *testing.M) {
	highs.MaybeChild()
	os.Exit(m.Run())
}

// figures are a run's weighted miss in per cent, mean JCT of best effort in minutes, and resumes per job.
type figures struct{ miss, jct, resumes float64 }

// calibrate plays the jobs to their end, in rounds of a unit; paid says that the first start costs what every other costs.
func calibrate(t testing.TB, p Policy, jobs []planner.Job, gpus int, unit time.Duration, paid bool) figures {
	t.Helper()
	w := plantest.NewWorld(plantest.Snapshot(plantest.Nodes(1, gpus)))
	w.Unit = unit
	submitted := map[planner.JobID]planner.Job{}
	for _, j := range jobs {
		submitted[j.Run.Job] = j
	}
	for queue := jobs; len(queue) > 0 || len(w.Jobs) > 0; {
		for len(queue) > 0 && !queue[0].Submitted.After(w.Now) {
			w.Jobs = append(w.Jobs, queue[0])
			w.Jobs[len(w.Jobs)-1].Started = paid
			queue = queue[1:]
		}
		slices.SortFunc(w.Jobs, func(a, b planner.Job) int { return a.Run.Compare(b.Run) })
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
		if w.Now.Sub(plantest.Now) > 400*24*time.Hour {
			t.Fatalf("%d jobs never end", len(w.Jobs))
		}
	}
	var f figures
	slo, be := 0.0, 0.0
	for id, j := range submitted {
		f.resumes += float64(w.Stops[id]) / float64(len(jobs))
		if !j.Class.SLO() {
			be++
			f.jct += w.Finished[id].Sub(j.Submitted).Minutes()
			continue
		}
		slo++
		got := 0.0
		for _, tier := range j.Tiers {
			if !w.Finished[id].After(tier.At) {
				got = max(got, tier.Value)
			}
		}
		f.miss += 1 - got/j.Tiers[0].Value
	}
	return figures{100 * f.miss / max(slo, 1), f.jct / max(be, 1), f.resumes}
}

// TestCalibration compares the first two days on 512 GPUs with figures measured elsewhere by other code, under the same assumptions: miss within half a
// point or a quarter. The JCT of best effort comes within 10 % for srsf and edf, and within 30 % where a guard lets jobs interrupt each other. CHRONUS
// is compared with its artifact when it has its program, with UNISCHED_SOLVER=1. All other rivals are only looked at, with UNISCHED_CALIBRATE=all.
func TestCalibration(t *testing.T) {
	measured := map[string]map[string][3]float64{
		"MIX1": {"chronus": {12.1, 301, 0.15}, "srsf": {3.9, 226, 0.1}, "edf": {0.1, 851, 0.1}, "slack": {0.0, 266, 0.3}, "slacksrsf": {0, 250, 0.3}},
		"MIX2": {"chronus": {9.75, 313, 0.15}, "srsf": {2.4, 253, 0.1}, "edf": {0.9, 2134, 0.1}, "slack": {3.4, 417, 0.3}, "slacksrsf": {3.68, 376, 0.3}},
		"SLO":  {"chronus": {25.9, 0, 0.1}, "srsf": {3.8, 0, 0.1}, "edf": {2.3, 0, 0.1}, "slack": {10.1, 0, 0.3}},
	}
	for _, slice := range []string{"MIX1", "MIX2", "SLO"} {
		jobs := chronusTrace(t, slice, 2)
		for _, name := range Names() {
			want, ok := measured[slice][name]
			ok = ok && (name != "chronus" || os.Getenv("UNISCHED_SOLVER") != "")
			if !ok && os.Getenv("UNISCHED_CALIBRATE") != "all" {
				continue
			}
			t.Run(slice+"/"+name, func(t *testing.T) {
				o, unit := Options{GuardBySlack: true}, 5*time.Minute
				ours := strings.HasPrefix(name, "chronus") // its artifact looks every minute, and begins something every five
				if ours {
					o.ChronusTick, unit = unit, time.Minute
				}
				if os.Getenv("UNISCHED_SOLVER") != "" {
					o.Solve = highs.New(highs.Options{})
				}
				got := calibrate(t, make1(t, name, o), jobs, 512, unit, ours)
				t.Logf("%-5s %-12s miss %6.2f %%  JCT %6.0f min  stops per job %.2f", slice, name, got.miss, got.jct, got.resumes)
				if ok && (math.Abs(got.miss-want[0]) > max(0.5, want[0]/4) || math.Abs(got.jct-want[1]) > want[1]*want[2]) {
					t.Errorf("miss %.2f %%, JCT %.0f min; measured %.2f %%, %.0f min", got.miss, got.jct, want[0], want[1])
				}
			})
		}
	}
}
