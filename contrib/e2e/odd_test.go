package e2e

import (
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// slowSaver takes ten seconds for its checkpoint.
const slowSaver = `#!/bin/bash
trap 'sleep 10; exit 99' USR1
echo '{"ready":true,"iter":0}' >> $UNISCHED_PROGRESS
while true; do sleep 0.2 & wait $!; done
`

// dyingProfile trains on the GPUs that it asked for and dies on fewer, as a job that needs their memory would.
const dyingProfile = `#!/bin/bash
if [ "$SLURM_GPUS_ON_NODE" != 4 ]; then echo "CUDA out of memory"; exit 1; fi
echo '{"ready":true,"iter":0}' >> $UNISCHED_PROGRESS
sleep 10
`

// TestOddJobs gives each odd job a node of its own and, beside it, a strict job that only its preemption could help. Every job must end as its
// user would expect, with a reason that explain tells.
func TestOddJobs(t *testing.T) {
	l := up(t, lab.Options{Nodes: 5, Config: map[string]string{"bridge.checkpoint_timeout": `"6s"`, "bridge.checkpoint_strikes": "1"}})
	onNode := func(node string, minutes int) []string { return gpus(4, minutes, "--nodelist="+node) }
	strictOn := func(node string) int {
		return submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:100,profile=skip",
			onNode(node, 1), training(100)...))
	}
	wish := "unisched:ckpt=USR1+99,profile=skip,stop=iters:1000"
	noTrap := submit(t, l, "alice", lab.Job{Args: append(onNode("n1", 10), "--comment="+wish), Text: `#!/bin/bash
echo '{"ready":true,"iter":0}' >> $UNISCHED_PROGRESS
exec sleep 45
`})
	ignores := submit(t, l, "alice", lab.Job{Args: append(onNode("n2", 10), "--comment="+wish), Text: `#!/bin/bash
trap '' USR1
echo '{"ready":true,"iter":0}' >> $UNISCHED_PROGRESS
exec sleep 60
`})
	cancelled := submit(t, l, "alice", lab.Job{Args: append(onNode("n3", 10), "--comment="+wish), Text: slowSaver})
	noRequeue := submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:400,profile=skip", append(onNode("n4", 10), "--no-requeue"), training(400)...))
	dying := submit(t, l, "alice", lab.Job{Args: append(onNode("n5", 10), "--comment=unisched:ckpt=USR1+99,stop=iters:1000"), Text: dyingProfile})
	mute := submit(t, l, "carol", lab.Job{Args: []string{"--gpus-per-node=4", "--time=10", "--nodelist=n5", "--comment=unisched:ckpt=USR1+99,profile=skip"},
		Text: "#!/bin/bash\nsleep 40\n"}) // never says that it is ready

	for _, id := range []int{noTrap, ignores, cancelled} {
		check(t, l.WaitJob(within(t, 2*time.Minute), id, "ready to be signalled", func(v bridge.JobView) bool {
			return v.Phase == bridge.Running && v.NoPreempt == ""
		}))
	}
	waitIter(t, l, noRequeue, 10, time.Minute)
	var strict []int
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		strict = append(strict, strictOn(node))
	}
	waitPhase(t, l, cancelled, 2*time.Minute, bridge.Checkpointing)
	if _, err := l.Exec("alice", "scancel", itoa(cancelled)); err != nil {
		t.Error(err)
	}

	v := waitPhase(t, l, cancelled, time.Minute, bridge.Cancelled, bridge.Failed, bridge.Completed, bridge.Waiting)
	if v.Phase != bridge.Cancelled {
		t.Errorf("the cancelled job is %s: %s\n%s", v.Phase, v.Exit, events(v))
	}
	expect := func(id int, what string, explained string, ok func(bridge.JobView) bool) {
		t.Helper()
		v := waitPhase(t, l, id, 5*time.Minute, bridge.Completed, bridge.Failed, bridge.Cancelled)
		if v.Phase != bridge.Completed || !ok(v) {
			t.Errorf("%s: job %d ended %s (%s), preemptions %d, restarts %d, no-preempt %q\n%s", what, id, v.Phase, v.Exit, v.Preemptions, v.Restart, v.NoPreempt, events(v))
		}
		out, _, _ := l.Unisched(t.Context(), "explain", itoa(id))
		if !strings.Contains(out, explained) {
			t.Errorf("%s: explain does not say %q:\n%s", what, explained, out)
		}
	}
	expect(noTrap, "a job without a trap is killed by the signal, comes back and is never signalled again", "signal-kills", func(v bridge.JobView) bool { return v.Restart == 1 })
	expect(ignores, "a job that ignores the signal runs on", "signal-ineffective", func(v bridge.JobView) bool { return v.Restart == 0 && v.Strikes == 1 })
	expect(noRequeue, "a job that must not be requeued is left alone", "--no-requeue", func(v bridge.JobView) bool { return v.Restart == 0 })
	expect(dying, "a job whose profile dies comes back with its own request", "profile-failed", func(v bridge.JobView) bool { return v.Restart == 1 && !v.Profile.Needed() })
	expect(mute, "a job that never says that it is ready is never signalled", "", func(v bridge.JobView) bool { return v.Restart == 0 })
	for _, id := range strict {
		waitPhase(t, l, id, 3*time.Minute, bridge.Completed)
	}
	noLeftovers(t, l)
}
