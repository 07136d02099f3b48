package assess

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
)

// read takes up a trace of testdata.
func read(t testing.TB, name string, nodes int) History {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Read(bytes.NewReader(raw), "sacct", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ReadRows(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Jobs) == 0 || len(rows) < len(tr.Jobs) {
		t.Fatalf("%d jobs, %d rows", len(tr.Jobs), len(rows))
	}
	return History{Jobs: Fix(tr.Jobs, rows, 1), Rows: rows, Nodes: nodes, PerNode: 8}
}

func fig(miss, be float64, left int) *sim.Figures {
	f := &sim.Figures{Unfinished: left}
	if miss >= 0 {
		f.WeightedMiss = &miss
	}
	if be >= 0 {
		f.BEJCTMean = &be
	}
	return f
}

// Each verdict with its trace: what no figure outweighs is found in the jobs themselves, whatever a simulation says.
func TestVerdicts(t *testing.T) {
	gain := Compared{Ours: fig(0.1, 3600, 0), Reserved: fig(0.3, 4000, 0), Plain: fig(0.4, 3000, 0)}
	for _, tt := range []struct {
		trace string
		nodes int
		codes []string // against it, in their order
		worth bool
	}{
		{"worth.sacct", 4, nil, true},
		{"pools.sacct", 4, []string{SeparatePools}, false},
		{"gangs.sacct", 4, []string{FixedGangs}, false},
		{"fewlong.sacct", 2, []string{FewLong}, false},
	} {
		t.Run(tt.trace, func(t *testing.T) {
			h := read(t, tt.trace, tt.nodes)
			m := Describe(h)
			v := Judge(h, m, gain)
			var against []string
			for _, r := range v.Reasons {
				if slices.Contains([]string{SeparatePools, FixedGangs, FewLong}, r.Code) {
					against = append(against, r.Code)
				}
			}
			if d := cmp.Diff(tt.codes, against); d != "" || v.Worth != tt.worth {
				t.Errorf("worth %v, %s\n%+v\n%+v", v.Worth, d, v.Reasons, m)
			}
			if !tt.worth && !strings.HasPrefix(v.Text, "Not worth it") {
				t.Error(v.Text)
			}
		})
	}
}

// The figures alone: a gain must be large enough, and paid for by nobody.
func TestFigures(t *testing.T) {
	for _, tt := range []struct {
		name  string
		c     Compared
		worth bool
		codes []string
	}{
		{"nothing simulated", Compared{}, false, []string{NotSimulated}},
		{"fewer misses, same times", Compared{Ours: fig(0.1, 100, 0), Reserved: fig(0.2, 100, 0)}, true, []string{Misses, JobTimes}},
		{"hardly fewer misses", Compared{Ours: fig(0.1, 100, 0), Reserved: fig(0.13, 100, 0)}, false, []string{Misses, JobTimes}},
		{"fewer misses, paid by best effort", Compared{Ours: fig(0.1, 130, 0), Reserved: fig(0.2, 100, 0)}, false, []string{Misses, JobTimes}},
		{"same misses, shorter times", Compared{Ours: fig(0.1, 70, 0), Reserved: fig(0.1, 100, 0)}, true, []string{Misses, JobTimes}},
		{"shorter times, paid by misses", Compared{Ours: fig(0.2, 70, 0), Reserved: fig(0.1, 100, 0)}, false, []string{Misses, JobTimes}},
		{"backfill is the better rival", Compared{Ours: fig(0.1, 100, 0), Reserved: fig(0.5, 100, 0), Plain: fig(0.12, 100, 0)}, false, []string{Misses, JobTimes}},
		{"no deadlines", Compared{Ours: fig(-1, 70, 0), Plain: fig(-1, 100, 0)}, true, []string{JobTimes}},
		{"no best effort", Compared{Ours: fig(0, -1, 0), Reserved: fig(0.2, -1, 0)}, true, []string{Misses}},
		{"one job of ten is no difference, for", Compared{Ours: fig(0.2, 50, 0), Reserved: fig(0.1, 100, 0), SLO: 10}, true, []string{Misses, JobTimes}},
		{"one job of ten is no difference, against", Compared{Ours: fig(0.1, 100, 0), Reserved: fig(0.2, 100, 0), SLO: 10}, false, []string{Misses, JobTimes}},
		{"jobs that never end", Compared{Ours: fig(0, 70, 3), Reserved: fig(0.2, 100, 1)}, false, []string{Misses, JobTimes, Unfinished}},
	} {
		gain, reasons := figures(tt.c)
		var codes []string
		for _, r := range reasons {
			codes = append(codes, r.Code)
		}
		if d := cmp.Diff(tt.codes, codes); gain != tt.worth || d != "" {
			t.Errorf("%s: %v, %s %+v", tt.name, gain, d, reasons)
		}
	}
}

func TestDescribe(t *testing.T) {
	hour := time.Hour
	h := History{Nodes: 2, PerNode: 4, Jobs: []trace.Job{
		{ID: "1", User: "a", GPUs: 1, Duration: hour, Class: planner.BestEffort},
		{ID: "2", User: "a", GPUs: 4, Duration: 2 * hour, Class: planner.Strict, Counts: []int{2, 4}, Submit: hour},
		{ID: "3", User: "b", GPUs: 8, Duration: hour, Class: planner.BestEffort, Fixed: true, Submit: 24 * hour},
	}, Rows: map[string]Row{"1": {Name: "x", Wish: true, Saves: true}, "2": {Name: "x", Restarts: 2}, "3": {Name: "y", Rigid: true}}}
	m := Describe(h)
	seen := 9. / 17
	want := Flexibility{Declared: 8. / 17, Rigid: 8. / 17, Seen: &seen}
	got := m.Flexibility
	got.Text = ""
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	type fields struct {
		Jobs, Users, Requeued                              int
		GPUHours, Load, InSystem, SLO, Fixed, Saves, Multi float64
		Typical                                            float64
	}
	if d := cmp.Diff(fields{3, 2, 1, 17, 0.0885, 0.1667, 0.4706, 0.4706, 0.0588, 0.9412, 3600}, fields{m.Jobs, m.Users, m.Preemption.Requeued, m.GPUHours, r4(m.Load), r4(m.InSystem),
		r4(m.SLOGPUTime), r4(m.Preemption.Fixed), r4(m.Preemption.Saves), r4(m.Multi), m.Typical}); d != "" {
		t.Error(d)
	}
}

func r4(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// The cross-node figure asks for enough runs of the same work on both sides; else it says that it cannot tell.
func TestCrossNode(t *testing.T) {
	build := func(kinds, runs int, spread float64) History {
		h := History{Rows: map[string]Row{}}
		for k := range kinds {
			for i := range 2 * runs {
				j := trace.Job{ID: fmt.Sprint(k, "-", i), User: "u", GPUs: 4, Duration: time.Hour}
				r := Row{Name: fmt.Sprint(k), State: "COMPLETED", Nodes: 1}
				switch {
				case i%2 == 1:
					r.Nodes, j.Duration = 2, 90*time.Minute
				case i == 0:
					j.Duration = time.Duration(float64(time.Hour) * spread)
				}
				h.Jobs, h.Rows[j.ID] = append(h.Jobs, j), r
			}
		}
		return h
	}
	for name, tt := range map[string]struct {
		h    History
		want float64 // 0: cannot tell
	}{
		"enough":          {build(3, 3, 1), 1.5},
		"two kinds":       {build(2, 5, 1), 0},
		"two runs each":   {build(5, 2, 1), 0},
		"other work":      {build(5, 3, 9), 0},
		"no names at all": {History{Jobs: build(3, 3, 1).Jobs}, 0},
	} {
		c := tt.h.crossNode()
		if (c.Slowdown == nil) != (tt.want == 0) || c.Slowdown != nil && *c.Slowdown != tt.want || tt.want == 0 && !strings.Contains(c.Text, "cannot tell") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestReservation(t *testing.T) {
	job := func(class planner.Class, gpus int, hours time.Duration) trace.Job {
		return trace.Job{Class: class, GPUs: gpus, Duration: hours * time.Hour}
	}
	for name, tt := range map[string]struct {
		jobs  []trace.Job
		nodes int
		want  int
	}{
		"half of the time":                  {[]trace.Job{job(planner.Strict, 8, 1), job(planner.BestEffort, 8, 1)}, 4, 2},
		"the largest needs more":            {[]trace.Job{job(planner.Strict, 24, 1), job(planner.BestEffort, 8, 9)}, 4, 3},
		"room for the largest of the rest":  {[]trace.Job{job(planner.Strict, 8, 9), job(planner.BestEffort, 24, 1)}, 4, 1},
		"no room for both":                  {[]trace.Job{job(planner.Strict, 24, 1), job(planner.BestEffort, 24, 1)}, 4, 0},
		"nobody has a deadline":             {[]trace.Job{job(planner.BestEffort, 8, 1)}, 4, 0},
		"everybody has":                     {[]trace.Job{job(planner.Strict, 8, 1)}, 4, 4},
		"one node cannot be cut into parts": {[]trace.Job{job(planner.Strict, 1, 1), job(planner.BestEffort, 1, 1)}, 1, 0},
	} {
		if got := Reservation(tt.jobs, tt.nodes, 8); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// The slice is busy, but not the busiest there was, and begins at its own zero.
func TestSlice(t *testing.T) {
	var jobs []trace.Job
	for c, gap := range []time.Duration{time.Hour, 10 * time.Minute, 30 * time.Minute, 20 * time.Minute, 2 * time.Hour} {
		for i := range 10 {
			at := time.Duration(c)*100*time.Hour + time.Duration(i)*gap
			jobs = append(jobs, trace.Job{ID: fmt.Sprintf("%d%d", c, i), GPUs: 1, Duration: time.Hour, Submit: at})
		}
	}
	part := Slice(jobs, 10, 8)
	if len(part) != 10 || part[0].ID != "30" || part[0].Submit != 0 || part[1].Submit != 20*time.Minute {
		t.Errorf("%+v", part[:2])
	}
	if all := Slice(jobs, 1000, 8); len(all) != len(jobs) {
		t.Errorf("%d jobs", len(all))
	}
}

func TestFixAndDeadlines(t *testing.T) {
	rows := map[string]Row{}
	var jobs []trace.Job
	for i := range 1000 {
		id := fmt.Sprint(i)
		jobs = append(jobs, trace.Job{ID: id, Class: planner.BestEffort})
		rows[id] = Row{Partition: []string{"gpu", "urgent"}[i%2], Wish: i < 2, Saves: i == 0}
	}
	fixed := 0
	out := Fix(jobs, rows, 0.25)
	for _, j := range out[2:] {
		if j.Fixed {
			fixed++
		}
	}
	if out[0].Fixed || !out[1].Fixed || fixed < 690 || fixed > 810 {
		t.Errorf("%v %v %d", out[0].Fixed, out[1].Fixed, fixed)
	}
	given := slices.Clone(jobs)
	for i := range given {
		given[i].Tiers = []trace.Tier{{After: time.Hour, Value: 100}}
	}
	n := 0
	for _, j := range Deadlines(jobs, rows, []string{"urgent"}, given) {
		if j.Class == planner.Strict && len(j.Tiers) == 1 {
			n++
		}
	}
	if n != 500 {
		t.Errorf("%d jobs have deadlines", n)
	}
}

func TestReadRows(t *testing.T) {
	const text = "JobID|User|JobName|Partition|State|NNodes|NodeList|ElapsedRaw|Comment\r\n" +
		"1|ann|train|gpu|COMPLETED|2|n[1-2]|60|unisched:class=besteffort,gpus=4,ckpt=USR1\n" +
		"1.batch|ann|batch||COMPLETED|1|n1|60|\n" +
		"2|ann|x|gpu|CANCELLED by 0|1|None assigned|0|hello\n" +
		"3|ann|y|gpu|PREEMPTED|1|n1|5|unisched:parallel=fixed\n3|ann|y|gpu|COMPLETED|1|n1|9|unisched:parallel=fixed\n"
	got, err := ReadRows(strings.NewReader(text))
	want := map[string]Row{
		"1": {ID: "1", User: "ann", Name: "train", Partition: "gpu", State: "COMPLETED", Nodes: 2, Where: []string{"n1", "n2"}, Elapsed: time.Minute, Wish: true, Saves: true},
		"2": {ID: "2", User: "ann", Name: "x", Partition: "gpu", State: "CANCELLED", Nodes: 1},
		"3": {ID: "3", User: "ann", Name: "y", Partition: "gpu", State: "COMPLETED", Nodes: 1, Where: []string{"n1"}, Elapsed: 9 * time.Second, Restarts: 1, Wish: true, Rigid: true},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	// cases 10, 11 and 50: a number that was given twice, names with sacct's separator, rows that are cut.
	const odd = "JobID|User|JobName|Submit|State|ElapsedRaw|Comment\n" +
		"1|old|a|2017-01-02T03:04:05|COMPLETED|9|\n1|ann|b|2026-11-30T08:00:00|COMPLETED|60|\n" +
		"2|ann|x|y|2026-11-30T08:00:00|COMPLETED|60|\n3|ann|z|2026-11-30T08:00:00|COMPLETED|60|p|q unisched:ckpt=USR1\n4|ann|cut\n"
	got, err = ReadRows(strings.NewReader(odd))
	want = map[string]Row{
		"1":   {ID: "1", User: "old", Name: "a", State: "COMPLETED", Elapsed: 9 * time.Second},
		"1#2": {ID: "1#2", User: "ann", Name: "b", State: "COMPLETED", Elapsed: time.Minute},
		"2":   {ID: "2", User: "ann", Name: "x|y", State: "COMPLETED", Elapsed: time.Minute},
		"3":   {ID: "3", User: "ann", Name: "z", State: "COMPLETED", Elapsed: time.Minute, Wish: true, Saves: true},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := ReadRows(strings.NewReader("")); err == nil {
		t.Error("an empty file is no history")
	}
}

// FuzzReadRows: a history that somebody else wrote is read or refused, and described without figures that are none.
func FuzzReadRows(f *testing.F) {
	f.Add("JobID|Submit|ElapsedRaw|ReqTRES|NodeList|Comment\n1|2026-01-01T00:00:00|60|gres/gpu=4|n[1-9999999]|unisched:ckpt=USR1\n")
	f.Add("JobID|Restarts\n1|99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := ReadRows(strings.NewReader(text))
		if err != nil {
			return
		}
		tr, err := trace.Read(strings.NewReader(text), "sacct", trace.Options{})
		if err != nil || len(tr.Jobs) == 0 {
			return
		}
		m := Describe(History{Jobs: Fix(tr.Jobs, rows, 0.5), Rows: rows, Nodes: 1, PerNode: 8})
		for _, v := range []float64{m.Load, m.InSystem, m.Typical, m.Preemption.CostGPUMin, m.Flexibility.Declared} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%+v", m)
			}
		}
	})
}
