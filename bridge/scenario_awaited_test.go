package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// TestScenarioOwnDependents: what the job's own user, or his account, lets wait for its end does not spare it: he has promised with ckpt= that it comes back. He is told so. When it
// does come back, the others have not noticed.
func TestScenarioOwnDependents(t *testing.T) {
	for name, second := range map[string]slurmsim.Submission{
		"of its user":    {User: "ann", UID: 1001},
		"of its account": {User: "carol", UID: 1003, Account: "phys"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.submit("first", slurmsim.Submission{GPUs: 4, Tasks: 4, Account: "phys", Body: training(3 * 3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:10800"})
			w.until(15*time.Minute, "it trains", w.reached("first", 60))
			second.GPUs, second.Body, second.After = 1, training(60), w.ids["first"]
			w.submit("second", second)
			w.run(time.Minute, nil)
			if !slices.ContainsFunc(w.view("first").Events, func(e bridge.Event) bool {
				return e.What == "awaited" && strings.Contains(e.Text, fmt.Sprint(w.ids["second"]))
			}) {
				t.Error("its user is not told")
			}
			w.urgent("strict", 600, 20*time.Minute)
			w.until(time.Hour, "the strict one ends", w.finished("strict"))
			w.checkMet("strict")
			w.until(10*time.Hour, "all end", w.finished("first", "second"))
			if v := w.view("first"); v.Restart != 1 || v.LostIters > 0 {
				t.Errorf("restarts %d, %d iterations lost", v.Restart, v.LostIters)
			}
			done := false
			for _, e := range w.sim.History() {
				done = done || e.Job == w.ids["first"] && strings.HasPrefix(e.What, "end COMPLETED")
				if e.Job == w.ids["second"] && strings.HasPrefix(e.What, "start") && !done {
					t.Error("the second was started before the first was done")
				}
			}
			w.clean()
		})
	}
}

// TestScenarioDependentsOfFriends: other people's dependents spare a job, but only one of each user, and of a partition no more than a tenth of the GPUs, or one job: whoever has friends gains no
// more than that.
func TestScenarioDependentsOfFriends(t *testing.T) {
	w := newWorld(t, site{nodes: 4, gpus: 4})
	users := []struct {
		name string
		uid  int64
	}{{"ann", 1001}, {"ann", 1001}, {"bob", 1002}, {"carol", 1003}}
	for i, u := range users {
		name := fmt.Sprint("job", i)
		w.submit(name, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, User: u.name, UID: u.uid, Body: training(6 * 3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:21600"})
		w.run(20*time.Second, nil)
	}
	w.until(15*time.Minute, "all train", func() bool {
		for i := range users {
			if w.view(fmt.Sprint("job", i)).Iter < 60 {
				return false
			}
		}
		return true
	})
	for i := range users {
		w.submit(fmt.Sprint("after", i), slurmsim.Submission{GPUs: 1, Body: training(60), After: w.ids[fmt.Sprint("job", i)], User: "eve", UID: 1009})
	}
	w.run(time.Minute, nil)
	var spared []string
	for i := range users {
		if name := fmt.Sprint("job", i); strings.Contains(w.view(name).NoPreempt, "somebody else waits") {
			spared = append(spared, name)
		}
	}
	if !slices.Equal(spared, []string{"job0"}) {
		t.Errorf("spared are %v, want the oldest alone: it holds more than a tenth of the partition", spared)
	}
}
