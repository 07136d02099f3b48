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

// Nodes that are powered down are capacity: a job is started there, which is what wakes them, and the long way until it runs is neither a failed start nor
// a part of its lease, nor what resuming a checkpoint costs.
func TestScenarioPoweredDown(t *testing.T) {
	for _, tt := range []struct {
		name            string
		falling, resume time.Duration
	}{{"asleep", 0, 12 * time.Minute}, {"falling asleep", 3 * time.Minute, 12 * time.Minute}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 2, gpus: 4, cfg: func(c *bridge.Config) { c.ResumeTimeout, c.SuspendTimeout = 12*time.Minute, 3*time.Minute }})
			w.sim.PowerDown("n2", tt.falling, tt.resume)
			w.submit("first", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(4000), TimeLimit: 2 * time.Hour, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:4000"})
			w.until(10*time.Minute, "the first job runs", func() bool { return w.running("first") })
			if on := w.job("first").Nodes; !slices.Equal(on, []string{"n1"}) {
				t.Errorf("the first job is on %v although n1 is up", on)
			}
			nodes, err := w.sim.State(t.Context(), w.sim.Now())
			if n := nodes.Nodes[1]; err != nil || n.HasFlag("POWERING_UP") || n.Usable {
				t.Errorf("n2 was woken for nobody: %+v, %v", n, err)
			}
			w.submit("second", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(600), TimeLimit: time.Hour, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:600"})
			var leases []time.Duration // left, while its nodes were powered up
			configuring := func() bool {
				j := w.job("second")
				if v := w.view("second"); j.HasFlag(slurm.FlagConfiguring) && v.Phase == bridge.Running {
					leases = append(leases, v.LeaseUntil.Sub(w.sim.Now()))
				}
				return j.HasFlag(slurm.FlagConfiguring)
			}
			w.until(15*time.Minute, "the second job wakes its node", configuring)
			woken := w.sim.Now()
			w.until(20*time.Minute, "the node is up", func() bool { return !configuring() })
			if j := w.job("second"); j.State != slurm.StateRunning || j.Restarts != 0 || !slices.Equal(j.Nodes, []string{"n2"}) {
				t.Errorf("%s on %v, %d restarts", j.State, j.Nodes, j.Restarts)
			}
			if took := w.sim.Now().Sub(woken); took < tt.resume-time.Minute {
				t.Errorf("up after %v", took)
			}
			w.until(30*time.Minute, "the second job ends", w.finished("second"))
			v := w.view("second")
			for _, e := range v.Events {
				if strings.Contains(e.Text, "Slurm did not start it") || strings.Contains(e.Text, "launch") {
					t.Errorf("%s: %s", e.What, e.Text)
				}
			}
			if v.Restart != 0 || v.Preemptions != 0 || v.Phase != bridge.Completed {
				t.Errorf("%s, restart %d, %d preemptions", v.Phase, v.Restart, v.Preemptions)
			}
			if len(leases) == 0 || slices.Min(leases) < 0 {
				t.Errorf("its lease was used up while its nodes were powered up: %v", leases)
			}
			id := w.ids["second"]
			for _, line := range w.wire.log {
				if strings.Contains(line, fmt.Sprintf(" %d signal", id)) || strings.Contains(line, fmt.Sprintf(" %d requeue", id)) {
					t.Errorf("moved on before it began: %s", line)
				}
			}
		})
	}
}

// What a job takes to resume is counted from when its nodes are up.
func TestScenarioResumeOnSleepingNode(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4, cfg: func(c *bridge.Config) { c.ResumeTimeout = 12 * time.Minute }})
	w.submit("ours", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(2000), TimeLimit: 5 * time.Hour, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:2000"})
	w.until(10*time.Minute, "it runs", func() bool { return w.running("ours") })
	w.run(10*time.Minute, nil)
	w.sim.Down("n1")
	w.until(10*time.Minute, "it is back in the queue", func() bool { return w.job("ours").State == slurm.StatePending })
	w.sim.Resume("n1")
	w.sim.PowerDown("n1", 0, 12*time.Minute)
	if job := w.job("ours"); !job.HasFlag(slurm.FlagConfiguring) && len(job.Nodes) > 0 {
		t.Fatal("it was started before its node slept")
	}
	w.until(40*time.Minute, "it wakes its node", func() bool { j := w.job("ours"); return j.HasFlag(slurm.FlagConfiguring) })
	w.until(40*time.Minute, "it has returned", func() bool { return len(w.view("ours").Returns) > 0 })
	w.run(6*time.Minute, nil) // a round has made use of it
	r := w.view("ours").Estimate.Resume
	if r.High >= (10 * time.Minute).Seconds() {
		t.Errorf("resuming is taken to last %+v s", r)
	}
}
