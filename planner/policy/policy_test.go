package policy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func make1(t testing.TB, name string, o Options) Policy {
	t.Helper()
	p, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNames(t *testing.T) {
	want := strings.Fields("fifo backfill srtf srsf edf llf slack slacksrsf tiresias themis optimus tetrisched 3sigma genie chronus chronus-sticky elasticflow")
	if d := cmp.Diff(want, Names()); d != "" {
		t.Error(d)
	}
	if _, err := New("gandiva", Options{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("error %v", err)
	}
}

// oddSolver answers like a solver of a bad day: fails, gives nothing, or gives a solution that is feasible, but chosen by a coin.
func oddSolver(seed uint64) milp.Solver {
	return func(_ context.Context, m *milp.Model, _ milp.Limits) (milp.Solution, error) {
		rng := rand.New(rand.NewPCG(seed, uint64(m.Cols())))
		if rng.IntN(3) == 0 {
			return milp.Solution{}, errors.New("no luck")
		}
		x := make([]float64, m.Cols())
		for j := range x {
			x[j] = m.ColLo[j]
		}
		if m.Feasible(x, 1e-6) != nil {
			return milp.Solution{Status: milp.Infeasible}, nil
		}
		for range 4 * len(x) {
			j := rng.IntN(len(x))
			was := x[j]
			if x[j] = m.ColHi[j]; m.Feasible(x, 1e-6) != nil {
				x[j] = was
			}
		}
		return milp.Solution{Status: milp.Optimal, X: x, Objective: m.Objective(x)}, nil
	}
}

// TestPlansAreFeasible: whatever the snapshot, and whatever was planned before, planner.Check has nothing to say; the same snapshots give the same
// plans; non-preemptive policies stop and move nobody, 3sigma no deadline job.
func TestPlansAreFeasible(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				o := Options{ProfileNodes: rapid.IntRange(0, 2).Draw(t, "profile nodes"),
					ChronusEstimates: rapid.Bool().Draw(t, "estimates")}
				if rapid.Bool().Draw(t, "solver") {
					o.Solve = oddSolver(rapid.Uint64().Draw(t, "seed"))
				}
				one, _ := New(name, o)
				two, _ := New(name, o)
				for k := range rapid.IntRange(1, 3).Draw(t, "rounds") {
					s := plantest.DrawSnapshot(t)
					s.Now = s.Now.Add(time.Duration(k*rapid.IntRange(0, 25).Draw(t, "later")) * time.Minute)
					for i := range s.Jobs {
						s.Jobs[i].Elastic = rapid.Bool().Draw(t, "elastic")
						s.Jobs[i].Asked = rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "asked")
					}
					p := one.Plan(context.Background(), s)
					for _, v := range planner.Check(s, p) {
						t.Errorf("%v", v)
					}
					if d := cmp.Diff(p, two.Plan(context.Background(), s)); d != "" {
						t.Errorf("two plans: %s", d)
					}
					checkManners(t, name, s, p)
				}
			})
		})
	}
}

func checkManners(t *rapid.T, name string, s planner.Snapshot, p planner.Plan) {
	for i, e := range p.Entries {
		if e.Decision != planner.Stop && e.Decision != planner.Move {
			continue
		}
		switch {
		case name == "fifo" || name == "backfill" || name == "tetrisched":
			t.Errorf("%s: %s of %s", name, e.Decision, e.Run)
		case name == "3sigma" && s.Jobs[i].Class.SLO():
			t.Errorf("3sigma: %s of a deadline job", e.Decision)
		}
	}
}

// medium is a world of 4 x 8 GPUs with 60 jobs of all classes arriving over two hours, drawn from a seed.
func medium(seed uint64, n int) []planner.Job {
	rng := rand.New(rand.NewPCG(seed, 7))
	shapes := [][]planner.Shape{{{1}}, {{1}}, {{1}}, {{2}, {1, 1}}, {{4}, {2, 2}}, {{8}, {4, 4}}, {{3}, {2, 1}}, {{8, 8}}}
	var out []planner.Job
	for i := range n {
		j := plantest.Job(i+1, 1+rng.ExpFloat64()*12, shapes[rng.IntN(len(shapes))]...)
		for k := range j.Estimate.Speeds {
			j.Estimate.Speeds[k].Speed = planner.Exactly(1 - 0.1*float64(k))
		}
		if i%9 == 0 {
			j.Elastic = true
			j.Asked = 2
			j.Estimate.Speeds = []planner.ShapeSpeed{{Shape: planner.Shape{4}, Speed: planner.Exactly(1.6)}, {Shape: planner.Shape{2}, Speed: planner.Exactly(1)},
				{Shape: planner.Shape{1}, Speed: planner.Exactly(0.6)}}
		}
		j.Submitted = plantest.Now.Add(time.Duration(rng.IntN(120)) * time.Minute)
		j.Estimate.Resume = planner.Exactly(60)
		left := j.Estimate.Iterations.Mid
		due := j.Submitted.Add(planner.Seconds(left*(1.1+rng.Float64()) + 600))
		switch rng.IntN(5) {
		case 0, 1:
			j.Class, j.Tiers = planner.Strict, []planner.Tier{{At: due, Value: 100}}
		case 2:
			j.Class, j.Tiers = planner.Soft, []planner.Tier{{At: due, Value: 100}, {At: due.Add(planner.Seconds(left / 2)), Value: 50}}
		case 3:
			if i%2 == 0 {
				j.Class, j.Estimate.Iterations = planner.Profiler, planner.Exactly(240)
				j.Estimate.Speeds, j.Elastic = []planner.ShapeSpeed{{Shape: planner.Shape{1}, Speed: planner.Exactly(1)}}, false
			}
		}
		out = append(out, j)
	}
	return out
}

// play lets a policy run a world for so many rounds and writes down what changed in each.
func play(t testing.TB, p Policy, nodes []planner.Node, jobs []planner.Job, rounds int) (string, *plantest.World) {
	t.Helper()
	w := plantest.NewWorld(plantest.Snapshot(nodes))
	slices.SortStableFunc(jobs, func(a, b planner.Job) int { return a.Submitted.Compare(b.Submitted) })
	var out strings.Builder
	for n := range rounds {
		for len(jobs) > 0 && !jobs[0].Submitted.After(w.Now) {
			at := jobs[0].Submitted
			w.Add(jobs[0])
			for i := range w.Jobs {
				if w.Jobs[i].Run == jobs[0].Run {
					w.Jobs[i].Submitted = at
				}
			}
			jobs = jobs[1:]
		}
		plan, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) })
		if err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		counts := map[planner.Decision]int{}
		line := ""
		for _, e := range plan.Entries {
			counts[e.Decision]++
			switch e.Decision {
			case planner.Start, planner.Move:
				line += fmt.Sprintf(" %s %d@%s", e.Decision, e.Run.Job, e.Placement)
			case planner.Stop:
				line += fmt.Sprintf(" stop %d", e.Run.Job)
			}
		}
		fmt.Fprintf(&out, "%02d keep %d wait %d:%s\n", n, counts[planner.Keep], counts[planner.Wait], line)
	}
	return out.String(), w
}

// TestGolden holds what every rival does with one sequence of rounds.
func TestGolden(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			got, _ := play(t, make1(t, name, Options{}), plantest.Nodes(4, 8), medium(3, 60), 40)
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestEverybodyEnds: no rival lets a job of a finite list starve, and all finish the list.
func TestEverybodyEnds(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			_, w := play(t, make1(t, name, Options{}), plantest.Nodes(4, 8), medium(5, 60), 400)
			if len(w.Jobs) > 0 {
				t.Errorf("%d jobs never end: %v %s", len(w.Jobs), w.Jobs[0].Run, w.Jobs[0].Class)
			}
		})
	}
}

// TestMixedNodesAreNotStartedOn: a job that runs on nodes of two GPU types may keep them, but is not started anew there, where nobody could be.
func TestMixedNodesAreNotStartedOn(t *testing.T) {
	nodes := plantest.Nodes(3, 1) // with the third it has a place of one type
	nodes[1].GPUType = "h"
	on := planner.NewPlacement(planner.Share{Node: nodes[0].Name, GPUs: 1}, planner.Share{Node: nodes[1].Name, GPUs: 1})
	job := plantest.Running(plantest.Job(1, 40, planner.Shape{2}, planner.Shape{1, 1}), on)
	job.Class = planner.Strict
	s := plantest.Snapshot(nodes, job)
	for _, name := range Names() {
		p, _ := New(name, Options{})
		for k := range 3 { // CHRONUS starts anew at the ends of its leases of 20 minutes
			s.Now = plantest.Now.Add(time.Duration(k) * 20 * time.Minute)
			s.Jobs[0].LeaseUntil = s.Now
			for _, v := range planner.Check(s, p.Plan(context.Background(), s)) {
				t.Errorf("%s: %v", name, v)
			}
		}
	}
}
