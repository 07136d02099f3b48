package sim

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/policy"
)

func rival(t *testing.T, name string) bridge.Policy {
	t.Helper()
	p, err := policy.New(name, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func play(t *testing.T, cfg Config, p bridge.Policy, jobs ...trace.Job) Result {
	t.Helper()
	if cfg.Nodes == 0 {
		cfg.Nodes, cfg.GPUsPerNode = 1, 4
	}
	if cfg.Speeds.Weak == nil {
		cfg.Speeds = Published()
	}
	r, err := Run(context.Background(), cfg, jobs, p)
	if err != nil {
		t.Fatal(err)
	}
	if r.BadPlans > 0 {
		t.Fatalf("%d plans refused: %s", r.BadPlans, r.BadPlanWhy)
	}
	return r
}

func job(id string, gpus int, submit, duration time.Duration, tiers ...trace.Tier) trace.Job {
	j := trace.Job{ID: id, GPUs: gpus, Submit: submit, Duration: duration, Iterations: int64(duration / time.Second), Class: planner.BestEffort, Model: "resnet101", Tiers: tiers}
	if len(tiers) > 0 {
		j.Class = planner.Strict
		if len(tiers) > 1 {
			j.Class = planner.Soft
		}
	}
	return j
}

// TestHandWorked: two jobs that do not fit together, the truth known. First in, first out lets the short one wait; SRSF lets it go first, and the
// long one pays a checkpoint and a resume.
func TestHandWorked(t *testing.T) {
	long, short := job("long", 4, 0, 2*time.Hour), job("short", 4, 10*time.Minute, 10*time.Minute)
	for _, c := range []struct {
		policy      string
		long, short time.Duration // completion times
		stops       int
	}{
		{"fifo", 2 * time.Hour, 2 * time.Hour, 0},
		{"srsf", 2*time.Hour + 10*time.Minute + 90*time.Second, 10 * time.Minute, 1},
	} {
		t.Run(c.policy, func(t *testing.T) {
			r := play(t, Config{Oracle: true}, rival(t, c.policy), long, short)
			for i, want := range []time.Duration{c.long, c.short} {
				o := r.Outcomes[i]
				if got := o.End - o.Submit; got < want || got > want+2*time.Minute {
					t.Errorf("%s took %v, want about %v", o.ID, got, want)
				}
			}
			if r.Preemptions != c.stops {
				t.Errorf("%d preemptions, want %d", r.Preemptions, c.stops)
			}
			if c.stops > 0 && (math.Abs(r.SavingGPU-16) > 1 || math.Abs(r.LoadingGPU-4*91) > 5) {
				t.Errorf("checkpoints cost %.0f GPU-seconds, resumes %.0f; want 4 x 4 and 4 x 91", r.SavingGPU, r.LoadingGPU)
			}
		})
	}
}

// TestLastJobCounts: what the last job to end held is booked, wherever between two looks of the loop it ends.
func TestLastJobCounts(t *testing.T) {
	for i := range 30 {
		long := 10*time.Minute + time.Duration(i)*time.Second
		r := play(t, Config{Oracle: true}, rival(t, "fifo"), job("a", 4, 0, long))
		if work := 4 * long.Seconds(); r.HeldGPU < 0.8*work || r.HeldGPU > 1.2*work+4*120 || len(r.Stays) != 1 {
			t.Errorf("%v of work on 4 GPUs: %.0f GPU-seconds held in %d stays", long, r.HeldGPU, len(r.Stays))
		}
	}
}

// TestFigures: what is null, what counts as missed.
func TestFigures(t *testing.T) {
	after := func(d time.Duration, v float64) trace.Tier { return trace.Tier{After: d, Value: v} }
	r := play(t, Config{Oracle: true}, rival(t, "fifo"),
		job("met", 1, 0, time.Hour, after(2*time.Hour, 100)),
		job("late", 1, 0, time.Hour, after(50*time.Minute, 100)),
		job("half", 1, 0, time.Hour, after(30*time.Minute, 100), after(90*time.Minute, 60), after(2*time.Hour, 20)),
		job("too wide", 5, 0, time.Hour, after(2*time.Hour, 100)))
	want := []float64{0, 1, 0.4, 1}
	for i, o := range r.Outcomes {
		if math.Abs(o.Miss-want[i]) > 1e-9 {
			t.Errorf("%s: miss %v, want %v", o.ID, o.Miss, want[i])
		}
	}
	if r.Jobs != 4 || r.Unfinished != 1 || r.SLOLost != 2 || r.BEJCTMean != nil || r.ProfileWait != nil || math.Abs(*r.WeightedMiss-0.6) > 1e-9 ||
		math.Abs(*r.StrictMiss-2./3) > 1e-9 || math.Abs(*r.SoftMiss-0.4) > 1e-9 {
		t.Errorf("figures %+v", r.Figures)
	}
}

// TestProfiles: a multi-GPU job is measured first, when estimates are asked for, and what it costs is booked.
func TestProfiles(t *testing.T) {
	r := play(t, Config{Nodes: 2, GPUsPerNode: 4, Profile: 5 * time.Minute}, rival(t, "srsf"), job("a", 8, 0, time.Hour), job("b", 1, 0, time.Hour))
	if r.Profiles != 1 || r.ProfileGPU < 300 || r.ProfileGPU > 1500 || *r.ProfileWait > 600 || r.Unfinished != 0 {
		t.Errorf("%d profiles, %.0f GPU-seconds, waited %v, %d unfinished", r.Profiles, r.ProfileGPU, *r.ProfileWait, r.Unfinished)
	}
}

// TestSameSeedSameLog: the action log has the same hash from run to run, on one processor and on many, for ours and for rivals, with and without estimates.
func TestSameSeedSameLog(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector: make unit runs it without")
	}
	jobs := crowd(30, time.Minute)
	for i := range jobs {
		if i%5 == 0 {
			jobs[i].Metric = &trace.Metric{Family: trace.Families()[i/5%5], Seed: uint64(i), Max: jobs[i].Iterations * 3 / 2}
		}
	}
	for _, oracle := range []bool{true, false} {
		for _, name := range []string{"unisched", "srsf"} {
			t.Run(fmt.Sprintf("%s oracle=%v", name, oracle), func(t *testing.T) {
				run := func(seed uint64) Result {
					var p bridge.Policy = lease.New(lease.Config{}, nil)
					if name != "unisched" {
						p = rival(t, name)
					}
					return play(t, Config{Nodes: 2, GPUsPerNode: 8, Noise: 0.05, Seed: seed, Oracle: oracle, Profile: 5 * time.Minute}, p, jobs...)
				}
				one := run(1)
				was := runtime.GOMAXPROCS(1)
				two := run(1)
				runtime.GOMAXPROCS(was)
				if d := cmp.Diff(one.Figures, two.Figures); d != "" {
					t.Error(d)
				}
				if run(2).Hash == one.Hash {
					t.Error("another seed gives the same log")
				}
				if one.Unfinished > 0 {
					t.Errorf("%d jobs unfinished", one.Unfinished)
				}
			})
		}
	}
}

// TestEveryPolicyFinishes: all jobs of a small crowd end under every policy, and no plan is refused.
func TestEveryPolicyFinishes(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector: make unit runs it without")
	}
	jobs := crowd(16, 2*time.Minute)
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			if r := play(t, Config{Nodes: 2, GPUsPerNode: 8, Profile: 5 * time.Minute, Seed: 7, Noise: 0.05}, rival(t, name), jobs...); r.Unfinished > 0 {
				t.Errorf("%d unfinished of %d", r.Unfinished, r.Jobs)
			}
		})
	}
}

// TestSpeeds reads the tables at and between their rows.
func TestSpeeds(t *testing.T) {
	s := Published()
	s.Strong = map[string]map[int]float64{"vgg16": {1: 2, 2: 3, 4: 5}}
	for _, c := range []struct {
		name, model string
		asked       int
		shape       planner.Shape
		strong      bool
		want        float64
	}{
		{"the fewest nodes", "vgg16", 8, planner.Shape{8}, false, 1},
		{"two nodes", "vgg16", 8, planner.Shape{4, 4}, false, 0.572},
		{"four nodes", "vgg16", 8, planner.Shape{2, 2, 2, 2}, false, 0.261},
		{"never above 1", "inception_v3", 2, planner.Shape{1, 1}, false, 1},
		{"beyond 8 GPUs the 8-GPU row by nodes / fewest", "vgg16", 16, planner.Shape{4, 4, 4, 4}, false, 0.572},
		{"between rows, linear in the logarithm", "alexnet", 8, planner.Shape{3, 3, 2}, false, 0.508 + (0.268-0.508)*(math.Log(3)-math.Log(2))/math.Log(2)},
		{"beyond the last row", "vgg16", 8, planner.Even(8, 1), false, 0.261},
		{"an unknown model", "bert", 8, planner.Shape{4, 4}, false, 1},
		{"weak scaling: fewer GPUs, less to exchange", "vgg16", 8, planner.Shape{1}, false, 1.13},
		{"strong scaling: fewer GPUs, slower", "vgg16", 4, planner.Shape{1}, true, 0.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.Relative(c.model, c.asked, c.shape, 8, c.strong); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("speed %v, want %v", got, c.want)
			}
		})
	}
}

// TestCurve: every family reaches the target at the last iteration and not before.
func TestCurve(t *testing.T) {
	for seed := range uint64(20) {
		for _, f := range trace.Families() {
			j := job("m", 1, 0, 500*time.Second)
			j.Metric = &trace.Metric{Family: f, Seed: seed, Max: 900}
			v := curve(j)
			if v(500) < metricTarget || v(0) > 0.4 {
				t.Errorf("%s: %v at the end, %v at the start", f, v(500), v(0))
			}
			for i := range int64(500) {
				if v(i) >= metricTarget {
					t.Fatalf("%s seed %d: target reached at %d", f, seed, i)
				}
			}
		}
	}
}
