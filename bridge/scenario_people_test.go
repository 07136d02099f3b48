package bridge_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// asSubmitted is the job before anybody touches it.
func (w *world) asSubmitted(name string) slurm.Job { return w.job(name) }

func (w *world) happened(name, what string) bool {
	return slices.ContainsFunc(w.view(name).Events, func(e bridge.Event) bool { return e.What == what })
}

func (w *world) order(o bridge.Order) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the order stays in the queue; the next cycle takes it
	o.By = "test"
	_, _ = w.b.Order(ctx, o)
}

func TestScenarioProfileOfAMultiGPUJob(t *testing.T) {
	for name, s := range map[string]slurmsim.Submission{
		"gpus per node": {GPUsPerNode: 4, Nodes: 2, Tasks: 8},
		"gpus per job":  {GPUs: 8, Tasks: 8},
		"one node":      {GPUsPerNode: 4, Nodes: 1, Tasks: 4, Nice: 50},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{})
			s.Comment = "unisched:ckpt=B:USR1,stop=iters:20000"
			s.Body = training(20000)
			s.Body.Step = func(per []int) time.Duration {
				n := 0
				for _, g := range per {
					n += g
				}
				return time.Duration(1000+200*len(per)) * time.Millisecond / time.Duration(n)
			}
			w.submit("wide", s)
			before := w.asSubmitted("wide")
			w.until(30*time.Minute, "profiled", func() bool { return w.view("wide").Profile.Done })
			v := w.view("wide")
			if len(v.Stays) < 2 || v.Profile.Note != "profiled" {
				t.Errorf("profile: %+v, stays %+v", v.Profile, v.Stays)
			}
			w.until(20*time.Minute, "it runs", func() bool { return w.running("wide") })
			got := w.job("wide")
			want := map[string]int{"gpus per node": 8, "gpus per job": 8, "one node": 4}[name]
			if got.AllocGPUs != want || got.Partition != "gpu" || got.Request.Tasks != before.Request.Tasks || got.Request.TRESPerJob != before.Request.TRESPerJob {
				t.Errorf("runs with %d GPUs, partition %s, request %+v; submitted %+v", got.AllocGPUs, got.Partition, got.Request, before.Request)
			}
			w.until(6*time.Hour, "it ends", w.finished("wide"))
			w.checkReturns("wide", 2)
			if v := w.view("wide"); v.Phase != bridge.Completed || !strings.HasPrefix(v.Estimate.Basis, "profile") && !strings.Contains(v.Estimate.Basis, "lease") {
				t.Errorf("phase %s, basis %q", v.Phase, v.Estimate.Basis)
			}
		})
	}
}

// A profiled job that is released while it waits stands as its user submitted it.
func TestScenarioRequestIsRestoredAfterAProfile(t *testing.T) {
	w := newWorld(t, site{})
	w.fill(2, 5*3600)
	w.submit("wide", slurmsim.Submission{GPUsPerNode: 4, Nodes: 2, Tasks: 2, Nice: 7, Comment: "unisched:ckpt=B:USR1,stop=iters:20000", Body: training(20000)})
	before := w.asSubmitted("wide")
	w.until(40*time.Minute, "profiled", func() bool { return w.view("wide").Profile.Done })
	w.until(5*time.Minute, "it waits again", func() bool { return w.view("wide").Phase == bridge.Waiting })
	w.order(bridge.Order{Kind: bridge.OrderRelease, Job: w.ids["wide"]})
	w.run(time.Minute, nil)
	w.plain("wide", before)
	if w.view("wide").Phase != bridge.Released {
		t.Errorf("phase %s", w.view("wide").Phase)
	}
}

// TestScenarioBehaviours: every way in which a job answers, or does not, ends in the state that its user expects, with a reason to read.
func TestScenarioBehaviours(t *testing.T) {
	code := func(n int) *int { return &n }
	const signalled = "B:USR1"
	cases := []struct {
		name string
		body func(*slurmsim.Body)
		sub  func(*slurmsim.Submission)
		// during is called after every step once the strict job waits.
		during func(*world)
		state  slurm.BaseState // of the victim in the end
		why    string          // in the view's NoPreempt or Why or an event of the victim
		spared bool            // it is never stopped
	}{
		{name: "no trap: our signal kills it, it is run again", body: func(b *slurmsim.Body) { b.Trap = slurmsim.NoTrap; b.SaveEvery = 600 },
			state: slurm.StateCompleted, why: "signal-kills"},
		{name: "case 29: ignores the signal", body: func(b *slurmsim.Body) { b.Trap = slurmsim.Ignores }, state: slurm.StateCompleted, why: "signal-ineffective"},
		{name: "saves but runs on", body: func(b *slurmsim.Body) { b.Trap = slurmsim.RunsOn }, state: slurm.StateCompleted, why: "it saved its checkpoint and runs on"},
		{name: "case 32: exits 0 after saving", body: func(b *slurmsim.Body) { b.Exit = code(0) }, state: slurm.StateCompleted, why: "exited 0 instead of the agreed code"},
		{name: "case 32: exits 0 after saving, no stop= declared", body: func(b *slurmsim.Body) { b.Exit = code(0) },
			sub: func(s *slurmsim.Submission) { s.Comment = "unisched:profile=skip,ckpt=" + signalled }, state: slurm.StateCompleted, why: "without a word that it was done: let it exit 99"},
		{name: "case 32: exits 0 at the signal and never says that it saves", body: func(b *slurmsim.Body) { b.Exit, b.Hides = code(0), true }, state: slurm.StateCompleted,
			why: "did not say that it had saved"},
		{name: "case 32: exits 1 after saving", body: func(b *slurmsim.Body) { b.Exit = code(1) }, state: slurm.StateCompleted, why: "did not exit with the agreed code"},
		{name: "case 32: exits 1 after saving, no stop= declared", body: func(b *slurmsim.Body) { b.Exit = code(1) },
			sub: func(s *slurmsim.Submission) { s.Comment = "unisched:profile=skip,ckpt=" + signalled }, state: slurm.StateCompleted, why: "did not exit with the agreed code"},
		{name: "--no-requeue", sub: func(s *slurmsim.Submission) { s.NoRequeue = true }, state: slurm.StateCompleted, why: "--no-requeue", spared: true},
		{name: "case 28: no ckpt", sub: func(s *slurmsim.Submission) { s.Comment = "unisched:profile=skip,stop=iters:9000" }, state: slurm.StateCompleted, why: "no ckpt=", spared: true},
		{name: "never says anything", body: func(b *slurmsim.Body) { b.Silent = true }, state: slurm.StateCompleted, why: "no sign of life", spared: true},
		{name: "cancelled between signal and requeue", body: func(b *slurmsim.Body) { b.Save = 30 * time.Second },
			during: func(w *world) {
				if w.view("victim").Phase == bridge.Checkpointing && w.happened("victim", "signal") {
					w.sim.Cancel(w.ids["victim"])
				}
			}, state: slurm.StateCancelled, why: "CANCELLED"},
		{name: "cancelled when it is back", during: func(w *world) {
			if w.job("victim").State == slurm.StatePending {
				w.sim.Cancel(w.ids["victim"])
			}
		}, state: slurm.StateCancelled, why: "CANCELLED"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4, cfg: func(c *bridge.Config) { c.CheckpointTimeout = time.Minute }})
			s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, TimeLimit: 24 * time.Hour, Body: training(9000), Comment: "unisched:profile=skip,stop=iters:9000,ckpt=" + signalled}
			if c.body != nil {
				c.body(&s.Body)
			}
			if c.sub != nil {
				c.sub(&s)
			}
			w.submit("victim", s)
			w.until(15*time.Minute, "the victim runs", func() bool { return w.running("victim") && w.view("victim").Phase == bridge.Running })
			w.run(time.Minute, nil)
			w.urgent("strict", 1200, 80*time.Minute)
			var explained bool
			w.until(9*time.Hour, "all end", func() bool {
				if c.during != nil {
					c.during(w)
				}
				v := w.view("victim")
				text := v.NoPreempt + v.Why + v.Exit
				for _, e := range v.Events {
					text += e.Text
				}
				explained = explained || strings.Contains(text, c.why)
				return w.finished("victim", "strict")()
			})
			if !explained {
				t.Errorf("no explanation holds %q", c.why)
			}
			starts := 0
			state := slurm.BaseState("gone")
			for _, e := range w.sim.History() {
				if e.Job == w.ids["victim"] {
					if strings.HasPrefix(e.What, "start") {
						starts++
					}
					if f := strings.Fields(e.What); f[0] == "end" {
						state = slurm.BaseState(f[1])
					}
				}
			}
			if state != c.state {
				t.Errorf("the victim ends %s, want %s", state, c.state)
			}
			if c.spared && starts != 1 {
				t.Errorf("the victim ran %d times although it may not be stopped", starts)
			}
			if state == slurm.StateCompleted && !s.Body.Silent && w.view("victim").Iter != 9000 {
				t.Errorf("the victim ended at iteration %d", w.view("victim").Iter)
			}
			w.clean()
		})
	}
}

// A profile run that fails never ends the job.
func TestScenarioProfileRunDies(t *testing.T) {
	w := newWorld(t, site{})
	s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Tasks: 4, Comment: "unisched:ckpt=USR1,stop=iters:2000", Body: training(2000)}
	s.Body.NeedGPUs = 4
	w.submit("big", s)
	before := w.asSubmitted("big")
	w.until(30*time.Minute, "it runs as asked", func() bool { return w.running("big") && w.job("big").AllocGPUs == 4 })
	if v := w.view("big"); !strings.HasPrefix(v.Profile.Note, "profile-failed") || !v.Profile.Done {
		t.Errorf("profile %+v", v.Profile)
	}
	if got := w.job("big"); got.Partition != "gpu" || got.Request.TRESPerNode != before.Request.TRESPerNode || got.Request.Tasks != 4 {
		t.Errorf("request %+v", got)
	}
	w.until(2*time.Hour, "it ends", w.finished("big"))
	if v := w.view("big"); v.Phase != bridge.Completed {
		t.Errorf("phase %s", v.Phase)
	}
	w.clean()
}

// What a user says about when a job may start always wins.
func TestScenarioUsersWillWins(t *testing.T) {
	sub := func() slurmsim.Submission {
		return slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, TimeLimit: time.Hour, Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:600", Body: training(600)}
	}
	t.Run("hold", func(t *testing.T) {
		w := newWorld(t, site{})
		s := sub()
		s.Hold = true
		w.submit("job", s)
		w.run(30*time.Minute, nil)
		if !w.job("job").Held || !strings.Contains(w.view("job").Blocked, "held") {
			t.Errorf("held=%v blocked=%q", w.job("job").Held, w.view("job").Blocked)
		}
		w.sim.Release(w.ids["job"])
		w.until(20*time.Minute, "it runs after the release", func() bool { return w.running("job") })
	})
	t.Run("hold of a job that we delay", func(t *testing.T) {
		w := newWorld(t, site{nodes: 1, gpus: 4})
		w.fill(1, 3600)
		w.submit("job", sub())
		w.run(5*time.Minute, nil)
		w.sim.Hold(w.ids["job"])
		w.run(2*time.Hour, nil)
		if !w.job("job").Held || w.job("job").Restarts > 0 || !strings.Contains(w.view("job").Blocked, "held") {
			t.Errorf("held=%v blocked=%q", w.job("job").Held, w.view("job").Blocked)
		}
		w.sim.Release(w.ids["job"])
		w.until(20*time.Minute, "it runs after the release", func() bool { return w.running("job") })
	})
	t.Run("hold of a running job", func(t *testing.T) {
		w := newWorld(t, site{nodes: 1, gpus: 4})
		w.fill(1, 7200)
		w.sim.Hold(w.ids["long1"])
		w.urgent("strict", 600, time.Hour)
		w.run(90*time.Minute, nil)
		if j := w.job("long1"); !w.running("long1") || !j.Held || j.Restarts > 0 || !strings.Contains(w.view("long1").NoPreempt, "holds it") {
			t.Errorf("%s held=%v restarts=%d no-preempt=%q: it would not have come back by itself", j.State, j.Held, j.Restarts, w.view("long1").NoPreempt)
		}
	})
	t.Run("begin time", func(t *testing.T) {
		w := newWorld(t, site{})
		s := sub()
		begin := w.sim.Now().Add(2 * time.Hour)
		s.Begin = begin
		w.submit("job", s)
		w.until(time.Minute, "it is known", func() bool { return w.view("job").Blocked != "" })
		w.until(3*time.Hour, "it runs", func() bool { return w.running("job") })
		if start := w.job("job").Start; start.Before(begin) || start.After(begin.Add(6*time.Minute)) {
			t.Errorf("started at %v, begin time %v", start, begin)
		}
	})
	t.Run("begin time set later", func(t *testing.T) {
		w := newWorld(t, site{nodes: 1, gpus: 4})
		w.fill(1, 1800)
		w.submit("job", sub())
		w.run(7*time.Minute, nil)
		begin := w.sim.Now().Add(3 * time.Hour)
		w.sim.SetBegin(w.ids["job"], begin)
		w.until(5*time.Hour, "it runs", func() bool { return w.running("job") })
		if start := w.job("job").Start; start.Before(begin.Truncate(time.Second)) {
			t.Errorf("started at %v, begin time %v", start, begin)
		}
	})
	t.Run("dependency", func(t *testing.T) {
		w := newWorld(t, site{})
		first := w.submit("first", sub())
		s := sub()
		s.After = first
		w.submit("second", s)
		w.until(time.Minute, "it is known", func() bool { return strings.Contains(w.view("second").Blocked, "afterany") })
		w.until(time.Hour, "the first ends", w.finished("first"))
		w.until(20*time.Minute, "the second runs", func() bool { return w.running("second") })
	})
	t.Run("comment corrected", func(t *testing.T) {
		w := newWorld(t, site{})
		s := sub()
		s.Comment = "unisched:class=strict"
		w.submit("job", s)
		w.until(10*time.Minute, "it runs as a plain job", func() bool { return w.running("job") })
		if v := w.view("job"); v.Phase != bridge.Unmanaged || v.Why == "" {
			t.Errorf("phase %s %q", v.Phase, v.Why)
		}
	})
}

// Slurm shows the end of a job before the node's lines of its last second have come: they are awaited, and the job is judged by them.
func TestScenarioLastWordsComeLate(t *testing.T) {
	zero, one := 0, 1
	for name, c := range map[string]struct {
		exit *int
		back bool
		ends int64 // iterations of the whole training
	}{
		"exits 0 after saving": {&zero, true, 9000},
		"exits 1 after saving": {&one, true, 9000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.late = 12 * time.Second
			s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(c.ends), Comment: "unisched:profile=skip,ckpt=B:USR1"}
			s.Body.Exit, s.Body.Save = c.exit, time.Second
			w.submit("victim", s)
			w.until(15*time.Minute, "it trains", w.reached("victim", 60))
			w.urgent("strict", 1200, 80*time.Minute)
			w.until(9*time.Hour, "all end", w.finished("victim", "strict"))
			w.run(time.Minute, nil)
			v := w.view("victim")
			if back := w.happened("victim", "rerun"); back != c.back || v.NoPreempt != "" || v.Iter != c.ends {
				t.Errorf("put back %v, not preempted any more: %q, iteration %d", back, v.NoPreempt, v.Iter)
			}
		})
	}
}
