package policy

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/plantest"
)

// crowd is a full cluster of 120 x 8 GPUs with so many jobs waiting, a third of them with deadlines: what a rival sees on a long trace under load.
func crowd(waiting int) planner.Snapshot {
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := [][]planner.Shape{{{1}}, {{1}}, {{1}}, {{1}}, {{2}, {1, 1}}, {{4}, {2, 2}}, {{8}, {4, 4}}, {{8, 8}}}
	var jobs []planner.Job
	draw := func(id int) planner.Job {
		j := plantest.Job(id, 1+rng.ExpFloat64()*24, shapes[rng.IntN(len(shapes))]...)
		j.Submitted = plantest.Now.Add(-time.Duration(rng.IntN(100000)) * time.Second)
		j.Estimate.Resume, j.Attained = planner.Exactly(60), rng.ExpFloat64()*3600
		if rng.IntN(3) == 0 {
			j = plantest.Strict(j, rng.Float64()*60)
		}
		return j
	}
	nodes := plantest.Nodes(120, 8)
	for n := range nodes { // a node of single GPUs, two halves, or a whole
		for k, g := range [][]int{{1, 1, 1, 1, 1, 1, 1, 1}, {4, 4}, {8}}[n%3] {
			j := draw(1 + n*8 + k)
			j.Estimate.Speeds = []planner.ShapeSpeed{{Shape: planner.Shape{g}, Speed: planner.Exactly(1)}}
			jobs = append(jobs, plantest.Running(j, planner.Placement{{Node: nodes[n].Name, GPUs: g}}))
		}
	}
	for i := range waiting {
		jobs = append(jobs, draw(2000+i))
	}
	return plantest.Snapshot(nodes, jobs...)
}

// BenchmarkPlan is one round of each rival with 5,000 jobs waiting for 960 GPUs.
func BenchmarkPlan(b *testing.B) {
	s := crowd(5000)
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			p := make1(b, name, Options{})
			b.ReportAllocs()
			for b.Loop() {
				p.Plan(context.Background(), s)
			}
		})
	}
}

// TestCrowdIsFeasible judges one round of each under load.
func TestCrowdIsFeasible(t *testing.T) {
	s := crowd(1500)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			plan := make1(t, name, Options{}).Plan(context.Background(), s)
			for _, v := range planner.Check(s, plan) {
				t.Errorf("%v", v)
			}
			used := 0
			for _, e := range plan.Entries {
				used += e.Placement.GPUs()
			}
			if used < 930 {
				t.Errorf("only %d of 960 GPUs in use", used)
			}
		})
	}
}
