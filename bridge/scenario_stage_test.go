package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// command gives an order, makes the cycle that takes it, and returns the answer.
func (w *world) command(o bridge.Order) (string, error) {
	w.t.Helper()
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	o.By = "test"
	go func() {
		text, err := w.b.Order(context.Background(), o)
		got <- answer{text, err}
	}()
	for {
		if err := w.step(); err != nil {
			w.t.Fatal(err)
		}
		select {
		case a := <-got:
			return a.text, a.err
		default:
		}
	}
}

func (w *world) logged(what, text string) bool {
	for _, n := range w.notes {
		if n.What == what && strings.Contains(n.Text, text) {
			return true
		}
	}
	return false
}

// The stage moves up when replay calls it ready or somebody insists, moves down at any time, holds over restarts, and yields to a configuration that changes.
func TestScenarioStageOrders(t *testing.T) {
	w := newWorld(t, site{cfg: func(c *bridge.Config) { c.Stage = bridge.Shadow }})
	w.run(time.Minute, nil)
	set := func(o bridge.Order) error {
		o.Kind = bridge.OrderStage
		_, err := w.command(o)
		return err
	}
	in := func(when string, want bridge.Stage, parts ...bridge.PartitionStage) {
		t.Helper()
		if d := cmp.Diff(want, w.b.View().Stage) + cmp.Diff(parts, w.b.View().Stages); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	if err := set(bridge.Order{Stage: bridge.Canary}); !errors.Is(err, bridge.ErrNotReady) {
		t.Errorf("up without a word: %v", err)
	}
	for _, bad := range []bridge.Order{{Stage: "all", Force: true}, {Stage: bridge.Canary, Partition: "debug", Force: true}} {
		if err := set(bad); !errors.Is(err, bridge.ErrOrder) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	in("after refusals", bridge.Shadow)
	if err := set(bridge.Order{Stage: bridge.StageBestEffort, Ready: true}); err != nil {
		t.Error(err)
	}
	in("ready", bridge.StageBestEffort)
	if w.logged("stage", "by force") {
		t.Error("a stage that is ready counts as forced")
	}
	if err := set(bridge.Order{Stage: bridge.StageStrict, Partition: "gpu", Force: true}); err != nil {
		t.Error(err)
	}
	in("forced", bridge.StageBestEffort, bridge.PartitionStage{Partition: "gpu", Stage: bridge.StageStrict})
	if !w.logged("stage", "by force: replay does not call it ready, by test") {
		t.Error("nothing in the log of who insisted")
	}
	w.open()
	w.run(time.Minute, nil)
	in("after a restart", bridge.StageBestEffort, bridge.PartitionStage{Partition: "gpu", Stage: bridge.StageStrict})
	if err := set(bridge.Order{Stage: bridge.Shadow}); err != nil {
		t.Error(err)
	}
	in("down", bridge.Shadow)
	w.cfg.Stage = bridge.StageSoft
	w.open()
	w.run(time.Minute, nil)
	in("the configuration has changed", bridge.StageSoft)
	if !w.logged("stage", "stage soft, by configuration, instead of shadow") {
		t.Error("a stage that was raised by the configuration is not told")
	}
}

// A partition has a stage of its own: jobs of the one in shadow are planned and never touched, while others are acted on.
func TestScenarioStagesByPartition(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4, sim: slurmsim.Config{SubmitDelay: -1},
		parts: []slurmsim.Partition{{Name: "new", Nodes: []string{"n1"}}, {Name: "old", Nodes: []string{"n2"}}},
		cfg: func(c *bridge.Config) {
			c.Partitions, c.ProfilePartition = []string{"new", "old"}, ""
			c.Stage, c.PartitionStages = bridge.Shadow, []string{"new=strict"}
		}})
	for _, p := range []string{"new", "old"} {
		for i := range 3 {
			w.submit(fmt.Sprint(p, i), slurmsim.Submission{GPUs: 4, Nodes: 1, Partition: p, Body: training(1200), Comment: "unisched:ckpt=B:USR1,stop=iters:1200"})
		}
	}
	planned := false
	w.until(3*time.Hour, "all end", func() bool {
		planned = planned || w.view("old1").Target.Decision != ""
		return w.finished("new0", "new1", "new2", "old0", "old1", "old2")()
	})
	touched := map[string]bool{}
	for _, line := range w.wire.log {
		for name, id := range w.ids {
			if strings.Contains(line, fmt.Sprintf(" %d ", id)) {
				touched[name[:3]] = true
			}
		}
	}
	if d := cmp.Diff(map[string]bool{"new": true}, touched); d != "" {
		t.Errorf("touched: %s", d)
	}
	if !planned {
		t.Error("the jobs of the partition in shadow were not planned")
	}
}

// The canary share is about what was asked for, and a job is in it or not for life.
func TestScenarioCanaryShare(t *testing.T) {
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		w := newWorld(t, site{nodes: 2, gpus: 4, sim: slurmsim.Config{SubmitDelay: -1}, cfg: func(c *bridge.Config) { c.Stage, c.CanaryShare = bridge.Canary, share }})
		for i := range 400 {
			w.submit(fmt.Sprint("job", i), slurmsim.Submission{GPUs: 8, Nodes: 2, Body: training(3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:3600"})
		}
		w.submit("strict", deadlined("strict", 600, time.Hour, time.Hour))
		w.run(time.Minute, nil)
		in := map[string]bool{}
		for i := range 400 {
			in[fmt.Sprint("job", i)] = !w.view(fmt.Sprint("job", i)).Watched
		}
		n := 0
		for _, acted := range in {
			if acted {
				n++
			}
		}
		if got := float64(n) / 400; got < share-0.05 || got > share+0.05 {
			t.Errorf("share %v: %v of the jobs", share, got)
		}
		if !w.view("strict").Watched {
			t.Errorf("share %v: a strict job is acted on", share)
		}
		w.open()
		w.run(time.Minute, nil)
		for name, acted := range in {
			if w.view(name).Watched == acted {
				t.Errorf("share %v: %s changed sides", share, name)
			}
		}
	}
}
