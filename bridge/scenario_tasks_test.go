package bridge_test

import (
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// TestScenarioTasksPerGPU: Slurm 24.11 makes the tasks of a job with --ntasks-per-gpu those of its nodes at any write that does not name them (seen). Whatever is done to it (delayed, started, stopped, brought
// back, given back to plain Slurm), it runs with the tasks that its user asked for.
func TestScenarioTasksPerGPU(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	tasks := func(when string) {
		t.Helper()
		if got := w.job("it").Request.Tasks; got != 4 {
			t.Errorf("%s: %d tasks, its user asked for 4", when, got)
		}
	}
	w.submit("plain", slurmsim.Submission{GPUs: 4, Body: training(600), TimeLimit: 15 * time.Minute, User: "bob", UID: 1002})
	w.submit("it", slurmsim.Submission{GPUs: 4, Nodes: 1, TasksPerGPU: 1, Body: training(3 * 3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:10800"})
	w.run(6*time.Minute, nil)
	tasks("delayed")
	w.until(30*time.Minute, "it trains", w.reached("it", 60))
	tasks("started")
	w.urgent("strict", 600, 20*time.Minute)
	w.until(time.Hour, "it has left", func() bool { return w.view("it").Restart == 1 && w.view("it").Phase == bridge.Waiting })
	w.run(time.Minute, nil)
	tasks("back in the queue")
	w.until(time.Hour, "it runs again", func() bool { return w.running("it") })
	tasks("started again")
	w.urgent("strict2", 600, 20*time.Minute)
	w.until(time.Hour, "it has left again", func() bool { return w.view("it").Restart == 2 && w.view("it").Phase == bridge.Waiting })
	w.order(bridge.Order{Kind: bridge.OrderRelease, Job: w.ids["it"]})
	w.run(time.Minute, nil)
	tasks("given back")
	w.until(10*time.Hour, "all end", w.finished("it", "strict", "strict2", "plain"))
	w.clean()
}
