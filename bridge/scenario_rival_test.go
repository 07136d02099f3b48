package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/planner/lease"
	"unisched/slurm/slurmsim"
)

// Of two daemons that know nothing of each other the one that sees the other's starts does nothing disruptive any more and says so: who is later at most starts. All jobs end. One
// that is alone, or beside one that only looks, suspects nobody; an operator who has stopped one lets the other go on.
func TestScenarioTwoDaemons(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stage bridge.Stage // of the second
		mode  string       // priority_mode of both
		found bool
	}{
		{"both act", bridge.StageStrict, "nice", true}, {"the second one only looks", bridge.Shadow, "nice", false},
		{"both act, without nice", bridge.StageStrict, "off", true}, {"the second one only looks, without nice", bridge.Shadow, "off", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 2, gpus: 4, cfg: func(c *bridge.Config) { c.PriorityMode = tt.mode }})
			w.rivals = tt.found
			cfg := w.cfg
			cfg.Stage = tt.stage
			second, err := bridge.New(cfg, bridge.Parts{Cluster: w.wire, Policy: lease.New(lease.Config{}, nil), Memory: &memory{}}, bridge.Restored{})
			if err != nil {
				t.Fatal(err)
			}
			names := []string{}
			suspects := func(b *bridge.Bridge) bool { return strings.Contains(b.View().Suspect, "second daemon") }
			firstSaw, secondSaw := false, false
			saw, turn := 0, 0
			step := func() {
				if turn++; turn%2 == 0 {
					w.step()
				}
				if err := second.Step(t.Context(), w.sim.Now()); err != nil {
					t.Fatal(err)
				}
				if turn%2 == 1 {
					w.step()
				}
				if suspects(w.b) || suspects(second) {
					saw++
				}
				firstSaw, secondSaw = firstSaw || suspects(w.b), secondSaw || suspects(second)
			}
			for i := range 24 {
				names = append(names, fmt.Sprint("job", i))
				w.submit(names[i], slurmsim.Submission{GPUs: 2, Nodes: 1, Body: training(1500), TimeLimit: 2 * time.Hour, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:1500"})
				for range 18 {
					step()
				}
			}
			if (firstSaw || secondSaw) != tt.found {
				t.Errorf("found out by the first: %v, by the second: %v", firstSaw, secondSaw)
			}
			if tt.found && saw < 100 {
				t.Errorf("one of them is quiet for %d cycles only", saw)
			}
			for end := w.sim.Now().Add(24 * time.Hour); !w.finished(names...)(); step() {
				if w.sim.Now().After(end) {
					t.Fatal("not all jobs ended")
				}
			}
			for _, v := range w.b.View().Jobs {
				for _, e := range v.Events {
					if e.What == "edited" {
						t.Errorf("job %d: the other's start was taken for its user's wish: %s", v.ID, e.Text)
					}
				}
			}
			if !tt.found {
				return
			}
			w.resume() // the second one has been stopped
			w.submit("last", slurmsim.Submission{GPUs: 2, Nodes: 1, Body: training(300), TimeLimit: time.Hour, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:300"})
			w.until(2*time.Hour, "the last one ends", w.finished("last"))
			if suspects(w.b) {
				t.Error("it still suspects another one")
			}
		})
	}
}
