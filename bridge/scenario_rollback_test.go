package bridge_test

import (
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// A slurmctld that was killed comes back without its last seconds: a run that has ended runs again, for two minutes, until Slurm notices that its nodes know
// nothing of it. It is the job that we know, held and reshaped by us as it is, and not another one with its id.
func TestScenarioSlurmctldForgetsTheEndOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		wish  string
		phase bridge.Phase
	}{
		"a profile run":     {"", bridge.Profiling},
		"a run of the plan": {",profile=skip", bridge.Running},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.submit("it", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Comment: "unisched:ckpt=B:USR1,stop=iters:2000" + c.wish, Body: training(2000)})
			w.until(time.Hour, "it runs", func() bool { return w.view("it").Phase == c.phase && w.view("it").Iter > 0 })
			if c.phase == bridge.Running {
				w.urgent("strict", 1200, 30*time.Minute)
			}
			var ghost slurm.Job
			w.until(time.Hour, "its run is over", func() bool {
				j := w.job("it")
				if j.State == slurm.StateRunning {
					ghost = j
				}
				return j.State == slurm.StatePending && w.view("it").Restart == j.Restarts
			})
			till := w.sim.Now().Add(2 * time.Minute)
			w.wire.state = func(s slurm.State) (slurm.State, error) {
				for i := range s.Jobs {
					if s.Jobs[i].ID == w.ids["it"] && w.sim.Now().Before(till) {
						s.Jobs[i] = ghost
					}
				}
				return s, nil
			}
			w.until(4*time.Hour, "it has ended", w.finished("it"))
			if v := w.view("it"); v.Phase != bridge.Completed || v.Iter != 2000 {
				t.Errorf("it ended %s at iteration %d", v.Phase, v.Iter)
			}
			for _, n := range w.notes {
				if n.What == "job-id-reused" {
					t.Error(n.Text)
				}
			}
		})
	}
}
