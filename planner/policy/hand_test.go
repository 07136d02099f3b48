package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/milp"
	"unisched/planner/plantest"
)

// at is a job of so many units on g GPUs, submitted before the round of a unit; lower numbers first.
func at(id, unit int, units float64, g int) planner.Job {
	j := plantest.Job(id, units, planner.Shape{g})
	j.Submitted = plantest.Now.Add(time.Duration(unit)*5*time.Minute - time.Duration(60-id)*time.Second)
	return j
}

// elastic lets a job run on 1, 2 and 4 GPUs, at 1, 1.6 and 2.4 times the speed of one.
func elastic(j planner.Job) planner.Job {
	j.Elastic, j.Asked = true, 1
	j.Estimate.Speeds = []planner.ShapeSpeed{{Shape: planner.Shape{4}, Speed: planner.Exactly(2.4)}, {Shape: planner.Shape{2}, Speed: planner.Exactly(1.6)},
		{Shape: planner.Shape{1}, Speed: planner.Exactly(1)}}
	return j
}

// worth gives the only deadline of a job another value.
func worth(j planner.Job, v float64) planner.Job {
	j.Tiers[0].Value = v
	return j
}

// soft gives a job two deadlines in units from the beginning, the second one of half the value.
func soft(j planner.Job, first, second float64) planner.Job {
	late := plantest.Strict(j, second).Tiers[0]
	late.Value = 50
	j = plantest.Strict(j, first)
	j.Class, j.Tiers = planner.Soft, append(j.Tiers, late)
	return j
}

var errNoSolver = errors.New("no solver")

// everything solves small programs of binaries by trying everything.
func everything(_ context.Context, m *milp.Model, _ milp.Limits) (milp.Solution, error) {
	n := m.Cols()
	if n > 16 {
		return milp.Solution{}, errNoSolver
	}
	var best milp.Solution
	for mask := range 1 << n {
		x := make([]float64, n)
		for j := range x {
			x[j] = float64(mask >> j & 1)
		}
		if obj := m.Objective(x); (best.X == nil || obj > best.Objective) && m.Feasible(x, 1e-6) == nil {
			best = milp.Solution{Status: milp.Optimal, X: x, Objective: obj, Bound: obj}
		}
	}
	return best, nil
}

// TestByHand compares with schedules worked out on paper: when each job ends, in units, on one node. other is a rule that would do
// something else with the same jobs.
func TestByHand(t *testing.T) {
	strict := plantest.Strict
	guarded := []planner.Job{strict(at(1, 0, 6, 1), 13), at(2, 0, 3, 1), at(3, 0, 5, 1)}
	tetris := []planner.Job{at(1, 0, 4, 1), strict(at(2, 1, 2, 1), 5), at(3, 1, 1, 1), strict(at(4, 1, 1, 1), 8)}
	sizes := []planner.Job{at(1, 0, 3, 2), at(2, 0, 4, 1), at(3, 1, 1, 2)}
	for _, c := range []struct {
		name, policy, other string
		solve               milp.Solver
		gpus                int
		jobs                []planner.Job
		want                map[planner.JobID]float64
	}{
		{"the first that does not fit holds up all", "fifo", "backfill", nil, 4, []planner.Job{at(1, 0, 2, 3), at(2, 0, 2, 4), at(3, 0, 1, 1)},
			map[planner.JobID]float64{1: 2, 2: 4, 3: 5}},
		// Job 2 is reserved at 3; job 3 would run until 4, job 4 until 3.
		{"nobody delays the first reservation", "backfill", "fifo", nil, 4, []planner.Job{at(1, 0, 3, 2), at(2, 0, 2, 4), at(3, 0, 4, 1), at(4, 0, 3, 1)},
			map[planner.JobID]float64{1: 3, 2: 5, 3: 9, 4: 3}},
		// Job 3 interrupts job 1, which has 2 of 3 units left.
		{"remaining time decides", "srtf", "srsf", nil, 2, sizes, map[planner.JobID]float64{1: 4, 2: 8, 3: 2}},
		// Job 2 counts 4 GPU-units against 6 of job 1; job 3, with 2, interrupts it.
		{"remaining service decides", "srsf", "srtf", nil, 2, sizes, map[planner.JobID]float64{1: 8, 2: 5, 3: 2}},
		{"deadlines in order, best effort last", "edf", "srtf", nil, 1, []planner.Job{strict(at(1, 0, 2, 1), 10), strict(at(2, 0, 4, 1), 6), at(3, 0, 1, 1)},
			map[planner.JobID]float64{1: 6, 2: 4, 3: 7}},
		// Deadlines that cannot be met cost nobody anything: job 1 would need 4 units by 3.
		{"a lost deadline comes last", "edf", "fifo", nil, 1, []planner.Job{strict(at(1, 0, 4, 1), 3), strict(at(2, 0, 4, 1), 6)},
			map[planner.JobID]float64{1: 8, 2: 4}},
		// Laxities 3 and 2: job 2 runs; then 2 and 2: job 1, submitted first; 2 and 1: job 2; 1 and 1: job 1 ends.
		{"least laxity takes turns", "llf", "edf", nil, 1, []planner.Job{strict(at(1, 0, 2, 1), 5), strict(at(2, 0, 6, 1), 8)},
			map[planner.JobID]float64{1: 4, 2: 8}},
		// The slack of job 1 falls below 6 units at 2.
		{"30 minutes of slack are guarded", "slack", "srtf", nil, 1, guarded, map[planner.JobID]float64{1: 8, 2: 9, 3: 14}},
		// The slack of job 1 falls below 2 units at 6.
		{"10 minutes of slack are guarded", "slacksrsf", "slack", nil, 1, guarded, map[planner.JobID]float64{1: 12, 2: 3, 3: 14}},
		// After 12 units of one GPU job 1 is in the second queue, though it has only one left.
		{"who has used much gives way", "tiresias", "srtf", nil, 1, []planner.Job{at(1, 0, 14, 1), at(2, 13, 3, 1)}, map[planner.JobID]float64{1: 17, 2: 16}},
		// rho of jobs 1 and 2 at 3: 7/6, 4/4; at 4: 7/6, 5/4; at 5: 8/6, 5/4; at 6: 8/6, 6/4; at 7: 9/6, 6/4 (and 2 has a minute more behind it).
		{"the unfair come first", "themis", "srtf", nil, 1, []planner.Job{at(1, 0, 6, 1), at(2, 2, 4, 1)}, map[planner.JobID]float64{1: 10, 2: 8}},
		// One GPU each; then the third goes to job 1 (it saves 3 units there, 1.5 in job 2), the fourth to job 2. At 2 likewise; job 2 ends
		// 0.5 units later, and at 4, when the lease of job 1 ends, it gets all four for its last 1.6 units.
		{"GPUs go where they save most", "optimus", "srtf", nil, 4, []planner.Job{elastic(at(1, 0, 8, 1)), elastic(at(2, 0, 4, 1))},
			map[planner.JobID]float64{1: 4 + 1.6/2.4, 2: 2.5}},
		// Job 1 is not interrupted; at 4 job 4 is worth most, then job 3; the deadline of job 2 is lost.
		{"deadlines are worth more, nothing is stopped", "tetrisched", "3sigma", nil, 1, tetris, map[planner.JobID]float64{1: 4, 2: 8, 3: 6, 4: 5}},
		// At 4 the program sees that the deadline of job 4 can wait until 8: 1000 + 25/5 + 25/15 for jobs 4, 3 and 2 in the order 3, 2, 4, which
		// counts only what lies in the window, beats 1000 + 25/5 + 25/20 for 3, 4, 2. At 5 it is the same for 2 and 4.
		{name: "the program uses slack", policy: "tetrisched", other: "backfill", solve: everything, gpus: 1, jobs: tetris,
			want: map[planner.JobID]float64{1: 4, 2: 7, 3: 5, 4: 8}},
		{"best effort is stopped for deadlines", "3sigma", "tetrisched", nil, 1, tetris, map[planner.JobID]float64{1: 8, 2: 4, 3: 5, 4: 2}},
		// On one GPU job 1 would need 6 units by 4; two need 3.75.
		{"as many GPUs as the deadline needs", "genie", "edf", nil, 4, []planner.Job{strict(elastic(at(1, 0, 6, 1)), 4), at(2, 0, 2, 2)},
			map[planner.JobID]float64{1: 3.75, 2: 2}},
		// Leases of 4 units: job 2 needs the first, job 1 has the second; between them best effort goes first. Job 4 finds no lease and is demoted.
		{"leases ahead of deadlines", "chronus", "edf", nil, 1,
			[]planner.Job{strict(at(1, 0, 3, 1), 8), strict(at(2, 0, 3, 1), 4), at(3, 0, 1, 1), strict(at(4, 0, 3, 1), 4)},
			map[planner.JobID]float64{1: 7, 2: 3, 3: 4, 4: 10}},
		// Only job 1 (value 100) or both others (80 each, leases of one GPU) can have the second lease: job 1 was promised it, the others have what is left.
		{name: "promises are kept", policy: "chronus", other: "chronus-sticky", solve: everything, gpus: 2,
			jobs: []planner.Job{strict(at(1, 3, 3, 2), 8), worth(strict(at(2, 3, 3, 1), 8), 80), worth(strict(at(3, 3, 3, 1), 8), 80), at(4, 0, 4, 2)},
			want: map[planner.JobID]float64{1: 7, 2: 10, 3: 10, 4: 4}},
		// Job 2 has no lease before its deadline, but ends within this one: it interrupts job 1.
		{"who would end in this lease goes first", "chronus", "srsf", nil, 1, []planner.Job{at(1, 0, 3, 1), strict(at(2, 1, 2, 1), 3.5)},
			map[planner.JobID]float64{1: 5, 2: 3}},
		// Job 1 needs two leases and has one before its first deadline: it is turned down, and so is job 2 behind it, which would have had the second
		// and the third. Job 4 is smaller than both.
		{"nobody is accepted behind a soft job without room", "chronus", "chronus-sticky", nil, 1,
			[]planner.Job{soft(at(1, 1, 6, 1), 8, 24), strict(at(2, 1, 5, 1), 12), at(3, 0, 4, 1), at(4, 3, 2, 1)},
			map[planner.JobID]float64{1: 17, 2: 11, 3: 4, 4: 6}},
		// In the sticky form the promise to job 1 is broken.
		{name: "the program counts values", policy: "chronus-sticky", other: "edf", solve: everything, gpus: 2,
			jobs: []planner.Job{strict(at(1, 0, 3, 2), 4), worth(strict(at(2, 0, 3, 1), 4), 80), worth(strict(at(3, 0, 3, 1), 4), 80)},
			want: map[planner.JobID]float64{1: 6, 2: 3, 3: 3}},
		// Job 1 needs two GPUs, job 2 the other two; job 3 is turned down, though its deadline is the earliest.
		{"no admission at the cost of others", "elasticflow", "edf", nil, 4,
			[]planner.Job{strict(elastic(at(1, 0, 6, 1)), 4), strict(at(2, 0, 4, 2), 4), strict(at(3, 0, 2, 2), 3)},
			map[planner.JobID]float64{1: 3.75, 2: 4, 3: 6}},
	} {
		if c.solve == nil {
			c.solve = func(context.Context, *milp.Model, milp.Limits) (milp.Solution, error) {
				return milp.Solution{}, errNoSolver
			}
		}
		t.Run(c.policy+": "+c.name, func(t *testing.T) {
			run := func(name string) map[planner.JobID]float64 {
				jobs := append([]planner.Job(nil), c.jobs...)
				_, w := play(t, make1(t, name, Options{Solve: c.solve}), plantest.Nodes(1, c.gpus), jobs, 30)
				ends := map[planner.JobID]float64{}
				for id, end := range w.Finished {
					ends[id] = float64(end.Sub(plantest.Now).Milliseconds()) / 300e3
				}
				return ends
			}
			rounded := func(m map[planner.JobID]float64) map[planner.JobID]time.Duration {
				out := map[planner.JobID]time.Duration{}
				for id, v := range m {
					out[id] = time.Duration(v * 300e9).Round(time.Second)
				}
				return out
			}
			if d := cmp.Diff(rounded(c.want), rounded(run(c.policy))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if cmp.Diff(rounded(c.want), rounded(run(c.other))) == "" {
				t.Errorf("%s does the same: the case shows nothing", c.other)
			}
		})
	}
}

// TestMakesRoom: a job that is selected but finds no hole moves the lowest-ranked job out of the way.
func TestMakesRoom(t *testing.T) {
	long, longer := plantest.Job(1, 10, planner.Shape{1}), plantest.Job(2, 20, planner.Shape{1})
	s := plantest.Snapshot(plantest.Nodes(2, 2), plantest.Running(long, planner.Placement{{Node: "a000", GPUs: 1}}),
		plantest.Running(longer, planner.Placement{{Node: "a001", GPUs: 1}}), plantest.Job(3, 1, planner.Shape{2}))
	type line struct {
		Decision planner.Decision
		Place    string
	}
	want := []line{{planner.Keep, "a000:1"}, {planner.Move, "a000:1"}, {planner.Start, "a001:2"}}
	for _, budget := range []int{0, 1} {
		s.MaxPreemptions = budget
		plan := make1(t, "srtf", Options{}).Plan(context.Background(), s)
		var got []line
		for _, e := range plan.Entries {
			got = append(got, line{e.Decision, e.Placement.String()})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("budget %d: %s", budget, d)
		}
	}
}

// TestProfileNodes: CHRONUS keeps its partition for profilers, and profilers to it.
func TestProfileNodes(t *testing.T) {
	var jobs []planner.Job
	for id := range 4 {
		j := plantest.Job(id+1, 3, planner.Shape{2})
		if id > 1 {
			j.Class = planner.Profiler
		}
		jobs = append(jobs, j)
	}
	for name, want := range map[string]string{"chronus": "a000:2  a001:2 ", "srtf": "  a000:2 a001:2"} {
		plan := make1(t, name, Options{ProfileNodes: 1}).Plan(context.Background(), plantest.Snapshot(plantest.Nodes(2, 2), jobs...))
		var got []string
		for _, e := range plan.Entries {
			got = append(got, e.Placement.String())
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
