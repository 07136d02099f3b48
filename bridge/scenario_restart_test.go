package bridge_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// restart ends the daemon between two cycles and starts it again from its journal. compacted: the journal is rewritten first, as it is when it has grown.
func (w *world) restart(compacted bool) {
	w.t.Helper()
	if compacted { // a journal that failed is written anew
		w.mem.fail = errors.New("disk full")
		w.step()
		w.mem.fail = nil
		w.step()
		w.step()
	}
	w.open()
}

// What was found out the hard way survives a restart: that preempted jobs do not come back, and how often in a row.
func TestScenarioStandstillSurvivesRestart(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		w := newWorld(t, site{nodes: 3, gpus: 4})
		signals := 0
		w.wire.after = func(_ int, op string, id slurm.JobID) error {
			if op == "signal" {
				signals++
				w.sim.Cancel(id)
			}
			return nil
		}
		w.fill(3, 50000)
		w.urgent("first", 1200, 40*time.Minute)
		stopped := func() []bridge.Standstill { return w.b.View().Standstills }
		w.until(30*time.Minute, "preemption stops", func() bool { return len(stopped()) > 0 })
		was := stopped()
		w.restart(compacted)
		w.run(30*time.Second, nil)
		if d := cmp.Diff(was, stopped()); d != "" {
			t.Errorf("after a restart: %s", d)
		}
		w.urgent("second", 1200, 50*time.Minute)
		for w.sim.Now().Before(was[0].Until) {
			if w.step(); signals > 1 {
				t.Fatal("somebody was preempted although the daemon before had found that nobody comes back")
			}
		}
		w.until(30*time.Minute, "the next one is asked to leave, and lost", func() bool { return signals > 1 && len(stopped()) > 0 })
		if s := stopped()[0]; s.Until.Sub(s.Since) != 20*time.Minute {
			t.Errorf("the second loss in a row stops preemption for %v", s.Until.Sub(s.Since))
		}
		w.resume()
		w.restart(compacted)
		w.run(30*time.Second, nil)
		if len(stopped()) != 0 {
			t.Errorf("after resume and a restart: %+v", stopped())
		}
	}
}

// A limit that Slurm has named is known to the next daemon too: nobody is tried for it again.
func TestScenarioLimitSurvivesRestart(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		w := newWorld(t, site{nodes: 3, gpus: 4, sim: slurmsim.Config{GroupGPUs: map[string]int{"bio": 4}}})
		w.train("bio1", "bio", 2*3600)
		w.until(15*time.Minute, "it trains", func() bool { return w.view("bio1").Iter > 0 })
		w.train("bio2", "bio", 900)
		w.until(15*time.Minute, "the limit is found", func() bool { return strings.Contains(w.view("bio2").Blocked, "AssocGrpGRES") })
		w.restart(compacted)
		w.train("bio3", "bio", 900)
		w.run(30*time.Minute, nil)
		for _, n := range []string{"bio2", "bio3"} {
			if v := w.view(n); v.Target.Decision == planner.Start || v.Blocked == "" || n == "bio3" && w.happened(n, "starting") {
				t.Errorf("%s: %s, blocked %q", n, v.Target.Decision, v.Blocked)
			}
		}
		w.until(5*time.Hour, "they run in the end", w.finished("bio1", "bio2", "bio3"))
		w.clean()
	}
}

// A demotion is for good, and so is a doubt within the run.
func TestScenarioDemotionSurvivesRestart(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("hopeless", slurmsim.Submission{GPUs: 4, Nodes: 1, Body: training(7200), Comment: "unisched:class=strict,deadline=now+20m,ckpt=B:USR1,profile=skip,stop=iters:7200"})
	w.until(time.Hour, "it is demoted", func() bool { return w.view("hopeless").Demoted != nil })
	was := w.view("hopeless").Demoted
	for _, compacted := range []bool{false, true} {
		w.restart(compacted)
		w.run(10*time.Minute, nil)
		if v := w.view("hopeless"); cmp.Diff(was, v.Demoted) != "" || v.Class != planner.BestEffort {
			t.Errorf("after a restart: class %s, demoted %+v", v.Class, v.Demoted)
		}
	}
}

// A signal is lost, and the daemon dies as it sends it once more: it is sent again by the next one. A job that saves on its own account all the while is not taken for one that has heard it and
// runs on (a night of chaos: it was requeued without having been asked, and lost what it had done since).
func TestScenarioDiesWhileAskingAgain(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	b := training(3 * 3600)
	b.SaveEvery = 50
	w.submit("it", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: b, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:10800"})
	w.until(15*time.Minute, "it trains", w.reached("it", 60))
	asked := 0
	w.wire.before = func(_ int, op string, _ slurm.JobID) error {
		if op != "signal" {
			return nil
		}
		switch asked++; asked {
		case 1:
			return slurmError(slurm.ErrUnknownOutcome, 0)
		case 2:
			panic(crash{})
		}
		return nil
	}
	w.urgent("strict", 600, 30*time.Minute)
	w.until(time.Hour, "it has left", func() bool { return w.job("it").Restarts > 0 })
	w.until(10*time.Hour, "all end", w.finished("it", "strict"))
	if v := w.view("it"); asked != 3 || v.LostIters > 0 {
		t.Errorf("asked %d times, %d iterations lost", asked, v.LostIters)
	}
	w.clean()
}
