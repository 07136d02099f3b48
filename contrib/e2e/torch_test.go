package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

const torchDir = "/shared/pytorch"

// noUV makes Debian's PyTorch, which is built without libuv, start torchrun's rendezvous, which asks for it unless told otherwise.
const noUV = `from torch.distributed import TCPStore
init = TCPStore.__init__
TCPStore.__init__ = lambda self, *args, **more: init(self, *args, **{**more, "use_libuv": False})
`

// torch is a run of the PyTorch example by one of its two scripts: on two nodes, two ranks on each.
func torch(script, wish string, iters int, stepTime string) lab.Job {
	return lab.Job{
		Args:       []string{"--comment=" + wish, "--time=20", "--export=ALL,USE_LIBUV=0,PYTHONPATH=" + torchDir + "/no-uv,GLOO_SOCKET_IFNAME=lo,TRAIN_DIR=" + torchDir},
		Path:       torchDir + "/" + script,
		ScriptArgs: []string{"--iters", fmt.Sprint(iters), "--step-time", stepTime},
	}
}

// TestTorch trains with PyTorch's DDP over two nodes, once started by srun and once by torchrun. Both are preempted twice, resume where they
// stopped, and end with the loss of a training that nobody disturbed.
func TestTorch(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2})
	if out, err := l.Exec("alice", "python3", "-c", "import torch, torch.distributed.run"); err != nil {
		if os.Getenv("UNISCHED_CLUSTER_EXTRA") != "" {
			t.Fatalf("UNISCHED_CLUSTER_EXTRA is set, but there is no PyTorch in the cluster: %v\n%s", err, out)
		}
		t.Skip("no PyTorch in the cluster: set UNISCHED_CLUSTER_EXTRA=python3-torch")
	}
	to := filepath.Join(l.Slurm.Root, torchDir)
	check(t, os.MkdirAll(filepath.Join(to, "no-uv"), 0o755))
	check(t, os.WriteFile(filepath.Join(to, "no-uv", "sitecustomize.py"), []byte(noUV), 0o644))
	for _, name := range []string{"train.py", "ddp-srun.sbatch", "ddp-torchrun.sbatch"} {
		check(t, os.WriteFile(filepath.Join(to, name), must(os.ReadFile(filepath.Join("..", "examples", "pytorch", name)))(t), 0o755))
	}

	const iters = 1200 // two minutes, more than the urgent jobs can wait
	wish := fmt.Sprintf("unisched:ckpt=USR2+99,stop=iters:%d,profile=skip", iters)
	jobs := map[string]int{}
	reach := map[int]int64{}
	for _, script := range []string{"ddp-srun", "ddp-torchrun"} {
		id := submit(t, l, "alice", torch(script+".sbatch", wish, iters, "0.1"))
		jobs[script], reach[id] = id, 20
	}
	t.Cleanup(func() {
		for script, id := range jobs {
			if out, err := os.ReadFile(printed(l, "alice", script, id)); t.Failed() {
				t.Logf("what %s printed (%v):\n%s", script, err, tail(string(out), 200))
			}
		}
	})
	for range 2 {
		for id, iter := range reach {
			waitIter(t, l, id, iter, 2*time.Minute)
		}
		urgent := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+70s,ckpt=USR1+99,stop=iters:50,profile=skip", gpus(4, 1, "--nodes=2"), training(50)...))
		// It preempts both. Whether it meets its deadline is not asked here: on a busy host eight processes that load PyTorch take the seconds that it has.
		v := waitPhase(t, l, urgent, 3*time.Minute, bridge.Completed)
		t.Logf("the urgent job ended %v before its deadline", v.Tiers[0].At.Sub(v.Ended))
		for id := range reach {
			reach[id] = must(l.Job(t.Context(), id))(t).Iter + 20
		}
	}
	undisturbed := submit(t, l, "carol", torch("ddp-srun.sbatch", "", iters, "0"))
	want := loss(t, l, "carol", "ddp-srun", undisturbed)
	for script, id := range jobs {
		v := waitPhase(t, l, id, 4*time.Minute, bridge.Completed, bridge.Failed, bridge.Cancelled)
		if v.Phase != bridge.Completed {
			t.Fatalf("%s ended %s: %s\n%s", script, v.Phase, v.Exit, events(v))
		}
		lostNothing(t, v)
		if len(v.Returns) < 2 {
			t.Errorf("%s returned %d times, want 2: %v", script, len(v.Returns), v.Returns)
		}
		got := loss(t, l, "alice", script, id)
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("%s ended with a loss of %v, undisturbed it is %v", script, got, want)
		}
		t.Logf("TORCH Slurm %s, %s: %d preemptions, returns %v, loss %v, undisturbed %v", os.Getenv("UNISCHED_E2E"), script, v.Preemptions, v.Returns, got, want)
	}
	noLeftovers(t, l)
}

// printed is the file with what a job printed.
func printed(l *lab.Lab, user, script string, id int) string {
	return filepath.Join(l.Slurm.Root, "home", user, fmt.Sprintf("%s-%d.out", script, id))
}

// loss waits for the end of a training and reads its last line.
func loss(t *testing.T, l *lab.Lab, user, script string, id int) float64 {
	t.Helper()
	end := regexp.MustCompile(`(?m)^end iter=\d+ loss=(\S+)$`)
	path := printed(l, user, script, id)
	var out []byte
	for deadline := within(t, 3*time.Minute); ; {
		out, _ = os.ReadFile(path) // absent until it starts
		if m := end.FindSubmatch(out); m != nil {
			return must(strconv.ParseFloat(string(m[1]), 64))(t)
		}
		select {
		case <-deadline.Done():
			t.Fatalf("job %d of %s has not ended:\n%s", id, user, tail(string(out), 40))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
