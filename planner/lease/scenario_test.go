package lease

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

func node(name string, gpus int) planner.Share { return planner.Share{Node: name, GPUs: gpus} }

func at(parts ...planner.Share) planner.Placement { return planner.NewPlacement(parts...) }

// told is a decision and its reason code, by job.
func told(p planner.Plan) []string {
	var out []string
	for _, e := range p.Entries {
		out = append(out, fmt.Sprintf("%d %s %s", e.Run.Job, e.Decision, e.Reason.Code))
	}
	return out
}

// TestDecisions holds small worlds in which the right plan is plain to see, with the greedy candidates alone and with an exact solver.
func TestDecisions(t *testing.T) {
	four, two, one := planner.Shape{4}, planner.Shape{2}, planner.Shape{1}
	nodes := func(n int) []planner.Node { return plantest.Nodes(n, 4) }
	running := plantest.Running(plantest.Job(1, 50, four), at(node("a000", 4)))
	mid, fixed := running, running
	mid.LeaseUntil = plantest.Now.Add(4 * time.Minute)
	fixed.Preemptible = false
	foreign := plantest.Job(3, 12, two)
	foreign.Foreign, foreign.TimeLeft = true, time.Hour
	blocked := plantest.Strict(plantest.Job(2, 4, four), 6)
	blocked.Blocked = "waits for job 77"
	hopeless := plantest.Strict(plantest.Job(2, 4, four), 2)
	leaving := running
	leaving.State = planner.Leaving
	gamer := plantest.Running(plantest.Job(2, 30, four), at(node("a001", 4)))
	gamer.Estimate.Unsaved = 1e6 // never confirmed a checkpoint
	stuck := running
	stuck.Blocked = "held by its user"
	measured := plantest.Running(plantest.Strict(plantest.Job(1, 17, four), 60), at(node("a000", 4)))
	measured.Estimate.Resume, measured.Estimate.Checkpoint, measured.Estimate.Unsaved = planner.Exactly(30), planner.Exactly(5), 600
	broken := plantest.Job(2, 4, four)
	broken.Estimate.Speeds[0].Speed = planner.Exactly(0)
	for _, c := range []struct {
		name  string
		nodes []planner.Node
		jobs  []planner.Job
		tweak func(*planner.Snapshot)
		want  []string
	}{
		{"a strict job that only a preemption can save", nodes(1), []planner.Job{running, plantest.Strict(plantest.Job(2, 4, four), 6)}, nil,
			[]string{"1 stop preempted", "2 start starts"}},
		{"it takes the free node when there is one", nodes(2), []planner.Job{running, plantest.Strict(plantest.Job(2, 4, four), 6)}, nil,
			[]string{"1 keep runs", "2 start starts"}},
		{"a deadline far off does not make a job that was only started to be measured sit on its GPUs", nodes(1), []planner.Job{
			measured, plantest.Job(2, 10, four)}, nil, []string{"1 stop preempted", "2 start starts"}},
		{"but a longer job does not push it out, since a suspension costs something", nodes(1), []planner.Job{
			measured, plantest.Job(2, 120, four)}, nil, []string{"1 keep runs", "2 wait outbid"}},
		{"not in mid-lease", nodes(1), []planner.Job{mid, plantest.Strict(plantest.Job(2, 4, four), 6)}, nil,
			[]string{"1 keep mid-lease", "2 wait full"}},
		{"not without a checkpoint (case 28)", nodes(1), []planner.Job{fixed, plantest.Strict(plantest.Job(2, 4, four), 6)}, nil,
			[]string{"1 keep no-preempt", "2 wait full"}},
		{"no victim for what never fits", nodes(1), []planner.Job{running, plantest.Strict(plantest.Job(2, 4, planner.Shape{8}), 60)}, nil,
			[]string{"1 keep runs", "2 wait never-fits"}},
		{"no victim for a blocked job", nodes(1), []planner.Job{running, blocked}, nil, []string{"1 keep runs", "2 wait blocked"}},
		{"a lost deadline earns less than best effort (case 47)", nodes(1), []planner.Job{plantest.Running(plantest.Job(1, 12, four), at(node("a000", 4))), hopeless}, nil,
			[]string{"1 keep runs", "2 wait late"}},
		{"no checkpoint ever confirmed is no shelter (case 47)", nodes(2), []planner.Job{
			plantest.Running(plantest.Job(1, 20, four), at(node("a000", 4))), gamer, plantest.Strict(plantest.Job(3, 4, four), 6), plantest.Strict(plantest.Job(4, 4, four), 6)}, nil,
			[]string{"1 stop preempted", "2 stop preempted", "3 start starts", "4 start starts"}},
		{"who could not come back is not stopped", nodes(1), []planner.Job{stuck, plantest.Strict(plantest.Job(2, 4, four), 6)}, nil,
			[]string{"1 keep no-preempt", "2 wait full"}},
		{"equal jobs: who runs stays (case 44)", nodes(1), []planner.Job{running, plantest.Job(2, 50, four)}, nil,
			[]string{"1 keep runs", "2 wait outbid"}},
		{"short before long", nodes(1), []planner.Job{plantest.Job(1, 50, four), plantest.Job(2, 3, four)}, nil,
			[]string{"1 wait outbid", "2 start starts"}},
		{"enough GPUs, no hole", nodes(2), []planner.Job{plantest.Running(plantest.Job(1, 50, two), at(node("a000", 2))),
			plantest.Running(plantest.Job(2, 50, two), at(node("a001", 2))), plantest.Job(3, 100, four)},
			func(s *planner.Snapshot) { s.Jobs[0].Preemptible, s.Jobs[1].Preemptible = false, false },
			[]string{"1 keep no-preempt", "2 keep no-preempt", "3 wait no-hole"}},
		{"GPUs of a leaving job are given out", nodes(1), []planner.Job{leaving, plantest.Job(2, 3, four)}, nil,
			[]string{"1 wait leaving", "2 start starts"}},
		{"a foreign job gets what is free", nodes(1), []planner.Job{plantest.Running(plantest.Job(1, 50, two), at(node("a000", 2))), foreign}, nil,
			[]string{"1 keep runs", "3 start let-through"}},
		{"no victim for GPUs that a foreign job would take meanwhile", nodes(1), []planner.Job{
			plantest.Running(plantest.Job(1, 50, two), at(node("a000", 2))), plantest.Strict(plantest.Job(2, 4, four), 6), foreign}, nil,
			[]string{"1 keep runs", "2 wait outbid", "3 start let-through"}},
		{"other victims are found for it", nodes(2), []planner.Job{
			plantest.Running(plantest.Job(1, 50, two), at(node("a000", 2))), plantest.Strict(plantest.Job(2, 4, four), 6), foreign,
			plantest.Running(plantest.Job(4, 40, four), at(node("a001", 4)))}, nil,
			[]string{"1 keep runs", "2 start starts", "3 start let-through", "4 stop preempted"}},
		{"budget of preemptions (case 46)", nodes(2), []planner.Job{running, plantest.Running(plantest.Job(2, 50, four), at(node("a001", 4))),
			plantest.Strict(plantest.Job(3, 4, four), 6), plantest.Strict(plantest.Job(4, 4, four), 6)}, func(s *planner.Snapshot) { s.MaxPreemptions = 1 },
			[]string{"1 keep runs", "2 stop preempted", "3 start starts", "4 wait budget"}},
		{"an estimate without a speed waits", nodes(1), []planner.Job{broken}, nil, []string{"2 wait never-fits"}},
		{"nodes that are down are not never", nodes(1), []planner.Job{plantest.Job(2, 4, four)}, func(s *planner.Snapshot) { s.Nodes[0].Usable = false },
			[]string{"2 wait full"}},
		{"who runs on a drained node may stay", nodes(1), []planner.Job{running}, func(s *planner.Snapshot) { s.Nodes[0].Usable = false },
			[]string{"1 keep runs"}},
		{"CPUs are honoured", nodes(1), []planner.Job{plantest.Job(1, 3, one), plantest.Job(2, 4, one)}, func(s *planner.Snapshot) {
			s.Jobs[0].Needs.CPUsPerGPU, s.Jobs[1].Needs.CPUsPerGPU = 20, 20
		}, []string{"1 start starts", "2 wait no-hole"}},
	} {
		for _, solver := range []string{"greedy", "exact"} {
			t.Run(c.name+"/"+solver, func(t *testing.T) {
				s := plantest.Snapshot(c.nodes, c.jobs...)
				if c.tweak != nil {
					c.tweak(&s)
				}
				p := New(Config{}, nil)
				if solver == "exact" {
					p = New(Config{}, bruteSolver)
				}
				plan := p.Plan(context.Background(), s)
				if d := cmp.Diff(c.want, told(plan)); d != "" {
					t.Errorf("%s\n%+v", d, plan.Scores)
				}
				if plan.Candidate == "fallback" {
					t.Errorf("fallback: %v", plan.Scores)
				}
			})
		}
	}
}

// TestPlanOfPlanKeeps: case 44: planning again from the state that a plan leads to changes nothing that runs.
func TestPlanOfPlanKeeps(t *testing.T) {
	var jobs []planner.Job
	for i := range 12 {
		jobs = append(jobs, plantest.Job(i+1, 40, planner.Shape{2}))
	}
	w := plantest.NewWorld(plantest.Snapshot(plantest.Nodes(2, 8), jobs...))
	p := New(Config{}, nil)
	for range 20 { // less than it takes to age
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.Stops) > 0 {
		t.Errorf("equal jobs were stopped: %v", w.Stops)
	}
}

// TestWideJobDoesNotStarve: case 43: an 8-GPU job among endless 1-GPU jobs of one unit, the best-paid stream there can be, starts
// within AgeAfter + AgeSpan units, and so does a profiler.
func TestWideJobDoesNotStarve(t *testing.T) {
	cfg := Config{}.filled()
	w := plantest.NewWorld(plantest.Snapshot(plantest.Nodes(1, 8)))
	p := New(cfg, nil)
	id := 10
	for round := range int(cfg.Reward.AgeAfter+cfg.Reward.AgeSpan) + 10 {
		for range 9 { // more than the node can do
			id++
			w.Add(plantest.Job(id, 1, planner.Shape{1}))
		}
		if round == 5 {
			w.Add(plantest.Job(1, 12, planner.Shape{8}))
			pr := plantest.Job(2, 1, planner.Shape{2})
			pr.Class = planner.Profiler
			w.Add(pr)
		}
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	for job, most := range map[planner.JobID]float64{1: cfg.Reward.AgeAfter + cfg.Reward.AgeSpan, 2: cfg.Reward.ProfileAgeAfter + 2*cfg.Reward.ProfileAgeSpan} {
		began, ok := w.Began[job]
		if waited := began.Sub(plantest.Now).Minutes()/5 - 5; !ok || waited > most {
			t.Errorf("job %d waited %.0f units (started: %v), bound %.0f", job, waited, ok, most)
		}
	}
}

// TestManyNodeLists: every job with a node list of its own: the rows are bounded, the packer honours every list.
func TestManyNodeLists(t *testing.T) {
	nodes := plantest.Nodes(10, 4)
	var jobs []planner.Job
	for i := range 300 {
		j := plantest.Job(i+1, 10, planner.Shape{2})
		for k := range 9 {
			if (i+1)>>k&1 == 1 {
				j.Needs.Exclude = append(j.Needs.Exclude, nodes[k].Name)
			}
		}
		jobs = append(jobs, j)
	}
	s := plantest.Snapshot(nodes, jobs...)
	in := newInstance(s, Config{}.filled())
	if len(in.pools) != 300 || in.ruled != maxRuled {
		t.Errorf("%d pools, %d with rows", len(in.pools), in.ruled)
	}
	plan := New(Config{}, nil).Plan(context.Background(), s)
	if v := planner.Check(s, plan); len(v) > 0 || plan.Candidate == "fallback" {
		t.Errorf("%v %v", v, plan.Scores)
	}
	started := 0
	for _, e := range plan.Entries {
		started += e.Placement.GPUs()
	}
	if started != 40 {
		t.Errorf("%d of 40 GPUs used", started)
	}
}

// TestOrderBehindOthers: while somebody who is not planned holds all GPUs no deadline can be counted on, but Slurm may start the next job before the next plan is made: the
// order that it is given is that of the deadlines, not of the numbers.
func TestOrderBehindOthers(t *testing.T) {
	s := plantest.Snapshot(plantest.Nodes(1, 4))
	s.Nodes[0].OtherGPUs = 4
	for i, due := range []float64{60, 40, 20} {
		s.Jobs = append(s.Jobs, plantest.Strict(plantest.Job(i+1, 4, planner.Shape{4}), due))
	}
	p := New(Config{}, bruteSolver).Plan(context.Background(), s)
	var got []int
	for _, e := range p.Entries {
		if e.Decision != planner.Wait || e.Reason.Code != planner.ReasonFull {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Rank)
	}
	if !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("ranks %v of the deadlines 60, 40, 20", got)
	}
}
