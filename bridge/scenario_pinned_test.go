package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// TestScenarioOwnNodeAway: a job that its user pins to a node is preempted, and that node drains or dies before, while and after it leaves, for half an hour. It keeps its user's list, waits without
// keeping anybody from the other nodes, and ends there when the node is back.
func TestScenarioOwnNodeAway(t *testing.T) {
	drain := func(w *world) { w.sim.Drain("n2", "new disk") }
	down := func(w *world) { w.sim.Down("n2") }
	for name, c := range map[string]struct {
		away func(*world)
		when func(*world) bool
		dies bool // it may lose what it had not saved
	}{
		"drained before it is asked":       {drain, func(w *world) bool { return w.view("it").Iter > 90 }, false},
		"drained while it saves":           {drain, func(w *world) bool { return w.view("it").Phase == bridge.Checkpointing }, false},
		"dies while it saves":              {down, func(w *world) bool { return w.view("it").Phase == bridge.Checkpointing }, true},
		"drained on its way back":          {drain, func(w *world) bool { return w.view("it").Phase == bridge.Requeueing }, false},
		"drained while it waits again":     {drain, func(w *world) bool { return w.view("it").Phase == bridge.Waiting && w.job("it").Restarts > 0 }, false},
		"dies while it waits again":        {down, func(w *world) bool { return w.view("it").Phase == bridge.Waiting && w.job("it").Restarts > 0 }, false},
		"drained when it is about to run":  {drain, func(w *world) bool { return w.view("it").Phase == bridge.Starting && w.job("it").Restarts > 0 }, false},
		"dies while it runs again":         {down, func(w *world) bool { return w.running("it") && w.job("it").Restarts > 0 }, true},
		"drained, and the daemon restarts": {func(w *world) { drain(w); w.open() }, func(w *world) bool { return w.view("it").Phase == bridge.Checkpointing }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 2, gpus: 4, sim: slurmsim.Config{Completing: 12 * time.Second}})
			b := training(2 * 3600)
			b.Save, b.SaveEvery = 30*time.Second, 300
			w.submit("it", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: b, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:7200"})
			w.sim.Edit(w.ids["it"], slurmsim.Edit{Required: []string{"n2"}})
			w.submit("other", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(3 * 3600), Comment: "unisched:ckpt=none,profile=skip,stop=iters:10800"})
			w.until(15*time.Minute, "both train", func() bool { return w.view("it").Iter > 60 && w.view("other").Iter > 60 })
			w.urgent("strict", 600, 40*time.Minute)
			at := time.Time{}
			check := func() bool {
				switch j := w.job("it"); {
				case at.IsZero() && c.when(w):
					c.away(w)
					at = w.sim.Now()
				case !at.IsZero() && w.sim.Now().Sub(at) > 30*time.Minute:
					w.sim.Resume("n2")
				case j.State == slurm.StatePending && !slices.Equal(j.Request.RequiredNodes, []string{"n2"}):
					t.Fatalf("its list of nodes is %v at %s, %s", j.Request.RequiredNodes, w.sim.Now().Format("15:04:05"), w.view("it").Phase)
				}
				return false
			}
			w.run(2*time.Hour, check)
			if at.IsZero() {
				t.Fatal("the moment did not come")
			}
			w.until(10*time.Hour, "all end", w.finished("it", "other", "strict"))
			for _, name := range []string{"it", "other", "strict"} {
				if v := w.view(name); v.Phase != bridge.Completed || v.LostIters > 0 && !c.dies {
					t.Errorf("%s: %s, %d iterations lost", name, v.Phase, v.LostIters)
				}
			}
			w.clean()
		})
	}
}

// TestScenarioManyWaitForOne: hundreds of jobs wait for the end of one that is preempted. It is stopped and comes back as any other, not one of them starts before it is done, nothing is written to them, and
// all of them run afterwards.
func TestScenarioManyWaitForOne(t *testing.T) {
	const many = 300
	for name, managed := range map[string]bool{"plain": false, "managed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.submit("first", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: training(3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:3600"})
			w.until(15*time.Minute, "it trains", w.reached("first", 60))
			names, id := []string{"first", "strict"}, map[slurm.JobID]bool{}
			for i := range many {
				s := slurmsim.Submission{GPUs: 1, Body: training(20), TimeLimit: 5 * time.Minute, After: w.ids["first"]}
				if managed {
					s.Comment = "unisched:ckpt=none,profile=skip,stop=iters:20"
				}
				n := fmt.Sprint("after", i)
				names = append(names, n)
				id[w.submit(n, s)] = true
			}
			w.run(time.Minute, nil)
			writes := len(w.wire.log)
			w.urgent("strict", 600, 20*time.Minute)
			w.until(2*time.Hour, "the first ends", w.finished("first", "strict"))
			w.checkMet("strict")
			if v := w.view("first"); v.Restart != 1 || v.LostIters > 0 {
				t.Errorf("restarts %d, %d iterations lost", v.Restart, v.LostIters)
			}
			end := time.Time{}
			for _, e := range w.sim.History() {
				if e.Job == w.ids["first"] && strings.HasPrefix(e.What, "end COMPLETED") {
					end = e.At
				}
				if id[e.Job] && strings.HasPrefix(e.What, "start") && end.IsZero() {
					t.Fatalf("%v: before the first was done", e)
				}
			}
			for _, line := range w.wire.log[writes:] {
				var at string
				var to slurm.JobID
				if n, _ := fmt.Sscan(line, &at, &to); n == 2 && id[to] && at < end.Format("15:04:05") {
					t.Fatalf("written to one that waits for another: %s", line)
				}
			}
			w.until(12*time.Hour, "all end", w.finished(names...))
			w.clean()
		})
	}
}
