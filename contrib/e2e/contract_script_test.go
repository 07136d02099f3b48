package e2e

import (
	"time"

	"unisched/slurm"
)

// A scene on the real cluster lasts at least so long, and ends then or as soon as all jobs stand where they stood on slurmsim: a busy host may take its
// time, so no scene hangs on how fast Slurm is, and no job in it ends by itself before it is over unless its end is what is looked at.
const (
	soon = 300 * time.Millisecond
	most = 20 * time.Second
	// dwell is long enough for a scheduling pass and a backfill: what has not started by then waits.
	dwell = 7 * time.Second
)

// script is what is played. Each chapter begins on an empty cluster of three nodes of four GPUs.
var script = []struct {
	name string
	play func(*play)
}{
	{"packing", func(p *play) {
		p.submit(asked{name: "a1", gpus: 1})
		p.until(soon, most)
		p.submit(asked{name: "b2", gpus: 2})
		p.until(soon, most)
		p.submit(asked{name: "c1", gpus: 1})
		p.until(soon, most)
		p.submit(asked{name: "d6", gpus: 6})
		p.until(soon, most)
		p.submit(asked{name: "e2", gpus: 2, tasks: 2})
		p.until(soon, most)
		p.submit(asked{name: "f1", gpus: 1}) // nothing is left
		p.until(dwell, most)
	}},
	{"per node", func(p *play) {
		p.submit(asked{name: "one", gpus: 1})
		p.until(soon, most)
		p.submit(asked{name: "two by two", perNode: 2, nodes: 2})
		p.until(soon, most)
		p.submit(asked{name: "four", perNode: 4, nodes: 1})
		p.until(dwell, most)
		p.submit(asked{name: "too much", perNode: 5, nodes: 1, hold: true})
		p.until(soon, most)
	}},
	{"hold and release", func(p *play) {
		p.submit(asked{name: "own", gpus: 1, hold: true})
		p.submit(asked{name: "ours", gpus: 1, begin: time.Hour})
		p.update("ours", slurm.Update{Hold: slurm.Some(true)})
		p.until(time.Second, most)
		p.update("own", slurm.Update{Hold: slurm.Some(false)})
		p.update("ours", slurm.Update{Hold: slurm.Some(false)})
		p.until(dwell, most)
		p.update("ours", slurm.Update{BeginTime: slurm.Some(time.Time{})})
		p.until(soon, most)
		p.update("own", slurm.Update{Hold: slurm.Some(true)}) // while it runs
		p.until(time.Second, most)
	}},
	{"begin time moves", func(p *play) {
		p.submit(asked{name: "job", gpus: 1, begin: 6 * time.Second})
		p.update("job", slurm.Update{BeginTime: slurm.Some(p.on.now().Add(time.Hour))})
		p.until(dwell+3*time.Second, most) // past the time that it had
		p.update("job", slurm.Update{BeginTime: slurm.Some(time.Time{})})
		p.until(soon, most)
	}},
	{"pin, nice and order", func(p *play) {
		for _, n := range []string{"x1", "x2", "x3"} {
			p.submit(asked{name: n, perNode: 4, nodes: 1})
		}
		p.until(soon, most)
		p.submit(asked{name: "late", perNode: 4, nodes: 1})
		p.submit(asked{name: "first", perNode: 4, nodes: 1, hold: true})
		p.update("first", slurm.Update{SeenPending: true, Hold: slurm.Some(false), Nice: slurm.Some[int64](-1000), RequiredNodes: []string{"n2"}, Nodes: slurm.Some(1)})
		p.until(dwell, most)
		p.cancel("x1") // late takes it: first wants n2 only
		p.until(soon, most)
		p.cancel("x2")
		p.until(soon, most)
		p.submit(asked{name: "pinned", perNode: 4, nodes: 1, hold: true})
		p.update("pinned", slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n2"}, Nodes: slurm.Some(1)})
		p.until(dwell, most)
		p.result("pinned", p.on.ClearRequiredNodes(p.ctx, p.ids["pinned"].Ref(), 0))
		p.cancel("x3")
		p.until(soon, most)
	}},
	{"another shape", func(p *play) {
		p.submit(asked{name: "job", gpus: 4, tasks: 4, hold: true})
		p.update("job", slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n2", "n3"}, Nodes: slurm.Some(2), Tasks: slurm.Some(2),
			TRESPerNode: slurm.Some("gres/gpu:1"), TRESPerJob: slurm.Some("gres/gpu:2"), Partition: slurm.Some("profile")})
		p.until(soon, most)
	}},
	{"a move", func(p *play) {
		p.submit(asked{name: "job", perNode: 4, nodes: 1})
		p.until(2*time.Second, most)
		p.update("job", slurm.Update{Hold: slurm.Some(true)})
		p.result("job", p.on.Signal(p.ctx, p.ids["job"].Ref(), slurm.Signal{Name: slurm.USR1, BatchOnly: true}))
		p.until(dwell, most)
		p.update("job", slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n3"}, Nodes: slurm.Some(1), BeginTime: slurm.Some(time.Time{})})
		p.until(soon, most)
	}},
	{"requeue", func(p *play) {
		p.submit(asked{name: "asked", gpus: 1})
		p.submit(asked{name: "saves", gpus: 1})
		p.submit(asked{name: "stays", gpus: 1, noRequeue: true})
		p.until(2*time.Second, most)
		p.result("asked", p.on.Requeue(p.ctx, p.ids["asked"].Ref()))
		p.result("saves", p.on.Signal(p.ctx, p.ids["saves"].Ref(), slurm.Signal{Name: slurm.USR1}))
		p.result("stays", p.on.Requeue(p.ctx, p.ids["stays"].Ref()))
		p.until(dwell, most)
		p.update("asked", slurm.Update{BeginTime: slurm.Some(time.Time{})})
		p.update("saves", slurm.Update{BeginTime: slurm.Some(time.Time{})})
		p.until(soon, most)
	}},
	{"ends", func(p *play) {
		p.submit(asked{name: "deaf", gpus: 1, noTrap: true})
		p.submit(asked{name: "no way back", gpus: 1, noRequeue: true})
		p.submit(asked{name: "cancelled", gpus: 1})
		p.submit(asked{name: "waiting", gpus: 1, begin: time.Hour})
		p.until(2*time.Second, most)
		// The short ones come one by one: whose GPU is free again for the next must not hang on how fast the host starts jobs.
		p.submit(asked{name: "good", gpus: 1, seconds: 3})
		p.until(2*time.Second, most)
		p.submit(asked{name: "bad", gpus: 1, seconds: 3, exit: 3})
		p.until(2*time.Second, most)
		p.result("deaf", p.on.Signal(p.ctx, p.ids["deaf"].Ref(), slurm.Signal{Name: slurm.USR1}))
		p.result("no way back", p.on.Signal(p.ctx, p.ids["no way back"].Ref(), slurm.Signal{Name: slurm.USR1}))
		p.result("waiting", p.on.Signal(p.ctx, p.ids["waiting"].Ref(), slurm.Signal{Name: slurm.USR1}))
		p.cancel("cancelled", "waiting")
		p.until(2*time.Second, most)
		p.result("good", p.on.Signal(p.ctx, p.ids["good"].Ref(), slurm.Signal{Name: slurm.USR1}))
		p.update("good", slurm.Update{Hold: slurm.Some(true)})
		p.result("bad", p.on.Rerun(p.ctx, p.ids["bad"].Ref()))
		p.until(2*time.Second, most)
	}},
	{"refusals", func(p *play) {
		p.submit(asked{name: "runs", gpus: 1})
		p.submit(asked{name: "held", gpus: 1, hold: true})
		p.until(soon, most)
		p.update("runs", slurm.Update{Partition: slurm.Some("profile")})
		p.update("runs", slurm.Update{BeginTime: slurm.Some(p.on.now().Add(time.Hour))})
		p.update("runs", slurm.Update{TRESPerNode: slurm.Some("gres/gpu:1")})
		p.update("held", slurm.Update{Partition: slurm.Some("nowhere")})
		p.update("held", slurm.Update{SeenPending: true, RequiredNodes: []string{"n99"}})
		p.update("held", slurm.Update{Priority: slurm.Some[int64](77)})
		p.result("runs", p.on.Rerun(p.ctx, p.ids["runs"].Ref()))
		p.result("held", p.on.Requeue(p.ctx, p.ids["held"].Ref()))
		p.until(soon, most)
	}},
	{"dependency", func(p *play) {
		p.submit(asked{name: "before", gpus: 1, seconds: 25}) // longer than the first scene may take
		p.submit(asked{name: "then", gpus: 1, after: p.ids["before"]})
		p.until(2*time.Second, most)
		p.until(dwell, 2*most)
	}},
	{"drain", func(p *play) {
		p.submit(asked{name: "runs", perNode: 4, nodes: 1})
		p.until(soon, most)
		p.people("drain", "n1")
		p.people("drain", "n2")
		p.submit(asked{name: "elsewhere", perNode: 4, nodes: 1})
		p.submit(asked{name: "pinned", perNode: 4, nodes: 1, hold: true})
		p.update("pinned", slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n2"}, Nodes: slurm.Some(1)})
		p.submit(asked{name: "wide", perNode: 4, nodes: 3})
		p.until(dwell, most)
		p.people("resume", "n1")
		p.people("resume", "n2")
		p.until(soon, most)
	}},
	{"plain jobs compete", func(p *play) {
		p.submit(asked{name: "long", perNode: 4, nodes: 2, minutes: 10})
		p.until(soon, most)
		p.submit(asked{name: "wide", perNode: 4, nodes: 3, minutes: 10})
		p.submit(asked{name: "longer", gpus: 1, minutes: 30})
		p.submit(asked{name: "endless", gpus: 1, minutes: -1})
		p.submit(asked{name: "short", gpus: 1, minutes: 5})
		p.until(dwell, most)
		p.cancel("wide", "short")
		p.until(soon, most)
	}},
	{"profile limits", func(p *play) {
		p.submit(asked{name: "three", gpus: 3, partition: "profile"})
		p.submit(asked{name: "hours", gpus: 1, partition: "profile", minutes: 120, hold: true})
		p.update("hours", slurm.Update{Hold: slurm.Some(false)})
		p.submit(asked{name: "fine", gpus: 2, partition: "profile"})
		p.until(dwell, most)
	}},
	{"reservation ahead", func(p *play) {
		p.people("reserve", "n1,n2,n3")
		p.submit(asked{name: "fits", gpus: 1, minutes: 30})
		p.submit(asked{name: "over", gpus: 1, minutes: 90})
		p.submit(asked{name: "pinned over", gpus: 1, minutes: 90, hold: true})
		p.update("pinned over", slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n2"}, Nodes: slurm.Some(1)})
		p.until(dwell, most)
		p.people("unreserve")
		p.until(soon, most)
	}},
	{"launch fails", func(p *play) {
		p.people("break", "n1")
		p.submit(asked{name: "job", gpus: 1, hold: true})
		p.update("job", slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n1"}, Nodes: slurm.Some(1)})
		p.until(dwell, most)
		p.people("mend", "n1")
		p.until(dwell, most)
		p.update("job", slurm.Update{Hold: slurm.Some(false), BeginTime: slurm.Some(time.Time{})})
		p.until(soon, most)
	}},
}
