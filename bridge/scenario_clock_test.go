package bridge_test

import (
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// TestScenarioClockSetBack: the clock of the host, and with it Slurm's, goes back by an hour in each phase of a move. Nobody waits for that hour: those who are delayed
// start in time, the move goes on, and the job that comes back is known again although it was submitted, by the new clock, before it was first seen.
func TestScenarioClockSetBack(t *testing.T) {
	phase := func(name string, p bridge.Phase) func(*world) func() bool {
		return func(w *world) func() bool { return func() bool { return w.view(name).Phase == p } }
	}
	for name, c := range map[string]struct {
		when    func(*world) func() bool
		restart bool // the daemon is started anew at that moment
	}{
		"all runs":                          {when: phase("long1", bridge.Running)},
		"it saves":                          {when: phase("long1", bridge.Checkpointing)},
		"it saves, and the daemon restarts": {when: phase("long1", bridge.Checkpointing), restart: true},
		"it is back":                        {when: func(w *world) func() bool { return func() bool { return w.job("long1").Restarts == 1 } }},
		"it waits":                          {when: func(w *world) func() bool { return func() bool { return w.view("long1").Phase == bridge.Waiting } }},
		"the heir starts":                   {when: phase("strict", bridge.Starting)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.fill(1, 3*3600)
			w.run(40*time.Minute, nil) // so that the hour goes back beyond its submission
			w.urgent("strict", 600, 25*time.Minute)
			w.until(time.Hour, "the moment", c.when(w))
			w.sim.SetBack(time.Hour)
			if c.restart {
				w.open()
			}
			w.until(100*time.Minute, "the strict job ends", w.finished("strict")) // its deadline has moved an hour away
			w.submit("late", slurmsim.Submission{GPUs: 1, Body: training(60), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:60"})
			w.until(25*time.Minute, "the long job runs on", func() bool { return w.running("long1") })
			if n := w.job("long1").Restarts; n < 1 {
				t.Error("nobody was preempted: the scenario shows nothing")
			}
			w.until(6*time.Hour, "all end", w.finished("long1", "late"))
			if v := w.view("long1"); v.LostIters != 0 || v.Phase != bridge.Completed {
				t.Errorf("%d iterations lost, %s", v.LostIters, v.Phase)
			}
			for _, e := range w.sim.History() {
				if strings.HasPrefix(e.What, "end FAILED") {
					t.Errorf("%v", e)
				}
			}
			for _, n := range w.notes {
				if n.What == "job-id-reused" {
					t.Errorf("a job was taken for another one: %s", n.Text)
				}
			}
			w.clean()
		})
	}
}

// TestScenarioDelayedWhenTheClockIsSetBack: a job that is delayed when the clock goes back is not delayed by the hour.
func TestScenarioDelayedWhenTheClockIsSetBack(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("plain", slurmsim.Submission{GPUs: 4, Body: training(600), TimeLimit: time.Hour})
	w.run(time.Minute, nil)
	w.submit("it", slurmsim.Submission{GPUs: 2, Body: training(600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:600"})
	w.until(5*time.Minute, "it is delayed", func() bool { return w.job("it").Begin.After(w.sim.Now().Add(time.Minute)) })
	w.sim.SetBack(time.Hour)
	w.until(20*time.Minute, "it runs", func() bool { return w.running("it") })
	w.until(time.Hour, "all end", w.finished("it", "plain"))
	w.clean()
}
