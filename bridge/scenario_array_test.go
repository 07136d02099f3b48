package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// task is the id of an array's task, 0 before it has started.
func (w *world) task(array slurm.JobID, task int) slurm.JobID {
	s, err := w.sim.State(w.t.Context(), w.sim.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range s.Jobs {
		if j.ArrayJobID == array && j.ArrayTask == task {
			return j.ID
		}
	}
	return 0
}

// case 12: the tasks of an array are managed one by one once they have started; the last one carries the array's own number, and what is done to it touches no other.
func TestScenarioArrayTasksAreManagedOneByOne(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	array := w.submit("array", slurmsim.Submission{GPUs: 1, Array: 4, Body: training(7200), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:7200"})
	w.until(time.Minute, "it is seen", func() bool { return w.view("array").Phase != "" })
	if v := w.view("array"); v.Phase != bridge.Unmanaged || !strings.Contains(v.Why, "each task is managed once it has started") {
		t.Errorf("waiting tasks: %s %q", v.Phase, v.Why)
	}
	for k := 1; k <= 4; k++ {
		name := fmt.Sprint("task", k)
		w.until(10*time.Minute, name+" trains and is managed", func() bool {
			w.ids[name] = w.task(array, k)
			return w.ids[name] != 0 && w.view(name).Phase == bridge.Running && w.view(name).Iter > 30
		})
		if v := w.view(name); v.Ref != fmt.Sprintf("%d_%d", array, k) || v.NoPreempt != "" {
			t.Errorf("%s: ref %s, no-preempt %q", name, v.Ref, v.NoPreempt)
		}
	}
	if w.ids["task4"] != array || w.ids["task1"] == array {
		t.Fatalf("ids %v of array %d: the scenario shows nothing", w.ids, array)
	}
	delete(w.ids, "array")
	w.run(10*time.Minute, nil)

	// Each of the two strict jobs needs some of the tasks' GPUs.
	for i, gpus := range []int{1, 3} {
		name := fmt.Sprint("strict", i)
		before := map[string]int{}
		for k := 1; k <= 4; k++ {
			before[fmt.Sprint("task", k)] = w.job(fmt.Sprint("task", k)).Restarts
		}
		w.submit(name, slurmsim.Submission{GPUsPerNode: gpus, Nodes: 1, Body: training(600), User: "bob", UID: 1002, TimeLimit: 15 * time.Minute,
			Comment: "unisched:class=strict,deadline=now+25m,ckpt=B:USR1,profile=skip,stop=iters:600"})
		w.until(25*time.Minute, "it ends", w.finished(name))
		w.checkMet(name)
		moved := 0
		for task, n := range before {
			if w.job(task).Restarts > n {
				moved++
			}
		}
		if moved != gpus {
			t.Errorf("%d GPUs were needed and %d tasks left theirs", gpus, moved)
		}
	}
	for _, e := range w.sim.History() {
		if strings.Contains(e.What, "with its array") {
			t.Errorf("%v", e)
		}
	}
	w.until(9*time.Hour, "all tasks end", w.finished("task1", "task2", "task3", "task4"))
	for k := 1; k <= 4; k++ {
		name := fmt.Sprint("task", k)
		w.checkReturns(name, 0)
		if v := w.view(name); v.Phase != bridge.Completed || v.Iter != 7200 {
			t.Errorf("%s: %s at iteration %d", name, v.Phase, v.Iter)
		}
	}
	w.clean()
}

// A task that is asked to leave while others of its array wait: those are started by Slurm as plain jobs, and the array's own record is never written to but to take the
// submit plugin's delay off.
func TestScenarioWaitingTasksAreLeftAlone(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	array := w.submit("array", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Array: 5, Body: training(1200), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:1200"})
	w.until(10*time.Minute, "two run", func() bool { return w.task(array, 2) != 0 })
	w.run(2*time.Minute, nil)
	w.urgent("strict", 600, 30*time.Minute)
	w.until(30*time.Minute, "the strict job ends", w.finished("strict"))
	w.checkMet("strict")
	w.until(4*time.Hour, "all are over", func() bool { return w.sim.Unfinished() == 0 })
	writes := 0
	for _, line := range w.wire.log {
		if strings.Contains(line, fmt.Sprintf(" %d update", array)) && w.task(array, 5) == 0 {
			writes++
		}
	}
	if writes > 1 {
		t.Errorf("the record of the waiting tasks was written %d times", writes)
	}
	ended := 0
	for _, e := range w.sim.History() {
		if strings.HasPrefix(e.What, "end COMPLETED") {
			ended++
		}
	}
	if ended != 6 {
		t.Errorf("%d jobs completed, want 5 tasks and the strict job", ended)
	}
}

// The last task takes the record of the waiting ones over: it is looked at anew, restarts of the daemon included.
func TestScenarioLastTaskIsAdmitted(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	array := w.submit("array", slurmsim.Submission{GPUs: 4, Nodes: 1, Array: 2, Body: training(900), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:900"})
	w.until(10*time.Minute, "the first runs", func() bool { return w.task(array, 1) != 0 })
	w.open()
	w.until(40*time.Minute, "the last runs", func() bool { return w.task(array, 2) == array && w.running("array") })
	w.run(time.Minute, nil)
	if v := w.view("array"); v.Phase != bridge.Running || v.Ref != fmt.Sprintf("%d_2", array) {
		t.Errorf("phase %s, ref %s", v.Phase, v.Ref)
	}
	w.until(time.Hour, "it ends", w.finished("array"))
	if v := w.view("array"); v.Phase != bridge.Completed || v.Iter != 900 {
		t.Errorf("phase %s at iteration %d", v.Phase, v.Iter)
	}
}
