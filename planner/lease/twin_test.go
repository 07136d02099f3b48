package lease

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// twin finds the best objective by trying every column of every job and every set of nodes for every start.
type twin struct {
	in     *instance
	free   []int
	choice []int
	best   float64
	how    []int // the choice that earns best
}

func (w *twin) walk(ji int, obj float64) {
	in := w.in
	if ji == len(in.jobs) {
		if obj > w.best && w.rowsHold() {
			w.best, w.how = obj, slices.Clone(w.choice)
		}
		return
	}
	j := &in.jobs[ji]
	for ci, c := range j.cols {
		w.choice[ji] = ci
		switch c.kind {
		case wait:
			w.walk(ji+1, obj+c.obj)
		case keep:
			ok := true
			for _, sh := range j.Current {
				n := in.index[sh.Node]
				w.free[n] -= sh.GPUs
				ok = ok && w.free[n] >= 0
			}
			if ok {
				w.walk(ji+1, obj+c.obj)
			}
			for _, sh := range j.Current {
				w.free[in.index[sh.Node]] += sh.GPUs
			}
		case start:
			w.seat(ji, j.opts[c.opt].shape, make([]bool, len(in.nodes)), func() { w.walk(ji+1, obj+c.obj) })
		}
	}
}

// judge compares a plan with the best there is, and shows both when the plan is worse.
func (w *twin) judge(t *rapid.T, plan planner.Plan) {
	g := gap(plan.Objective, w.best)
	if g <= 0.001 {
		return
	}
	t.Errorf("plan earns %.4f, the best is %.4f (gap %.4f, ceiling %.4f); candidates %v; solver %+v", plan.Objective, w.best, g, w.in.ceiling(), plan.Scores, plan.Solver)
	for ji := range w.in.jobs {
		j := &w.in.jobs[ji]
		t.Logf("job %v %v on %v account %q", j.Run, j.State, j.Current, j.Account)
		for ci, c := range j.cols {
			mark := ""
			if ci == w.how[ji] {
				mark = " <- best"
			}
			t.Logf("  kind %d option %d tier %d earns %.4f%s", c.kind, c.opt, c.tier, c.obj, mark)
		}
	}
	for _, e := range plan.Entries {
		t.Logf("%v %v %v %v: %s", e.Run, e.Decision, e.Placement, e.Reason.Code, e.Reason.Text)
	}
}

// seat calls then for every way to put the shares on distinct nodes.
func (w *twin) seat(ji int, shape planner.Shape, used []bool, then func()) {
	if len(shape) == 0 {
		then()
		return
	}
	for n := range w.in.nodes {
		if used[n] || w.free[n] < shape[0] || !w.in.nodes[n].usable {
			continue
		}
		used[n] = true
		w.free[n] -= shape[0]
		w.seat(ji, shape[1:], used, then)
		w.free[n] += shape[0]
		used[n] = false
	}
}

// rowsHold checks what is no packing, from scratch: the prefix rows, quotas, and the budget of preemptions.
func (w *twin) rowsHold() bool {
	stops := 0
	for ji, ci := range w.choice {
		if j := &w.in.jobs[ji]; j.State == planner.Running && j.cols[ci].kind != keep {
			stops++
		}
	}
	if b, bounded := w.in.s.Budget(); bounded && stops > b {
		return false
	}
	for _, a := range w.in.s.Accounts {
		if !w.quotaHolds(a) {
			return false
		}
	}
	for _, tau := range w.in.taus {
		sum, gpus := 0.0, 0
		for ji, ci := range w.choice {
			sum += w.in.demand(w.in.jobs[ji].cols[ci], tau)
		}
		for _, n := range w.in.nodes {
			if n.usable {
				gpus += n.gpus
			}
		}
		if sum > w.in.cfg.Rho*float64(gpus)*(tau-float64(w.in.lead))+1e-9 {
			return false
		}
	}
	return true
}

// quotaHolds checks one account's GPUs now and the work that is due of it.
func (w *twin) quotaHolds(a planner.Account) bool {
	held, running, room := 0, 0, a.MaxGPUs-a.OtherGPUs
	for ji, ci := range w.choice {
		if j := &w.in.jobs[ji]; j.Account == a.Name {
			switch c := j.cols[ci]; c.kind {
			case keep:
				held += j.Current.GPUs()
			case start:
				held += j.opts[c.opt].shape.GPUs()
			}
			running += j.Current.GPUs()
		}
	}
	room = max(room, running, 0)
	for _, tau := range w.in.taus {
		sum := 0.0
		for ji, ci := range w.choice {
			if j := &w.in.jobs[ji]; j.Account == a.Name {
				sum += w.in.demand(j.cols[ci], tau)
			}
		}
		if sum > w.in.cfg.Rho*float64(room)*(tau-float64(w.in.lead))+1e-9 {
			return false
		}
	}
	return held <= room
}

// drawPlain draws a small world of one GPU type in which only GPUs matter, with nodes of mixed sizes and deadlines that compete.
func drawPlain(t *rapid.T) planner.Snapshot {
	nodes := plantest.Nodes(rapid.IntRange(1, 3).Draw(t, "nodes"), 1)
	for i := range nodes {
		nodes[i].GPUs = rapid.SampledFrom([]int{2, 3, 4, 6, 8}).Draw(t, "gpus")
	}
	free := make([]int, len(nodes))
	for i, n := range nodes {
		free[i] = n.GPUs
	}
	shapes := [][]planner.Shape{{{1}}, {{2}, {1, 1}}, {{3}}, {{4}, {2, 2}}, {{4}, {3, 1}}, {{6}, {4, 2}}}
	var jobs []planner.Job
	for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
		j := plantest.Job(i+1, rapid.Float64Range(0.5, 20).Draw(t, "units"), rapid.SampledFrom(shapes).Draw(t, "shapes")...)
		for k := range j.Estimate.Speeds {
			j.Estimate.Speeds[k].Speed = planner.Exactly(1 - 0.1*float64(k))
		}
		j.Estimate.Resume = planner.Exactly(60)
		if rapid.Bool().Draw(t, "strict") {
			j = plantest.Strict(j, rapid.Float64Range(1, 25).Draw(t, "due"))
		}
		n := rapid.IntRange(0, 2*len(nodes)-1).Draw(t, "node")
		if shape := j.Estimate.Speeds[0].Shape; n < len(nodes) && free[n] >= shape[0] {
			free[n] -= shape[0]
			j = plantest.Running(j, planner.NewPlacement(planner.Share{Node: nodes[n].Name, GPUs: shape[0]}))
			if rapid.IntRange(0, 3).Draw(t, "mid") == 0 {
				j.LeaseUntil = plantest.Now.Add(5 * time.Minute)
			}
		}
		jobs = append(jobs, j)
	}
	return plantest.Snapshot(nodes, jobs...)
}

// TestAgainstTwin: the plan earns what the best of all choices and packings earns.
func TestAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawPlain(t)
		plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
		in := newInstance(s, Config{}.filled())
		w := &twin{in: in, choice: make([]int, len(in.jobs)), best: math.Inf(-1)}
		for _, node := range in.nodes {
			w.free = append(w.free, node.gpus)
		}
		w.walk(0, 0)
		if c := in.ceiling(); c < w.best-1e-9 {
			t.Errorf("ceiling %.6f, but %.6f can be earned", c, w.best)
		}
		w.judge(t, plan)
		if plan.Objective > w.best+1e-6 {
			t.Logf("plan earns %.4f, more than the twin's %.4f: a filled start broke a margin row", plan.Objective, w.best)
		}
	})
}
