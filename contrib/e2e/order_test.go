package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// TestPlanOrder lets jobs compete for one pool: they start in the plan's order, not in the order of submission; a plain job neither
// steals what a preemption freed nor starves; after a release nice and begin time are as before.
func TestPlanOrder(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1})
	busy := submit(t, l, "carol", lab.Job{Args: gpus(4, 1), Text: "#!/bin/bash\nsleep 20\n"})
	// Only once it holds the node: before, the first of the others could go first.
	check(t, l.WaitFor(within(t, time.Minute), "the node to be busy", func() (bool, string, error) {
		a, err := l.Sacct(busy)
		return a.State == "RUNNING", a.State, err
	}))
	strict := func(deadline string) int {
		return submit(t, l, "alice", lab.Digits("unisched:class=strict,deadline=now+"+deadline+",ckpt=USR1+99,stop=iters:100,profile=skip",
			gpus(4, 1), training(100)...))
	}
	late, middle, soon := strict("300s"), strict("170s"), strict("80s")
	plain := submit(t, l, "bob", lab.Job{Args: gpus(4, 1), Text: "#!/bin/bash\nsleep 5\n"})
	niced := submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:100,profile=skip", gpus(4, 30, "--nice=7"), training(100)...))

	starts := map[int]time.Time{}
	for _, id := range []int{soon, middle, late} {
		v := waitPhase(t, l, id, 5*time.Minute, bridge.Completed, bridge.Failed)
		metDeadline(t, v)
		if len(v.Stays) > 0 {
			starts[id] = v.Stays[0].From
		}
	}
	order := []int{soon, middle, late}
	if !slices.IsSortedFunc(order, func(a, b int) int { return starts[a].Compare(starts[b]) }) {
		t.Errorf("jobs started at %v, want the order %v", starts, order)
	}
	check(t, l.WaitFor(within(t, 2*time.Minute), "the plain job's end", func() (bool, string, error) {
		a, err := l.Sacct(plain)
		return a.State == "COMPLETED", a.State, err
	}))

	// A waiting job that is released keeps what its user asked for.
	hog := submit(t, l, "carol", lab.Job{Args: gpus(4, 10), Text: "#!/bin/bash\nsleep 300\n"})
	waitPhase(t, l, niced, 2*time.Minute, bridge.Completed)
	// Only once the hog holds the node: before, the short job could go first, and be over.
	check(t, l.WaitFor(within(t, 2*time.Minute), "the hog to run", func() (bool, string, error) {
		a, err := l.Sacct(hog)
		return a.State == "RUNNING", a.State, err
	}))
	again := submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:100,profile=skip", gpus(4, 30, "--nice=7"), training(100)...))
	waitPhase(t, l, again, time.Minute, bridge.Waiting)
	out, code, err := l.Unisched(t.Context(), "release", itoa(again))
	if err != nil {
		t.Fatalf("release: exit %d: %v: %s", code, err, out)
	}
	waitPhase(t, l, again, time.Minute, bridge.Released)
	for _, q := range must(l.Squeue())(t) {
		if q.ID == again && (q.Nice != 7 || q.Begin.After(time.Now()) || q.Required != "" || strings.HasPrefix(q.Reason, "JobHeld")) {
			t.Errorf("the released job is not as submitted: %+v", q)
		}
	}
}

// TestNoStealing preempts for a strict job while a plain job of equal size waits: the strict job gets what the preemption freed, the plain one
// its turn later.
func TestNoStealing(t *testing.T) {
	l := up(t, lab.Options{Nodes: 1})
	victim := submit(t, l, "alice", lab.Digits("unisched:ckpt=USR1+99,stop=iters:600,profile=skip", gpus(4, 10), training(600)...))
	waitIter(t, l, victim, 20, time.Minute)
	plain := submit(t, l, "carol", lab.Job{Args: gpus(4, 60), Text: "#!/bin/bash\nsleep 5\n"})
	strict := submit(t, l, "bob", lab.Digits("unisched:class=strict,deadline=now+70s,ckpt=USR1+99,stop=iters:200,profile=skip", gpus(4, 1), training(200)...))
	v := waitPhase(t, l, strict, 2*time.Minute, bridge.Completed, bridge.Failed)
	metDeadline(t, v)
	a := must(l.Sacct(plain))(t)
	if len(v.Stays) == 0 || !a.Start.IsZero() && a.Start.Before(v.Stays[0].From) {
		t.Errorf("the plain job started %v, before the strict one: %+v", a.Start, v.Stays)
	}
	check(t, l.WaitFor(within(t, 3*time.Minute), "the plain job's end", func() (bool, string, error) {
		a, err := l.Sacct(plain)
		return a.State == "COMPLETED", a.State, err
	}))
	w := waitPhase(t, l, victim, 3*time.Minute, bridge.Completed, bridge.Failed)
	lostNothing(t, w)
	if w.Preemptions == 0 {
		t.Error("the victim was not preempted")
	}
	noLeftovers(t, l)
}
