package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

func slurmError(kind error, code int) error {
	return &slurm.Error{Kind: kind, Op: "test", HTTP: 500, Code: code, Msg: "injected"}
}

// TestScenarioFaultSweep makes each write of the scenario fail in each way, once; and every fifth, for a while.
func TestScenarioFaultSweep(t *testing.T) {
	n := undisturbed(t)
	faults := []struct {
		name          string
		before, after error
	}{
		{name: "happened, outcome unknown", after: slurmError(slurm.ErrUnknownOutcome, 0)},
		{name: "did not happen, outcome unknown", before: slurmError(slurm.ErrUnknownOutcome, 0)},
		{name: "refused", before: slurmError(slurm.ErrRefused, 2072)},
		{name: "no controller", before: slurmError(slurm.ErrUnavailable, 1800)},
		{name: "no longer pending", before: slurmError(slurm.ErrNotPending, 2073)},
	}
	for _, f := range faults {
		run := func(name string, hits func(int) bool) {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, quick())
				hook := func(err error) func(int, string, slurm.JobID) error {
					return func(at int, _ string, _ slurm.JobID) error {
						if hits(at) {
							return err
						}
						return nil
					}
				}
				w.wire.before, w.wire.after = hook(f.before), hook(f.after)
				names := moves(w)
				w.until(5*time.Hour, "all end", w.finished(names...))
				w.run(time.Minute, nil)
				w.allWell(names)
			})
		}
		for at := 1; at <= n; at += stride() {
			run(fmt.Sprint("write ", at), func(n int) bool { return n == at })
		}
		run("every fifth of the first 100", func(n int) bool { return n%5 == 0 && n < 100 })
		run("the first 20 but two", func(n int) bool { return n > 2 && n <= 20 })
	}
}

// While Slurm cannot be read nothing is done, and afterwards everything goes on.
func TestScenarioSlurmAway(t *testing.T) {
	empty := func(s slurm.State) (slurm.State, error) { return slurm.State{At: s.At}, nil }
	cases := map[string]func(s slurm.State) (slurm.State, error){
		"unreachable":                       func(slurm.State) (slurm.State, error) { return slurm.State{}, slurmError(slurm.ErrUnavailable, 1800) },
		"token expired":                     func(slurm.State) (slurm.State, error) { return slurm.State{}, slurmError(slurm.ErrUnauthorised, 1007) },
		"case 6: answers 200 with an error": func(slurm.State) (slurm.State, error) { return slurm.State{}, slurmError(slurm.ErrBadAnswer, 0) },
		"case 6: empty lists":               empty,
		"no nodes":                          func(s slurm.State) (slurm.State, error) { s.Nodes = nil; return s, nil },
		"jobs lost": func(s slurm.State) (slurm.State, error) {
			s.Jobs = s.Jobs[:1:1]
			return s, nil
		},
		"older state than before": func(s slurm.State) (slurm.State, error) { s.SlurmTime = s.SlurmTime.Add(-time.Hour); return s, nil },
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, site{nodes: 12, gpus: 4})
			long := w.fill(12, 3600)
			w.urgent("strict", 1200, 50*time.Minute)
			before := w.wire.writes
			w.wire.state = fault
			w.run(5*time.Minute+10*time.Second, nil)
			for _, l := range w.wire.log[before:] {
				if !strings.Contains(l, "update begin=") || !strings.Contains(l, fmt.Sprintf(" %d ", w.ids["strict"])) {
					t.Errorf("while Slurm could not be trusted: %s", l)
				}
			}
			w.wire.state = nil
			w.until(50*time.Minute, "the strict job ends", w.finished("strict"))
			w.checkMet("strict")
			w.until(3*time.Hour, "the long jobs end", w.finished(long...))
			for _, n := range long {
				w.checkReturns(n, 0)
			}
			w.clean()
		})
	}
}

// Case 11: an id that comes again as another user's job inherits nothing.
func TestScenarioJobIDReused(t *testing.T) {
	for _, phase := range []string{"waiting", "running"} {
		t.Run(phase, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.fill(1, 3600)
			s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(900), Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:900"}
			w.submit("old", s)
			w.run(2*time.Minute, nil)
			switch phase {
			case "running":
				w.sim.Cancel(w.ids["long1"])
				w.until(15*time.Minute, "it runs", func() bool { return w.running("old") && w.view("old").Iter > 20 })
			}
			// The controller crashes, forgets the job, and gives its id to another.
			w.sim.Forget(w.ids["old"])
			id := w.submit("new", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Nice: 5, Body: training(300), User: "eve", UID: 1009, TimeLimit: time.Hour})
			if id != w.ids["old"] {
				t.Fatalf("ids %d and %d", id, w.ids["old"])
			}
			before := len(w.wire.log)
			w.until(4*time.Hour, "the new job ends", w.finished("new"))
			for _, l := range w.wire.log[before:] {
				if strings.Contains(l, fmt.Sprintf(" %d ", id)) {
					t.Errorf("a foreign job was touched: %s", l)
				}
			}
			if w.job("new").Nice != 5 {
				t.Errorf("nice %d", w.job("new").Nice)
			}
		})
	}
}

// A journal that cannot be written permits nothing disruptive; when it lasts, every job is given back to Slurm.
func TestScenarioJournalFails(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.fill(1, 3600)
	w.mem.fail = fmt.Errorf("disk full")
	w.urgent("strict", 600, time.Hour)
	before := len(w.wire.log)
	failed := 0
	for range 60 {
		if w.step() != nil {
			failed++
		}
	}
	if failed == 0 || !strings.Contains(w.b.View().Suspect, "disk full") {
		t.Errorf("%d failed cycles, suspect %q", failed, w.b.View().Suspect)
	}
	for _, l := range w.wire.log[before:] {
		if strings.Contains(l, "hold=true") || strings.Contains(l, "signal") || strings.Contains(l, "req=") {
			t.Errorf("without a journal: %s", l)
		}
	}
	if j := w.job("strict"); j.Begin.After(w.sim.Now()) {
		t.Errorf("the waiting job is still delayed until %v", j.Begin)
	}
	w.mem.fail = nil
	w.until(65*time.Minute, "the strict job ends", w.finished("strict"))
	w.checkMet("strict")
}

// The disk is full while a job is held for its checkpoint, before or after the signal: the hold does not stay.
func TestScenarioJournalFailsInMidMove(t *testing.T) {
	for _, phase := range []bridge.Phase{bridge.Checkpointing, bridge.Requeueing} { // what it is in when the disk fills
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.fill(1, 3600)
			w.urgent("strict", 600, 40*time.Minute)
			w.until(40*time.Minute, "the move", func() bool { return w.view("long1").Phase == bridge.Checkpointing })
			if phase == bridge.Requeueing { // until it has left, with no cycle in between
				w.sim.Advance(w.sim.Now().Add(8 * time.Second))
			}
			w.mem.fail = fmt.Errorf("disk full")
			for range 30 {
				_ = w.step()
			}
			if j := w.job("long1"); j.Held {
				t.Errorf("it is %s and still held", j.State)
			}
			w.mem.fail = nil
			w.until(4*time.Hour, "both end", w.finished("strict", "long1"))
			w.clean()
		})
	}
}

// The clock of the machine jumps: nothing disruptive at once, and everything goes on.
func TestScenarioClockJumps(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.fill(1, 5*3600)
	w.sim.Advance(w.sim.Now().Add(2 * time.Hour)) // the daemon was asleep
	before := len(w.wire.log)
	if err := w.step(); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(w.wire.log[before:], func(l string) bool { return strings.Contains(l, "hold") || strings.Contains(l, "signal") }); i >= 0 {
		t.Errorf("right after a jump: %s", w.wire.log[before+i])
	}
	if w.b.View().Suspect == "" {
		t.Error("the jump was not noticed")
	}
	w.until(6*time.Hour, "it ends", w.finished("long1"))
}
