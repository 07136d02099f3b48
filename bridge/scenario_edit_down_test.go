package bridge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// away lets no daemon run for so long, while something is done.
func (w *world) away(d time.Duration, do func()) {
	w.t.Helper()
	w.b, w.upAt = nil, w.sim.Now().Add(d)
	do()
	w.run(d+2*w.cfg.Poll, nil)
}

// TestScenarioEditsAtAnyTime: what a user changes of a job's GPUs or nodes is what it runs with, and what it has when it is given back, whenever that was: while no daemon ran, in the two minutes after its start, in
// which anything may still be a call of the one before, between a look and a call, and while something of ours is on the job.
func TestScenarioEditsAtAnyTime(t *testing.T) {
	// The job wants up to a whole node, and three other jobs hold them all.
	waits := func(w *world) {
		w.fill(3, 5*3600)
		w.run(time.Minute, nil)
	}
	moments := map[string]struct {
		waits func(*world) // before it is submitted
		edit  func(w *world, edit func())
		frees bool // room is made for it afterwards
	}{
		"just after a restart": {waits, func(w *world, edit func()) {
			w.open()
			w.run(10*time.Second, nil)
			edit()
			w.run(10*time.Second, nil)
		}, true},
		"while no daemon runs": {waits, func(w *world, edit func()) { w.away(5*time.Minute, edit) }, true},
		"between a look and its start": {waits, func(w *world, edit func()) {
			w.wire.job = func(id slurm.JobID) error {
				if id == w.ids["it"] && !w.running("long1") {
					w.wire.job = nil
					edit()
				}
				return nil
			}
		}, true},
		"while it is pinned to start": {nil, func(w *world, edit func()) {
			w.until(time.Hour, "the moment", func() bool { return w.view("it").Phase == bridge.Starting })
			edit()
		}, false},
		"while it is pinned to start and no daemon runs": {nil, func(w *world, edit func()) {
			w.until(time.Hour, "the moment", func() bool { return w.view("it").Phase == bridge.Starting })
			w.away(30*time.Second, edit)
		}, false},
		"while its start is under way and the daemon dies": {waits, func(w *world, edit func()) {
			w.sim.Cancel(w.ids["long1"])
			w.wire.before = func(_ int, op string, id slurm.JobID) error {
				if id == w.ids["it"] && op == "update" {
					w.wire.before = nil
					panic(crash{})
				}
				return nil
			}
			w.until(5*time.Minute, "its death", func() bool { return w.b == nil })
			edit()
			w.run(30*time.Second, nil)
		}, false},
	}
	edits := map[string]struct {
		job  slurmsim.Submission
		edit slurmsim.Edit
		want func(slurm.Job) bool // of the running job
	}{
		"fewer GPUs":          {slurmsim.Submission{GPUs: 4, Nodes: 1}, slurmsim.Edit{GPUs: 2}, func(j slurm.Job) bool { return j.AllocGPUs == 2 }},
		"fewer GPUs per node": {slurmsim.Submission{GPUsPerNode: 4, Nodes: 1}, slurmsim.Edit{GPUsPerNode: 3}, func(j slurm.Job) bool { return j.AllocGPUs == 3 }},
		"a list of nodes":     {slurmsim.Submission{GPUsPerNode: 4, Nodes: 1}, slurmsim.Edit{Required: []string{"n2"}}, func(j slurm.Job) bool { return j.Nodes[0] == "n2" }},
	}
	for when, m := range moments {
		for what, e := range edits {
			t.Run(fmt.Sprint(what, " ", when), func(t *testing.T) {
				w := newWorld(t, site{})
				comment := "unisched:ckpt=B:USR1,stop=iters:3000,profile=skip"
				if m.waits != nil {
					m.waits(w)
				} else { // it is pinned while the victims save
					slow := training(5 * 3600)
					slow.Save = 2 * time.Minute
					for i := range 3 {
						w.submit(fmt.Sprint("long", i+1), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: slow, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:18000"})
					}
					w.until(30*time.Minute, "they train", func() bool {
						return w.view("long1").Iter > 60 && w.view("long2").Iter > 60 && w.view("long3").Iter > 60
					})
					comment = "unisched:class=strict,deadline=now+90m,ckpt=B:USR1,stop=iters:3000,profile=skip"
				}
				e.job.Comment, e.job.Body, e.job.TimeLimit = comment, training(3000), time.Hour
				w.submit("it", e.job)
				w.run(20*time.Second, nil)
				var want slurm.Job
				m.edit(w, func() {
					w.sim.Edit(w.ids["it"], e.edit)
					want = w.job("it")
				})
				if m.frees {
					for i := range 3 { // whichever node it is that it wants now
						w.sim.Cancel(w.ids[fmt.Sprint("long", i+1)])
					}
				}
				w.until(2*time.Hour, "it runs", func() bool { return w.running("it") })
				if j := w.job("it"); !e.want(j) {
					t.Errorf("it runs on %v with %d GPUs", j.Nodes, j.AllocGPUs)
				}
				if !slices.ContainsFunc(w.view("it").Events, func(e bridge.Event) bool { return e.What == "edited" }) {
					t.Error("it was not taken over")
				}
				// Back in the queue and given back it is as its user left it.
				if err := w.sim.Requeue(t.Context(), w.job("it").Ref()); err != nil {
					t.Fatal(err)
				}
				w.sim.Hold(w.ids["it"]) // its user's: it stays where it can be looked at
				w.order(bridge.Order{Kind: bridge.OrderRelease, Job: w.ids["it"]})
				w.run(time.Minute, nil)
				if j := w.job("it"); j.State == slurm.StatePending {
					q, o := j.Request, want.Request
					if e.edit.Required == nil {
						o.RequiredNodes = nil
					}
					if q.TRESPerNode != o.TRESPerNode || q.TRESPerJob != o.TRESPerJob || !slices.Equal(q.RequiredNodes, o.RequiredNodes) {
						t.Errorf("given back: %+v, its user left %+v", q, o)
					}
				} else {
					t.Fatalf("it is %s", j.State)
				}
			})
		}
	}
}
