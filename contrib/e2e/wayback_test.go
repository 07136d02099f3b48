package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// TestNoWayBack drains a node under a job of two nodes: if it left now it could not come back, so it is not stopped for a strict job, and says so. With the node back it is.
func TestNoWayBack(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2})
	wide := submit(t, l, "alice", lab.Job{Args: []string{"--nodes=2", "--gpus-per-node=4", "--time=10", "--requeue", "--comment=unisched:ckpt=USR1+99,profile=skip,stop=iters:1000"}, Text: quickSaver})
	check(t, l.WaitJob(within(t, time.Minute), wide, "ready to be signalled", func(v bridge.JobView) bool { return v.Phase == bridge.Running && v.NoPreempt == "" }))
	must(l.Exec("root", "scontrol", "update", "nodename=n2", "state=drain", "reason=new disk"))(t)
	check(t, l.WaitJob(within(t, 30*time.Second), wide, "no way back", func(v bridge.JobView) bool { return strings.Contains(v.NoPreempt, "n2 takes no new jobs") }))
	strict := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+40s,ckpt=USR1+99,stop=iters:50,profile=skip", gpus(4, 1), training(50)...))
	waitPhase(t, l, strict, 30*time.Second, bridge.Waiting)
	time.Sleep(10 * time.Second) // a unit, in which it would be preempted for
	v := must(l.Job(t.Context(), wide))(t)
	if v.Phase != bridge.Running || v.Restart != 0 {
		t.Errorf("it was stopped although it could not come back: %s, restarts %d\n%s", v.Phase, v.Restart, events(v))
	}
	must(l.Exec("root", "scontrol", "update", "nodename=n2", "state=resume"))(t)
	v = waitPhase(t, l, strict, time.Minute, bridge.Completed, bridge.Failed)
	if v.Phase != bridge.Completed {
		t.Errorf("the strict job ended %s: %s\n%s", v.Phase, v.Exit, events(v))
	}
	check(t, l.WaitJob(within(t, time.Minute), wide, "running again", func(v bridge.JobView) bool { return v.Phase == bridge.Running && v.Restart == 1 }))
	must(l.Exec("alice", "scancel", itoa(wide)))(t)
	check(t, l.WaitFor(within(t, time.Minute), "the cancelled job to be gone", func() (bool, string, error) { // while it completes it still shows its nice value
		jobs, err := l.Squeue()
		i := slices.IndexFunc(jobs, func(q lab.Queued) bool { return q.ID == wide })
		if i < 0 {
			return true, "gone", err
		}
		return false, jobs[i].State, err
	}))
	noLeftovers(t, l)
}

// quickSaver saves in a second.
const quickSaver = `#!/bin/bash
trap 'sleep 1; exit 99' USR1
echo '{"ready":true,"iter":1}' >> $UNISCHED_PROGRESS
while true; do sleep 0.2 & wait $!; done
`
