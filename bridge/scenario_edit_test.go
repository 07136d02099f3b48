package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// What a user changes on a waiting job is what it runs with, and what it has after a release: nothing of it is overwritten.
func TestScenarioEditsOfAWaitingJob(t *testing.T) {
	for name, c := range map[string]struct {
		job  slurmsim.Submission
		edit slurmsim.Edit
		want func(slurm.Job) bool // of the running job
	}{
		"fewer GPUs":      {slurmsim.Submission{GPUs: 3}, slurmsim.Edit{GPUs: 2}, func(j slurm.Job) bool { return j.AllocGPUs == 2 && len(j.Nodes) == 1 }},
		"other nodes":     {slurmsim.Submission{GPUs: 2}, slurmsim.Edit{Required: []string{"n3"}}, func(j slurm.Job) bool { return j.Nodes[0] == "n3" }},
		"GPUs per node":   {slurmsim.Submission{GPUsPerNode: 2, Nodes: 1}, slurmsim.Edit{GPUsPerNode: 1, Nodes: 2}, func(j slurm.Job) bool { return len(j.Nodes) == 2 && j.AllocGPUs == 2 }},
		"no more requeue": {slurmsim.Submission{GPUs: 1}, slurmsim.Edit{NoRequeue: true}, func(j slurm.Job) bool { return !j.Requeue }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{})
			w.fill(3, 900)
			c.job.Comment, c.job.Body = "unisched:ckpt=B:USR1,stop=iters:5000,profile=skip", training(5000)
			w.submit("it", c.job)
			w.run(time.Minute, nil)
			w.sim.Edit(w.ids["it"], c.edit)
			w.until(30*time.Minute, "it runs", func() bool { return w.running("it") })
			if j := w.job("it"); !c.want(j) {
				t.Errorf("it runs on %v with %d GPUs, requeue %v", j.Nodes, j.AllocGPUs, j.Requeue)
			}
		})
	}
}

func TestScenarioEditsSurviveARelease(t *testing.T) {
	w := newWorld(t, site{})
	w.fill(3, 5*3600)
	w.submit("it", slurmsim.Submission{GPUs: 3, Nice: 5, Comment: "unisched:ckpt=B:USR1,stop=iters:5000,profile=skip", Body: training(5000)})
	w.run(time.Minute, nil)
	w.sim.Edit(w.ids["it"], slurmsim.Edit{GPUs: 2, Nice: 70, Required: []string{"n2"}})
	want := w.job("it")
	w.run(time.Minute, nil)
	w.order(bridge.Order{Kind: bridge.OrderRelease, Job: w.ids["it"]})
	w.run(time.Minute, nil)
	w.plain("it", want)
}

// A job that its user moves to a partition that is not ours is given back.
func TestScenarioEditOutOfOurPartitions(t *testing.T) {
	w := newWorld(t, site{})
	w.fill(3, 5*3600)
	w.submit("it", slurmsim.Submission{GPUs: 1, Comment: "unisched:ckpt=B:USR1,stop=iters:5000,profile=skip", Body: training(5000)})
	w.run(time.Minute, nil)
	w.sim.Edit(w.ids["it"], slurmsim.Edit{Partition: "profile"})
	w.until(time.Minute, "it is released", func() bool { return w.view("it").Phase == bridge.Released })
	if j := w.job("it"); j.Partition != "profile" || j.Begin.After(w.sim.Now()) {
		t.Errorf("it is in %s, begin %v", j.Partition, j.Begin)
	}
}

// A begin time that a user sets while the job is released to start (its GPUs are still being freed) is kept.
func TestScenarioBeginTimeSetWhileStarting(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	slow := training(50000)
	slow.Save = 2 * time.Minute
	w.submit("victim", slurmsim.Submission{GPUsPerNode: 4, Comment: "unisched:ckpt=B:USR1,stop=iters:50000,profile=skip", Body: slow})
	w.until(30*time.Minute, "the victim runs", w.reached("victim", 50))
	w.urgent("strict", 1200, 40*time.Minute)
	w.until(60*time.Minute, "the strict job is released", func() bool {
		return w.view("strict").Phase == bridge.Starting && w.view("victim").Phase == bridge.Checkpointing
	})
	begin := w.sim.Now().Add(time.Hour).Truncate(time.Second)
	w.sim.SetBegin(w.ids["strict"], begin)
	w.run(20*time.Minute, nil)
	if j := w.job("strict"); !j.Eligible.Equal(begin) || w.view("strict").Phase != bridge.Waiting {
		t.Errorf("begin time is %v, want the user's %v; phase %s", j.Eligible, begin, w.view("strict").Phase)
	}
	w.until(90*time.Minute, "it runs after its begin time", func() bool { return w.running("strict") })
	if w.sim.Now().Before(begin) {
		t.Errorf("it runs at %v, before the user's begin time %v", w.sim.Now(), begin)
	}
}

// case 25: a job that goes back to the queue by itself, without an iteration, for ever: it is not restarted every few seconds.
func TestScenarioLoopingJob(t *testing.T) {
	w := newWorld(t, site{})
	w.submit("loop", slurmsim.Submission{GPUs: 1, Comment: "unisched:ckpt=B:USR1,profile=skip", Body: slurmsim.Body{Iterations: 1, Silent: true, Fail: 99}})
	w.run(time.Hour, nil)
	if n := w.job("loop").Restarts; n < 3 || n > 15 {
		t.Errorf("%d restarts in an hour", n)
	}
}

// A job whose user forbids the requeue while it saves its checkpoint has failed by its user's will: it is not asked for again and again.
func TestScenarioRequeueForbiddenWhileSaving(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	slow := training(50000)
	slow.Save = 2 * time.Minute
	w.submit("victim", slurmsim.Submission{GPUsPerNode: 4, Comment: "unisched:ckpt=B:USR1,stop=iters:50000,profile=skip", Body: slow})
	w.until(30*time.Minute, "the victim runs", w.reached("victim", 50))
	w.urgent("strict", 1200, 40*time.Minute)
	w.until(60*time.Minute, "the victim saves", func() bool { return w.view("victim").Phase == bridge.Checkpointing })
	w.sim.Edit(w.ids["victim"], slurmsim.Edit{NoRequeue: true})
	w.until(20*time.Minute, "it has failed", func() bool { return w.view("victim").Phase == bridge.Failed })
	before := w.wire.writes
	w.run(2*time.Minute, nil)
	if n := w.wire.writes - before; n > 20 || w.view("victim").Phase != bridge.Failed {
		t.Errorf("%d writes in two minutes, phase %s", n, w.view("victim").Phase)
	}
}

// case 26: Slurm does not take back who exits with the agreed code, and scontrol fails: one job is lost, not one after the other.
func TestScenarioNobodyComesBack(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4, sim: slurmsim.Config{RequeueExit: 98}})
	w.wire.before = func(_ int, op string, _ slurm.JobID) error {
		if op == "rerun" {
			return &slurm.Error{Kind: slurm.ErrUnavailable, Op: op, Msg: "no scontrol"}
		}
		return nil
	}
	code := 99
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		body := training(20000)
		body.Exit = &code
		w.submit(name, slurmsim.Submission{GPUsPerNode: 4, Comment: "unisched:ckpt=B:USR1,stop=iters:20000,profile=skip", Body: body})
		w.run(30*time.Second, nil)
	}
	w.until(30*time.Minute, "both train", func() bool { return w.view("a").Iter > 0 && w.view("b").Iter > 0 })
	for i := range 3 {
		w.urgent(fmt.Sprint("strict", i), 1200, 35*time.Minute)
		w.run(time.Hour, nil)
	}
	lost := 0
	for _, name := range names {
		if w.view(name).Phase == bridge.Failed || w.view(name).Phase == bridge.Requeueing {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d jobs were lost, want 1", lost)
	}
}

// The nice value that a user gives to a waiting job is the job's after a release, whenever it came: in the two minutes after a restart of the daemon, in
// which anything may still be a call of the process before, or between the look at the queue and the start that sets another.
func TestScenarioNiceOfTheUserIsKept(t *testing.T) {
	edit := func(w *world) { w.sim.Edit(w.ids["it"], slurmsim.Edit{Nice: 70}) }
	for name, meddle := range map[string]func(w *world){
		"after a restart": func(w *world) {
			w.open()
			w.run(10*time.Second, nil)
			edit(w)
			w.run(10*time.Second, nil)
			w.sim.Cancel(w.ids["long1"])
		},
		"between the look and the start": func(w *world) {
			w.sim.Cancel(w.ids["long1"])
			w.wire.job = func(id slurm.JobID) error {
				if id == w.ids["it"] {
					edit(w)
					w.wire.job = nil
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{})
			w.fill(3, 5*3600)
			w.submit("it", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Comment: "unisched:ckpt=B:USR1,stop=iters:5000,profile=skip", Body: training(5000)})
			w.run(time.Minute, nil)
			meddle(w)
			w.until(time.Minute, "it runs", func() bool { return w.running("it") })
			w.order(bridge.Order{Kind: bridge.OrderRelease, Job: w.ids["it"]})
			w.run(time.Minute, nil)
			if got := w.job("it").Nice; got != 70 {
				t.Errorf("nice %d after the release, its user's is 70", got)
			}
		})
	}
}

// TestScenarioMovedAwayWhileOurs: a user who moves a job to another partition while it is pinned to start, or comes back from its checkpoint, is obeyed: nothing puts it back.
func TestScenarioMovedAwayWhileOurs(t *testing.T) {
	parts := []slurmsim.Partition{{Name: "gpu"}, {Name: "other"}, {Name: "foreign"}, {Name: "profile", MaxNodes: 2, MaxGPUs: 2}}
	for name, c := range map[string]struct {
		job, to string
		when    bridge.Phase
		ends    bridge.Phase
	}{
		"pinned to start, to one of ours":   {"strict", "other", bridge.Starting, bridge.Completed},
		"pinned to start, to another one":   {"strict", "foreign", bridge.Starting, bridge.Released},
		"on its way back, to one of ours":   {"victim", "other", bridge.Requeueing, bridge.Completed},
		"on its way back, to another one":   {"victim", "foreign", bridge.Requeueing, bridge.Released},
		"back in the queue, to another one": {"victim", "foreign", bridge.Waiting, bridge.Released},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4, parts: parts, cfg: func(c *bridge.Config) { c.Partitions = []string{"gpu", "other"} }, sim: slurmsim.Config{Completing: 30 * time.Second}})
			slow := training(2 * 3600)
			slow.Save = 2 * time.Minute
			w.submit("victim", slurmsim.Submission{GPUsPerNode: 4, Comment: "unisched:ckpt=B:USR1,stop=iters:7200,profile=skip", Body: slow})
			w.until(30*time.Minute, "the victim runs", w.reached("victim", 50))
			w.urgent("strict", 1200, 40*time.Minute)
			w.until(60*time.Minute, "the moment", func() bool { return w.view(c.job).Phase == c.when && w.job(c.job).State == slurm.StatePending })
			w.sim.Edit(w.ids[c.job], slurmsim.Edit{Partition: c.to})
			w.run(5*time.Minute, nil)
			if got := w.job(c.job).Partition; got != c.to {
				t.Errorf("it is in %q, its user said %q", got, c.to)
			}
			w.until(6*time.Hour, "all end", w.finished("victim", "strict"))
			if p := w.view(c.job).Phase; p != c.ends {
				t.Errorf("it is %s in the end", p)
			}
			if v := w.view("victim"); v.LostIters > 0 {
				t.Errorf("%d iterations lost", v.LostIters)
			}
			w.clean()
		})
	}
}

// A job that its user takes the GPUs away from is given back, and nothing stumbles over it.
func TestScenarioEditToNoGPUs(t *testing.T) {
	w := newWorld(t, site{})
	w.fill(3, 5*3600)
	w.submit("it", slurmsim.Submission{GPUs: 1, Comment: "unisched:ckpt=B:USR1,stop=iters:5000,profile=skip", Body: training(5000)})
	w.run(time.Minute, nil)
	w.sim.Edit(w.ids["it"], slurmsim.Edit{NoGPUs: true})
	w.until(time.Minute, "it is released", func() bool { return w.view("it").Phase == bridge.Released })
}
