package lease

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"unisched/planner"
	"unisched/planner/plantest"
)

// arrival is a job and when it comes, in units.
type arrival struct {
	at  float64
	job planner.Job
	due float64 // units after arrival; 0: best effort
}

// stream draws 300 jobs of Helios-like sizes, half of them strict with deadlines of 1.1 to 2 times their length, that load 64 GPUs by 110 %.
func stream(seed uint64) []arrival {
	r := rand.New(rand.NewPCG(seed, 7))
	var out []arrival
	total := 0.0
	for i := range 300 {
		g := []int{1, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16}[r.IntN(12)]
		units := min(max(9*math.Exp(r.NormFloat64()), 1), 120)
		total += float64(g) * units
		shapes := []planner.Shape{{min(g, 8)}, {max(1, g/2), g / 2}}
		switch g {
		case 1:
			shapes = shapes[:1]
		case 16:
			shapes = []planner.Shape{{8, 8}, {4, 4, 4, 4}}
		}
		j := gpuJob(i+1, units, shapes...)
		j.Estimate.Resume = planner.Exactly(30 * (1 + math.Log2(float64(g))))
		a := arrival{job: j}
		if r.Float64() < 0.5 {
			a.due = units*(1.1+0.9*r.Float64()) + 2
		}
		out = append(out, a)
	}
	for i := range out {
		out[i].at = r.Float64() * total / 64 / 1.1
	}
	return out
}

// roll plays a stream under a policy and returns the deadlines missed, the mean completion time of best-effort jobs in units, and the preemptions
// per job.
func roll(t *testing.T, jobs []arrival, plan func(planner.Snapshot) planner.Plan) (missed int, jct, stops float64) {
	w := plantest.NewWorld(plantest.Snapshot(plantest.Nodes(8, 8)))
	came := make([]time.Time, len(jobs))
	for coming := len(jobs); coming > 0 || len(w.Jobs) > 0; {
		for i, a := range jobs {
			if now := w.Now.Sub(plantest.Now).Seconds() / w.Unit.Seconds(); came[i].IsZero() && a.at <= now {
				came[i] = w.Now
				j := a.job
				if a.due > 0 {
					j = plantest.Strict(j, now+a.due)
				}
				w.Add(j)
				coming--
			}
		}
		if _, err := w.Round(plan); err != nil {
			t.Fatal(err)
		}
		if w.Now.Sub(plantest.Now) > 30*24*time.Hour {
			t.Fatalf("%d jobs never end", len(w.Jobs))
		}
	}
	plain := 0.0
	for i, a := range jobs {
		took := w.Finished[a.job.Run.Job].Sub(came[i]).Seconds() / w.Unit.Seconds()
		stops += float64(w.Stops[a.job.Run.Job]) / float64(len(jobs))
		switch {
		case a.due == 0:
			plain, jct = plain+1, jct+took
		case took > a.due:
			missed++
		}
	}
	return missed, jct / plain, stops
}

// TestRolling: over many rounds the policy, even without a solver, misses no more deadlines than earliest-deadline-first, finishes
// best-effort jobs sooner than it, preempts less, and loses fewer deadlines than shortest-service-first.
func TestRolling(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		jobs := stream(seed)
		p := New(Config{}, nil)
		miss, jct, stops := roll(t, jobs, func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) })
		edfMiss, edfJCT, edfStops := roll(t, jobs, byOrder(func(j *job) float64 {
			if len(j.due) > 0 && j.due[0] > 0 {
				return j.due[0]
			}
			return maxUnits + j.n
		}))
		srsfMiss, srsfJCT, srsfStops := roll(t, jobs, byOrder(func(j *job) float64 { return j.n * float64(max(j.curr.gpus, j.opts[0].gpus)) }))
		t.Logf("seed %d: missed %d, best effort %.1f units, %.2f stops; EDF %d, %.1f, %.2f; SRSF %d, %.1f, %.2f", seed, miss, jct, stops, edfMiss, edfJCT, edfStops,
			srsfMiss, srsfJCT, srsfStops)
		if miss > edfMiss || jct > edfJCT || stops > edfStops || miss > srsfMiss {
			t.Errorf("seed %d: worse than a simple rival", seed)
		}
	}
}
