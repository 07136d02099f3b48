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

// startsOf lists where a job started, in order.
func (w *world) startsOf(name string) (nodes []string, at []time.Time) {
	for _, e := range w.sim.History() {
		if text, ok := strings.CutPrefix(e.What, "start "); ok && e.Job == w.ids[name] {
			nodes, at = append(nodes, text), append(at, e.At)
		}
	}
	return nodes, at
}

func (w *world) noted(name, what string) bool {
	for _, e := range w.view(name).Events {
		if e.What == what {
			return true
		}
	}
	return false
}

// case 25: a launch fails, and Slurm holds the job. It is released again, later and on another node; a job that its user holds is left held.
func TestScenarioLaunchFailedAndHeld(t *testing.T) {
	w := newWorld(t, site{})
	w.sim.FailLaunches("n1", 100)
	w.submit("job", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Body: training(300), Comment: "unisched:class=strict,deadline=now+40m,ckpt=B:USR1,profile=skip,stop=iters:300"})
	w.until(30*time.Minute, "it ends", w.finished("job"))
	w.checkMet("job")
	where, at := w.startsOf("job")
	if len(where) != 2 || where[0] != "n1:2" || where[1] == "n1:2" || at[1].Sub(at[0]) < 15*time.Second {
		t.Errorf("case 25: started on %v at %v, want n1 and, 15 s later at least, another node", where, at)
	}
	if !w.noted("job", "launch-failed") {
		t.Error("case 25: nobody was told")
	}
	w.clean()
}

// case 25: a job that no node can launch is tried a few times, and then stays as Slurm left it, with the reason.
func TestScenarioLaunchFailsEverywhere(t *testing.T) {
	w := newWorld(t, site{})
	for _, n := range []string{"n1", "n2", "n3"} {
		w.sim.FailLaunches(n, 100)
	}
	w.submit("job", slurmsim.Submission{GPUs: 1, Body: training(300), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:300"})
	for range 6 { // an admin brings the nodes back that Slurm drained, and mends nothing
		w.run(40*time.Minute, nil)
		for _, n := range []string{"n1", "n2", "n3"} {
			w.sim.Resume(n)
		}
	}
	where, at := w.startsOf("job")
	if len(where) < 3 || len(where) > 6 {
		t.Errorf("case 25: started %d times: %v at %v", len(where), where, at)
	}
	for i := 1; i < len(at); i++ {
		if at[i].Sub(at[i-1]) < 15*time.Second<<(i-1) {
			t.Errorf("case 25: try %d came %v after the one before", i+1, at[i].Sub(at[i-1]))
		}
	}
	if v, j := w.view("job"), w.job("job"); !j.Held || j.Reason != "JobHeldUser" || !strings.Contains(v.Blocked, "release it") || v.Changed.Hold {
		t.Errorf("case 25: held %v (%s), blocked %q, our hold %v", j.Held, j.Reason, v.Blocked, v.Changed.Hold)
	}
}

// case 25: a node that does not finish its epilog keeps its GPUs: nobody is started there, nor preempted in vain, while it is COMPLETING; the others are used.
func TestScenarioStuckCompleting(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	w.submit("first", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(120), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:120"})
	w.until(10*time.Minute, "it runs", func() bool { return w.running("first") })
	stuck := w.job("first").Nodes[0]
	w.sim.SlowEpilog(stuck, 30*time.Minute)
	w.until(20*time.Minute, "it has ended", w.finished("first"))
	over := w.sim.Now()
	w.sim.SlowEpilog(stuck, 0)
	for i := range 3 {
		w.submit(fmt.Sprint("next", i), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(1800), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:1800"})
	}
	w.run(28*time.Minute, nil)
	for i := range 3 {
		nodes, at := w.startsOf(fmt.Sprint("next", i))
		for k, n := range nodes {
			if strings.HasPrefix(n, stuck+":") {
				t.Errorf("case 25: next%d was started on the stuck node %v after the job's end", i, at[k].Sub(over))
			}
		}
		if v := w.view(fmt.Sprint("next", i)); v.Phase == bridge.Starting && v.Placement.On(stuck) > 0 {
			t.Errorf("case 25: next%d is released to the stuck node", i)
		}
	}
	for _, l := range w.wire.log {
		if strings.Contains(l, "update") && strings.Contains(l, "req=["+stuck+"]") && l > over.Format("15:04:05") && l < over.Add(28*time.Minute).Format("15:04:05") {
			t.Errorf("case 25: pinned to the stuck node: %s", l)
		}
	}
	w.until(3*time.Hour, "all end", w.finished("next0", "next1", "next2"))
	w.clean()
}

// case 25: a job that comes back at once from the node on which it starts is kept off it.
func TestScenarioComesBackAtOnce(t *testing.T) {
	w := newWorld(t, site{})
	exit := 99
	w.submit("job", slurmsim.Submission{GPUs: 1, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:5", Body: slurmsim.Body{Silent: true, Fail: exit}})
	w.run(10*time.Minute, nil)
	where, at := w.startsOf("job")
	if len(where) < 3 {
		t.Fatalf("started %v", where)
	}
	nodes := map[string]bool{}
	for i, n := range where {
		nodes[n] = true
		if i >= 2 && at[i].Sub(at[i-1]) < 5*time.Second && n == where[i-1] {
			t.Errorf("case 25: start %d came %v after the one before, on the same node", i, at[i].Sub(at[i-1]))
		}
	}
	if len(nodes) < 2 {
		t.Errorf("case 25: it was started on %v only", nodes)
	}
}

// case 28: a job that does not say that it can checkpoint is neither preempted nor profiled, whatever else must wait for it.
func TestScenarioNoCheckpointNoPreemption(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("precious", slurmsim.Submission{GPUs: 4, Body: training(3600), Comment: "unisched:stop=iters:3600"})
	w.until(10*time.Minute, "it trains", w.reached("precious", 1))
	w.urgent("strict", 600, 30*time.Minute)
	w.until(5*time.Hour, "both end", w.finished("precious", "strict"))
	if v := w.view("precious"); v.Phase != bridge.Completed || v.Restart != 0 || v.Preemptions != 0 || v.LostIters != 0 || !strings.Contains(v.Profile.Note, "cannot checkpoint") {
		t.Errorf("case 28: %s, %d restarts, %d preemptions, %d iterations lost, profile %q", v.Phase, v.Restart, v.Preemptions, v.LostIters, v.Profile.Note)
	}
	for _, l := range w.wire.log {
		if strings.Contains(l, "signal") {
			t.Errorf("case 28: %s", l)
		}
	}
}

// case 30: workers that do not hear the signal (torchrun passes on TERM, INT, HUP and QUIT only), and a checkpoint that takes longer than one is given: nobody
// is killed, nothing is lost, and explain says which setting to look at.
func TestScenarioSignalNotForwarded(t *testing.T) {
	cases := []struct {
		name  string
		body  func(*slurmsim.Body)
		says  string
		saved bool
	}{
		{"workers do not hear it", func(b *slurmsim.Body) { b.Trap = slurmsim.Ignores }, "signal-ineffective", false},
		{"the checkpoint takes 45 s, 30 s are given", func(b *slurmsim.Body) { b.Save = 45 * time.Second }, "signal-ineffective", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4, cfg: func(b *bridge.Config) { b.CheckpointTimeout = 30 * time.Second }})
			body := training(7200)
			c.body(&body)
			w.submit("deaf", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: body, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:7200"})
			w.until(10*time.Minute, "it trains", w.reached("deaf", 60))
			w.urgent("strict", 600, 40*time.Minute)
			said := false
			w.until(8*time.Hour, "both end", func() bool {
				said = said || strings.Contains(w.view("deaf").Why+w.view("deaf").NoPreempt, c.says)
				return w.finished("deaf", "strict")()
			})
			v := w.view("deaf")
			if v.Phase != bridge.Completed || v.LostIters != 0 || !said {
				t.Errorf("case 30: %s (%s), %d iterations lost, said %v: %q", v.Phase, v.Exit, v.LostIters, said, v.NoPreempt)
			}
			if c.saved {
				w.checkReturns("deaf", 1)
			} else if v.Restart != 0 || !strings.Contains(v.NoPreempt, "ckpt=") {
				t.Errorf("case 30: %d restarts, not preempted since %q", v.Restart, v.NoPreempt)
			}
			w.clean()
		})
	}
}

// case 31: a job that is preempted eight minutes after its start, again and again, spends nothing of what is there for its own failures, and its leases are never
// shorter than one unit; USR2 does as well as USR1.
func TestScenarioPreemptionsAreNoFailures(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("long", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(3600), Comment: "unisched:ckpt=B:USR2,profile=skip,stop=iters:3600"})
	w.until(10*time.Minute, "it trains", w.reached("long", 1))
	for i := range 4 {
		w.run(8*time.Minute, nil)
		name := fmt.Sprint("strict", i)
		w.urgent(name, 300, 15*time.Minute)
		w.until(time.Hour, "the strict job ends and the other is back", func() bool { return w.finished(name)() && w.running("long") })
	}
	w.until(5*time.Hour, "it ends", w.finished("long"))
	v := w.view("long")
	if v.Phase != bridge.Completed || v.Preemptions < 3 || v.Strikes != 0 || v.LostIters != 0 || w.noted("long", "rerun") || w.noted("long", "loops") {
		t.Errorf("case 31: %s, %d preemptions, %d strikes, %d iterations lost, events %+v", v.Phase, v.Preemptions, v.Strikes, v.LostIters, v.Events)
	}
	for _, s := range v.Stays[:len(v.Stays)-1] {
		if held := s.To.Sub(s.From); held < w.cfg.Unit-w.cfg.Poll {
			t.Errorf("case 31: a lease of %v, the unit is %v", held, w.cfg.Unit)
		}
	}
	w.checkReturns("long", 3)
	w.clean()
}

// case 32: after a requeue Slurm shows a begin time two minutes ahead: that is neither the user's, nor waiting, and the job is started before it.
func TestScenarioBeginTimeAfterRequeue(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4, sim: slurmsim.Config{RequeueDelay: 121 * time.Second}})
	w.submit("job", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(1800), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:1800"})
	w.until(10*time.Minute, "it trains", w.reached("job", 60))
	if err := w.sim.Requeue(t.Context(), w.ids["job"].Ref()); err != nil { // an admin's doing
		t.Fatal(err)
	}
	at, blocked := w.sim.Now(), ""
	w.until(10*time.Minute, "it runs again", func() bool {
		if b := w.view("job").Blocked; b != "" {
			blocked = b
		}
		return w.running("job") && w.job("job").Restarts == 1
	})
	if took := w.job("job").Start.Sub(at); took > 60*time.Second || blocked != "" {
		t.Errorf("case 32: back on its GPUs %v after the requeue, blocked %q", took, blocked)
	}
	w.until(2*time.Hour, "it ends", w.finished("job"))
	w.clean()
}

// case 51: Slurm starts no job that might still run when a reservation begins. No start is planned for it, explain names the reservation and what to do; a job whose
// limit fits is started, and one whose user lowers the limit too. Afterwards all run.
func TestScenarioReservationAhead(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	begins := w.sim.Now().Add(72 * time.Hour)
	w.sim.Reserve(slurm.Reservation{Name: "maintenance", Nodes: []string{"n1", "n2"}, Start: begins, End: begins.Add(4 * time.Hour), Flags: []string{"MAINT"}})
	w.submit("endless", slurmsim.Submission{GPUs: 2, TimeLimit: -1, Body: training(600), Comment: "unisched:class=strict,deadline=now+60m,ckpt=B:USR1,profile=skip,stop=iters:600"})
	w.submit("week", slurmsim.Submission{GPUs: 2, TimeLimit: 7 * 24 * time.Hour, Body: training(600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:600"})
	w.submit("day", slurmsim.Submission{GPUs: 2, TimeLimit: 24 * time.Hour, Body: training(600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:600"})
	w.until(time.Hour, "the one that fits ends", w.finished("day"))
	for _, n := range []string{"endless", "week"} {
		v := w.view(n)
		if !strings.Contains(v.Blocked, "reservation maintenance") || !strings.Contains(v.Blocked, "TimeLimit=") || !v.Forecast.IsZero() || v.Phase == bridge.Starting {
			t.Errorf("case 51: %s: %s, blocked %q, forecast %v", n, v.Phase, v.Blocked, v.Forecast)
		}
	}
	if starts, _ := w.startsOf("endless"); len(starts) > 0 {
		t.Errorf("case 51: endless started on %v", starts)
	}
	if err := w.sim.Update(t.Context(), w.ids["week"].Ref(), slurm.Update{TimeLimit: slurm.Some(48 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	w.until(time.Hour, "the shortened one ends", w.finished("week"))
	w.until(80*time.Hour, "the endless one ends after the reservation", w.finished("endless"))
	if j := w.view("endless"); j.Phase != bridge.Completed || j.Ended.Before(begins.Add(4*time.Hour)) {
		t.Errorf("case 51: endless: %s at %v", j.Phase, j.Ended)
	}
	w.clean()
}

// A profile that Slurm would never start is none: the partition's time limit is looked at before, any other refusal is believed.
func TestScenarioProfileThatNeverStarts(t *testing.T) {
	for name, p := range map[string]slurmsim.Partition{
		"its time limit is over the partition's": {Name: "profile", MaxNodes: 2, MaxGPUs: 2, MaxTime: time.Hour},
		"the partition is down":                  {Name: "profile", MaxNodes: 2, MaxGPUs: 2, Down: true},
		"the QOS allows nothing":                 {Name: "profile", MaxNodes: 2, MaxGPUs: -1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{parts: []slurmsim.Partition{{Name: "gpu"}, p}})
			w.submit("job", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: training(300), Comment: "unisched:ckpt=B:USR1,stop=iters:300"})
			w.until(2*time.Hour, "it ends", w.finished("job"))
			if v := w.view("job"); !v.Profile.Done || v.Profile.Note == "" || v.Phase != bridge.Completed {
				t.Errorf("%s, profile %+v", v.Phase, v.Profile)
			}
			w.clean()
		})
	}
}

// case 25: a job that our signal killed goes back into the queue when its node is done with it, even if that takes half an hour.
func TestScenarioRerunAfterStuckCompleting(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	body := training(3600)
	body.Trap = slurmsim.NoTrap
	w.submit("fragile", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: body, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:3600"})
	w.submit("other", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(7200), Comment: "unisched:profile=skip,stop=iters:7200"})
	w.until(10*time.Minute, "they train", func() bool { return w.reached("fragile", 60)() && w.reached("other", 60)() })
	w.sim.SlowEpilog(w.job("fragile").Nodes[0], 30*time.Minute)
	w.urgent("strict", 600, 25*time.Minute)
	w.until(40*time.Minute, "the signal kills it", func() bool { return w.view("fragile").Phase == bridge.Failed })
	w.sim.SlowEpilog(w.job("fragile").Nodes[0], 0)
	w.until(2*time.Hour, "it runs again", func() bool { return w.view("fragile").Phase == bridge.Running })
	if v := w.view("fragile"); !v.Ended.IsZero() || v.Exit != "" {
		t.Errorf("case 25: it runs, and the view says that it ended at %v (%s)", v.Ended, v.Exit)
	}
	w.until(6*time.Hour, "all end", w.finished("fragile", "strict", "other"))
	if v := w.view("fragile"); v.Phase != bridge.Completed || v.Restart != 1 {
		t.Errorf("case 25: %s after %d restarts (%s)", v.Phase, v.Restart, v.Exit)
	}
	tries := 0
	for _, l := range w.wire.log {
		tries += strings.Count(l, "rerun")
	}
	if tries != 1 {
		t.Errorf("case 25: %d calls for its return, want 1", tries)
	}
	w.clean()
}
