package e2e

import (
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// exitsZero saves when it is asked to, and leaves with exit 0 as scripts do by habit. It declares no end.
const exitsZero = `#!/bin/bash
state=/tmp/exits-zero-$SLURM_JOB_ID
i=0
[ -s "$state" ] && read -r i <"$state"
trap 'echo "$i" >"$state"; echo "{\"checkpoint\":true,\"iter\":$i}" >>"$UNISCHED_PROGRESS"; exit 0' USR1
echo "{\"ready\":true,\"iter\":$i}" >>"$UNISCHED_PROGRESS"
while [ "$i" -lt 150 ]; do
	sleep 0.5 &
	wait $!
	i=$((i + 1))
	echo "{\"iter\":$i}" >>"$UNISCHED_PROGRESS"
done
echo "{\"done\":true,\"iter\":$i}" >>"$UNISCHED_PROGRESS"
`

// case 32: a job that leaves with exit 0 at our signal, without a word that it was done, is COMPLETED to Slurm, and is put back; it ends where its work ends.
func TestExitZero(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1})
	job := submit(t, l, "alice", lab.Job{Args: append(gpus(4, 10), "--comment=unisched:ckpt=B:USR1,profile=skip"), Text: exitsZero})
	waitIter(t, l, job, 10, 2*time.Minute)
	strict := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+90s,ckpt=USR1+99,stop=iters:100,profile=skip", gpus(4, 1), training(100)...))
	waitPhase(t, l, strict, 4*time.Minute, bridge.Completed)
	check(t, l.WaitJob(within(t, 4*time.Minute), job, "its real end", func(v bridge.JobView) bool { return v.Phase == bridge.Completed && v.Restart > 0 && v.Iter == 150 }))
	v := waitPhase(t, l, job, time.Minute, bridge.Completed)
	if v.LostIters > 1 { // one may have been reported that it had not counted yet when it saved
		t.Errorf("%d iterations were lost\n%s", v.LostIters, events(v))
	}
	if text := events(v); !strings.Contains(text, "without a word that it was done") {
		t.Errorf("nothing tells why it was put back:\n%s", text)
	}
	noLeftovers(t, l)
}
