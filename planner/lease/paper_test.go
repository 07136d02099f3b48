package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

// gpuJob is a job of so many units whose second shape, if any, costs 10 % speed.
func gpuJob(id int, units float64, shapes ...planner.Shape) planner.Job {
	j := plantest.Job(id, units, shapes...)
	for k := range j.Estimate.Speeds {
		j.Estimate.Speeds[k].Speed = planner.Exactly(1 - 0.1*float64(k))
	}
	j.Estimate.Resume, j.Estimate.Checkpoint = planner.Exactly(20), planner.Exactly(4)
	return j
}

// placed is who runs where, by job.
func placed(p planner.Plan) string {
	var out []string
	for _, e := range p.Entries {
		out = append(out, fmt.Sprintf("%d %s %s", e.Run.Job, e.Decision, e.Placement))
	}
	return strings.Join(out, "; ")
}

const (
	jobA, jobB, jobC, jobD = 1, 2, 3, 4
	jobBusy                = 9
)

// paperWorld is the worked round of the UniSched paper: eight free GPUs on a node of 4+4 and a second node busy. A (strict) needs 4 GPUs for three SLO
// leases in four slots, B (best effort) 2 GPUs for two more leases, C is new and wants 2 GPUs for its profile.
func paperWorld() planner.Snapshot {
	a := plantest.Strict(gpuJob(jobA, 6, planner.Shape{4}, planner.Shape{2, 2}), 8)
	c := gpuJob(jobC, 1, planner.Shape{2})
	c.Class = planner.Profiler
	busy := plantest.Running(plantest.Job(jobBusy, 500, planner.Shape{8}), at(node("a001", 8)))
	busy.Preemptible = false
	return plantest.Snapshot(plantest.Nodes(2, 8), a, gpuJob(jobB, 2, planner.Shape{2}), c, busy)
}

func TestWorkedRound(t *testing.T) {
	hang := false
	p := New(Config{}, func(ctx context.Context, m *milp.Model, lim milp.Limits) (milp.Solution, error) {
		if hang {
			return milp.Solution{Bound: 1e30}, errors.New("solver killed")
		}
		return bruteSolver(ctx, m, lim)
	})
	w := plantest.NewWorld(paperWorld())
	round := func(want string) planner.Plan {
		t.Helper()
		plan, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) })
		if err != nil {
			t.Fatal(err)
		}
		if got := placed(plan); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		return plan
	}
	round("1 start a000:4; 2 start a000:2; 3 start a000:2; 9 keep a001:8")
	// C's profile is in: it is a best-effort job now. A turns out slower than predicted.
	w.Add(gpuJob(jobC, 10, planner.Shape{2}))
	w.Jobs[0].Estimate.Iterations.Mid *= 1.1
	w.Jobs[0].Estimate.Iterations = planner.Exactly(w.Jobs[0].Estimate.Iterations.Mid)
	round("1 keep a000:4; 2 keep a000:2; 3 start a000:2; 9 keep a001:8")
	hang = true // the solver times out: what the last plan holds goes on
	for range 3 {
		plan := round("1 keep a000:4; 3 keep a000:2; 9 keep a001:8")
		if plan.Candidate != "last" {
			t.Errorf("round after a time-out made by %q: %v", plan.Candidate, plan.Scores)
		}
	}
	hang = false
	for range 5 {
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	if end := w.Finished[jobA]; end.IsZero() || end.After(plantest.Now.Add(40*time.Minute)) {
		t.Errorf("A ends at %v", end)
	}
}

// TestWorkedRoundAgainstRivals: with a fourth, strict job D that needs a whole 4-cell for 3 units within 9, shortest-first loses A's deadline,
// earliest-deadline-first makes B and C wait, and the plan does neither.
func TestWorkedRoundAgainstRivals(t *testing.T) {
	const aDue = 38 * time.Minute // 6 units of work in 7.6
	for _, c := range []struct {
		name       string
		plan       func(planner.Snapshot) planner.Plan
		met        bool // A's and D's deadlines
		firstRound string
	}{
		{"unisched", func(s planner.Snapshot) planner.Plan { return New(Config{}, bruteSolver).Plan(context.Background(), s) }, true,
			"1 start; 2 start; 3 start; 4 wait; 9 keep"},
		{"shortest first", byOrder(func(j *job) float64 { return j.n }), false, "1 wait; 2 start; 3 start; 4 start; 9 keep"},
		{"earliest deadline first", byOrder(func(j *job) float64 {
			if len(j.due) > 0 {
				return j.due[0]
			}
			return maxUnits
		}), true, "1 start; 2 wait; 3 wait; 4 start; 9 keep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := plantest.NewWorld(paperWorld())
			w.Jobs[0].Tiers[0].At = plantest.Now.Add(aDue)
			w.Add(plantest.Strict(gpuJob(jobD, 3, planner.Shape{4}), 9))
			first := ""
			for k := range 12 {
				plan, err := w.Round(c.plan)
				if err != nil {
					t.Fatal(err)
				}
				if k == 0 {
					for _, e := range plan.Entries {
						first += fmt.Sprintf("%d %s; ", e.Run.Job, e.Decision)
					}
				}
			}
			if d := cmp.Diff(c.firstRound+"; ", first); d != "" {
				t.Error(d)
			}
			in := func(id planner.JobID, due time.Duration) bool {
				end, ok := w.Finished[id]
				return ok && !end.After(plantest.Now.Add(due))
			}
			if met := in(jobA, aDue) && in(jobD, 45*time.Minute); met != c.met {
				t.Errorf("deadlines met: %v (A %v, D %v)", met, w.Finished[jobA], w.Finished[jobD])
			}
		})
	}
}

// byOrder is a pure rival: jobs in order of a key take what they need, whoever runs or not.
func byOrder(key func(*job) float64) func(planner.Snapshot) planner.Plan {
	return func(s planner.Snapshot) planner.Plan {
		in := newInstance(s, Config{}.filled())
		r := packed{name: "rival", choice: make([]int, len(in.jobs)), places: make([]planner.Placement, len(in.jobs)), floor: newFloor(in),
			homeless: make([]bool, len(in.jobs))}
		for _, ji := range in.order(func(j *job) [2]float64 {
			if j.pinned != "" {
				return [2]float64{-1, 0}
			}
			return [2]float64{0, key(j)}
		}) {
			j := &in.jobs[ji]
			r.choice[ji] = j.column(wait, -1, -1)
			if j.State == planner.Running && r.floor.covers(j, j.Current) {
				r.choice[ji] = j.column(keep, -1, -1)
				r.keep(in, ji)
			} else if j.State == planner.Waiting {
				if p, ok := r.floor.place(j, j.opts[0]); ok {
					r.choice[ji], r.places[ji] = j.column(start, 0, -1), p
					r.floor.take(j, p, 1)
				}
			}
		}
		return in.plan(r)
	}
}

// TestSpreadsOnlyInTime: with a job that needs a whole 4-cell, A takes two halves of other nodes (10 % slower) if it still makes its deadline, and
// keeps the cell when it would not.
func TestSpreadsOnlyInTime(t *testing.T) {
	held := func(id int, name string) planner.Job {
		j := plantest.Running(plantest.Job(id, 500, planner.Shape{2}), at(node(name, 2)))
		j.Preemptible = false
		return j
	}
	for _, c := range []struct {
		name string
		due  float64
		want string
	}{
		{"in time", 9, "1 start a001:2,a002:2; 4 start a000:4"},
		{"too late", 6.4, "1 start a000:4; 4 wait "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plantest.Snapshot(plantest.Nodes(3, 4), plantest.Strict(gpuJob(jobA, 6, planner.Shape{4}, planner.Shape{2, 2}), c.due),
				gpuJob(jobD, 3, planner.Shape{4}), held(7, "a001"), held(8, "a002"))
			plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
			plan.Entries = slices.DeleteFunc(plan.Entries, func(e planner.Entry) bool { return e.Run.Job > jobD })
			if d := cmp.Diff(c.want, placed(plan)); d != "" {
				t.Errorf("%s\n%v", d, plan.Scores)
			}
		})
	}
}
