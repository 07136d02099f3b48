package e2e

import (
	"strconv"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

func itoa(n int) string { return strconv.Itoa(n) }

// midMove brings a best-effort job to the middle of a preemption and kills the daemon there: after the signal, before the release.
func midMove(t *testing.T, l *lab.Lab) (victim, strict int) {
	t.Helper()
	victim = submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:1200,profile=skip", gpus(4, 10), training(1200)...))
	waitIter(t, l, victim, 20, time.Minute)
	strict = submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+80s,ckpt=USR1+99,stop=iters:150,profile=skip", gpus(4, 1), training(150)...))
	waitPhase(t, l, victim, 2*time.Minute, bridge.Checkpointing)
	check(t, l.KillDaemon())
	check(t, l.WaitFor(within(t, 30*time.Second), "the victim to come back held", func() (bool, string, error) {
		jobs, err := l.Squeue()
		for _, q := range jobs {
			if q.ID == victim {
				return q.State == "PENDING" && q.Priority == 0, q.State + " " + q.Reason, err
			}
		}
		return false, "not in the queue", err
	}))
	return victim, strict
}

// TestKilledAndRestarted: the daemon dies in the middle of a move and comes back: the job runs on, nothing lost, nothing held.
func TestKilledAndRestarted(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1, Poll: 2 * time.Second})
	victim, strict := midMove(t, l)
	check(t, l.StartDaemon(t.Context()))
	for _, id := range []int{strict, victim} {
		v := waitPhase(t, l, id, 4*time.Minute, bridge.Completed, bridge.Failed, bridge.Cancelled)
		if v.Phase != bridge.Completed {
			t.Errorf("job %d: %s %s\n%s", id, v.Phase, v.Exit, events(v))
		}
		lostNothing(t, v)
	}
	noLeftovers(t, l)
}

// TestKilledForGood: the daemon dies in the middle of a move and stays dead. `unisched release --if-down`, which a timer runs, frees the held job;
// delays end by themselves; everything runs as plain Slurm would run it.
func TestKilledForGood(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1, Poll: 2 * time.Second, Delay: 30 * time.Second})
	victim, strict := midMove(t, l)
	out, code, err := l.Unisched(t.Context(), "release", "--if-down", "60s")
	if err != nil || code != 0 {
		t.Fatalf("release of a daemon that died just now: exit %d, %v: %s", code, err, out)
	}
	if left := must(l.Leftovers())(t); len(left) == 0 {
		t.Error("a release within the minute already acted: the daemon might only be restarting")
	}
	check(t, l.WaitFor(within(t, 90*time.Second), "the timer's release", func() (bool, string, error) {
		out, code, err := l.Unisched(t.Context(), "release", "--if-down", "20s")
		if err != nil && code != 3 {
			return false, out, err
		}
		left, err := l.Leftovers()
		return len(left) == 0, out, err
	}))
	for _, id := range []int{victim, strict} {
		check(t, l.WaitFor(within(t, 5*time.Minute), "job "+itoa(id)+" to end as a plain job", func() (bool, string, error) {
			a, err := l.Sacct(id)
			return a.State == "COMPLETED", a.State, err
		}))
	}
}

// TestDelaysEnd: with the daemon dead and nobody to release anything, a job that was only delayed starts by itself.
func TestDelaysEnd(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1, Delay: 20 * time.Second})
	hog := submit(t, l, "alice", lab.Digits("unisched:stop=iters:150", gpus(4, 10), training(150)...))
	waitIter(t, l, hog, 10, time.Minute)
	waiting := submit(t, l, "bob", lab.Digits("unisched:stop=iters:20", gpus(4, 10), training(20)...))
	waitPhase(t, l, waiting, time.Minute, bridge.Waiting)
	check(t, l.KillDaemon())
	for _, id := range []int{hog, waiting} {
		check(t, l.WaitFor(within(t, 2*time.Minute), "job "+itoa(id)+" to end by itself", func() (bool, string, error) {
			a, err := l.Sacct(id)
			return a.State == "COMPLETED", a.State, err
		}))
	}
}
