package bridge

import (
	"testing"

	"unisched/planner"
	"unisched/slurm"
)

// A request may ask for more than GPUs: the count is that of the GPUs, and it is never rewritten, which would lose the rest.
func TestGPUsOfARequest(t *testing.T) {
	for tres, want := range map[string]int{
		"gres/gpu:4": 4, "gres:gpu:4": 4, "gres/gpu:v100:2": 2, "gres/gpu=1": 1, "gres/gpu": 1, "": 0, "(null)": 0, "gres/shard:3": 0,
		"gres/gpu:4,gres/tmpfs:2": 4, "gres/tmpfs:2,gres/gpu:4": 4, "gres/gpu:a:1,gres/gpu:b:2": 3, "gres/gpu:x:y:z": 0,
	} {
		if got := gresCount(tres); got != want {
			t.Errorf("%q: %d GPUs, want %d", tres, got, want)
		}
	}
	for tres, want := range map[string]bool{"gres/gpu:4": true, "gres/gpu:4,gres/tmpfs:2": false, "": false} {
		if got := reshapable(Original{TRESPerNode: tres, Nodes: slurm.MinMax{Min: 1}}); got != want {
			t.Errorf("%q: reshapable %v, want %v", tres, got, want)
		}
	}
}

// The number of tasks is the job's: on other nodes it stays, for another number of GPUs it grows as the request does. What Slurm computes from other words
// (--ntasks-per-gpu, --gpus-per-task) is never written: before a job starts Slurm shows a number that is not the one it will have (seen).
func TestTasksOfAShape(t *testing.T) {
	perJob := func(gpus, nodes, tasks int) Original {
		return Original{TRESPerJob: "gres/gpu:" + itoa(int64(gpus)), GPUs: gpus, Tasks: tasks, Nodes: slurm.MinMax{Min: nodes}}
	}
	tpg, tpn := perJob(4, 1, 1), perJob(2, 1, 4)
	tpg.TasksPerGPU, tpn.TasksPerNode = 1, 4
	for name, c := range map[string]struct {
		o     Original
		shape planner.Shape
		want  int // 0: the request is left as it is
	}{
		"two tasks of two GPUs, on two nodes":   {perJob(4, 1, 2), planner.Shape{2, 2}, 2},
		"one task per GPU, on two nodes":        {perJob(4, 1, 4), planner.Shape{2, 2}, 4},
		"one task per GPU, on half":             {perJob(4, 1, 4), planner.Shape{2}, 2},
		"one task, measured on two nodes":       {perJob(4, 1, 1), planner.Shape{1, 1}, 2},
		"tasks per GPU, as asked for":           {tpg, planner.Shape{4}, 0},
		"tasks per GPU, on two nodes":           {tpg, planner.Shape{2, 2}, 0},
		"tasks per node, measured on one GPU":   {tpn, planner.Shape{1}, 4},
		"tasks per node, measured on two nodes": {tpn, planner.Shape{1, 1}, 8},
	} {
		if r, change := requestFor(c.o, c.shape); change != (c.want > 0) || r.tasks != c.want {
			t.Errorf("%s: %d tasks, changed %v; want %d", name, r.tasks, change, c.want)
		}
	}
	b := &Bridge{perNode: map[string]int{"": 4}}
	for name, c := range map[string]struct {
		o    Original
		most int // nodes
	}{"tasks per GPU": {tpg, 1}, "tasks per node": {tpn, 1}, "two tasks": {perJob(2, 1, 2), 2}} {
		for _, s := range b.shapes(&Record{Original: c.o}) {
			if len(s) > c.most {
				t.Errorf("%s: shape %v", name, s)
			}
		}
	}
}
