package lease

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// elastic is a best-effort job of so many units on 8 GPUs that may hold 1, 2, 4 or 8, twice the GPUs being 1.6 times as fast.
func elastic(id int, units float64) planner.Job {
	j := plantest.Job(id, units, planner.Shape{8}, planner.Shape{4}, planner.Shape{2}, planner.Shape{1})
	j.Elastic = true
	v := 1.0
	for i := range j.Estimate.Speeds {
		j.Estimate.Speeds[i].Speed = planner.Exactly(v)
		v /= 1.6
	}
	j.Estimate.Resume, j.Estimate.Checkpoint = planner.Exactly(60), planner.Exactly(10)
	return j
}

// TestElastic: who may hold several numbers of GPUs takes free ones when that finishes it sooner, at the start and later, and gives way.
func TestElastic(t *testing.T) {
	on := func(j planner.Job, shares ...planner.Share) planner.Job { return plantest.Running(j, at(shares...)) }
	unsaved := func(j planner.Job) planner.Job {
		j.Estimate.Unsaved = 1e5
		return j
	}
	other := on(plantest.Job(2, 90, planner.Shape{2}), node("a000", 2))
	other.Preemptible = false
	for _, c := range []struct {
		name  string
		gpus  int
		jobs  []planner.Job
		tweak func(*planner.Snapshot)
		want  []string // decision and placement, by job
	}{
		{"alone, it starts on all GPUs", 8, []planner.Job{elastic(1, 20)}, nil, []string{"start a000:8"}},
		{"so it does when it is short", 8, []planner.Job{elastic(1, 0.3)}, nil, []string{"start a000:8"}},
		{"on the GPUs that are free", 8, []planner.Job{elastic(1, 20), other}, nil, []string{"start a000:4", "keep a000:2"}},
		{"down to a single one", 3, []planner.Job{elastic(1, 20), other}, nil, []string{"start a000:1", "keep a000:2"}},
		{"running on one, it moves to all", 8, []planner.Job{on(elastic(1, 20), node("a000", 1))}, nil, []string{"move a000:8"}},
		{"also when a whole unit is lost", 8, []planner.Job{on(unsaved(elastic(1, 20)), node("a000", 1))}, nil, []string{"move a000:8"}},
		{"not for its last minutes", 8, []planner.Job{on(elastic(1, 0.3), node("a000", 1))}, nil, []string{"keep a000:1"}},
		{"not for little", 8, []planner.Job{on(elastic(1, 1.5), node("a000", 4))}, nil, []string{"keep a000:4"}},
		{"not when it cannot be preempted", 8, []planner.Job{on(elastic(1, 20), node("a000", 1))}, func(s *planner.Snapshot) { s.Jobs[0].Preemptible = false },
			[]string{"keep a000:1"}},
		{"not into GPUs that a waiting job takes", 8, []planner.Job{on(elastic(1, 20), node("a000", 2)), plantest.Job(2, 30, planner.Shape{6})}, nil,
			[]string{"keep a000:2", "start a000:6"}},
		{"it shrinks for a short job instead of stopping", 8, []planner.Job{on(elastic(1, 20), node("a000", 8)), plantest.Job(2, 2, planner.Shape{4})}, nil,
			[]string{"move a000:4", "start a000:4"}},
	} {
		for _, solver := range []string{"greedy", "exact"} {
			t.Run(c.name+"/"+solver, func(t *testing.T) {
				s := plantest.Snapshot(plantest.Nodes(1, c.gpus), c.jobs...)
				if c.tweak != nil {
					c.tweak(&s)
				}
				p := New(Config{}, nil)
				if solver == "exact" {
					p = New(Config{}, bruteSolver)
				}
				plan := p.Plan(context.Background(), s)
				var got []string
				for _, e := range plan.Entries {
					got = append(got, string(e.Decision)+" "+e.Placement.String())
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("%s\n%+v", d, plan.Scores)
				}
			})
		}
	}
}

// TestElasticOverTime: alone it never moves; beside a short job it gives GPUs away and takes them back, one move each.
func TestElasticOverTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		short bool
		stops int
	}{{"alone", false, 0}, {"with a short job", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			w := plantest.NewWorld(plantest.Snapshot(plantest.Nodes(1, 8), elastic(1, 20)))
			p := New(Config{}, bruteSolver)
			for round := range 30 {
				if round == 3 && c.short {
					w.Add(plantest.Job(2, 2, planner.Shape{4}))
				}
				if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
					t.Fatal(err)
				}
			}
			if w.Stops[1] != c.stops || w.Finished[1].IsZero() || c.short && w.Finished[2].IsZero() {
				t.Errorf("%d moves, want %d; finished %v", w.Stops[1], c.stops, w.Finished)
			}
		})
	}
}

// TestGrowHurtsNobody: growing stops nobody, leaves everybody else where the packer put him, and ends no job later.
func TestGrowHurtsNobody(t *testing.T) {
	grown := 0
	untilSeen(t, &grown, "nothing grew in any draw", func(t *rapid.T) {
		s := drawElastic(t)
		in := newInstance(s, Config{}.filled())
		before := in.pack("llf", in.leastLaxity())
		after := in.grow(before)
		for ji := range in.jobs {
			j, was, is := &in.jobs[ji], in.jobs[ji].cols[before.choice[ji]], in.jobs[ji].cols[after.choice[ji]]
			if slices.Equal(before.places[ji], after.places[ji]) {
				continue
			}
			grown++
			if !j.Elastic || is.kind != start || is.tier != was.tier || after.places[ji].GPUs() <= before.places[ji].GPUs() {
				t.Errorf("job %s: %s became %s", j.Run, before.places[ji], after.places[ji])
			}
		}
		if v := planner.Check(s, in.plan(after)); len(v) > 0 {
			t.Error(v)
		}
	})
}

// drawElastic draws elastic and other jobs, waiting and running, on nodes that are not full.
func drawElastic(t *rapid.T) planner.Snapshot {
	nodes := plantest.Nodes(rapid.IntRange(1, 3).Draw(t, "nodes"), 8)
	free := make([]int, len(nodes))
	for i := range free {
		free[i] = 8
	}
	var jobs []planner.Job
	for i := range rapid.IntRange(1, 5).Draw(t, "jobs") {
		g := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus")
		j := plantest.Job(i+1, rapid.Float64Range(0.2, 40).Draw(t, "units"), planner.Shape{g})
		if rapid.IntRange(0, 2).Draw(t, "elastic") > 0 {
			j = elastic(i+1, rapid.Float64Range(0.2, 40).Draw(t, "units"))
		}
		if rapid.IntRange(0, 3).Draw(t, "strict") == 0 {
			j = plantest.Strict(j, rapid.Float64Range(1, 60).Draw(t, "due"))
		}
		if n := rapid.IntRange(0, 2*len(nodes)-1).Draw(t, "node"); n < len(nodes) && free[n] >= g {
			free[n] -= g
			j = plantest.Running(j, at(node(nodes[n].Name, g)))
		}
		jobs = append(jobs, j)
	}
	s := plantest.Snapshot(nodes, jobs...)
	s.MaxPreemptions = rapid.SampledFrom([]int{0, 1}).Draw(t, "budget")
	return s
}
