package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// starts lists the names of the jobs in the order in which they started.
func (w *world) starts(after time.Time) []string {
	names := map[slurm.JobID]string{}
	for n, id := range w.ids {
		names[id] = n
	}
	var out []string
	for _, e := range w.sim.History() {
		if strings.HasPrefix(e.What, "start ") && e.At.After(after) {
			out = append(out, names[e.Job])
		}
	}
	return out
}

// Plain jobs neither steal what a preemption freed nor starve.
func TestScenarioPlainJobsCompete(t *testing.T) {
	w := newWorld(t, site{})
	long := w.fill(3, 2*3600)
	at := w.sim.Now()
	// Plain jobs with more priority than anybody wait for the same GPUs, before and after the strict job.
	w.submit("plain1", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Priority: 500000, Body: training(1200), TimeLimit: 30 * time.Minute, User: "eve", UID: 1003})
	w.run(30*time.Second, nil)
	w.urgent("strict", 1200, 60*time.Minute)
	w.submit("plain2", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Priority: 500000, Body: training(1200), TimeLimit: 30 * time.Minute, User: "eve", UID: 1003})
	w.until(70*time.Minute, "the strict job ends", w.finished("strict"))
	w.checkMet("strict")
	w.until(4*time.Hour, "the plain jobs end", w.finished("plain1", "plain2"))
	w.until(6*time.Hour, "the long jobs end", w.finished(long...))
	for _, n := range []string{"plain1", "plain2"} {
		for _, e := range w.sim.History() {
			if e.Job == w.ids[n] && strings.HasPrefix(e.What, "start") && e.At.Sub(at) > 3*time.Hour {
				t.Errorf("%s started only at %s", n, e.At.Format("15:04:05"))
			}
		}
	}
	w.clean()
}

// A steady stream of managed jobs does not keep a plain job from its GPUs for ever, nor the other way round.
func TestScenarioNobodyStarves(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	submitted := 0
	feed := func() {
		for submitted-w.sim.Finished() < 6 {
			submitted++
			s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(600), TimeLimit: 20 * time.Minute}
			if submitted%2 == 0 {
				s.Comment = "unisched:ckpt=USR1,profile=skip,stop=iters:600"
			}
			w.submit(fmt.Sprint("j", submitted), s)
		}
	}
	feed()
	w.submit("plain", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(600), TimeLimit: 20 * time.Minute, User: "eve", UID: 1003})
	w.submit("ours", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(600), TimeLimit: 20 * time.Minute, User: "eve", UID: 1003,
		Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:600"})
	w.until(8*time.Hour, "both had their turn", func() bool {
		feed()
		return w.finished("plain", "ours")()
	})
}

// Several waiting jobs for one pool start in plan order, whatever the order in which they were submitted.
func TestScenarioStartsInPlanOrder(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.fill(1, 900)
	at := w.sim.Now()
	// The plan puts those with earlier deadlines first; Slurm alone would take them as they came.
	for i, d := range []int{300, 240, 180, 120} {
		w.submit(fmt.Sprint("due", d), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(600), TimeLimit: 12 * time.Minute, Priority: int64(9000 - i),
			Comment: fmt.Sprintf("unisched:class=strict,deadline=now+%dm,ckpt=USR1,profile=skip,stop=iters:600", d)})
	}
	w.until(4*time.Hour, "all end", w.finished("long1", "due300", "due240", "due180", "due120"))
	got := slices.DeleteFunc(w.starts(at), func(n string) bool { return n == "long1" })
	got = slices.Compact(got)
	for _, n := range []string{"due120", "due180", "due240", "due300"} {
		w.checkMet(n)
	}
	if want := []string{"due120", "due180", "due240", "due300"}; !slices.Equal(got, want) {
		t.Errorf("started in the order %v, want %v", got, want)
	}
	w.clean()
}

// Jobs that are released to Slurm in one cycle are ordered by nice as the plan ranks them.
func TestScenarioNiceFollowsThePlan(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	for i, p := range []int64{100, 90000, 500, 40000} {
		w.submit(fmt.Sprint("job", i), slurmsim.Submission{GPUs: 2, Body: training(1200), TimeLimit: time.Hour, Priority: p, Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:1200"})
	}
	w.until(3*time.Minute, "they are released", func() bool { return w.view("job0").Phase == bridge.Starting || w.running("job0") })
	type pair struct {
		rank int
		prio int64
	}
	var pairs []pair
	for i := range 4 {
		n := fmt.Sprint("job", i)
		pairs = append(pairs, pair{w.view(n).Target.Rank, w.job(n).Priority})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return a.rank - b.rank })
	for i := 1; i < len(pairs); i++ {
		if pairs[i].prio >= pairs[i-1].prio {
			t.Errorf("rank and priority disagree: %+v", pairs)
		}
	}
	w.order(bridge.Order{Kind: bridge.OrderRelease})
	w.run(time.Minute, nil)
	for i := range 4 {
		if j := w.job(fmt.Sprint("job", i)); j.Nice != 0 {
			t.Errorf("job%d: nice %d after the release", i, j.Nice)
		}
	}
}

// Orders give jobs back within a cycle, in every phase.
func TestScenarioOrders(t *testing.T) {
	for _, kind := range []bridge.OrderKind{bridge.OrderPause, bridge.OrderRelease} {
		for _, when := range []string{"waiting", "starting", "running", "checkpointing", "profiling", "requeued"} {
			t.Run(fmt.Sprintf("%s while %s", kind, when), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, site{nodes: 1, gpus: 4, sim: slurmsim.Config{Completing: 12 * time.Second, LatencyMin: 11 * time.Second, LatencyMax: 12 * time.Second}})
				long := w.fill(1, 3000)
				before := w.job("long1")
				before.Nice, before.Request.RequiredNodes = 0, nil
				w.submit("other", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Tasks: 2, Body: training(600), TimeLimit: 20 * time.Minute, Nice: 11,
					Comment: "unisched:ckpt=USR1,stop=iters:600" + map[bool]string{true: "", false: ",profile=skip"}[when == "profiling"]})
				other := w.job("other")
				w.urgent("strict", 600, 25*time.Minute)
				name, reached := "long1", func() bool { return true }
				switch when {
				case "waiting":
					name, reached = "other", func() bool { return w.view("other").Phase == bridge.Waiting && w.job("other").Begin.After(w.sim.Now()) }
				case "starting":
					name, reached = "strict", func() bool { return w.view("strict").Phase == bridge.Starting }
				case "checkpointing":
					reached = func() bool { return w.view("long1").Phase == bridge.Checkpointing }
				case "requeued":
					reached = func() bool { return w.view("long1").Phase == bridge.Requeueing }
				case "profiling":
					name, reached = "other", func() bool { return w.view("other").Phase == bridge.Profiling }
				}
				w.until(2*time.Hour, "the moment", reached)
				w.order(bridge.Order{Kind: kind})
				w.run(3*time.Minute, nil)
				for _, n := range []string{"long1", "other", "strict"} {
					j := w.job(n)
					if j.State.Finished() || j.ID == 0 {
						continue
					}
					if j.Held || j.Nice != w.nice[n] || j.State == slurm.StatePending && (len(j.Request.RequiredNodes) > 0 || j.Begin.After(w.sim.Now()) && j.Restarts == 0) {
						t.Errorf("%s (order while %s was %s): %s held=%v nice=%d pinned=%v begin=%v", n, name, when, j.State, j.Held, j.Nice, j.Request.RequiredNodes, j.Begin)
					}
				}
				if j := w.job("other"); j.State == slurm.StatePending {
					w.plain("other", other)
				}
				writes := w.wire.writes
				w.run(15*time.Minute, nil)
				if n := w.wire.writes - writes; n > 6 { // what comes back late is given back too
					t.Errorf("%d writes long after the order", n)
				}
				if kind == bridge.OrderPause {
					w.order(bridge.Order{Kind: bridge.OrderResume})
				}
				w.until(6*time.Hour, "all end", w.finished(append(long, "other", "strict")...))
				w.clean()
			})
		}
	}
}

// In the shadow stage nothing is written at all; in stage besteffort strict jobs are not touched. Where the submit plugin delays jobs, those that are
// not ours are let go as soon as they are seen.
func TestScenarioStages(t *testing.T) {
	for _, stage := range []bridge.Stage{bridge.Shadow, bridge.StageBestEffort, bridge.StageSoft} {
		for _, plugin := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s plugin=%v", stage, plugin), func(t *testing.T) {
				s := site{nodes: 2, gpus: 4, cfg: func(c *bridge.Config) { c.Stage = stage }}
				if !plugin {
					s.sim.SubmitDelay = -1
				}
				w := newWorld(t, s)
				for i := range 4 {
					w.submit(fmt.Sprint("be", i), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(1200), TimeLimit: time.Hour, Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:1200"})
				}
				w.submit("wide", slurmsim.Submission{GPUsPerNode: 4, Nodes: 2, Body: training(600), TimeLimit: time.Hour, Comment: "unisched:ckpt=USR1,stop=iters:600"})
				w.urgent("strict", 600, 50*time.Minute)
				w.until(5*time.Hour, "all end", w.finished("be0", "be1", "be2", "be3", "wide", "strict"))
				for _, l := range w.wire.log {
					spared := stage == bridge.Shadow || strings.Contains(l, fmt.Sprintf(" %d ", w.ids["strict"]))
					if spared && !(plugin && strings.HasSuffix(l, " update begin=00:00:00")) {
						t.Errorf("in stage %s: %s", stage, l)
					}
				}
				if w.b.View().Actions.Rounds == 0 {
					t.Error("no plan was made")
				}
			})
		}
	}
}

// A node that goes away under a job: the job comes back elsewhere and is not pinned to the dead node.
func TestScenarioNodeTrouble(t *testing.T) {
	sub := func() slurmsim.Submission {
		b := training(1800)
		b.SaveEvery = 60
		return slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: b, TimeLimit: 2 * time.Hour, Comment: "unisched:ckpt=USR1,profile=skip,stop=iters:1800"}
	}
	cases := map[string]struct {
		starting bool
		trouble  func(w *world, node string)
	}{
		"down under a running job":      {false, func(w *world, n string) { w.sim.Down(n) }},
		"drained under a running job":   {false, func(w *world, n string) { w.sim.Drain(n, "admin") }},
		"down under a starting job":     {true, func(w *world, n string) { w.sim.Down(n) }},
		"drained under a starting job":  {true, func(w *world, n string) { w.sim.Drain(n, "admin") }},
		"down, and nobody steers it":    {false, func(w *world, n string) { w.sim.Down(n); w.order(bridge.Order{Kind: bridge.OrderPause}) }},
		"drained, and nobody steers it": {true, func(w *world, n string) { w.sim.Drain(n, "admin"); w.order(bridge.Order{Kind: bridge.OrderPause}) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := site{nodes: 2, gpus: 4}
			if c.starting {
				s.sim.LatencyMin, s.sim.LatencyMax = 25*time.Second, 26*time.Second
			}
			w := newWorld(t, s)
			w.submit("job", sub())
			var node string
			if c.starting {
				w.until(5*time.Minute, "it is released", func() bool { return w.view("job").Phase == bridge.Starting })
				node = w.job("job").Request.RequiredNodes[0]
			} else {
				w.until(15*time.Minute, "it trains", w.reached("job", 200))
				node = w.job("job").Nodes[0]
			}
			c.trouble(w, node)
			if strings.HasPrefix(name, "drained under a running") {
				w.until(time.Hour, "it ends where it is", w.finished("job"))
			}
			w.until(25*time.Minute, "it runs elsewhere", func() bool {
				j := w.job("job")
				return j.State.Finished() || j.State == slurm.StateRunning && j.Nodes[0] != node
			})
			w.until(2*time.Hour, "it ends", w.finished("job"))
			if v := w.view("job"); v.Phase != bridge.Completed || v.Iter != 1800 {
				t.Errorf("phase %s, iteration %d", v.Phase, v.Iter)
			}
			w.clean()
		})
	}
}
