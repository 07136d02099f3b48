package e2e

import (
	"slices"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// TestEditWhileDown: what users change of their waiting jobs while no daemon runs, and just after one has started, is what the jobs run with.
func TestEditWhileDown(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2})
	hog := submit(t, l, "carol", lab.Job{Args: append(gpus(4, 5), "--nodes=2"), Text: "#!/bin/bash\nsleep 300\n"})
	check(t, l.WaitFor(within(t, 30*time.Second), "the hog to run", func() (bool, string, error) {
		a, err := l.Sacct(hog)
		return a.State == "RUNNING", a.State, err
	}))
	job := func() int {
		return submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:50,profile=skip", []string{"--time=5", "--gpus-per-node=3"}, training(50)...))
	}
	down, after, node := job(), job(), job()
	for _, id := range []int{down, after, node} {
		waitPhase(t, l, id, 30*time.Second, bridge.Waiting)
	}
	update := func(id int, what string) {
		t.Helper()
		must(l.Exec("alice", "scontrol", "update", "jobid="+itoa(id), what))(t)
	}
	check(t, l.KillDaemon())
	update(down, "TresPerNode=gres/gpu:2")
	update(node, "ReqNodeList=n2")
	check(t, l.StartDaemon(t.Context()))
	update(after, "TresPerNode=gres/gpu:1")
	for _, id := range []int{down, after, node} {
		check(t, l.WaitJob(within(t, 30*time.Second), id, "its edit to be seen", func(v bridge.JobView) bool {
			return slices.ContainsFunc(v.Events, func(e bridge.Event) bool { return e.What == "edited" })
		}))
	}
	must(l.Exec("carol", "scancel", itoa(hog)))(t)
	for id, want := range map[int]func(lab.Accounted) bool{
		down: func(a lab.Accounted) bool { return a.GPUs == 2 }, after: func(a lab.Accounted) bool { return a.GPUs == 1 }, node: func(a lab.Accounted) bool { return a.Nodes == "n2" && a.GPUs == 3 },
	} {
		waitPhase(t, l, id, 2*time.Minute, bridge.Completed)
		check(t, l.WaitFor(within(t, 30*time.Second), "accounting", func() (bool, string, error) {
			a, err := l.Sacct(id)
			if a.State == "COMPLETED" && !want(a) {
				t.Errorf("job %d ran on %s with %d GPUs, not as edited", id, a.Nodes, a.GPUs)
			}
			return a.State == "COMPLETED", a.State, err
		}))
	}
	noLeftovers(t, l)
}
