package bridge_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// kind submits one more job of a kind: same user, same name.
func (w *world) kind(as, user string, uid int64) {
	w.ids[as] = w.sim.Submit(slurmsim.Submission{Name: "kind", User: user, UID: uid, GPUsPerNode: 4, Nodes: 1, Tasks: 1, TimeLimit: 24 * time.Hour,
		Comment: "unisched:ckpt=B:USR1,stop=iters:3000", Body: training(3000)})
	w.nice[as] = 0
}

// stored is what the journal holds of a kind of entry.
func stored[T any](t *testing.T, w *world, kind string) (out []T) {
	t.Helper()
	for _, e := range w.mem.latest() {
		if e.Kind == kind {
			var v T
			if err := json.Unmarshal(e.Data, &v); err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
	}
	return out
}

// The second job of a kind starts from what the first one measured, also after a restart of the daemon; somebody else's job of the same name does not.
func TestScenarioHistory(t *testing.T) {
	w := newWorld(t, site{})
	w.kind("first", "ann", 1001)
	w.until(3*time.Hour, "the first ends", w.finished("first"))
	w.run(2*time.Minute, nil)
	if v := w.view("first"); v.Profile.Note != "profiled" || v.Phase != bridge.Completed {
		t.Fatalf("the first: %s, profile %+v", v.Phase, v.Profile)
	}
	if p := stored[estimator.Past](t, w, "past"); len(p) != 1 || p[0].Jobs != 1 || len(p[0].Samples) < 2 || p[0].Key.User != "ann" {
		t.Fatalf("the journal remembers %+v", p)
	}
	if f := stored[estimator.Fabric](t, w, "fabric"); len(f) != 1 || len(f[0].Lessons) != 1 || len(f[0].Resumes) == 0 || len(f[0].Checkpoints) == 0 {
		t.Errorf("the journal holds the fabric %+v", f)
	}

	w.open() // the daemon starts anew
	w.kind("second", "ann", 1001)
	w.kind("other", "bob", 1002)
	w.until(time.Minute, "both are admitted", func() bool { return w.view("second").ID > 0 && w.view("other").ID > 0 })
	v := w.view("second")
	if !v.Profile.Done || v.Profile.Note != "measured in 1 earlier jobs" || !strings.HasPrefix(v.Estimate.Basis, "speed from earlier jobs") {
		t.Errorf("the second: profile %+v, basis %q", v.Profile, v.Estimate.Basis)
	}
	if s := v.Estimate.Speeds[0].Speed; math.Abs(s.Mid-1) > 0.15 || !(s.High-s.Low > 0.05) {
		t.Errorf("the second's speed is believed to be %+v, it is 1", s)
	}
	if v := w.view("other"); !v.Profile.Needed() {
		t.Errorf("somebody else's job is not profiled: %+v", v.Profile)
	}
	w.until(6*time.Hour, "both end", w.finished("second", "other"))
	if len(w.view("second").Stays) != 1 {
		t.Errorf("the second had %d runs: %+v", len(w.view("second").Stays), w.view("second").Stays)
	}
}

// What is forecast of running jobs is kept, scored when they complete, and survives a restart.
func TestScenarioForecasts(t *testing.T) {
	w := newWorld(t, site{})
	names := w.fill(3, 5400)
	w.run(10*time.Minute, nil)
	v := w.view(names[0])
	if !(v.ForecastLow.Before(v.Forecast) && v.Forecast.Before(v.ForecastHigh)) || !(v.Left.Low > 0 && v.Left.Low <= v.Left.Mid && v.Left.Mid <= v.Left.High) {
		t.Errorf("forecast %v to %v to %v, left %+v", v.ForecastLow, v.Forecast, v.ForecastHigh, v.Left)
	}
	if rep := w.b.View().ForecastReport(time.Time{}); rep.Pending == 0 || len(rep.Groups) != 0 {
		t.Errorf("while they run: %+v", rep)
	}
	w.until(6*time.Hour, "they end", w.finished(names...))
	w.run(time.Minute, nil)
	rep := w.b.View().ForecastReport(time.Time{})
	i := slices.IndexFunc(rep.Groups, func(g estimator.ForecastGroup) bool { return g.By == "all" })
	if i < 0 || rep.Pending != 0 {
		t.Fatalf("at the end: %+v", rep)
	}
	if g := rep.Groups[i]; g.N < 12 || g.N > 3*32 || g.Error > 0.1 || g.Coverage < 0.6 || g.FinishN != g.N || g.FinishError > 0.2 {
		t.Errorf("at the end: %+v", g)
	}
	w.open()
	if err := w.step(); err != nil {
		t.Fatal(err)
	}
	if again := w.b.View().ForecastReport(time.Time{}); len(again.Groups) != len(rep.Groups) || again.Groups[i] != rep.Groups[i] {
		t.Errorf("after a restart %+v, before %+v", again.Groups, rep.Groups)
	}
	if late := w.b.View().ForecastReport(w.sim.Now()); len(late.Groups) != 0 {
		t.Errorf("since now: %+v", late)
	}
}

// slowing is training whose runs take a second an iteration at first, and step if they begin after half an hour.
func (w *world) slowing(iterations int64, step time.Duration) slurmsim.Body {
	start, body := w.sim.Now(), training(iterations)
	body.Step = func([]int) time.Duration {
		if w.sim.Now().Sub(start) > 30*time.Minute {
			return step
		}
		return time.Second
	}
	return body
}

// A job whose second run is three times as slow breaks with its forecast: the jump is counted and its people can read of it.
func TestScenarioEstimateJumps(t *testing.T) {
	w := newWorld(t, site{})
	body := w.slowing(3000, 3*time.Second)
	w.submit("slow", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Tasks: 1, Body: body, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:6000"})
	w.run(40*time.Minute, nil)
	if err := w.sim.Requeue(context.Background(), slurm.Ref{ID: w.ids["slow"]}); err != nil {
		t.Fatal(err)
	}
	w.run(100*time.Minute, nil)
	if n := w.b.View().Actions.Jumps; n == 0 || n > 10 || !w.happened("slow", "estimate-jump") {
		t.Errorf("%d jumps counted; forecasts %+v", n, w.view("slow").Forecasts)
	}
}

// Where runs of the same job are now faster, now slower, the plans count with it: the second run of each job is held against its first, once.
func TestScenarioRunsThatDiffer(t *testing.T) {
	w := newWorld(t, site{})
	body := w.slowing(6000, 1500*time.Millisecond)
	names := []string{"one", "two", "three"}
	for _, n := range names {
		w.submit(n, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Tasks: 1, Body: body, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:6000"})
	}
	luck := func() (l estimator.Luck) {
		for _, e := range w.mem.entries {
			var f estimator.Fabric
			if e.Kind == "fabric" {
				if err := json.Unmarshal(e.Data, &f); err != nil {
					t.Fatal(err)
				}
				l = f.Luck
			}
		}
		return l
	}
	w.run(40*time.Minute, nil)
	if l := luck(); l.Pairs != 0 {
		t.Fatalf("learnt from the first runs: %+v", l)
	}
	for _, n := range names {
		if err := w.sim.Requeue(context.Background(), slurm.Ref{ID: w.ids[n]}); err != nil {
			t.Fatal(err)
		}
	}
	w.run(70*time.Minute, nil)
	if l := luck(); l.Pairs != 3 || l.Spread() < 0.06 {
		t.Errorf("runs slower by half taught %+v, a spread of %v", l, l.Spread())
	}
}

// The journal is not flooded by what is learnt: at most one fabric a round.
func TestScenarioLearningIsBounded(t *testing.T) {
	w := newWorld(t, site{})
	w.fill(3, 20000)
	w.run(3*time.Hour, nil)
	fabrics := 0
	for _, e := range w.mem.entries {
		if e.Kind == "fabric" {
			fabrics++
		}
	}
	if rounds := w.b.View().Actions.Rounds; fabrics == 0 || int64(fabrics) > rounds {
		t.Errorf("%d fabrics journalled in %d rounds", fabrics, rounds)
	}
	if n := len(w.view("long1").Forecasts); n == 0 || n > 32 {
		t.Errorf("%d forecasts kept of one job", n)
	}
}

// case 31: a job preempted a few minutes after its start has done nothing wrong: no strike, no launch failure, no rerun, and it may be preempted again.
func TestScenarioShortRunIsNoFailure(t *testing.T) {
	w := newWorld(t, site{})
	names := w.fill(3, 7200)
	w.run(8*time.Minute, nil)
	w.urgent("urgent", 600, 16*time.Minute)
	w.until(time.Hour, "the urgent job ends", w.finished("urgent"))
	w.checkMet("urgent")
	preempted := 0
	for _, n := range names {
		v := w.view(n)
		if v.Preemptions == 0 {
			continue
		}
		preempted++
		if v.Strikes != 0 || v.NoPreempt != "" || w.happened(n, "rerun") || w.happened(n, "unknown") {
			t.Errorf("case 31: %s was charged for its preemption: strikes %d, %q", n, v.Strikes, v.NoPreempt)
		}
		if held := v.Stays[0].To.Sub(v.Stays[0].From); held < w.cfg.Unit {
			t.Errorf("case 31: %s was cut after %v, less than the shortest lease", n, held)
		}
	}
	if preempted == 0 {
		t.Fatal("case 31: nobody was preempted")
	}
	w.until(8*time.Hour, "all end", w.finished(names...))
	for _, n := range names {
		if v := w.view(n); v.Phase != bridge.Completed {
			t.Errorf("case 31: %s ended %s: %s", n, v.Phase, v.Exit)
		}
	}
}

// case 35: whatever a job reports of its metric, everything that is shown of it stays valid JSON, and where there is nothing to go by there is no forecast of the target.
func TestScenarioBadMetrics(t *testing.T) {
	w := newWorld(t, site{})
	w.submit("bad", slurmsim.Submission{GPUsPerNode: 1, Nodes: 1, Tasks: 1, Body: training(4000), Comment: "unisched:ckpt=B:USR1,stop=metric:val_acc>=0.9,max=4000"})
	w.run(30*time.Minute, nil)
	v := w.view("bad")
	if v.Iter == 0 || v.Estimate.Reaches > 0.9 || !strings.Contains(v.Estimate.Basis, "maximum") {
		t.Errorf("case 35: iteration %d, estimate %+v", v.Iter, v.Estimate)
	}
	for name, doc := range map[string]any{"view": w.b.View(), "forecasts": w.b.View().ForecastReport(time.Time{})} {
		if b, err := json.Marshal(doc); err != nil || !json.Valid(b) {
			t.Errorf("case 35: %s: %v", name, err)
		}
	}
}
