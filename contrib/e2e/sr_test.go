package e2e

import (
	"fmt"
	"math"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
	"unisched/planner"
)

// costly is a training whose checkpoint takes `save` and whose start `restore` seconds, both awk expressions of its GPU count g.
func costly(save, restore string, iters int) string {
	return fmt.Sprintf(`#!/bin/bash
g=$((SLURM_GPUS_ON_NODE * SLURM_JOB_NUM_NODES))
cost() { awk -v g="$g" "BEGIN { print $1 }"; }
state=$HOME/sr-$SLURM_JOB_ID.state
i=0
[[ -s $state ]] && { read -r i <"$state"; sleep "$(cost '%[2]s')"; }
save() {
	trap '' USR1
	sleep "$(cost '%[1]s')"
	echo "$i" >"$state.tmp" && mv "$state.tmp" "$state"
	unisched-node report checkpoint iter="$i"
	exit 99
}
trap save USR1
unisched-node report ready iter="$i"
while ((i < %[3]d)); do
	sleep 0.2 &
	wait "$!"
	i=$((i + 1))
	unisched-node report iter="$i"
done
unisched-node report done=iters iter="$i"
`, save, restore, iters)
}

// TestSuspensionCosts measures what checkpoints and resumes cost in the profile on 1 and 2 GPUs and compares what is predicted for 4 GPUs, and for 8 on two nodes, with what
// they then take: within 5 s.
func TestSuspensionCosts(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2, Config: map[string]string{"bridge.checkpoint_timeout": `"40s"`}})
	for _, c := range []struct {
		name          string
		args          []string
		gpus          int
		save, restore string
	}{
		{"4 GPUs of one node, in proportion to the GPUs", gpus(4, 20), 4, "g", "1.5*g"},
		{"8 GPUs of two nodes, in proportion to the doublings", gpus(4, 20, "--nodes=2"), 8, "2*(1+log(g)/log(2))", "3*(1+log(g)/log(2))"},
	} {
		args := append(c.args, "--comment=unisched:ckpt=B:USR1+99,stop=iters:5000", "--requeue", "--job-name="+fmt.Sprintf("sr%d", c.gpus))
		id := submit(t, l, "alice", lab.Job{Args: args, Text: costly(c.save, c.restore, 5000)})

		// The estimate just before its first run at full size, and how that run began.
		var predicted planner.Estimate
		var back bridge.Return
		var began time.Time
		check(t, l.WaitJob(within(t, 5*time.Minute), id, "its first run at full size", func(v bridge.JobView) bool {
			n := len(v.Returns)
			if !v.Profile.Done || v.Phase != bridge.Running || n == 0 || v.Returns[n-1].Run != v.Restart {
				if v.Profile.Done {
					predicted = v.Estimate
				}
				return false
			}
			back, began = v.Returns[n-1], v.Stays[len(v.Stays)-1].From
			return true
		}))
		within5(t, c.name, "resume", predicted.Resume, back.At.Sub(began).Seconds())

		// A strict job takes its GPUs away.
		predicted = waitIter(t, l, id, back.Resumed+10, time.Minute).Estimate
		urgent := []int{}
		for range 8 / c.gpus { // so many that one of them needs its node: the other node does not do for both
			urgent = append(urgent, submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+80s,ckpt=USR1+99,stop=iters:400,profile=skip", gpus(4, 2), training(400)...)))
		}
		asked := waitPhase(t, l, id, 2*time.Minute, bridge.Checkpointing)
		stays := len(asked.Stays)
		var over time.Time
		check(t, l.WaitJob(within(t, 2*time.Minute), id, "its checkpoint", func(v bridge.JobView) bool {
			if v.Phase != bridge.Checkpointing && len(v.Stays) >= stays {
				over = v.Stays[stays-1].To
			}
			return !over.IsZero()
		}))
		within5(t, c.name, "checkpoint", predicted.Checkpoint, over.Sub(asked.Since).Seconds())
		for _, id := range urgent {
			waitPhase(t, l, id, 3*time.Minute, bridge.Completed, bridge.Failed)
		}
		must(l.Exec("alice", "scancel", itoa(id)))(t)
		waitPhase(t, l, id, time.Minute, bridge.Cancelled)
	}
}

func within5(t *testing.T, name, what string, predicted planner.Interval, took float64) {
	t.Helper()
	t.Logf("%s: %s predicted %.1f s (%.1f to %.1f), took %.1f s", name, what, predicted.Mid, predicted.Low, predicted.High, took)
	if math.Abs(predicted.Mid-took) > 5 {
		t.Errorf("%s: %s predicted %.1f s, took %.1f s", name, what, predicted.Mid, took)
	}
}
