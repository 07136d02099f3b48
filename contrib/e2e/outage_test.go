package e2e

import (
	"os"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// outage is how long slurmrestd stays away. UNISCHED_E2E_OUTAGE=60s shows the whole minute.
func outage(t *testing.T) time.Duration {
	text := os.Getenv("UNISCHED_E2E_OUTAGE")
	if text == "" {
		return 20 * time.Second
	}
	return must(time.ParseDuration(text))(t)
}

// TestOutages takes slurmrestd, the token and slurmctld away in turn: the daemon keeps ticking, does nothing disruptive, and resumes by itself.
func TestOutages(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1, Delay: 2 * time.Minute})
	runs := submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:1500,profile=skip", gpus(2, 30), training(1500)...))
	waits := submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:50,profile=skip", gpus(4, 30), training(50)...))
	waitIter(t, l, runs, 20, time.Minute)

	trouble := func(what string, want bool) {
		t.Helper()
		check(t, l.WaitFor(within(t, 90*time.Second), what, func() (bool, string, error) {
			v, err := l.Control().Status(t.Context())
			if err != nil {
				return false, err.Error(), nil
			}
			return (v.Trouble != "") == want, "trouble: " + v.Trouble, nil
		}))
	}
	calm := func(after string) {
		t.Helper()
		if !l.Alive() {
			t.Fatalf("%s: the daemon is dead", after)
		}
		v := must(l.Job(t.Context(), runs))(t)
		if v.Restart != 0 || v.Phase != bridge.Running {
			t.Errorf("%s: the running job was disturbed: %s, restarts %d\n%s", after, v.Phase, v.Restart, events(v))
		}
	}
	ticks := func(d time.Duration) {
		t.Helper()
		before := must(l.Control().Status(t.Context()))(t)
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-t.Context().Done():
		}
		after := must(l.Control().Status(t.Context()))(t)
		if after.Cycle == before.Cycle {
			t.Errorf("no cycle in %v", d)
		}
	}

	check(t, l.Service("stop", "slurmrestd"))
	trouble("the daemon to notice that slurmrestd is away", true)
	ticks(outage(t))
	check(t, l.Service("start", "slurmrestd"))
	trouble("slurmrestd to be back", false)
	calm("slurmrestd away")

	check(t, l.Token(time.Second))
	trouble("the token to expire", true)
	check(t, l.Token(time.Hour))
	trouble("the new token to be taken up", false)
	calm("token expired")

	check(t, l.Service("kill9", "slurmctld"))
	trouble("the daemon to notice that slurmctld is away", true)
	check(t, l.Service("start", "slurmctld"))
	trouble("slurmctld to be back", false)
	calm("slurmctld restarted")

	// And then it works as before: a strict job gets its GPUs by a preemption.
	strict := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:100,profile=skip", gpus(4, 1), training(100)...))
	metDeadline(t, waitPhase(t, l, strict, 3*time.Minute, bridge.Completed, bridge.Failed))
	for _, id := range []int{waits, runs} {
		v := waitPhase(t, l, id, 4*time.Minute, bridge.Completed, bridge.Failed, bridge.Cancelled)
		if v.Phase != bridge.Completed {
			t.Errorf("job %d ended %s %s\n%s", id, v.Phase, v.Exit, events(v))
		}
		lostNothing(t, v)
	}
	noLeftovers(t, l)
}
