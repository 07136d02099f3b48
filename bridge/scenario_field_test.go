package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/hooks/progress"
	"unisched/planner"
	"unisched/planner/lease"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// shows changes what Slurm shows from now on; nil: nothing any more.
func (w *world) shows(change func(*slurm.State)) {
	w.wire.state = func(s slurm.State) (slurm.State, error) {
		s.Jobs, s.Nodes = slices.Clone(s.Jobs), slices.Clone(s.Nodes)
		if change != nil {
			change(&s)
		}
		return s, nil
	}
}

// touched lists the writes to a job from the nth on.
func (w *world) touched(name string, n int) (out []string) {
	for _, l := range w.wire.log[n:] {
		if strings.Contains(l, fmt.Sprintf(" %d ", w.ids[name])) {
			out = append(out, l)
		}
	}
	return out
}

// odd makes a job look as a newer Slurm might show it.
func odd(id slurm.JobID, state slurm.BaseState, flags ...string) func(*slurm.State) {
	return func(s *slurm.State) {
		for i := range s.Jobs {
			if j := &s.Jobs[i]; j.ID == id {
				j.Flags, j.Odd = flags, []string{"job_state"}
				if state != "" {
					j.State = state
				}
			}
		}
	}
}

// case 1: Slurm is upgraded under the daemon, and states of jobs that it knows well are not understood any more. Such a job is left alone while that lasts, its GPUs are its
// own, and a new one is not managed.
func TestScenarioStatesOfTomorrow(t *testing.T) {
	for _, c := range []struct {
		name  string
		state slurm.BaseState
		flags []string
	}{
		{"an unknown flag", "", []string{"FUTURE_FLAG"}},
		{"an unknown state", slurm.StateUnknown, []string{"FUTURE_STATE"}},
		{"no state", slurm.StateUnknown, nil},
	} {
		t.Run("running: "+c.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.fill(1, 7200)
			w.shows(odd(w.ids["long1"], c.state, c.flags...))
			n := len(w.wire.log)
			w.urgent("strict", 600, 30*time.Minute)
			w.run(time.Hour, nil)
			if got := w.touched("long1", n); len(got) > 0 || w.job("long1").Restarts != 0 {
				t.Errorf("case 1: written to: %v", got)
			}
			if starts, _ := w.startsOf("strict"); len(starts) > 0 || w.view("strict").Phase == bridge.Starting {
				t.Errorf("case 1: the urgent job is %s, started %v, on GPUs that are in use", w.view("strict").Phase, starts)
			}
			w.shows(nil)
			w.until(5*time.Hour, "both end", w.finished("long1", "strict"))
			if v := w.view("long1"); v.Phase != bridge.Completed || v.LostIters != 0 {
				t.Errorf("case 1: %s, %d iterations lost", v.Phase, v.LostIters)
			}
			w.clean()
		})
		t.Run("waiting: "+c.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			w.fill(1, 1800)
			w.submit("next", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(300), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:300"})
			w.run(10*time.Second, nil)
			w.shows(odd(w.ids["next"], c.state, c.flags...))
			w.run(time.Minute, nil)
			n := len(w.wire.log)
			w.until(2*time.Hour, "Slurm starts it by itself", func() bool { return w.running("next") })
			if got := w.touched("next", n); len(got) > 0 {
				t.Errorf("case 1: written to: %v", got)
			}
			w.shows(nil)
			w.until(2*time.Hour, "it ends", w.finished("next"))
			w.clean()
		})
		t.Run("new: "+c.name, func(t *testing.T) {
			w := newWorld(t, site{})
			w.shows(odd(slurm.JobID(1), c.state, c.flags...))
			id := w.submit("new", slurmsim.Submission{GPUs: 1, Body: training(300), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:300"})
			w.shows(odd(id, c.state, c.flags...))
			w.run(5*time.Minute, nil)
			given := slices.DeleteFunc(w.touched("new", 0), func(l string) bool { return strings.HasSuffix(l, "update begin=00:00:00") }) // the submit plugin's delay is taken off
			if v := w.view("new"); v.Phase != bridge.Unmanaged || !strings.Contains(v.Why, "do not understand: job_state") || len(given) > 0 {
				t.Errorf("case 1: %s, %q, %v", v.Phase, v.Why, given)
			}
			w.until(time.Hour, "it ends as a plain job", w.finished("new"))
		})
	}
}

// case 3: what a plain job holds is not understood (its details are odd): the node says how much is in use, and nobody is sent there.
func TestScenarioGPUsThatNoJobAccountsFor(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	w.submit("plain", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(1800), User: "eve", UID: 1003})
	w.until(5*time.Minute, "the plain job runs", func() bool { return w.running("plain") })
	taken := w.job("plain").Nodes[0]
	w.shows(func(s *slurm.State) {
		for i := range s.Jobs {
			if s.Jobs[i].ID == w.ids["plain"] {
				s.Jobs[i].NodeGPUs, s.Jobs[i].Odd = nil, []string{"gres_detail"}
			}
		}
	})
	for i := range 2 {
		w.submit(fmt.Sprint("ours", i), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(300), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:300"})
	}
	w.until(2*time.Hour, "all end", func() bool {
		for i := range 2 {
			if v := w.view(fmt.Sprint("ours", i)); w.running("plain") && (v.Phase == bridge.Starting || v.Phase == bridge.Running) && v.Target.Placement.On(taken) > 0 {
				t.Fatalf("case 3: ours%d is sent to %s, which is in use", i, taken)
			}
		}
		return w.finished("plain", "ours0", "ours1")()
	})
	w.clean()
}

// case 17: nodes with GPUs of two types. Who asks for one of them is left to Slurm, which knows which are free, unless there are nodes of that type alone; who asks for any is planned.
func TestScenarioNodesWithTwoTypes(t *testing.T) {
	for _, c := range []struct {
		name, asks string
		pure       bool // n3 has type a alone
		phase      bridge.Phase
		on         string
	}{
		{"one type, on mixed nodes only", "a", false, bridge.Unmanaged, ""},
		{"one type, a node has it alone", "a", true, bridge.Waiting, "n3"},
		{"any type", "", false, bridge.Waiting, "n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{})
			w.shows(func(s *slurm.State) {
				for i := range s.Nodes {
					n := &s.Nodes[i]
					used := n.GPUs[0].Used
					n.GPUs = []slurm.GPUs{{Type: "a", Count: 2, Used: min(used, 2)}, {Type: "b", Count: 2, Used: max(used-2, 0)}}
					if c.pure && n.Name == "n3" {
						n.GPUs = []slurm.GPUs{{Type: "a", Count: 4, Used: used}}
					}
				}
				for i := range s.Jobs {
					s.Jobs[i].Request.GPUType = c.asks
				}
			})
			w.submit("job", slurmsim.Submission{GPUs: 2, Body: training(300), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:300"})
			first := bridge.Phase("")
			w.until(time.Hour, "it ends", func() bool {
				if v := w.view("job"); first == "" && v.Phase != "" {
					if first = v.Phase; first == bridge.Admitted || first == bridge.Starting {
						first = bridge.Waiting
					}
				}
				return w.finished("job")()
			})
			where, _ := w.startsOf("job")
			if first != c.phase || len(where) != 1 || !strings.HasPrefix(where[0], c.on) {
				t.Errorf("case 17: %s %q, ran on %v", first, w.view("job").Why, where)
			}
		})
	}
}

// case 21: a node loses a GPU while a job is measured there, and another before it could be. Slurm drains it: it gets no more work, the measurement ends as it can, and the jobs run.
func TestScenarioNodeLosesAGPU(t *testing.T) {
	const reason = "gres/gpu count reported lower than configured (3 < 4)"
	for _, during := range []bridge.Phase{bridge.Admitted, bridge.Profiling} {
		t.Run(string(during), func(t *testing.T) {
			w := newWorld(t, site{})
			w.submit("job", slurmsim.Submission{GPUs: 4, Tasks: 4, Body: training(4000), Comment: "unisched:ckpt=B:USR1,stop=iters:4000"})
			w.until(20*time.Minute, "it is "+string(during), func() bool { return w.view("job").Phase == during })
			drained := []string{"n1", "n2"}
			if on := w.job("job").Nodes; len(on) > 0 {
				drained = on
			}
			for _, n := range drained {
				w.sim.Drain(n, reason)
			}
			from := len(w.wire.log)
			w.until(5*time.Hour, "it ends", w.finished("job"))
			if v := w.view("job"); v.Phase != bridge.Completed || !v.Profile.Done {
				t.Errorf("case 21: %s, profile %+v", v.Phase, v.Profile)
			}
			for _, l := range w.wire.log[from:] {
				for _, n := range drained {
					if strings.Contains(l, "req=[") && strings.Contains(l, n) {
						t.Errorf("case 21: sent to a drained node: %s", l)
					}
				}
			}
			w.clean()
		})
	}
}

// case 30: where the command line that submitted a job shows a launcher that keeps the signal from the workers, its user reads so before it costs anything.
func TestScenarioLauncherIsNamed(t *testing.T) {
	w := newWorld(t, site{})
	w.shows(func(s *slurm.State) {
		for i := range s.Jobs {
			s.Jobs[i].SubmitLine = `sbatch --gpus=1 --wrap "torchrun --nproc-per-node=1 train.py"`
		}
	})
	w.submit("job", slurmsim.Submission{GPUs: 1, Body: training(300), Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:300"})
	w.run(time.Minute, nil)
	if !w.noted("job", "launcher") {
		t.Errorf("case 30: %+v", w.view("job").Events)
	}
}

// case 35: lines as training scripts write them, with every word for a number that is none, on their whole way through the daemon. The good values count, the others are
// not there, and everything that is shown stays JSON.
func TestScenarioMetricsThatAreNoNumbers(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []string
		points int // of the curve at least
	}{
		{"some", []string{"0.3", "NaN", "null", "+Inf", "Infinity", `"nan"`, "1e999", "-Infinity", "0.31"}, 10},
		{"all", []string{"NaN", "nan", "null", "-Inf", `"Infinity"`}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{})
			said := 0
			reports := func() []progress.JobReport {
				out := w.sim.Reports()
				for i := range out {
					out[i].Lines = slices.Clone(out[i].Lines)
					for _, line := range out[i].Lines {
						if l, err := progress.Parse(line); err == nil && l.Kind == progress.Progress {
							out[i].Lines = append(out[i].Lines, fmt.Appendf(nil, `{"iter":%d,"loss":NaN,"val_acc":%s}`, l.Iter, c.values[said%len(c.values)]))
							said++
						}
					}
				}
				return out
			}
			b, err := bridge.New(w.cfg, bridge.Parts{Cluster: w.wire, Policy: lease.New(lease.Config{}, nil), Memory: w.mem, Reports: reports}, bridge.Restored{})
			if err != nil {
				t.Fatal(err)
			}
			w.b = b
			w.submit("bad", slurmsim.Submission{GPUs: 1, Body: training(4000), Comment: "unisched:ckpt=B:USR1,stop=metric:val_acc>=0.9,max=4000"})
			w.run(40*time.Minute, nil)
			v := w.view("bad")
			if said < 40 || v.Iter < 1000 || len(v.Curve) < c.points || c.points == 0 && len(v.Curve) > 0 {
				t.Errorf("case 35: %d lines, iteration %d, %d points", said, v.Iter, len(v.Curve))
			}
			for _, p := range v.Curve {
				if p.Value != 0.3 && p.Value != 0.31 {
					t.Errorf("case 35: %+v", p)
				}
			}
			if c.points == 0 && (v.Estimate.Reaches > 0.9 || !strings.Contains(v.Estimate.Basis, "maximum")) {
				t.Errorf("case 35: a forecast of nothing: %+v", v.Estimate)
			}
			for name, doc := range map[string]any{"view": w.b.View(), "forecasts": w.b.View().ForecastReport(time.Time{})} {
				if text, err := json.Marshal(doc); err != nil || !json.Valid(text) {
					t.Errorf("case 35: %s: %v", name, err)
				}
			}
			w.until(3*time.Hour, "it ends", w.finished("bad"))
		})
	}
}

// case 37: a run comes back to an iteration before the one that it had shown, and its loss is three times as high for a while: progress is the highest iteration, and nothing is held against it.
func TestScenarioStepsAreRepeated(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	body := training(9000)
	body.Metric, body.Curve = "loss", func(iter int64) float64 {
		v := 2 + 1/(0.002*float64(iter)+0.2)
		if r := w.job("job").Restarts; r > 0 && iter < w.view("job").Returns[r-1].Reached+50 {
			v *= 3
		}
		return v
	}
	w.submit("job", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: body, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=metric:loss<=2.1,max=9000"})
	w.until(30*time.Minute, "it trains", w.reached("job", 500))
	before := w.view("job").Iter
	w.shows(nil)
	if err := w.sim.Requeue(t.Context(), w.ids["job"].Ref()); err != nil { // without a checkpoint: it begins anew
		t.Fatal(err)
	}
	w.until(30*time.Minute, "it trains again", func() bool { return w.running("job") && w.job("job").Restarts == 1 && len(w.view("job").Returns) > 0 })
	for range 20 {
		w.run(time.Minute, nil)
		if v := w.view("job"); v.Iter < before || v.Phase != bridge.Running || v.NoPreempt != "" || v.Strikes != 0 {
			t.Fatalf("case 37: iteration %d after %d, %s, %q, %d strikes", v.Iter, before, v.Phase, v.NoPreempt, v.Strikes)
		}
	}
	w.until(5*time.Hour, "it ends", w.finished("job"))
	w.clean()
}

// watched is a policy that tells what it was shown last.
type watched struct {
	bridge.Policy
	last *planner.Snapshot
}

func (p watched) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	*p.last = s
	return p.Policy.Plan(ctx, s)
}

// case 51: a user or an admin changes the time limit of a job while it runs: what is left of it is what Slurm shows, whichever way it went.
func TestScenarioLimitChangesWhileRunning(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	var seen planner.Snapshot
	b, err := bridge.New(w.cfg, bridge.Parts{Cluster: w.wire, Policy: watched{lease.New(lease.Config{}, nil), &seen}, Memory: w.mem, Reports: w.sim.Reports}, bridge.Restored{})
	if err != nil {
		t.Fatal(err)
	}
	w.b = b
	w.submit("job", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, TimeLimit: 10 * time.Hour, Body: training(7200), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:7200"})
	w.until(20*time.Minute, "it trains", w.reached("job", 60))
	for _, limit := range []time.Duration{3 * time.Hour, 20 * time.Hour, 150 * time.Minute} {
		if err := w.sim.Update(t.Context(), w.ids["job"].Ref(), slurm.Update{TimeLimit: slurm.Some(limit)}); err != nil {
			t.Fatal(err)
		}
		w.run(6*time.Minute, nil)
		if left, want := seen.Jobs[0].TimeLeft, limit-seen.Now.Sub(w.job("job").Start); left != want {
			t.Errorf("case 51: %v left, want %v", left, want)
		}
	}
	w.until(5*time.Hour, "it ends", w.finished("job"))
	if v := w.view("job"); v.Phase != bridge.Completed {
		t.Errorf("case 51: %s (%s)", v.Phase, v.Exit)
	}
	w.clean()
}

// case 14: the leader and a component of a heterogeneous job are left to Slurm, and say so.
func TestScenarioHeterogeneous(t *testing.T) {
	w := newWorld(t, site{})
	for _, name := range []string{"leader", "component"} {
		w.submit(name, slurmsim.Submission{GPUs: 1, Body: training(300), Comment: "unisched:class=strict,deadline=now+6h,ckpt=B:USR1,stop=iters:300"})
	}
	w.shows(func(s *slurm.State) {
		for i := range s.Jobs {
			switch j := &s.Jobs[i]; j.ID {
			case w.ids["leader"]:
				j.HetJobID = w.ids["leader"]
			case w.ids["component"]:
				j.HetJobID, j.HetJobOffset = w.ids["leader"], 1
			}
		}
	})
	w.until(time.Hour, "both end", w.finished("leader", "component"))
	for _, name := range []string{"leader", "component"} {
		if v := w.view(name); v.Phase != bridge.Unmanaged || !strings.Contains(v.Why, "heterogeneous") {
			t.Errorf("case 14: %s: %s %q", name, v.Phase, v.Why)
		}
		if starts, _ := w.startsOf(name); len(starts) != 1 {
			t.Errorf("case 14: %s started %v", name, starts)
		}
	}
}
