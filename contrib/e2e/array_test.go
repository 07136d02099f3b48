package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// TestArray runs a job array of four tasks on the GPUs of one node. The waiting tasks are Slurm's; each that runs is managed under its own name. One strict job moves one of
// them and no other, a second one moves all four, the last of which carries the array's own number, and every task comes back where it had saved.
func TestArray(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1})
	const tasks, iters = 4, 1500
	array := submit(t, l, "alice", lab.Digits("unisched:class=besteffort,ckpt=USR1+99,stop=iters:1500,profile=skip", gpus(1, 20, fmt.Sprintf("--array=1-%d", tasks)), training(iters)...))
	// all waits until every task is as cond wants it, and returns them.
	all := func(what string, d time.Duration, cond func(bridge.JobView) bool) map[string]bridge.JobView {
		t.Helper()
		out := map[string]bridge.JobView{}
		check(t, l.WaitFor(within(t, d), "all tasks: "+what, func() (bool, string, error) {
			jobs, err := l.Jobs(t.Context())
			if err != nil {
				return false, err.Error(), nil
			}
			n, state := 0, ""
			for _, v := range jobs {
				if !strings.HasPrefix(v.Ref, fmt.Sprintf("%d_", array)) {
					continue
				}
				out[v.Ref] = v
				if cond(v) {
					n++
				}
				state += fmt.Sprintf("%s (%d): %s at %d, restart %d; ", v.Ref, v.ID, v.Phase, v.Iter, v.Restart)
			}
			return n == tasks, state, nil
		}))
		return out
	}
	all("training", 2*time.Minute, func(v bridge.JobView) bool { return v.Phase == bridge.Running && v.Iter > 20 })
	restarts := func() (sum int, last bridge.JobView) {
		for _, v := range all("known", time.Minute, func(bridge.JobView) bool { return true }) {
			if sum += v.Restart; int(v.ID) == array {
				last = v
			}
		}
		return sum, last
	}
	if _, last := restarts(); last.Ref != fmt.Sprintf("%d_%d", array, tasks) {
		t.Errorf("the array's own number %d is that of %q: the test shows less than it should", array, last.Ref)
	}

	one := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:150,profile=skip", gpus(1, 1), training(150)...))
	if v := waitPhase(t, l, one, 3*time.Minute, bridge.Completed, bridge.Failed); v.Phase != bridge.Completed {
		t.Errorf("job %d ended %s", one, v.Phase)
	} else {
		metDeadline(t, v)
	}
	if n, _ := restarts(); n != 1 {
		t.Errorf("one GPU was needed, and the tasks restarted %d times", n)
	}
	all("training again", 2*time.Minute, func(v bridge.JobView) bool { return v.Phase == bridge.Running })

	four := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:150,profile=skip", gpus(4, 1), training(150)...))
	if v := waitPhase(t, l, four, 3*time.Minute, bridge.Completed, bridge.Failed); v.Phase != bridge.Completed {
		t.Errorf("job %d ended %s", four, v.Phase)
	} else {
		metDeadline(t, v)
	}
	if _, last := restarts(); last.Preemptions == 0 {
		t.Errorf("the task with the array's own number was not moved:\n%s", events(last))
	}
	for ref, v := range all("over", 8*time.Minute, func(v bridge.JobView) bool { return v.Phase.Ended() && v.Iter >= iters }) {
		if v.Phase != bridge.Completed || v.Preemptions == 0 {
			t.Errorf("task %s ended %s (%s), preemptions %d\n%s", ref, v.Phase, v.Exit, v.Preemptions, events(v))
		}
		lostNothing(t, v)
	}
	noLeftovers(t, l)
}
