package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// training is a body that takes seconds of run time at any shape, a second per iteration, and can save.
func training(seconds int64) slurmsim.Body {
	return slurmsim.Body{Iterations: seconds, Ready: 5 * time.Second, Resume: 20 * time.Second, Save: 6 * time.Second}
}

// fill submits long best-effort jobs, one per node, that hold the whole cluster, and waits until they train.
func (w *world) fill(n int, seconds int64) (names []string) {
	w.t.Helper()
	for i := range n {
		name := fmt.Sprintf("long%d", i+1)
		names = append(names, name)
		w.submit(name, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Tasks: 1, Body: training(seconds),
			Comment: fmt.Sprintf("unisched:class=besteffort,ckpt=B:USR1,profile=skip,stop=iters:%d", seconds)})
	}
	w.until(15*time.Minute, "the long jobs run", func() bool {
		for _, n := range names {
			if !w.running(n) || w.view(n).Iter == 0 {
				return false
			}
		}
		return true
	})
	return names
}

// urgent submits a strict job of 4 GPUs that has to start soon.
func (w *world) urgent(name string, seconds int64, deadline time.Duration) {
	w.submit(name, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(seconds), User: "bob", UID: 1002, TimeLimit: time.Duration(seconds*5/4) * time.Second,
		Comment: fmt.Sprintf("unisched:class=strict,deadline=now+%ds,ckpt=B:USR1,profile=skip,stop=iters:%d", int(deadline.Seconds()), seconds)})
}

// checkMet fails unless the strict job has met its deadline.
func (w *world) checkMet(name string) {
	w.t.Helper()
	v := w.view(name)
	if v.Met == nil || *v.Met != 0 {
		w.t.Errorf("strict job %s: phase %s, ended %s, deadline %v: not met", name, v.Phase, v.Ended, v.Tiers)
	}
}

// checkReturns fails unless every return was at the iteration of the checkpoint.
func (w *world) checkReturns(name string, least int) {
	w.t.Helper()
	v := w.view(name)
	if len(v.Returns) < least {
		w.t.Errorf("job %s came back %d times, expected at least %d", name, len(v.Returns), least)
	}
	for _, r := range v.Returns {
		if r.Saved == 0 || r.Resumed != r.Saved || r.Reached > r.Resumed {
			w.t.Errorf("job %s: %+v: it did not come back where it had saved", name, r)
		}
	}
	if v.LostIters != 0 {
		w.t.Errorf("job %s lost %d iterations", name, v.LostIters)
	}
}

func TestScenarioStrictJobIsSavedByAPreemption(t *testing.T) {
	for name, sim := range map[string]slurmsim.Config{
		"usual":           {},
		"long completing": {Completing: 25 * time.Second},
		"slow scheduler":  {LatencyMin: 8 * time.Second, LatencyMax: 20 * time.Second},
		"other seed":      {Seed: 7},
	} {
		t.Run(name, func(t *testing.T) { strictIsSaved(t, site{sim: sim}) })
	}
}

func strictIsSaved(t *testing.T, s site) {
	w := newWorld(t, s)
	long := w.fill(3, 3*3600)
	w.urgent("strict", 1200, 45*time.Minute)
	w.until(45*time.Minute, "the strict job ends", w.finished("strict"))
	w.checkMet("strict")
	w.until(6*time.Hour, "the long jobs end", w.finished(long...))
	back := 0
	for _, n := range long {
		v := w.view(n)
		if v.Phase != bridge.Completed {
			t.Errorf("%s is %s", n, v.Phase)
		}
		back += len(v.Returns)
		w.checkReturns(n, 0)
	}
	if back == 0 {
		t.Error("nobody was preempted: the scenario shows nothing")
	}
	w.clean()
}

var _ slurm.JobID
