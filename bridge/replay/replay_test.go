package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/replay"
	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/policy"
)

// shadow lets plain Slurm run the jobs while a daemon looks, and stores its rounds as the daemon does.
func shadow(t *testing.T, jobs ...trace.Job) (replay.Records, sim.Result) {
	t.Helper()
	dir, last, at := t.TempDir(), "", time.Time{}
	keep := func(v *bridge.View) {
		x := replay.Round{Schema: 1, Snapshot: v.Snapshot, Plan: v.LastPlan, Ended: replay.EndedSince(v, at)}
		if v.LastPlan.ID == "" || x.Name() == last {
			return
		}
		if err := x.Store(dir); err != nil {
			t.Fatal(err)
		}
		last, at = x.Name(), v.At
	}
	r, err := sim.Run(t.Context(), sim.Config{Nodes: 2, GPUsPerNode: 4, Speeds: sim.Published(), Shadow: true, Seen: keep, Profile: 5 * time.Minute, Seed: 3}, jobs,
		lease.New(lease.Config{}, nil))
	if err != nil {
		t.Fatal(err)
	}
	records, err := replay.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return records, r
}

func job(id string, gpus int, submit, duration time.Duration, tiers ...trace.Tier) trace.Job {
	j := trace.Job{ID: id, User: "ann", GPUs: gpus, Submit: submit, Duration: duration, Iterations: int64(duration / time.Second), Class: planner.BestEffort, Model: "resnet101", Tiers: tiers}
	if len(tiers) > 0 {
		j.Class = planner.Strict
	}
	return j
}

// night is a load that plain Slurm handles badly: wide jobs hold up short ones, one of them with a deadline.
func night() []trace.Job {
	jobs := []trace.Job{job("wide", 8, 0, 3*time.Hour), job("wide too", 8, 2*time.Minute, 2*time.Hour),
		job("due", 2, 5*time.Minute, 20*time.Minute, trace.Tier{After: time.Hour, Value: 100})}
	for i := range 8 {
		jobs = append(jobs, job(fmt.Sprintf("short%d", i), 1, time.Duration(6+i)*time.Minute, 15*time.Minute))
	}
	return append(jobs, job("long", 1, 14*time.Minute, 9*time.Hour))
}

// TestShadow: what the rounds of a daemon that only looks tell is what happened, and a policy that may preempt does better with the same jobs.
func TestShadow(t *testing.T) {
	records, truth := shadow(t, night()...)
	h, err := replay.Load(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	if truth.Preemptions > 0 || truth.Actions > 0 {
		t.Errorf("%d preemptions, %d actions in the stage that only looks", truth.Preemptions, truth.Actions)
	}
	if h.Nodes != 2 || h.PerNode != 4 || h.Unit != 5*time.Minute || len(h.Outcomes) != 12 || h.Open != 0 {
		t.Errorf("%d x %d GPUs, unit %v, %d ended, %d open", h.Nodes, h.PerNode, h.Unit, len(h.Outcomes), h.Open)
	}
	for i, o := range h.Outcomes {
		want := truth.Outcomes[i]
		if got := o.End.Sub(o.Submitted); math.Abs((got-(want.End-want.Submit)).Seconds()) > 60 || o.GPUs != want.GPUs || o.Class != want.Class || !o.Completed {
			t.Errorf("%s: %+v, want %+v", want.ID, o, want)
		}
		if ran := want.Duration.Seconds(); o.Ran < ran*0.98 || o.Ran > ran*1.05+60 {
			t.Errorf("%s ran %.0f s, want %.0f", want.ID, o.Ran, ran)
		}
	}
	if w := h.Happened.WeightedMiss; w == nil || *w != 1 {
		t.Errorf("weighted miss %v: the job with the deadline waited behind the wide ones", w)
	}
	if e := h.Happened.ForecastError; e == nil || *e > 0.2 {
		t.Errorf("forecast error %v of jobs with declared iterations", e)
	}

	jobs, speeds := h.Trace()
	if len(jobs) != 12 || jobs[2].Class != planner.Strict || jobs[2].Tiers[0].After != time.Hour || jobs[2].User != "ann" {
		t.Fatalf("%d jobs, %+v", len(jobs), jobs)
	}
	figures := map[string]sim.Figures{}
	for _, name := range []string{"unisched", "fifo"} {
		var p bridge.Policy = lease.New(lease.Config{}, nil)
		if name == "fifo" {
			if p, err = policy.New("fifo", policy.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := sim.Run(context.Background(), sim.Config{Nodes: h.Nodes, GPUsPerNode: h.PerNode, Unit: h.Unit, SLOUnits: h.SLOUnits, Speeds: speeds, Oracle: true}, jobs, p)
		if err != nil {
			t.Fatal(err)
		}
		figures[name] = r.Figures
	}
	if *figures["unisched"].WeightedMiss != 0 || *figures["unisched"].BEJCTMean >= *h.Happened.BEJCTMean {
		t.Errorf("unisched: %+v", figures["unisched"])
	}
	if f := figures["fifo"]; *f.WeightedMiss != 1 || math.Abs(*f.BEJCTMean / *h.Happened.BEJCTMean - 1) > 0.05 {
		t.Errorf("first come first served is what happened: mean %v and %v", *f.BEJCTMean, *h.Happened.BEJCTMean)
	}
}

// TestJudge: each stage asks for its own conditions and for those before it; what nobody did is no obstacle.
func TestJudge(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	day := time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
	history := func() *replay.History {
		h := &replay.History{From: day, Until: day.Add(48 * time.Hour), Rounds: 100}
		for range 60 {
			h.Outcomes = append(h.Outcomes, replay.Outcome{Completed: true})
		}
		h.Happened = sim.Figures{BEJCTMean: at(100), SoftMiss: at(0.2), StrictMiss: at(0.3), ForecastError: at(0.1), ForecastCover: at(0.8)}
		return h
	}
	good := sim.Figures{BEJCTMean: at(80), SoftMiss: at(0.1), StrictMiss: at(0.3), PreemptMean: at(1), HoleShare: at(0.01)}
	for _, c := range []struct {
		name   string
		change func(*replay.History, *sim.Figures)
		want   []bool // canary, besteffort, soft, strict
	}{
		{"all well", func(*replay.History, *sim.Figures) {}, []bool{true, true, true, true}},
		{"too little history", func(h *replay.History, _ *sim.Figures) { h.Until = h.From.Add(23 * time.Hour) }, []bool{false, false, false, false}},
		{"too few jobs", func(h *replay.History, _ *sim.Figures) { h.Outcomes = h.Outcomes[:49] }, []bool{false, false, false, false}},
		{"failed jobs do not count", func(h *replay.History, _ *sim.Figures) {
			for i := range 20 {
				h.Outcomes[i].Completed = false
			}
		}, []bool{false, false, false, false}},
		{"solver in trouble", func(h *replay.History, _ *sim.Figures) { h.Timeouts = 11 }, []bool{false, false, false, false}},
		{"best effort slower", func(_ *replay.History, f *sim.Figures) { f.BEJCTMean = at(101) }, []bool{true, false, false, false}},
		{"no best effort at all", func(h *replay.History, f *sim.Figures) { f.BEJCTMean, h.Happened.BEJCTMean = nil, nil }, []bool{true, true, true, true}},
		{"forecasts off", func(h *replay.History, _ *sim.Figures) { h.Happened.ForecastError = at(0.4) }, []bool{true, true, false, false}},
		{"more strict misses", func(_ *replay.History, f *sim.Figures) { f.StrictMiss = at(0.31) }, []bool{true, true, true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, f := history(), good
			c.change(h, &f)
			var got []bool
			for _, v := range replay.Judge(h, f, replay.DefaultThresholds()) {
				got = append(got, v.Ready)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestThresholds(t *testing.T) {
	if errs := replay.DefaultThresholds().Validate(); len(errs) > 0 {
		t.Error(errs)
	}
	bad := replay.DefaultThresholds()
	bad.MinJobs, bad.MaxHoles, bad.MinCoverage = 0, 1.5, math.NaN()
	if errs := bad.Validate(); len(errs) != 3 {
		t.Error(errs)
	}
}

// TestOpen: folders are read together, a round that is in two of them counts once, what is no round is named.
func TestOpen(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	if _, err := replay.Open(a, b); !errors.Is(err, replay.ErrNone) {
		t.Errorf("%v", err)
	}
	at := time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
	for i, dirs := range [][]string{{a}, {a, b}, {b}} {
		now := at.Add(time.Duration(i) * time.Minute)
		x := replay.Round{Schema: 1, Snapshot: planner.Snapshot{Now: now, Unit: time.Minute}, Plan: planner.Plan{ID: "p", Now: now}}
		for _, d := range dirs {
			if err := x.Store(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := replay.Open(b, a)
	if err != nil || r.Len() != 3 {
		t.Fatalf("%d rounds, %v", r.Len(), err)
	}
	if x, err := r.Read(0); err != nil || !x.Snapshot.Now.Equal(at) {
		t.Errorf("%v %v", x.Snapshot.Now, err)
	}
	if err := os.WriteFile(filepath.Join(a, "20260101T000000.000Z-x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = replay.Open(a); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Load(r, nil); err == nil {
		t.Error("a torn round was read")
	}
}

// FuzzParse: rounds come from disk; whatever is there, nothing panics, also when a history is made of it.
func FuzzParse(f *testing.F) {
	at := time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
	good, err := json.Marshal(replay.Round{Snapshot: planner.Snapshot{Now: at, Unit: time.Minute, Nodes: []planner.Node{{Name: "n", GPUs: 4, Usable: true}},
		Jobs: []planner.Job{{Run: planner.Run{Job: 1}, State: planner.Running, Asked: 2, Current: planner.Placement{{Node: "n", GPUs: 2}},
			Estimate: planner.Estimate{Speeds: []planner.ShapeSpeed{{Shape: planner.Shape{2}, Speed: planner.Exactly(1)}}, Iterations: planner.Exactly(100)}}}},
		Plan: planner.Plan{ID: "p", Now: at}, Ended: []replay.Outcome{{Job: 1, GPUs: 2, Submitted: at, Begin: at, End: at.Add(time.Hour), Ran: 3600, Completed: true, Class: planner.Strict,
			Tiers: []planner.Tier{{At: at, Value: 1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"snapshot":{"now":"2027-01-04T00:00:00Z","unit_ns":1,"jobs":[{"state":"running"}]},"ended":[{"end":"2028-01-04T00:00:00Z"}]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := replay.Parse(raw, "x"); err != nil {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, "x.json"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := replay.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := replay.Load(r, nil); err == nil {
			h.Trace()
			replay.Judge(h, h.Happened, replay.DefaultThresholds())
		}
	})
}
