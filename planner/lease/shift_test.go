package lease

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestShifts: a job that needs a whole cell gets one by moving others when that pays, and not when it does not.
func TestShifts(t *testing.T) {
	one, two, four := planner.Shape{1}, planner.Shape{2}, planner.Shape{4}
	runs := func(id int, units float64, s planner.Shape, n string) planner.Job {
		j := plantest.Running(plantest.Job(id, units, s), at(node(n, s.GPUs())))
		j.Estimate.Resume, j.Estimate.Checkpoint = planner.Exactly(120), planner.Exactly(30)
		return j
	}
	wide := plantest.Job(9, 20, four)
	aged := wide
	aged.WaitingSince = plantest.Now.Add(-6 * 3600e9)
	fixed := runs(1, 50, two, "a000")
	fixed.Preemptible = false
	for _, c := range []struct {
		name   string
		jobs   []planner.Job
		budget int
		want   []string
		why    string // of the first move
	}{
		{"a tight deadline", []planner.Job{runs(1, 50, two, "a000"), runs(2, 50, two, "a001"), plantest.Strict(plantest.Job(9, 4, four), 6)}, 0,
			[]string{"keep a000:2", "move a000:2", "start a001:4"}, "moves to a000:2, which makes room for job 9.0"},
		{"a short job for long ones", []planner.Job{runs(1, 50, two, "a000"), runs(2, 50, two, "a001"), plantest.Job(9, 3, four)}, 0,
			[]string{"keep a000:2", "move a000:2", "start a001:4"}, "moves to a000:2, which makes room for job 9.0"},
		{"a long job for short ones does not pay", []planner.Job{runs(1, 3, two, "a000"), runs(2, 3, two, "a001"), plantest.Job(9, 200, four)}, 0,
			[]string{"keep a000:2", "keep a001:2", "wait"}, ""},
		{"until it has waited long enough", []planner.Job{runs(1, 12, two, "a000"), runs(2, 12, two, "a001"), aged}, 0,
			[]string{"keep a000:2", "move a000:2", "start a001:4"}, "moves to a000:2, which makes room for job 9.0"},
		{"the one that can be moved", []planner.Job{fixed, runs(2, 50, two, "a001"), plantest.Strict(plantest.Job(9, 4, four), 6)}, 0,
			[]string{"keep a000:2", "move a000:2", "start a001:4"}, "moves to a000:2, which makes room for job 9.0"},
		{"no more than the budget", []planner.Job{runs(1, 50, one, "a000"), runs(2, 50, one, "a000"), runs(3, 50, one, "a001"), runs(4, 50, one, "a001"),
			plantest.Strict(plantest.Job(9, 4, four), 6)}, 1, []string{"keep a000:1", "keep a000:1", "keep a001:1", "keep a001:1", "wait"}, ""},
		{"two moves within it", []planner.Job{runs(1, 50, one, "a000"), runs(2, 50, one, "a000"), runs(3, 50, one, "a001"), runs(4, 50, one, "a001"),
			plantest.Strict(plantest.Job(9, 4, four), 6)}, 2, []string{"keep a000:1", "keep a000:1", "move a000:1", "move a000:1", "start a001:4"},
			"moves to a000:1, which makes room for job 9.0"},
		{"nobody moves when a hole is there", []planner.Job{runs(1, 50, two, "a000"), plantest.Strict(plantest.Job(9, 4, four), 6)}, 0,
			[]string{"keep a000:2", "start a001:4"}, ""},
		{"nor for a job that would not fit anyhow", []planner.Job{runs(1, 50, planner.Shape{3}, "a000"), runs(2, 50, two, "a001"), plantest.Job(9, 300, four)}, 0,
			[]string{"keep a000:3", "keep a001:2", "wait"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plantest.Snapshot(plantest.Nodes(2, 4), c.jobs...)
			s.MaxPreemptions = c.budget
			plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
			var got []string
			why := ""
			for _, e := range plan.Entries {
				got = append(got, strings.TrimSpace(string(e.Decision)+" "+e.Placement.String()))
				if e.Decision == planner.Move && why == "" {
					why = e.Reason.Text
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n%+v", d, plan.Scores)
			}
			if d := cmp.Diff(c.why, why); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestShiftsAgainstTwin: in fragmented worlds, too, the plan earns what the best of all choices and packings earns, within the budget.
func TestShiftsAgainstTwin(t *testing.T) {
	moves := 0
	untilSeen(t, &moves, "no move in any draw", func(t *rapid.T) {
		nodes := plantest.Nodes(rapid.IntRange(2, 3).Draw(t, "nodes"), 4)
		var jobs []planner.Job
		for i := range nodes {
			for range rapid.IntRange(0, 2).Draw(t, "tenants") {
				g := rapid.IntRange(1, 2).Draw(t, "gpus")
				j := plantest.Running(plantest.Job(len(jobs)+1, rapid.Float64Range(1.5, 40).Draw(t, "units"), planner.Shape{g}), at(node(nodes[i].Name, g)))
				j.Estimate.Resume = planner.Exactly(rapid.SampledFrom([]float64{10, 150}).Draw(t, "resume"))
				jobs = append(jobs, j)
			}
		}
		for range rapid.IntRange(1, 2).Draw(t, "waiting") {
			units := rapid.Float64Range(1, 30).Draw(t, "units")
			j := plantest.Job(len(jobs)+1, units, planner.Shape{rapid.SampledFrom([]int{3, 4}).Draw(t, "wide")})
			if rapid.Bool().Draw(t, "strict") {
				j = plantest.Strict(j, units+rapid.Float64Range(0.5, 6).Draw(t, "due"))
			}
			jobs = append(jobs, j)
		}
		s := plantest.Snapshot(nodes, jobs...)
		s.MaxPreemptions = rapid.IntRange(0, 2).Draw(t, "budget")
		plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
		in := newInstance(s, Config{}.filled())
		w := &twin{in: in, choice: make([]int, len(in.jobs)), best: math.Inf(-1)}
		for _, n := range in.nodes {
			w.free = append(w.free, n.gpus)
		}
		w.walk(0, 0)
		w.judge(t, plan)
		for _, e := range plan.Entries {
			if e.Decision == planner.Move {
				moves++
			}
		}
	})
}
