package bridge_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// moves is the scenario of the crash sweeps: two nodes full of best-effort jobs, a strict job that needs one of them, a wide job that is profiled, and a
// plain job. It returns the names of its jobs.
func moves(w *world) []string {
	names := []string{"long1", "long2"}
	for _, n := range names {
		w.submit(n, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(2400), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:2400", Nice: 3})
	}
	w.run(90*time.Second, nil)
	w.urgent("strict", 400, 40*time.Minute)
	w.run(10*time.Second, nil)
	w.submit("wide", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Tasks: 2, Body: training(500), Comment: "unisched:ckpt=B:USR1,stop=iters:500"})
	w.submit("plain", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Body: training(300), TimeLimit: 20 * time.Minute})
	return append(names, "strict", "wide", "plain")
}

// quick is the site of the crash sweeps: short units, so that a night fits in a moment.
func quick() site {
	return site{nodes: 2, gpus: 4, cfg: func(c *bridge.Config) {
		c.Unit, c.ProfileTime, c.Poll, c.Delay = 2*time.Minute, 2*time.Minute, 10*time.Second, 2*time.Minute
	}}
}

// allWell fails unless every job has completed with all its iterations, once, and nothing of ours is left on any.
func (w *world) allWell(names []string) {
	w.t.Helper()
	ends := map[slurm.JobID]string{}
	for _, e := range w.sim.History() {
		if len(e.What) > 3 && e.What[:3] == "end" {
			ends[e.Job] = e.What
		}
	}
	for _, n := range names {
		if got, want := ends[w.ids[n]], "end COMPLETED exit 0 signal 0"; got != want {
			w.t.Errorf("job %s: %q, want %q", n, got, want)
		}
		if w.b != nil {
			if v := w.view(n); v.LostIters > 0 {
				w.t.Errorf("job %s lost %d iterations", n, v.LostIters)
			}
		}
	}
	w.clean()
}

// writes counts the calls of an undisturbed run of the scenario.
func undisturbed(t *testing.T) int {
	w := newWorld(t, quick())
	names := moves(w)
	w.until(4*time.Hour, "all end", w.finished(names...))
	w.allWell(names)
	w.checkMet("strict")
	stops := 0
	for _, n := range names {
		stops += w.view(n).Preemptions
	}
	if stops == 0 || len(w.view("wide").Stays) < 3 {
		t.Errorf("%d preemptions, wide %+v: the scenario shows too little", stops, w.view("wide").Stays)
	}
	return w.wire.writes
}

// crashAt lets the bridge die at the nth write, before or after it took effect.
func (w *world) crashAt(n int, after bool) {
	die := func(at int, _ string, _ slurm.JobID) error {
		if at == n {
			panic(crash{at})
		}
		return nil
	}
	if after {
		w.wire.after = die
	} else {
		w.wire.before = die
	}
}

// stride is how many writes a sweep goes on by: all of them, or with -short (the race detector's run: Step has one goroutine anyway) every ninth.
func stride() int {
	if testing.Short() {
		return 9
	}
	return 1
}

func when(after bool) string { return map[bool]string{false: "before", true: "after"}[after] }

func TestScenarioCrashSweepRestart(t *testing.T) {
	n := undisturbed(t)
	for _, down := range []time.Duration{0, 7 * time.Minute} {
		for at := 1; at <= n; at += stride() {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("down %v/%s write %d", down, when(after), at), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, quick())
					w.down = down
					w.crashAt(at, after)
					names := moves(w)
					w.until(5*time.Hour, "all end", w.finished(names...))
					w.run(time.Minute, nil)
					w.allWell(names)
					if down == 0 {
						w.checkMet("strict")
					}
				})
			}
		}
	}
}

// releaseDead is what the timer runs while no daemon is alive.
func (w *world) releaseDead() bridge.ReleaseReport {
	w.t.Helper()
	rep, err := bridge.ReleaseDead(context.Background(), w.cfg, w.wire, w.mem, w.mem.latest(), w.sim.Now())
	if err != nil {
		w.t.Fatalf("release: %v", err)
	}
	return rep
}

func TestScenarioCrashSweepReleaseDead(t *testing.T) {
	n := undisturbed(t)
	for at := 1; at <= n; at += stride() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s write %d", when(after), at), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, quick())
				w.down = 1000 * time.Hour
				w.crashAt(at, after)
				names := moves(w)
				w.run(4*time.Hour, func() bool { return w.b == nil })
				if w.b != nil {
					t.Fatal("the bridge did not crash")
				}
				w.wire.before, w.wire.after = nil, nil
				died := w.sim.Now()
				done := w.finished(names...)
				for !done() && w.sim.Now().Sub(died) < 10*time.Hour {
					w.sim.Advance(w.sim.Now().Add(time.Minute))
					w.releaseDead()
					if w.sim.Now().Sub(died) > 10*time.Minute && !t.Failed() {
						w.clean()
					}
				}
				w.allWell(names)
			})
		}
	}
}

// Delays end by themselves when nobody is there to renew or to release them.
func TestScenarioDelaysEndByThemselves(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.fill(1, 3600)
	for i := range 5 {
		w.submit(fmt.Sprint("job", i), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(60), TimeLimit: time.Hour, Comment: "unisched:profile=skip,stop=iters:60"})
	}
	w.run(20*time.Minute, nil)
	w.b, w.upAt = nil, w.sim.Now().Add(1000*time.Hour)
	w.until(3*time.Hour, "all run as plain jobs", w.finished("long1", "job0", "job1", "job2", "job3", "job4"))
}
