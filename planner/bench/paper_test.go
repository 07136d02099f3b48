package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/planner/plantest"
	"unisched/planner/reward"
)

// slots is the horizon of the paper's model here: two hours of 5-minute units.
const slots = 24

// literal is the paper's own model (UniSched, section 4; F1 in our notes): time in leases of 10 minutes for SLO jobs and of 5 for the others, a binary
// for every job and lease slot, one for every deadline, GPUs counted per slot. An SLO job that meets a deadline earns it, best effort earns 1/n
// a lease, a profiler 1.
func literal(s planner.Snapshot, gpus int) *milp.Model {
	m, c := &milp.Model{}, reward.Default()
	use, val := make([][]int32, slots), make([][]float64, slots)
	hold := func(col, k, g int) {
		if k < slots {
			use[k], val[k] = append(use[k], int32(col)), append(val[k], float64(g))
		}
	}
	for _, j := range s.Jobs {
		g, n := j.Estimate.Speeds[0].Shape.GPUs(), j.Estimate.Iterations.Mid/300
		if !j.Class.SLO() {
			var idx []int32
			var one []float64
			each := 1 / max(n, 1)
			if j.Class == planner.Profiler {
				each = c.Profile
			}
			for k := range slots {
				col := m.AddCol(each, 0, 1, true)
				hold(col, k, g)
				idx, one = append(idx, int32(col)), append(one, 1)
			}
			m.AddRow(math.Inf(-1), math.Ceil(n), idx, one)
			continue
		}
		leases := math.Ceil(n / 2)
		due := int(j.Tiers[0].At.Sub(s.Now).Minutes() / 10)
		met := m.AddCol(c.Tier(j.Tiers[0].Value), 0, 1, true)
		idx, coef := []int32{int32(met)}, []float64{-leases}
		for k := range slots / 2 {
			if k < due {
				col := m.AddCol(0, 0, 1, true)
				hold(col, 2*k, g)
				hold(col, 2*k+1, g)
				idx, coef = append(idx, int32(col)), append(coef, 1)
			}
		}
		m.AddRow(0, math.Inf(1), idx, coef)
	}
	for k := range slots {
		m.AddRow(math.Inf(-1), float64(gpus), use[k], val[k])
	}
	return m
}

// paperInstance draws up to 30 jobs, more than their cluster of eight-GPU nodes, one for about eight jobs, can do.
func paperInstance(seed uint64) planner.Snapshot {
	r := rand.New(rand.NewPCG(seed, 0xf1))
	var jobs []planner.Job
	n := 8 + r.IntN(23)
	for i := range n {
		g := []int{1, 1, 1, 2, 2, 4, 4, 8}[r.IntN(8)]
		units := min(max(6*math.Exp(0.9*r.NormFloat64()), 1), 20)
		j := plantest.Job(i+1, units, planner.Shape{g})
		switch u := r.Float64(); {
		case u < 0.5:
			j = plantest.Strict(j, math.Min(units*(1.1+0.9*r.Float64())+1, slots))
		case u < 0.55:
			j = plantest.Job(i+1, 1, planner.Shape{min(g, 2)})
			j.Class = planner.Profiler
		}
		jobs = append(jobs, j)
	}
	return plantest.Snapshot(plantest.Nodes(1+(n+7)/8, 8), jobs...)
}

// earned plays the policy over the horizon and returns what its jobs earned by then, on the scale of the paper's model.
func earned(t *testing.T, s planner.Snapshot, solve milp.Solver) float64 {
	c, w := reward.Default(), plantest.NewWorld(s)
	p := lease.New(generous(), solve)
	for range slots {
		if _, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	left := map[planner.JobID]float64{} // lookup only
	for _, j := range w.Jobs {
		left[j.Run.Job] = j.Estimate.Iterations.Mid / 300
	}
	sum := 0.0
	for _, j := range s.Jobs {
		n, end := j.Estimate.Iterations.Mid/300, w.Finished[j.Run.Job]
		switch {
		case j.Class.SLO():
			if !end.IsZero() && !end.After(j.Tiers[0].At) {
				sum += c.Tier(j.Tiers[0].Value)
			}
		case j.Class == planner.Profiler:
			if !end.IsZero() {
				sum += c.Profile
			}
		case !end.IsZero():
			sum++
		default:
			sum += (n - left[j.Run.Job]) / n
		}
	}
	return sum
}

// TestAgainstPaperModel: on instances of up to 30 jobs that the paper's literal model solves to optimality, our plans, made anew each round and
// played out over its horizon, earn at least its reward. The number of instances can be raised by UNISCHED_PAPER_INSTANCES.
func TestAgainstPaperModel(t *testing.T) {
	solve := solver(t)
	n, _ := strconv.Atoi(os.Getenv("UNISCHED_PAPER_INSTANCES"))
	if n <= 0 {
		n = 12
	}
	ours, theirs, lost, solved := 0.0, 0.0, 0, 0
	for seed := uint64(1); solved < n && seed < uint64(2*n+10); seed++ {
		s := paperInstance(seed)
		sol, err := solve(context.Background(), literal(s, 8*len(s.Nodes)), milp.Limits{Time: 20 * time.Second, Gap: 1e-4})
		if err != nil || sol.Status != milp.Optimal {
			continue
		}
		solved++
		got := earned(t, s, solve)
		ours, theirs = ours+got, theirs+sol.Objective
		if got < sol.Objective-1e-6 {
			lost++
			t.Logf("seed %d, %d jobs on %d nodes: ours %.2f, the paper's model %.2f (%.1f %%)", seed, len(s.Jobs), len(s.Nodes), got, sol.Objective, 100*got/sol.Objective)
		}
	}
	t.Logf("%d instances: ours %.1f, the paper's model %.1f: %.2f %%; %d lost", solved, ours, theirs, 100*ours/theirs, lost)
	if solved < n || ours < theirs {
		t.Error("too little")
	}
}
