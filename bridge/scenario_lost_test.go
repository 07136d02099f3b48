package bridge_test

import (
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// case 26: a job that is asked to leave ends as cancelled (or preempted) and is not back in the queue in time. Nobody else of its partition is
// asked to leave until the standstill is over; one that comes back ends it, and so does an operator's resume.
func TestScenarioPreemptedAndGone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown slurm.BaseState
	}{{"cancelled", slurm.StateCancelled}, {"preempted", slurm.StatePreempted}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 3, gpus: 4})
			signals, kill := 0, true
			w.wire.after = func(_ int, op string, id slurm.JobID) error {
				if op == "signal" {
					if signals++; kill {
						w.sim.Cancel(id)
					}
				}
				return nil
			}
			w.wire.state = func(s slurm.State) (slurm.State, error) {
				for i := range s.Jobs {
					if s.Jobs[i].State == slurm.StateCancelled {
						s.Jobs[i].State = tt.shown
					}
				}
				return s, nil
			}
			w.fill(3, 50000)
			w.urgent("first", 1200, 40*time.Minute)
			stopped := func() []bridge.Standstill { return w.b.View().Standstills }
			w.until(30*time.Minute, "preemption stops", func() bool { return len(stopped()) > 0 })
			still := stopped()[0]
			if len(stopped()) != 1 || still.Partition != "gpu" || !strings.Contains(still.Why, "did not take it back") || still.Until.Sub(still.Since) != 10*time.Minute {
				t.Errorf("%+v", stopped())
			}
			if c := w.b.View().Actions; c.Lost != 1 || signals != 1 {
				t.Errorf("%d jobs lost, %d signals", c.Lost, signals)
			}
			kill = false
			w.urgent("second", 1200, 50*time.Minute)
			for w.sim.Now().Before(still.Until) {
				if w.step(); signals > 1 {
					t.Fatal("somebody was preempted while nobody comes back")
				}
			}
			w.until(30*time.Minute, "the next one is asked to leave", func() bool { return signals > 1 })
			w.until(5*time.Minute, "and is back", func() bool { return w.b.View().Actions.CheckpointsConfirmed > 0 })
			w.run(5*time.Minute, nil)
			if len(stopped()) != 0 {
				t.Errorf("%+v", stopped())
			}
			w.submit("filler", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(50000), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:50000"})
			w.until(60*time.Minute, "all is full again", func() bool { return w.sim.FreeGPUs() == 0 && w.reached("filler", 1)() })
			kill = true
			w.urgent("third", 1200, 60*time.Minute)
			w.until(60*time.Minute, "preemption stops again", func() bool { return len(stopped()) > 0 })
			if s := stopped()[0]; s.Until.Sub(s.Since) != 10*time.Minute {
				t.Errorf("after a return the next standstill is as short as the first: %+v", s)
			}
			w.resume()
			if len(stopped()) != 0 {
				t.Errorf("after resume: %+v", stopped())
			}
		})
	}
}

// resume gives the order and lets a cycle take it.
func (w *world) resume() {
	w.t.Helper()
	answered := make(chan error, 1)
	go func() {
		_, err := w.b.Order(w.t.Context(), bridge.Order{Kind: bridge.OrderResume})
		answered <- err
	}()
	for {
		if err := w.step(); err != nil {
			w.t.Fatal(err)
		}
		select {
		case err := <-answered:
			if err != nil {
				w.t.Fatal(err)
			}
			return
		default:
		}
	}
}
