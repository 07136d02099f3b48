package slurmsim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/slurm"
)

func small(cfg Config) *Cluster {
	return New(cfg, Nodes(3, 4), Partition{Name: "gpu"}, Partition{Name: "profile", MaxNodes: 2, MaxGPUs: 2})
}

func (c *Cluster) show(t *testing.T, id slurm.JobID) slurm.Job {
	t.Helper()
	j, err := c.Job(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (c *Cluster) wait(d time.Duration) { c.Advance(c.Now().Add(d)) }

func placed(j slurm.Job) string {
	var parts []string
	for _, g := range j.NodeGPUs {
		parts = append(parts, fmt.Sprintf("%s:%d", g.Node, g.Count))
	}
	return strings.Join(parts, " ")
}

func train(seconds int64) Body {
	return Body{Iterations: seconds, Ready: 2 * time.Second, Save: 3 * time.Second, Resume: 5 * time.Second}
}

// How jobs of different requests land on nodes, some of which are partly taken.
func TestPlacement(t *testing.T) {
	cases := []struct {
		name string
		held []int // GPUs taken of n1, n2, n3
		sub  Submission
		up   slurm.Update
		want string
	}{
		{name: "one GPU goes where least is left", held: []int{1, 3, 0}, sub: Submission{GPUs: 1}, want: "n2:1"},
		{name: "per node is exact", sub: Submission{GPUsPerNode: 2, Nodes: 3}, want: "n1:2 n2:2 n3:2"},
		{name: "per job takes as few nodes as it can", sub: Submission{GPUs: 6}, want: "n1:4 n2:2"},
		{name: "per job on pinned nodes is packed, one left for each", sub: Submission{GPUs: 6},
			up: slurm.Update{SeenPending: true, RequiredNodes: []string{"n1", "n2", "n3"}}, want: "n1:4 n2:1 n3:1"},
		{name: "holes are filled as planned", held: []int{0, 2, 4}, sub: Submission{GPUs: 6},
			up: slurm.Update{SeenPending: true, RequiredNodes: []string{"n2", "n1"}}, want: "n1:4 n2:2"},
		{name: "three names, one node", sub: Submission{GPUsPerNode: 4, Nodes: 1},
			up: slurm.Update{SeenPending: true, RequiredNodes: []string{"n3"}}, want: "n3:4"},
		{name: "a reshaped job", sub: Submission{GPUsPerNode: 4, Nodes: 1}, want: "n1:2 n3:2",
			up: slurm.Update{SeenPending: true, RequiredNodes: []string{"n3", "n1"}, TRESPerNode: slurm.Some("gres/gpu:2"), Tasks: slurm.Some(2)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := small(Config{})
			for i, g := range c.held {
				if g > 0 {
					id := s.Submit(Submission{GPUs: g, Body: train(1e6)})
					if err := s.Update(context.Background(), id.Ref(), slurm.Update{SeenPending: true, RequiredNodes: []string{fmt.Sprint("n", i+1)}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.wait(4 * time.Second)
			c.sub.Body, c.sub.Hold = train(1e6), true
			id := s.Submit(c.sub)
			c.up.Hold = slurm.Some(false)
			if err := s.Update(context.Background(), id.Ref(), c.up); err != nil {
				t.Fatal(err)
			}
			s.wait(4 * time.Second)
			if got := placed(s.show(t, id)); got != c.want {
				t.Errorf("placed %q, want %q", got, c.want)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Which updates are refused, with what, and what they change all the same.
func TestUpdateRefusals(t *testing.T) {
	some := func(b bool) slurm.Opt[bool] { return slurm.Some(b) }
	cases := []struct {
		name  string
		state string // pending, held, running, finished, none
		up    slurm.Update
		kind  error
		code  int
	}{
		{name: "unknown job", state: "none", up: slurm.Update{Hold: some(true)}, kind: slurm.ErrNotFound, code: 2017},
		{name: "finished job", state: "finished", up: slurm.Update{Hold: some(true)}, kind: slurm.ErrFinished, code: 2084},
		{name: "partition of a running job", state: "running", up: slurm.Update{Partition: slurm.Some("profile")}, kind: slurm.ErrNotPending, code: 2073},
		{name: "begin time of a running job", state: "running", up: slurm.Update{BeginTime: slurm.Some(time.Time{})}, kind: slurm.ErrNotPending, code: 2073},
		{name: "nodes of a running job", state: "running", up: slurm.Update{SeenPending: true, RequiredNodes: []string{"n1"}}, kind: slurm.ErrRefused, code: 2018},
		{name: "hold of a running job", state: "running", up: slurm.Update{Hold: some(true), Nice: slurm.Some[int64](5)}},
		{name: "unknown node", state: "pending", up: slurm.Update{SeenPending: true, RequiredNodes: []string{"x9"}}, kind: slurm.ErrRefused, code: 2018},
		{name: "unknown partition", state: "pending", up: slurm.Update{Partition: slurm.Some("none")}, kind: slurm.ErrRefused, code: 2000},
		{name: "priority while held", state: "held", up: slurm.Update{Priority: slurm.Some[int64](77)}, kind: slurm.ErrRefused, code: 2042},
		{name: "nice while held", state: "held", up: slurm.Update{Nice: slurm.Some[int64](-3000)}},
		{name: "contradicting GPU counts", state: "pending", up: slurm.Update{TRESPerJob: slurm.Some("gres/gpu:3")}, kind: slurm.ErrRefused, code: 2072},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := small(Config{})
			id := slurm.JobID(99)
			switch c.state {
			case "pending":
				id = s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Begin: s.Now().Add(time.Hour)})
			case "held":
				id = s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Hold: true})
			case "running":
				id = s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Body: train(1000)})
				s.wait(5 * time.Second)
			case "finished":
				id = s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Body: train(3)})
				s.wait(30 * time.Second)
			}
			err := s.Update(context.Background(), id.Ref(), c.up)
			var e *slurm.Error
			if c.kind == nil && err != nil || c.kind != nil && (!errors.Is(err, c.kind) || !errors.As(err, &e) || e.Code != c.code) {
				t.Errorf("error %v, want %v (%d)", err, c.kind, c.code)
			}
		})
	}
}

// The move of a running job: held, signalled, back in the queue still held, and running again within seconds of one update.
func TestMove(t *testing.T) {
	ctx := context.Background()
	s := small(Config{Completing: 2 * time.Second})
	id := s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Body: train(1000)})
	s.wait(60 * time.Second)
	first := s.show(t, id)
	if err := s.Update(ctx, id.Ref(), slurm.Update{Hold: slurm.Some(true)}); err != nil {
		t.Fatal(err)
	}
	s.wait(time.Second)
	if j := s.show(t, id); j.State != slurm.StateRunning || !j.Held {
		t.Fatalf("a hold on a running job: %s held=%v", j.State, j.Held)
	}
	if err := s.Signal(ctx, id.Ref(), slurm.Signal{Name: slurm.USR1}); err != nil {
		t.Fatal(err)
	}
	s.wait(4 * time.Second)
	mid := s.show(t, id)
	if mid.State != slurm.StatePending || !mid.HasFlag(slurm.FlagCompleting) || mid.Restarts != 1 || !mid.Submit.Equal(first.Submit) || len(mid.NodeGPUs) == 0 {
		t.Errorf("while its node completes: %s %v restarts %d submit %v on %v", mid.State, mid.Flags, mid.Restarts, mid.Submit, mid.Nodes)
	}
	s.wait(10 * time.Second)
	back := s.show(t, id)
	if back.HasFlag(slurm.FlagCompleting) || !back.Held || back.Reason != "JobHeldAdmin" || !back.Submit.After(first.Submit) || len(back.Nodes) > 0 {
		t.Errorf("back in the queue: %+v", back)
	}
	up := slurm.Update{SeenPending: true, Hold: slurm.Some(false), RequiredNodes: []string{"n2"}, BeginTime: slurm.Some(time.Time{})}
	if err := s.Update(ctx, id.Ref(), up); err != nil {
		t.Fatal(err)
	}
	s.wait(4 * time.Second)
	if j := s.show(t, id); j.State != slurm.StateRunning || placed(j) != "n2:4" {
		t.Errorf("after the release: %s on %q", j.State, placed(j))
	}
	s.wait(20 * time.Minute)
	if j, err := s.Job(ctx, id); err == nil && j.State != slurm.StateCompleted {
		t.Errorf("in the end: %s", j.State)
	}
}

// Without help a requeued job waits 121 s and the next regular pass.
func TestRequeueDelay(t *testing.T) {
	s := small(Config{})
	id := s.Submit(Submission{GPUs: 1, Body: train(1000)})
	s.wait(30 * time.Second)
	if err := s.Requeue(context.Background(), id.Ref()); err != nil {
		t.Fatal(err)
	}
	s.wait(100 * time.Second)
	if j := s.show(t, id); j.State != slurm.StatePending || j.Reason != "BeginTime" || !j.Begin.After(s.Now()) {
		t.Errorf("after 100 s: %s %q begin %v", j.State, j.Reason, j.Begin)
	}
	s.wait(80 * time.Second)
	if j := s.show(t, id); j.State != slurm.StateRunning || j.Restarts != 1 {
		t.Errorf("after 180 s: %s", j.State)
	}
}

// How runs end.
func TestEnds(t *testing.T) {
	one := 1
	cases := []struct {
		name string
		sub  Submission
		do   func(*Cluster, slurm.JobID)
		want string
	}{
		{name: "done", sub: Submission{Body: train(20)}, want: "COMPLETED 0:0"},
		{name: "time limit", sub: Submission{Body: train(600), TimeLimit: time.Minute}, want: "TIMEOUT 0:15"},
		{name: "no trap", sub: Submission{Body: Body{Iterations: 600, Trap: NoTrap}}, do: usr1, want: "FAILED 0:10"},
		{name: "before the trap is installed", sub: Submission{Body: Body{Iterations: 600, Ready: time.Minute}}, do: usr1, want: "FAILED 0:10"},
		{name: "exit 1 after saving", sub: Submission{Body: Body{Iterations: 600, Exit: &one}}, do: usr1, want: "FAILED 1:0"},
		{name: "exit 99 with --no-requeue", sub: Submission{Body: train(600), NoRequeue: true}, do: usr1, want: "FAILED 99:0"},
		{name: "too few GPUs", sub: Submission{Body: Body{Iterations: 600, NeedGPUs: 2}}, want: "FAILED 1:0"},
		{name: "cancelled", sub: Submission{Body: train(600)}, do: func(c *Cluster, id slurm.JobID) { c.Cancel(id) }, want: "CANCELLED 0:15"},
		{name: "node failure without requeue", sub: Submission{Body: train(600), NoRequeue: true}, do: func(c *Cluster, _ slurm.JobID) { c.Down("n1") }, want: "NODE_FAIL 0:0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := small(Config{})
			c.sub.GPUs = 1
			id := s.Submit(c.sub)
			s.wait(30 * time.Second)
			if c.do != nil {
				c.do(s, id)
			}
			s.wait(60 * time.Second)
			j := s.show(t, id)
			if got := fmt.Sprintf("%s %d:%d", j.State, j.ExitCode, j.ExitSignal); got != c.want {
				t.Errorf("ended %s, want %s", got, c.want)
			}
			s.wait(6 * time.Minute)
			if _, err := s.Job(context.Background(), id); !errors.Is(err, slurm.ErrNotFound) {
				t.Errorf("after MinJobAge: %v", err)
			}
		})
	}
}

func usr1(c *Cluster, id slurm.JobID) {
	_ = c.Signal(context.Background(), id.Ref(), slurm.Signal{Name: slurm.USR1})
}

// A lower job takes a free node at once while a higher one waits for its time; a higher one that is pinned closes only its nodes; one that is not
// keeps the others of its partition waiting.
func TestOrderOfStarts(t *testing.T) {
	s := small(Config{})
	full := s.Submit(Submission{GPUsPerNode: 4, Nodes: 3, Body: train(60)})
	s.wait(5 * time.Second)
	delayed := s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Priority: 100000, Begin: s.Now().Add(time.Hour), Body: train(600)})
	pinned := s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Priority: 90000, Body: train(600)})
	if err := s.Update(context.Background(), pinned.Ref(), slurm.Update{SeenPending: true, RequiredNodes: []string{"n2"}}); err != nil {
		t.Fatal(err)
	}
	low := s.Submit(Submission{GPUsPerNode: 4, Nodes: 1, Priority: 1, Body: train(600)})
	wide := s.Submit(Submission{GPUsPerNode: 4, Nodes: 3, Priority: 500, Body: train(600)})
	s.wait(30 * time.Second)
	if got := s.show(t, low).Reason; got != "Priority" {
		t.Errorf("low waits with reason %q", got)
	}
	s.Cancel(full)
	s.wait(10 * time.Second)
	got := map[string]slurm.BaseState{}
	for n, id := range map[string]slurm.JobID{"delayed": delayed, "pinned": pinned, "low": low, "wide": wide} {
		got[n] = s.show(t, id).State
	}
	want := map[string]slurm.BaseState{"delayed": slurm.StatePending, "pinned": slurm.StateRunning, "low": slurm.StatePending, "wide": slurm.StatePending}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p := placed(s.show(t, pinned)); p != "n2:4" {
		t.Errorf("pinned is on %s", p)
	}
	s.Cancel(wide)
	s.wait(10 * time.Second)
	if j := s.show(t, low); j.State != slurm.StateRunning {
		t.Errorf("low is %s (%s)", j.State, j.Reason)
	}
}

// The same seed gives the same history; another one does not.
func TestDeterministic(t *testing.T) {
	history := func(seed uint64) string {
		s := small(Config{Seed: seed})
		for i := range 40 {
			s.Submit(Submission{GPUs: 1 + i%5, Body: train(int64(20 + 7*i))})
			s.wait(11 * time.Second)
			if i%7 == 3 {
				usr1(s, slurm.JobID(i))
			}
		}
		s.wait(3 * time.Hour)
		if n := s.Unfinished(); n != 0 {
			t.Errorf("%d jobs are not over", n)
		}
		return fmt.Sprint(s.History())
	}
	if a, b := history(3), history(3); a != b {
		t.Error(cmp.Diff(a, b))
	}
	if history(3) == history(4) {
		t.Error("the seed changes nothing")
	}
}

// A trace of the size that the simulator has to carry: 30,000 jobs in 14 days on 120 nodes of 8 GPUs, plain Slurm.
func BenchmarkTrace(b *testing.B) {
	for b.Loop() {
		c := New(Config{}, Nodes(120, 8), Partition{Name: "gpu"})
		end := c.Now().Add(14 * 24 * time.Hour)
		gap := end.Sub(c.Now()) / 30000
		for i := range 30000 {
			body := train(int64(1000 + i*7919%20000))
			body.Every = 5 * time.Minute
			c.Submit(Submission{GPUs: 1 << (i % 4), Body: body, TimeLimit: 24 * time.Hour})
			c.Advance(c.Now().Add(gap))
			c.Reports()
		}
		c.Advance(end.Add(14 * 24 * time.Hour))
		if n := c.Unfinished(); n > 0 {
			b.Fatalf("%d jobs left", n)
		}
	}
}
