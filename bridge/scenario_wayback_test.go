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

// wide submits a best-effort job that holds the whole cluster and waits until it trains.
func (w *world) wide(name string, more func(*slurmsim.Submission)) {
	w.t.Helper()
	s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 3, Tasks: 3, Body: training(6 * 3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:21600"}
	if more != nil {
		more(&s)
	}
	w.submit(name, s)
	w.until(15*time.Minute, "it trains", w.reached(name, 60))
}

// TestScenarioNoWayBack: a job that Slurm would not start again is not stopped for another, whose deadline is then missed; as soon as there is a way back it is.
func TestScenarioNoWayBack(t *testing.T) {
	parts := []slurmsim.Partition{{Name: "gpu"}, {Name: "other"}, {Name: "profile", MaxNodes: 2, MaxGPUs: 2}}
	for name, c := range map[string]struct {
		shut, open func(*world)
		says       string
	}{
		"its partition is down":    {func(w *world) { w.sim.SetPartition("gpu", false) }, func(w *world) { w.sim.SetPartition("gpu", true) }, "partition gpu starts no jobs"},
		"a node of its is drained": {func(w *world) { w.sim.Drain("n3", "new disk") }, func(w *world) { w.sim.Resume("n3") }, "n3 takes no new jobs"},
		"a reservation is ahead": {func(w *world) {
			w.sim.Reserve(slurm.Reservation{Name: "maint", Start: w.sim.Now().Add(5 * time.Hour), End: w.sim.Now().Add(9 * time.Hour), Nodes: []string{"n3"}})
		}, func(w *world) { w.sim.Unreserve("maint") }, "n3 is reserved (maint)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{parts: parts, cfg: func(c *bridge.Config) { c.Partitions = []string{"gpu", "other"} }})
			w.wide("wide", nil)
			c.shut(w)
			w.run(time.Minute, nil)
			w.submit("strict", slurmsim.Submission{Partition: "other", GPUsPerNode: 4, Nodes: 1, Body: training(600), TimeLimit: 15 * time.Minute, User: "bob", UID: 1002,
				Comment: "unisched:class=strict,deadline=now+30m,ckpt=B:USR1,profile=skip,stop=iters:600"})
			w.run(90*time.Minute, nil)
			if v := w.view("wide"); v.Restart != 0 || v.Phase != bridge.Running || !strings.Contains(v.NoPreempt, c.says) {
				t.Errorf("it was stopped although it could not come back: restarts %d, %s, %q", v.Restart, v.Phase, v.NoPreempt)
			}
			c.open(w)
			w.until(8*time.Hour, "all end", w.finished("wide", "strict"))
			w.clean()
		})
	}
}

// TestScenarioSlurmDeadline: case 51: Slurm ends a waiting job whose begin time and time limit together pass its --deadline. One that has such a deadline is never delayed, and one
// that is given it later is given back.
func TestScenarioSlurmDeadline(t *testing.T) {
	for name, c := range map[string]struct{ submitDelay time.Duration }{"with the submit plugin": {0}, "without it": {-1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4, sim: slurmsim.Config{SubmitDelay: c.submitDelay}})
			w.submit("plain", slurmsim.Submission{GPUs: 4, Body: training(1800), TimeLimit: time.Hour})
			w.run(time.Minute, nil)
			w.submit("it", slurmsim.Submission{GPUs: 2, Body: training(600), TimeLimit: time.Hour, Deadline: w.sim.Now().Add(91 * time.Minute),
				Comment: "unisched:ckpt=B:USR1,stop=iters:600"})
			w.until(2*time.Hour, "it ends", w.finished("it"))
			if h := fmt.Sprint(w.sim.History()); !strings.Contains(h, "end COMPLETED") || strings.Contains(h, "end DEADLINE") {
				t.Error("it was ended for its deadline")
			}
			if v := w.view("it"); v.Restart != 0 || len(w.wire.log) > 0 {
				t.Errorf("it was touched: restarts %d, calls %q", v.Restart, w.wire.log)
			}
		})
	}
}

// TestScenarioOthersWait: Slurm starts those that wait for the end of a job (afterany) as soon as it fails, and never starts those that wait for its success (afterok).
// So a job that others wait for is not profiled on fewer GPUs, and one that other people wait for is not sent a signal of which nobody knows what it does.
func TestScenarioOthersWait(t *testing.T) {
	// early reports whether Slurm saw the first end, in whatever way, before it was done, or started the second before that.
	early := func(w *world) bool {
		done := false
		for _, e := range w.sim.History() {
			if e.Job == w.ids["first"] && strings.HasPrefix(e.What, "end COMPLETED") {
				done = true
			}
			if e.Job == w.ids["first"] && strings.HasPrefix(e.What, "end FAILED") {
				return true
			}
			if e.Job == w.ids["second"] && strings.HasPrefix(e.What, "start") {
				return !done
			}
		}
		return true
	}
	t.Run("its profile would fail", func(t *testing.T) {
		w := newWorld(t, site{})
		b := training(900)
		b.NeedGPUs = 4
		w.submit("first", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: b, Comment: "unisched:ckpt=B:USR1,stop=iters:900"})
		w.submit("second", slurmsim.Submission{GPUs: 1, Body: training(60), After: w.ids["first"]})
		w.until(2*time.Hour, "both end", w.finished("first", "second"))
		if early(w) {
			t.Error("the second was started when a profile of the first failed")
		}
	})
	t.Run("it came while the first was profiled", func(t *testing.T) {
		w := newWorld(t, site{})
		b := training(900)
		b.Trap = slurmsim.NoTrap
		w.submit("first", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: b, Comment: "unisched:ckpt=B:USR1,stop=iters:900"})
		w.until(time.Hour, "it is profiled", func() bool { return w.view("first").Phase == bridge.Profiling })
		w.submit("second", slurmsim.Submission{GPUs: 1, Body: training(60), After: w.ids["first"]})
		w.until(2*time.Hour, "both end", w.finished("first", "second"))
		if early(w) {
			t.Error("the second was started when the signal killed the first")
		}
	})
	for name, c := range map[string]struct {
		trap  slurmsim.Trap
		exit  int
		saves bool // and it has shown that it comes back
	}{"the signal would kill it": {trap: slurmsim.NoTrap}, "it exits with another code": {exit: 1}, "it has come back before": {exit: 99, saves: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			b := training(3 * 3600)
			b.Trap, b.Exit = c.trap, &c.exit
			w.submit("first", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: b, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:10800"})
			w.until(15*time.Minute, "it trains", w.reached("first", 60))
			if c.saves {
				w.urgent("before", 600, 20*time.Minute)
				w.until(time.Hour, "it comes back", func() bool { return w.view("first").Restart == 1 && w.running("first") })
			}
			w.submit("second", slurmsim.Submission{GPUs: 1, Body: training(60), After: w.ids["first"], User: "carol", UID: 1003})
			w.run(time.Minute, nil)
			w.urgent("strict", 600, 20*time.Minute)
			w.until(10*time.Hour, "all end", w.finished("first", "second", "strict"))
			if early(w) {
				t.Error("the second was started before the first was done")
			}
			if got := w.view("first").Restart; c.saves != (got > 1) {
				t.Errorf("it was stopped %d times", got)
			}
			w.clean()
		})
	}
}

// TestScenarioSavesForEver: a job that saves on its own account every few seconds and does not hear the signal is not waited for for ever.
func TestScenarioSavesForEver(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	b := training(3 * 3600)
	b.Trap, b.SaveEvery, b.Every = slurmsim.Ignores, 1, 2*time.Second
	w.submit("deaf", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: b, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:10800"})
	w.until(15*time.Minute, "it trains", w.reached("deaf", 60))
	w.urgent("strict", 600, 20*time.Minute)
	w.until(time.Hour, "it is asked", func() bool { return w.view("deaf").Phase == bridge.Checkpointing })
	w.until(w.cfg.CheckpointTimeout+time.Minute, "the wait for it ends", func() bool { return w.view("deaf").Phase != bridge.Checkpointing })
	w.until(10*time.Hour, "all end", w.finished("deaf", "strict"))
	if v := w.view("deaf"); v.LostIters > 5 {
		t.Errorf("%d iterations lost", v.LostIters)
	}
	w.clean()
}

// TestScenarioSuspended: an admin's suspend is no chance to get at a job's GPUs: it hears no signal, and its memory stays where it is.
func TestScenarioSuspended(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("it", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: training(2 * 3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:7200"})
	w.until(15*time.Minute, "it trains", w.reached("it", 60))
	asleep := true
	w.wire.state = func(s slurm.State) (slurm.State, error) {
		for i := range s.Jobs {
			if asleep && s.Jobs[i].ID == w.ids["it"] && s.Jobs[i].State == slurm.StateRunning {
				s.Jobs[i].State = slurm.StateSuspended
			}
		}
		return s, nil
	}
	w.run(time.Minute, nil)
	w.urgent("strict", 600, 20*time.Minute)
	w.run(40*time.Minute, nil)
	if v := w.view("it"); v.Phase != bridge.Running || !strings.Contains(v.NoPreempt, "suspended") {
		t.Errorf("%s, %q", v.Phase, v.NoPreempt)
	}
	if v := w.view("strict"); v.Phase != bridge.Waiting {
		t.Errorf("the strict job is %s, pinned to GPUs that do not come free", v.Phase)
	}
	asleep = false
	w.until(5*time.Hour, "all end", w.finished("it", "strict"))
	w.clean()
}

// TestScenarioSlowCallsTakeNoPatience: a cycle of slow calls is minutes long, and the signal its last one, of unknown outcome. The time that the job has to save begins
// when it was sent: it is neither sent again to a job that saves, nor counted as unheard.
func TestScenarioSlowCallsTakeNoPatience(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	b := training(3 * 3600)
	b.Save = 4 * time.Minute
	w.submit("it", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: b, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:10800"})
	w.until(15*time.Minute, "it trains", w.reached("it", 60))
	w.urgent("strict", 600, 30*time.Minute)
	w.wire.before = func(_ int, op string, id slurm.JobID) error {
		if v := w.view("it"); v.Phase == bridge.Running && v.Target.Decision != "keep" || op == "signal" {
			w.sim.Advance(w.sim.Now().Add(2 * time.Minute))
		}
		return nil
	}
	w.wire.after = func(_ int, op string, _ slurm.JobID) error {
		if op == "signal" {
			return slurmError(slurm.ErrUnknownOutcome, 0)
		}
		return nil
	}
	w.until(2*time.Hour, "it has left", func() bool { return w.job("it").Restarts > 0 })
	w.wire.before, w.wire.after = nil, nil
	signals := 0
	for _, e := range w.sim.History() {
		if e.Job == w.ids["it"] && strings.HasPrefix(e.What, "signal") {
			signals++
		}
	}
	if v := w.view("it"); v.Strikes != 0 || signals != 1 {
		t.Errorf("%d strikes, %d signals", v.Strikes, signals)
	}
	w.until(10*time.Hour, "all end", w.finished("it", "strict"))
	w.clean()
}
