package bridge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/planner/lease"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// disruptiveSince counts the writes from the nth on that change what runs.
func (w *world) disruptiveSince(n int) (out []string) {
	for _, line := range w.wire.log[n:] {
		if strings.Contains(line, "hold=true") || strings.Contains(line, " signal") || strings.Contains(line, "req=") || strings.Contains(line, " requeue") {
			out = append(out, line)
		}
	}
	return out
}

// busyWorld has two long jobs on two nodes and a strict one that needs the place of one of them.
func busyWorld(t *testing.T) *world {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	w.fill(2, 4*3600)
	return w
}

// case 7: the clock jumps two hours ahead between two cycles. The first look after it changes nothing that runs; then all goes on.
func TestScenarioClockJumpsAhead(t *testing.T) {
	w := busyWorld(t)
	w.sim.Advance(w.sim.Now().Add(2 * time.Hour))
	w.urgent("strict", 600, 30*time.Minute)
	n := len(w.wire.log)
	if err := w.step(); err != nil {
		t.Fatal(err)
	}
	if got := w.disruptiveSince(n); len(got) > 0 || w.b.View().Suspect == "" {
		t.Errorf("case 7: right after the jump: %v, suspect %q", got, w.b.View().Suspect)
	}
	w.until(time.Hour, "the strict job ends", w.finished("strict"))
	w.checkMet("strict")
	w.until(9*time.Hour, "all end", w.finished("long1", "long2"))
	w.clean()
}

// case 7: the token has expired when the daemon starts, and is replaced after half an hour: no restart is needed, and until then jobs start by themselves.
// case 48: slurmctld turns every second look away: the last good snapshot holds, with its age, and the work goes on.
func TestScenarioSlurmTurnsUsAway(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		away func(cycle int, since time.Duration) bool
	}{
		{"case 7: expired token", slurm.ErrUnauthorised, func(_ int, since time.Duration) bool { return since < 30*time.Minute }},
		{"case 48: every second look is turned away", slurm.ErrRateLimited, func(cycle int, _ time.Duration) bool { return cycle%2 == 0 }},
		{"case 48: all looks but every third are turned away", slurm.ErrRateLimited, func(cycle int, _ time.Duration) bool { return cycle%3 != 0 }},
		{"every second look fails", slurm.ErrBadAnswer, func(cycle int, _ time.Duration) bool { return cycle%2 == 0 }},
		{"case 48: ten minutes of every hour", slurm.ErrRateLimited, func(_ int, since time.Duration) bool { return since%time.Hour < 10*time.Minute }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 2, gpus: 4})
			began, cycle, away := w.sim.Now(), 0, false
			w.wire.state = func(s slurm.State) (slurm.State, error) {
				cycle++
				if away = c.away(cycle, w.sim.Now().Sub(began)); away {
					return slurm.State{}, &slurm.Error{Kind: c.err, Op: "jobs"}
				}
				return s, nil
			}
			for _, name := range []string{"a", "b", "c"} {
				w.submit(name, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(2400), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:2400"})
			}
			w.until(20*time.Minute, "somebody runs", func() bool { return w.running("a") || w.running("b") || w.running("c") })
			w.until(2*time.Hour, "Slurm answers", func() bool { return !away })
			w.run(time.Minute, nil)
			w.urgent("strict", 600, time.Hour)
			w.until(6*time.Hour, "all end", func() bool {
				if v := w.b.View(); away && (v.Trouble == "" || v.SeenAt.Equal(w.sim.Now())) {
					t.Fatalf("turned away, and the view says trouble %q, seen %v", v.Trouble, v.SeenAt)
				}
				return w.finished("a", "b", "c", "strict")()
			})
			w.checkMet("strict")
			w.clean()
		})
	}
}

// case 11: Slurm shows another user's job of years ago under a known id. It inherits nothing: no lease, no profile, no progress, no reservation; and nobody writes to it.
func TestScenarioForeignJobUnderAKnownID(t *testing.T) {
	w := newWorld(t, site{cfg: func(c *bridge.Config) { c.Admission.StrictGPUHours = 100 }})
	w.submit("job", deadlined("strict", 3600, 4*time.Hour, 2*time.Hour))
	w.until(10*time.Minute, "it trains", w.reached("job", 120))
	n := len(w.wire.log)
	w.wire.state = func(s slurm.State) (slurm.State, error) {
		s.Jobs = append([]slurm.Job(nil), s.Jobs...)
		for i := range s.Jobs {
			s.Jobs[i].UID, s.Jobs[i].User, s.Jobs[i].Comment = 4242, "eve", "unisched:ckpt=B:USR1,stop=iters:10"
			s.Jobs[i].Submit = time.Date(2017, 1, 2, 3, 4, 5, 0, time.UTC)
		}
		return s, nil
	}
	w.run(10*time.Minute, nil)
	i := slices.IndexFunc(w.b.View().Jobs, func(v bridge.JobView) bool { return v.ID == w.ids["job"] && v.User == "eve" })
	if i < 0 {
		t.Fatal("case 11: the foreign job is not known as one")
	}
	v := w.b.View().Jobs[i]
	if v.User != "eve" || v.Iter != 0 || v.Preemptions != 0 || v.Reserved != 0 || v.Met != nil {
		t.Errorf("case 11: %+v", v)
	}
	if len(w.wire.log) != n { // the real job has another user id: every action looks again first
		t.Errorf("case 11: written to: %v", w.wire.log[n:])
	}
	if got := w.b.View().Budgets[0].Reserved; got != 2 {
		t.Errorf("case 11: its account has reserved %v, want the 2 GPU-hours of the job that was there before", got)
	}
}

// case 53: the journal was lost. The daemon rebuilds what it can from Slurm and stops nobody in its first cycles.
func TestScenarioJournalLost(t *testing.T) {
	w := busyWorld(t)
	w.urgent("strict", 600, 40*time.Minute)
	w.mem.entries = nil
	b, err := bridge.New(w.cfg, bridge.Parts{Cluster: w.wire, Policy: lease.New(lease.Config{}, nil), Memory: w.mem, Reports: w.sim.Reports,
		Log: func(_ time.Time, n bridge.Note) { w.notes = append(w.notes, n) }}, bridge.Restored{Damaged: true})
	if err != nil {
		t.Fatal(err)
	}
	w.b = b
	n := len(w.wire.log)
	for range 3 {
		if err := w.step(); err != nil {
			t.Fatal(err)
		}
		if got := w.disruptiveSince(n); len(got) > 0 {
			t.Fatalf("case 53: in the first cycles: %v", got)
		}
	}
	w.until(time.Hour, "the strict job ends", w.finished("strict"))
	w.checkMet("strict")
	w.until(9*time.Hour, "all end", w.finished("long1", "long2"))
	for _, name := range []string{"long1", "long2"} {
		w.checkReturns(name, 0)
	}
	w.clean()
}
