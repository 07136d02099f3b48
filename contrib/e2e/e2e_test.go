// Package e2e holds the end-to-end tests: a real Slurm on this host, the daemon beside it, jobs that really train, and faults that really happen.
//
// `make test-e2e` runs them (SLURM=24.11 or 26.05). Without UNISCHED_E2E they are skipped, so that the unit tests need neither root nor a cluster.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// up brings a lab up for one test and takes it down after it.
func up(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	version := os.Getenv("UNISCHED_E2E")
	if version == "" {
		t.Skip("end-to-end test: run make test-e2e")
	}
	t.Parallel()
	o.Slurm, o.BinDir = version, os.Getenv("UNISCHED_BIN")
	if o.Unit == 0 {
		o.Unit = 10 * time.Second
	}
	l, err := lab.Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if log, err := os.ReadFile(l.LogFile); err == nil {
				t.Logf("the daemon's log:\n%s", tail(string(log), 60))
			}
			if keep := os.Getenv("UNISCHED_E2E_KEEP"); keep != "" { // a folder for the rounds and the journal of what failed
				if err := os.CopyFS(filepath.Join(keep, t.Name()), os.DirFS(l.StateDir)); err != nil {
					t.Log(err)
				}
			}
		}
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

// patience is how many times longer a wait may take than it should on a quiet host: that something comes is tested, not how soon.
const patience = 2

// within is a context for one wait.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience*d)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gpus asks for so many GPUs on one node, with a time limit in minutes.
func gpus(n, minutes int, more ...string) []string {
	return append([]string{fmt.Sprintf("--gpus-per-node=%d", n), fmt.Sprintf("--time=%d", minutes)}, more...)
}

// training is a run of so many iterations that take 0.1 s each on any number of GPUs.
func training(iters int, more ...string) []string {
	return append([]string{"--iters", fmt.Sprint(iters), "--step-time", "0.1", "--scaling", "1:1,2:1,4:1"}, more...)
}

func submit(t *testing.T, l *lab.Lab, user string, j lab.Job) int {
	t.Helper()
	return must(l.Submit(user, j))(t)
}

// waitPhase waits until the daemon shows a job in one of the phases.
func waitPhase(t *testing.T, l *lab.Lab, id int, d time.Duration, phases ...bridge.Phase) bridge.JobView {
	t.Helper()
	var seen bridge.JobView
	check(t, l.WaitJob(within(t, d), id, fmt.Sprintf("%v", phases), func(v bridge.JobView) bool {
		seen = v
		return slices.Contains(phases, v.Phase)
	}))
	return seen
}

// waitIter waits until a job has reported an iteration in its present run.
func waitIter(t *testing.T, l *lab.Lab, id int, iter int64, d time.Duration) bridge.JobView {
	t.Helper()
	var seen bridge.JobView
	check(t, l.WaitJob(within(t, d), id, fmt.Sprintf("iteration %d", iter), func(v bridge.JobView) bool {
		seen = v
		return v.Iter >= iter && v.Phase == bridge.Running
	}))
	return seen
}

// noLeftovers checks in Slurm itself that no job is held, delayed, pinned or reniced.
func noLeftovers(t *testing.T, l *lab.Lab) {
	t.Helper()
	if left := must(l.Leftovers())(t); len(left) > 0 {
		t.Errorf("left behind in Slurm:\n%s", strings.Join(left, "\n"))
	}
}

// lostNothing checks that every restart began at the iteration of the last checkpoint, and that no illegal phase change was noted.
func lostNothing(t *testing.T, v bridge.JobView) {
	t.Helper()
	for _, r := range v.Returns {
		if r.Resumed != r.Saved {
			t.Errorf("job %d run %d resumed at iteration %d, its checkpoint was of %d", v.ID, r.Run, r.Resumed, r.Saved)
		}
	}
	for _, e := range v.Events {
		if e.What == "illegal-step" {
			t.Errorf("job %d: illegal step %s", v.ID, e.Text)
		}
	}
}

// metDeadline checks that an ended job met its first deadline.
func metDeadline(t *testing.T, v bridge.JobView) {
	t.Helper()
	if v.Met == nil || *v.Met != 0 {
		t.Errorf("job %d (%s) missed its deadline: ended %v, deadlines %v\n%s", v.ID, v.Class, v.Ended, v.Tiers, events(v))
	}
}

func events(v bridge.JobView) string {
	var b strings.Builder
	for _, e := range v.Events {
		fmt.Fprintf(&b, "  %s run %d %s: %s\n", e.At.Format("15:04:05.0"), e.Run, e.What, e.Text)
	}
	return b.String()
}
