package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// shrunk are the running jobs that an update of ours took nodes from.
func (w *world) shrunk() (out []string) {
	for _, e := range w.sim.History() {
		if strings.HasPrefix(e.What, "shrunk") {
			out = append(out, e.String())
		}
	}
	return out
}

// TestScenarioStartsWhileACallIsUnderWay: calls are slow, and Slurm starts jobs between the look and the call whenever it may. A list of nodes or their number that meets a
// running job kills what it runs on the others: so it is sent only to a job that cannot start meanwhile.
func TestScenarioStartsWhileACallIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		plugin time.Duration
		order  bridge.OrderKind // when the first one is about to start
		job    slurmsim.Submission
	}{
		"an elastic job, on fewer nodes": {plugin: -1, job: slurmsim.Submission{Nodes: 2, GPUsPerNode: 1, Tasks: 2,
			Comment: "unisched:ckpt=B:USR1,gpus=1-2,batch=local,profile=skip,stop=iters:900"}},
		"a pause while one is on more nodes than it asked for": {order: bridge.OrderPause,
			job: slurmsim.Submission{Nodes: 1, GPUsPerNode: 2, Tasks: 2, Comment: "unisched:ckpt=B:USR1,gpus=2-8,batch=global,profile=skip,stop=iters:9000"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 4, gpus: 2, sim: slurmsim.Config{SubmitDelay: c.plugin, LatencyMin: 10500 * time.Millisecond, LatencyMax: 13 * time.Second}})
			w.wire.before = func(int, string, slurm.JobID) error {
				w.sim.Advance(w.sim.Now().Add(4 * time.Second))
				return nil
			}
			var names []string
			for i := range 12 {
				name := fmt.Sprint("job", i)
				names = append(names, name)
				c.job.Body = training(900)
				w.submit(name, c.job)
				if c.order == "" {
					w.run(time.Duration(i+1)*time.Minute, nil)
					continue
				}
				w.until(30*time.Minute, "it is about to start", func() bool { return w.view(name).Phase == bridge.Starting && w.job(name).State == slurm.StatePending })
				w.order(bridge.Order{Kind: c.order})
				w.run(2*time.Minute, nil)
				w.order(bridge.Order{Kind: bridge.OrderResume})
				w.sim.Cancel(w.ids[name])
				w.run(2*time.Minute, nil)
			}
			w.until(20*time.Hour, "all end", w.finished(names...))
			if got := w.shrunk(); len(got) > 0 {
				t.Errorf("%d running jobs lost nodes: %s", len(got), got[0])
			}
			w.clean()
		})
	}
}
