package estimator

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
)

// fakeCluster has a fabric of its own: two-node shapes are slow, NIC sharing counts, jobs differ in size and communication.
type fakeCluster struct {
	rng  *rand.Rand
	base vec
}

func newFakeCluster() *fakeCluster {
	c := &fakeCluster{rng: rand.New(rand.NewPCG(21, 22)), base: neutralMean}
	c.base[fShare], c.base[fMany], c.base[fTwo], c.base[fGPUs] = 0.5, 0, 0.4, 0.2
	c.base[pCross] = math.Log(0.6)
	return c
}

// job draws the true step time of a new job.
func (c *fakeCluster) job() func(planner.Shape) float64 {
	p := c.base
	for _, k := range []int{pLocal, pCross, pContend, pStraggle} {
		p[k] += 0.4 * c.rng.NormFloat64()
	}
	size := math.Log(0.3) + c.rng.NormFloat64()
	return func(s planner.Shape) float64 {
		g := geometryOf(s)
		t := stepOf(&p)
		return math.Exp(t.log(&g, size, size))
	}
}

func (c *fakeCluster) sample(f func(planner.Shape) float64, s planner.Shape) Sample {
	return Sample{Shape: s, IterTime: f(s) * (1 + 0.02*c.rng.NormFloat64()), StdErr: 0.02 * f(s)}
}

var clusterShapes = []planner.Shape{{4}, {4, 4}, {4, 4, 4, 4}, {2, 2}, {4, 2}, {1, 1, 1, 1}, {2, 2, 2}, {4, 4, 4}}

// profileError is the mean error on all shapes after a profile, and the part of the truths inside the interval.
func profileError(c *fakeCluster, fab Fabric, jobs int) (err, covered float64) {
	for range jobs {
		f := c.job()
		j := Job{Requested: planner.Shape{1}}
		for _, s := range []planner.Shape{{1}, {2}, {1, 1}} {
			j.Samples = append(j.Samples, c.sample(f, s))
		}
		pred := fab.StepTimes(j)
		for _, s := range clusterShapes {
			t := pred(s, 0)
			err += math.Abs(t.Mid/f(s)-1) / float64(jobs*len(clusterShapes))
			if t.Low <= f(s) && f(s) <= t.High {
				covered += 1 / float64(jobs*len(clusterShapes))
			}
		}
	}
	return err, covered
}

func TestFabricLearns(t *testing.T) {
	c := newFakeCluster()
	before, honest := profileError(c, Fabric{}, 20)
	var fab Fabric
	for i := range 8 {
		f := c.job()
		j := Job{Requested: planner.Shape{4}}
		for _, s := range append([]planner.Shape{{1}, {2}, {1, 1}}, clusterShapes[i%3:i%3+5]...) {
			j.Samples = append(j.Samples, c.sample(f, s))
		}
		fab = fab.Learn(Outcome{Key: fmt.Sprint("job", i), Job: j}, now)
	}
	after, sharp := profileError(c, fab, 20)
	if after > 0.6*before || after > 0.08 || honest < 0.6 || sharp < 0.7 {
		t.Errorf("mean error %.3f before learning, %.3f after; covered %.2f, %.2f", before, after, honest, sharp)
	}

	broken := func(s planner.Shape) float64 { return 0.3 * (1 + 5*float64(s.Nodes()-1)) } // a job on a broken network
	j := Job{Requested: planner.Shape{4}}
	for _, s := range append([]planner.Shape{{1}, {2}, {1, 1}}, clusterShapes...) {
		j.Samples = append(j.Samples, c.sample(broken, s))
	}
	if worse, _ := profileError(c, fab.Learn(Outcome{Key: "odd", Job: j}, now), 20); worse > 1.5*after+0.02 {
		t.Errorf("one odd job raised the error from %.3f to %.3f", after, worse)
	}
}

func TestFabricIsAStoredValue(t *testing.T) {
	c := newFakeCluster()
	fab := Fabric{}
	for i := range maxLessons + 5 {
		f := c.job()
		fab = fab.Learn(Outcome{Key: fmt.Sprint(i % (maxLessons + 2)), Job: Job{Requested: planner.Shape{1}, Samples: []Sample{c.sample(f, planner.Shape{1}), c.sample(f, planner.Shape{2})}, GradBytes: 1e8},
			NewResumes: []SRSample{{GPUs: 1, Nodes: 1, Seconds: 3}, {GPUs: 0, Seconds: math.NaN()}}, LeasesEnded: 3, Cuts: 1}, now)
	}
	if len(fab.Lessons) > maxLessons || len(fab.Resumes) != maxLessons+5 {
		t.Errorf("%d lessons, %d resumes", len(fab.Lessons), len(fab.Resumes))
	}
	b, err := json.Marshal(fab)
	if err != nil {
		t.Fatal(err)
	}
	var back Fabric
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fab, back); d != "" {
		t.Error(d)
	}
	j := Job{Requested: planner.Even(2, 4), LimitSeconds: 100}
	if d := cmp.Diff(fab.Estimate(j, now), back.Estimate(j, now)); d != "" {
		t.Error(d)
	}
	back.Lessons[0].Mean = nil // a damaged file costs a lesson, no more
	back.Lessons[1].Prec[3] = 1e300
	if msg := sound(back.Estimate(j, now)); msg != "" {
		t.Error(msg)
	}
}

func TestGradBytesHelp(t *testing.T) {
	var fab Fabric
	step := func(bytes float64, s planner.Shape) float64 {
		if s.Nodes() > 1 {
			return 0.1 + bytes/1e9
		}
		return 0.1
	}
	for i, bytes := range []float64{1e8, 3e8, 2e8} {
		j := Job{Requested: planner.Shape{1}, GradBytes: bytes}
		for _, s := range []planner.Shape{{1}, {2}, {1, 1}} {
			j.Samples = append(j.Samples, Sample{Shape: s, IterTime: step(bytes, s)})
		}
		fab = fab.Learn(Outcome{Key: fmt.Sprint(i), Job: j}, now)
	}
	one := Job{Requested: planner.Shape{1}, Samples: []Sample{{Shape: planner.Shape{1}, IterTime: 0.1}}}
	told := one
	told.GradBytes = 4e8
	blind, informed := fab.StepTimes(one)(planner.Shape{1, 1}, 0), fab.StepTimes(told)(planner.Shape{1, 1}, 0)
	truth := step(4e8, planner.Shape{1, 1})
	if math.Abs(informed.Mid/truth-1) > 0.25 || math.Abs(informed.Mid-truth) > math.Abs(blind.Mid-truth) || informed.High/informed.Low > blind.High/blind.Low {
		t.Errorf("truth %.3f; blind %+v; with gradient bytes %+v", truth, blind, informed)
	}
}

func TestGlobalAndLocalBatch(t *testing.T) {
	step := func(s planner.Shape, batch float64) float64 { return 0.05 + 0.001*batch + 0.02*float64(s.Nodes()-1) }
	j := Job{Requested: planner.Shape{4}, Scale: GlobalBatch}
	for _, x := range []struct {
		s planner.Shape
		b float64
	}{{planner.Shape{1}, 64}, {planner.Shape{1}, 128}, {planner.Shape{1}, 256}, {planner.Shape{2}, 128}, {planner.Shape{4}, 64}} {
		j.Samples = append(j.Samples, Sample{Shape: x.s, Batch: x.b, IterTime: step(x.s, x.b)})
	}
	j.Candidates = []planner.Shape{{1}, {2}, {8}}
	e := Fabric{}.Estimate(j, now)
	for _, c := range []struct {
		s    planner.Shape
		want float64 // global batch 256
	}{{planner.Shape{1}, step(planner.Shape{1}, 256)}, {planner.Shape{2}, step(planner.Shape{2}, 128)}, {planner.Shape{4}, step(planner.Shape{4}, 64)}} {
		v, _ := e.SpeedOf(c.s)
		if math.Abs(v.Mid*c.want-1) > 0.1 {
			t.Errorf("global batch on %v: %.3f it/s, want %.3f", c.s, v.Mid, 1/c.want)
		}
	}
	j.Scale, j.Stop = LocalBatch, Stop{Kind: Iterations, Iterations: 1000}
	e = Fabric{}.Estimate(j, now)
	v, _ := e.SpeedOf(planner.Shape{1})
	if want := step(planner.Shape{1}, 64); math.Abs(v.Mid*want-1) > 0.1 {
		t.Errorf("local batch on 1 GPU: %.3f it/s, want %.3f", v.Mid, 1/want)
	}
}

func TestHistory(t *testing.T) {
	k := Key{User: "ann", Script: "sha256:1", Name: "train", GPUType: "a"}
	j := Job{Samples: []Sample{{Shape: planner.Shape{1}, IterTime: 0.5, At: now}, {Shape: planner.Shape{2}, IterTime: 0.52, At: now}, {Shape: planner.Shape{1, 1}, IterTime: 0.6, At: now}},
		Resumes: []SRSample{{GPUs: 2, Nodes: 1, Seconds: 30}}}
	h := History{}.Remember(k, j, 5000, now).Remember(k, Job{Samples: []Sample{{Shape: planner.Shape{1}, IterTime: 0.55, At: now.Add(time.Hour)}}}, 5200, now.Add(time.Hour))
	p, ok := h.Find(k, now.Add(24*time.Hour))
	if !ok || p.Jobs != 2 || len(p.Samples) != 3 || !p.Profiled(planner.Even(2, 2)) || !p.Profiled(planner.Shape{4}) {
		t.Fatalf("%v %+v", ok, p)
	}
	if _, ok := h.Find(k, now.Add(maxPastAge+2*time.Hour)); ok {
		t.Error("an old past was found")
	}
	if _, ok := h.Find(Key{User: "bob", Script: "sha256:1", Name: "train", GPUType: "a"}, now); ok {
		t.Error("a stranger's past was found")
	}
	next := p.Prime(Job{Requested: planner.Shape{4}, Stop: Stop{Kind: Metric, Up: true, Target: 1, Max: 9000}})
	e := Fabric{}.Estimate(next, now)
	if v, _ := e.SpeedOf(planner.Shape{4}); !(v.Mid > 1 && v.Mid < 2) || e.Iterations.Mid != 5200 {
		t.Errorf("%+v", e)
	}
	next.Samples = append(next.Samples, Sample{Shape: planner.Shape{1}, IterTime: 2, StdErr: 0.02, At: now})
	next.Candidates = []planner.Shape{{1}}
	if v, _ := (Fabric{}).Estimate(next, now).SpeedOf(planner.Shape{1}); math.Abs(v.Mid-0.5) > 0.05 {
		t.Errorf("own measurement 0.5 it/s, estimate %+v: the past outweighs it", v)
	}
	for i := range maxPasts + 10 {
		h = h.Remember(Key{User: fmt.Sprint(i)}, Job{}, 0, now.Add(2*time.Hour))
	}
	if len(h.Pasts) > maxPasts {
		t.Errorf("%d pasts", len(h.Pasts))
	}
}
