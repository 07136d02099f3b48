package estimator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"unisched/planner"
)

// Run times of jobs like it, and what its deadline says, narrow what is believed of a job that was not measured.
func TestRunTimeOfTheUnmeasured(t *testing.T) {
	one := Job{Requested: planner.Shape{1}, Kinds: []string{"user ann"}, Stop: Stop{Kind: Iterations, Iterations: 1000}}
	taught := Fabric{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		seconds := 3600 * math.Exp(0.5*rng.NormFloat64())
		j := one
		j.WindowSeconds = 1.5 * seconds
		taught = taught.Learn(Outcome{Job: j, RunSeconds: seconds}, now)
	}
	soon := one
	soon.WindowSeconds = 1000
	eight := one
	eight.Requested, eight.Kinds = planner.Shape{8}, []string{"user bob"}
	limited := one
	limited.LimitSeconds = 600
	for _, c := range []struct {
		name          string
		fabric        Fabric
		job           Job
		low, mid, top float64 // bounds: of Low, about Mid, of High
	}{
		{"nothing known, nothing declared", Fabric{}, one, 300, 7200, 86400},
		{"nothing known but a deadline", Fabric{}, soon, 200, 500, 1100},
		{"jobs like it", taught, one, 1000, 3600, 12000},
		{"another size of another user still learns from all", taught, eight, 800, 3700, 15000},
		{"deadlines mean two thirds here", taught, soon, 400, 667, 1000},
		{"never longer than its limit", taught, limited, 5, 590, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.fabric.Estimate(c.job, now)
			run := func(q float64) float64 { return 1000 / e.Speeds[0].Speed.At(1-q) }
			if low, mid, top := run(0.1), run(0.5), run(0.9); low < c.low*0.99 || top > c.top*1.01 || math.Abs(math.Log(mid/c.mid)) > 0.15 {
				t.Errorf("run time %.0f to %.0f, about %.0f s (%s); want %.0f to %.0f, about %.0f", low, top, mid, e.Basis, c.low, c.top, c.mid)
			}
		})
	}
}

// The classes are bounded and sorted, whoever submits.
func TestRunClassesAreBounded(t *testing.T) {
	f := Fabric{}
	for i := range 3 * maxRunClasses {
		j := Job{Requested: planner.Shape{1 << (i % 6)}, Kinds: []string{fmt.Sprint("user ", i)}}
		f = f.Learn(Outcome{Job: j, RunSeconds: float64(i + 1)}, now)
	}
	if len(f.Runs) > maxRunClasses {
		t.Errorf("%d classes", len(f.Runs))
	}
	for i := 1; i < len(f.Runs); i++ {
		if f.Runs[i-1].Name >= f.Runs[i].Name {
			t.Fatalf("%q before %q", f.Runs[i-1].Name, f.Runs[i].Name)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1, 0} {
		if g := f.Learn(Outcome{RunSeconds: bad}, now); len(g.Runs) != len(f.Runs) {
			t.Errorf("a run time of %v was learnt", bad)
		}
	}
}

// The answer for a job of one GPU is that of the whole model, without its search.
func TestSingleIsTheModel(t *testing.T) {
	for _, batch := range []float64{0, 32} {
		j := Job{Requested: planner.Shape{1}, Stop: Stop{Kind: Iterations, Iterations: 1000},
			Samples: []Sample{{Shape: planner.Shape{1}, Batch: batch, IterTime: 0.7, StdErr: 0.01, N: 50}}}
		prior := Fabric{}.population().forJob()
		_, fast, ok := Fabric{}.single(&prior, j)
		if !ok {
			t.Fatal("a job of one GPU is not single")
		}
		post := Fabric{}.speed(&prior, j, maxSamples)
		slow := post.speeds(j)
		for i, q := range []float64{0.1, 0.5, 0.9} {
			if d := math.Abs(math.Log(fast[0].Speed.At(q) / slow[0].Speed.At(q))); d > []float64{0.02, 0.002, 0.02}[i] {
				t.Errorf("batch %v, quantile %v: %v against %v", batch, q, fast[0].Speed.At(q), slow[0].Speed.At(q))
			}
		}
	}
	prior := Fabric{}.population().forJob()
	for name, j := range map[string]Job{
		"two GPUs":         {Requested: planner.Shape{2}},
		"elastic":          {Requested: planner.Shape{1}, Candidates: []planner.Shape{{1}, {2}}},
		"another batch":    {Requested: planner.Shape{1}, Samples: []Sample{{Shape: planner.Shape{1}, Batch: 1, IterTime: 1}, {Shape: planner.Shape{1}, Batch: 2, IterTime: 1}}},
		"once on two GPUs": {Requested: planner.Shape{1}, Samples: []Sample{{Shape: planner.Shape{2}, IterTime: 1}}},
	} {
		if _, _, ok := (Fabric{}).single(&prior, j); ok {
			t.Errorf("%s: taken for single", name)
		}
	}
}
