package e2e

import (
	"fmt"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// TestMainJob is the demo in short: best-effort jobs fill the cluster, one of them after a profile; a strict job that only a preemption can
// save, a soft job, a job that stops at its metric target, and a plain job come on top.
func TestMainJob(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2})
	profiled := submit(t, l, "alice", lab.Digits("unisched:class=besteffort,ckpt=USR1+99,stop=iters:1200", gpus(4, 10), training(1200)...))
	filler := submit(t, l, "alice", lab.Digits("unisched:class=besteffort,ckpt=USR1+99,stop=iters:900,profile=skip", gpus(4, 10), training(900)...))
	waitIter(t, l, filler, 20, time.Minute)
	v := waitIter(t, l, profiled, 20, 2*time.Minute)
	if v.Profile.Note != "profiled" {
		t.Errorf("the 4-GPU job was not profiled: %+v", v.Profile)
	}

	strict := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:250,profile=skip", gpus(4, 1), training(250)...))
	soft := submit(t, l, "bob", lab.Digits("unisched:class=soft,deadlines=now+150s:100/now+200s:50,ckpt=USR1+99,stop=iters:150,profile=skip",
		gpus(2, 1), training(150)...))
	metric := submit(t, l, "bob", lab.Digits("unisched:stop=metric:val_acc>=0.8,max=3000,ckpt=USR1+99", gpus(1, 10),
		"--iters", "3000", "--step-time", "0.1", "--target", "val_acc>=0.8", "--eval-every", "20"))
	plain := submit(t, l, "bob", lab.Job{Args: gpus(1, 1), Text: "#!/bin/bash\nsleep 15\n"})

	jobs := map[int]bridge.JobView{}
	for _, id := range []int{strict, soft, metric, filler, profiled} {
		jobs[id] = waitPhase(t, l, id, 6*time.Minute, bridge.Completed, bridge.Failed, bridge.Cancelled)
		if jobs[id].Phase != bridge.Completed {
			t.Errorf("job %d ended %s: %s\n%s", id, jobs[id].Phase, jobs[id].Exit, events(jobs[id]))
		}
		lostNothing(t, jobs[id])
	}
	metDeadline(t, jobs[strict])
	metDeadline(t, jobs[soft])
	if n := jobs[filler].Preemptions + jobs[profiled].Preemptions; n == 0 {
		t.Error("nobody was preempted: the strict job did not need to be saved")
	}
	if it := jobs[metric].Iter; it >= 3000 {
		t.Errorf("the metric job ran its maximum of %d iterations", it)
	}
	for id, want := range map[int]int64{strict: 250, soft: 150, filler: 900, profiled: 1200} {
		// The last line of a job may arrive after its end was seen.
		check(t, l.WaitJob(within(t, 20*time.Second), id, fmt.Sprintf("its last iteration, %d", want), func(v bridge.JobView) bool { return v.Iter == want }))
	}
	check(t, l.WaitFor(within(t, time.Minute), "the plain job's end", func() (bool, string, error) {
		a, err := l.Sacct(plain)
		return a.State == "COMPLETED", a.State, err
	}))
	noLeftovers(t, l)
}
