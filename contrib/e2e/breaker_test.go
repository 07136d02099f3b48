package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// loop99 goes back to the queue by itself, for ever.
const loop99 = `#!/bin/bash
echo '{"ready":true,"iter":0}' >> $UNISCHED_PROGRESS
exit 99
`

// TestEdits lets users change their waiting jobs: what they say last is what Slurm runs. Beside it, a job that loops and one whose time limit no
// partition allows must not take the cluster from the others.
func TestEdits(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2})
	hog := submit(t, l, "carol", lab.Job{Args: append(gpus(4, 5), "--nodes=2"), Text: "#!/bin/bash\nsleep 300\n"})
	queued := func(id int) lab.Queued {
		t.Helper()
		jobs := must(l.Squeue())(t)
		i := slices.IndexFunc(jobs, func(q lab.Queued) bool { return q.ID == id })
		if i < 0 {
			return lab.Queued{}
		}
		return jobs[i]
	}
	check(t, l.WaitFor(within(t, 30*time.Second), "the hog to run", func() (bool, string, error) {
		q := queued(hog)
		return q.State == "RUNNING", q.State, nil
	}))
	job := func(args ...string) int {
		return submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:100,profile=skip", append([]string{"--time=5"}, args...), training(100)...))
	}
	update := func(id int, args ...string) {
		t.Helper()
		must(l.Exec("alice", append([]string{"scontrol", "update", "jobid=" + itoa(id)}, args...)...))(t)
	}
	gpu, node, nice, moved := job("--gpus-per-node=3"), job("--gpus-per-node=1"), job("--gpus-per-node=1"), job("--gpus-per-node=1")
	loop := submit(t, l, "bob", lab.Job{Args: gpus(1, 5, "--comment=unisched:ckpt=USR1+99,profile=skip"), Text: loop99})
	for _, id := range []int{gpu, node, nice, moved, loop} {
		waitPhase(t, l, id, 30*time.Second, bridge.Waiting)
	}
	update(gpu, "TresPerNode=gres/gpu:2")
	update(node, "ReqNodeList=n2")
	update(nice, "Nice=70")
	update(moved, "Partition=profile")
	waitPhase(t, l, moved, 30*time.Second, bridge.Released)
	if q := queued(moved); q.Partition != "profile" {
		t.Errorf("the job that its user moved is in %q", q.Partition)
	}
	check(t, l.WaitJob(within(t, 30*time.Second), nice, "its new nice value to be seen", func(v bridge.JobView) bool {
		return slices.ContainsFunc(v.Events, func(e bridge.Event) bool { return e.What == "edited" })
	}))
	out, _, err := l.Unisched(t.Context(), "release", itoa(nice))
	if err != nil {
		t.Fatalf("release: %v: %s", err, out)
	}
	waitPhase(t, l, nice, 30*time.Second, bridge.Released)
	if q := queued(nice); q.Nice != 70 {
		t.Errorf("the released job has nice %d, its user had said 70", q.Nice)
	}
	must(l.Exec("carol", "scancel", itoa(hog)))(t)
	for id, want := range map[int]func(lab.Accounted) bool{
		gpu: func(a lab.Accounted) bool { return a.GPUs == 2 }, node: func(a lab.Accounted) bool { return a.Nodes == "n2" },
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
	check(t, l.WaitJob(within(t, time.Minute), loop, "the loop to be noticed", func(v bridge.JobView) bool { return strings.Contains(v.Blocked, "by itself") }))
}

// TestDiskFull fills the disk under the journal in the middle of a move: nobody stays held, the status says what is wrong, and with room again everything goes on.
func TestDiskFull(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1, NoDaemon: true})
	check(t, os.MkdirAll(l.StateDir, 0o700))
	check(t, syscall.Mount("tmpfs", l.StateDir, "tmpfs", 0, "size=2m,mode=0700"))
	t.Cleanup(func() {
		_ = l.KillDaemon()
		if err := syscall.Unmount(l.StateDir, 0); err != nil {
			t.Error(err)
		}
	})
	check(t, l.StartDaemon(t.Context()))
	victim := submit(t, l, "alice", lab.Job{Args: gpus(4, 10, "--requeue", "--comment=unisched:ckpt=USR1+99,profile=skip,stop=iters:1000"), Text: slowSaver})
	check(t, l.WaitJob(within(t, time.Minute), victim, "ready to be signalled", func(v bridge.JobView) bool { return v.Phase == bridge.Running && v.NoPreempt == "" }))
	strict := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:100,profile=skip", gpus(4, 1), training(100)...))
	waitPhase(t, l, victim, time.Minute, bridge.Checkpointing)
	fill := filepath.Join(l.StateDir, "fill")
	_ = os.WriteFile(fill, make([]byte, 4<<20), 0o600) // ends where the room does
	check(t, l.WaitFor(within(t, time.Minute), "the victim to be in the queue, not held", func() (bool, string, error) {
		jobs, err := l.Squeue()
		i := slices.IndexFunc(jobs, func(q lab.Queued) bool { return q.ID == victim })
		if err != nil || i < 0 {
			return false, "not in the queue", err
		}
		return jobs[i].Restarts == 1 && jobs[i].Priority > 0, jobs[i].State + " " + jobs[i].Reason, nil
	}))
	if v := must(l.Control().Status(t.Context()))(t); !strings.Contains(v.Suspect, "journal") {
		t.Errorf("the status does not say that the journal cannot be written: %q", v.Suspect)
	}
	check(t, os.Remove(fill))
	check(t, l.WaitFor(within(t, time.Minute), "the journal to be back", func() (bool, string, error) {
		v, err := l.Control().Status(t.Context())
		return err == nil && v.Suspect == "", "suspect: " + v.Suspect, nil
	}))
	waitPhase(t, l, strict, 2*time.Minute, bridge.Completed)
}
