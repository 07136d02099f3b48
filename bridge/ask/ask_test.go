package ask

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
)

// busy is a view of two nodes of 8 GPUs an hour into a simulation: one node runs a strict job until its deadline, the other a best-effort job, and a strict job of 8
// GPUs with plenty of time waits, like two that have none.
func busy(t *testing.T) *bridge.View {
	t.Helper()
	job := func(id string, gpus int, submit, duration, due time.Duration) trace.Job {
		j := trace.Job{ID: id, GPUs: gpus, Submit: submit, Duration: duration, Iterations: int64(duration / time.Second), Class: planner.BestEffort, Model: "resnet101"}
		if due > 0 {
			j.Class, j.Tiers = planner.Strict, []trace.Tier{{After: due, Value: 100}}
		}
		return j
	}
	jobs := []trace.Job{
		job("tight", 8, 0, 2*time.Hour, 2*time.Hour+15*time.Minute), job("tight2", 8, 0, 2*time.Hour, 2*time.Hour+15*time.Minute),
		job("easy", 8, 10*time.Minute, time.Hour, 8*time.Hour), job("patient", 4, 12*time.Minute, time.Hour, 0), job("hopeless", 16, 15*time.Minute, 3*time.Hour, 190*time.Minute),
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var view *bridge.View
	var first time.Time
	_, err := sim.Run(ctx, sim.Config{Nodes: 2, GPUsPerNode: 8, Oracle: true, Speeds: sim.Published(), Look: func(v *bridge.View) {
		if first.IsZero() {
			first = v.At
		}
		if view == nil && v.At.Sub(first) > time.Hour {
			view = v
			stop()
		}
	}}, jobs, lease.New(lease.Config{}, nil))
	if view == nil {
		t.Fatal("no view:", err)
	}
	return view
}

func named(t *testing.T, v *bridge.View, name string) bridge.JobView {
	t.Helper()
	for _, j := range v.Jobs {
		if j.Name == name {
			return j
		}
	}
	t.Fatalf("no job %s", name)
	return bridge.JobView{}
}

func asker(v *bridge.View) *Asker { return &Asker{Clock: func() time.Time { return v.At }} }

func TestWhatIf(t *testing.T) {
	v := busy(t)
	for _, tt := range []struct {
		name       string
		q          Question
		accepted   bool
		risk       bool
		cause, why string
	}{
		{"time enough", Question{GPUs: 4, Comment: "unisched:class=strict,deadline=now+20h,stop=iters:3600,ckpt=USR1", LimitS: 7200}, true, false, "", ""},
		{"no time", Question{GPUs: 16, Comment: "unisched:class=strict,deadline=now+30m,stop=iters:7200,ckpt=USR1", LimitS: 7200}, false, true, "", ""},
		{"best effort", Question{GPUs: 2, Comment: "unisched:class=besteffort,ckpt=USR1", LimitS: 3600}, true, false, "", ""},
		{"too big", Question{GPUs: 64, Comment: "unisched:class=besteffort,ckpt=USR1"}, false, true, CauseDoomed, "64 GPUs"},
		{"no comment", Question{GPUs: 2, Comment: "hello"}, false, true, CauseUnmanaged, "nothing for UniSched"},
		{"a bad comment", Question{GPUs: 2, Comment: "unisched:clas=strict"}, false, true, CauseComment, "clas"},
		{"another partition", Question{GPUs: 2, Comment: "unisched:class=besteffort", Partition: "cpu"}, false, true, CauseUnmanaged, "cpu"},
		{"per node", Question{GPUsPerNode: 8, Nodes: 2, Comment: "unisched:class=strict,deadline=now+30h,stop=iters:3600,ckpt=USR1", LimitS: 7200}, true, false, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(v.Snapshot.Jobs)
			ans, err := asker(v).WhatIf(t.Context(), v, tt.q)
			if err != nil {
				t.Fatal(err)
			}
			if ans.Accepted != tt.accepted || ans.AtRisk != tt.risk || tt.cause != "" && ans.Cause.Code != tt.cause || !strings.Contains(ans.Cause.Text, tt.why) {
				t.Errorf("accepted %v, at risk %v, %s: %s %s (deadlines %+v)", ans.Accepted, ans.AtRisk, ans.Verdict, ans.Cause.Code, ans.Cause.Text, ans.Deadlines)
			}
			if ans.Managed && tt.accepted && ans.Start == nil && ans.Finish == nil {
				t.Error("neither start nor end")
			}
			if len(v.Snapshot.Jobs) != before {
				t.Error("the view was changed")
			}
		})
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	v := busy(t)
	for _, q := range []Question{{Comment: "x"}, {GPUs: -1}, {GPUs: 1 << 20}, {GPUs: 1, Comment: strings.Repeat("x", maxText+1)}, {GPUs: 1, LimitS: -5}, {GPUs: 1, MemMB: 1 << 50}} {
		if _, err := asker(v).WhatIf(t.Context(), v, q); !errors.Is(err, ErrQuestion) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	a := asker(v)
	busy := 0
	for range burst + 5 {
		if _, err := a.WhatIf(t.Context(), v, Question{GPUs: 1, Comment: "hello"}); errors.Is(err, ErrBusy) {
			busy++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if busy != 5 {
		t.Errorf("%d of %d questions were turned away", busy, burst+5)
	}
	if _, err := asker(v).WhatIf(t.Context(), &bridge.View{}, Question{GPUs: 1, Comment: "unisched:class=besteffort"}); !errors.Is(err, bridge.ErrNoBasis) {
		t.Errorf("an empty view: %v", err)
	}
}

func TestHelps(t *testing.T) {
	v := busy(t)
	t.Run("a strict job with time waits by plan", func(t *testing.T) {
		x := Explain(v, named(t, v, "easy"))
		if x.Cause.Code != CausePlanned || x.Risk != "" || !strings.HasPrefix(x.Verdict, "Waits by plan") {
			t.Errorf("%s: %s (%s)", x.Cause.Code, x.Verdict, x.Risk)
		}
	})
	t.Run("a later deadline helps one that is late", func(t *testing.T) {
		j := named(t, v, "hopeless")
		x := Explain(v, j)
		if x.Risk == "" {
			t.Errorf("no risk: %s", x.Verdict)
		}
		helps, err := asker(v).Helps(t.Context(), v, j)
		if err != nil {
			t.Fatal(err)
		}
		later := false
		for _, h := range helps {
			later = later || strings.HasPrefix(h.Change, "deadline+") && h.Better
		}
		if !later {
			t.Errorf("%+v", helps)
		}
	})
	t.Run("who runs needs no help", func(t *testing.T) {
		if helps, err := asker(v).Helps(t.Context(), v, named(t, v, "tight")); len(helps) > 0 || err != nil {
			t.Errorf("%v, %v", helps, err)
		}
	})
	t.Run("fewer GPUs are tried for a best-effort job", func(t *testing.T) {
		j := named(t, v, "patient")
		helps, err := asker(v).Helps(t.Context(), v, j)
		if err != nil || len(helps) == 0 || helps[0].Change != "gpus=2" {
			t.Errorf("%+v, %v (phase %s)", helps, err, j.Phase)
		}
	})
}

// Every phase and every reason has words, whatever is missing of the rest, and words of users travel whole.
// A running job that was given back says so, not that the stage or a pause keeps UniSched away from it.
func TestReleasedWhileItRuns(t *testing.T) {
	j := bridge.JobView{Phase: bridge.Running, Watched: true, Releasing: true, Why: "released: plain Slurm's from now on"}
	if x := Explain(&bridge.View{Stage: "strict"}, j); x.Cause.Code != CauseReleased || !strings.Contains(x.Cause.Text, "plain Slurm's") {
		t.Errorf("%+v", x.Cause)
	}
}

func TestEverythingHasWords(t *testing.T) {
	codes := []string{"", planner.ReasonRuns, planner.ReasonStarts, planner.ReasonOutbid, planner.ReasonNoHole, planner.ReasonFull, planner.ReasonNeverFits, planner.ReasonBlocked, planner.ReasonMidLease,
		planner.ReasonNoPreempt, planner.ReasonLeaving, planner.ReasonPreempted, planner.ReasonLate, planner.ReasonLetThrough, planner.ReasonBudget, planner.ReasonNodeTrouble, "of tomorrow"}
	phases := []bridge.Phase{bridge.Unmanaged, bridge.Admitted, bridge.Waiting, bridge.Starting, bridge.Profiling, bridge.Running, bridge.Checkpointing, bridge.Requeueing, bridge.Completed, bridge.Failed,
		bridge.Cancelled, bridge.Released}
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, v := range []*bridge.View{{}, busy(t)} {
		for _, phase := range phases {
			for _, code := range codes {
				for _, d := range []planner.Decision{"", planner.Wait, planner.Start, planner.Keep, planner.Stop, planner.Move} {
					for _, blocked := range []string{"", bridge.BlockHold, bridge.BlockBegin, "?"} {
						missed := -1
						j := bridge.JobView{Phase: phase, Why: "écrit par \xff", Ended: noon, Met: &missed, Target: bridge.Target{Decision: d, Reason: planner.Reason{Code: code}}, Tiers: []planner.Tier{{At: noon, Value: 1}}}
						if blocked != "" {
							j.Blocked, j.BlockedBy = "émile", blocked
						}
						if !phase.Ended() {
							j.Ended, j.Met = time.Time{}, nil
						}
						x := Explain(v, j)
						if x.Verdict == "" || x.Cause.Code == "" || !strings.HasSuffix(x.Verdict, ".") {
							t.Fatalf("%s %s %s %s: %q, cause %+v", phase, code, d, blocked, x.Verdict, x.Cause)
						}
					}
				}
			}
		}
	}
}
