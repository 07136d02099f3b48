package slurmsim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/slurm"
)

// began lists when jobs started, in seconds since the cluster's begin, by name.
func (c *Cluster) began() map[string]int {
	out := map[string]int{}
	for _, e := range c.history {
		if strings.HasPrefix(e.What, "start ") {
			out[c.byID(e.Job).sub.Name] = int(e.At.Sub(c.cfg.Start).Seconds())
		}
	}
	return out
}

// Backfill starts who ends before the first waiting job can begin, or leaves it its GPUs, and nobody else.
func TestBackfill(t *testing.T) {
	min := time.Minute
	cases := []struct {
		name string
		off  bool
		subs []Submission // after a job that holds n1 and n2 for 10 minutes by its limit, and 20 s in truth
		want string       // who has begun a minute later
	}{
		{name: "a short one goes before a wide one that waits", subs: []Submission{{Name: "wide", GPUsPerNode: 4, Nodes: 3, TimeLimit: 60 * min},
			{Name: "short", GPUs: 4, TimeLimit: 5 * min}}, want: "short"},
		{name: "a long one does not", subs: []Submission{{Name: "wide", GPUsPerNode: 4, Nodes: 3, TimeLimit: 60 * min}, {Name: "long", GPUs: 4, TimeLimit: 20 * min}}},
		{name: "nor one without a limit", subs: []Submission{{Name: "wide", GPUsPerNode: 4, Nodes: 3, TimeLimit: 60 * min}, {Name: "endless", GPUs: 1}}},
		{name: "a long one that leaves the first its GPUs does", subs: []Submission{{Name: "wide", GPUsPerNode: 4, Nodes: 2, TimeLimit: 60 * min},
			{Name: "long", GPUs: 4, TimeLimit: 200 * min}}, want: "long"},
		{name: "two that fit together", subs: []Submission{{Name: "wide", GPUsPerNode: 4, Nodes: 3, TimeLimit: 60 * min}, {Name: "a", GPUs: 2, TimeLimit: 5 * min},
			{Name: "b", GPUs: 2, TimeLimit: 5 * min}, {Name: "c", GPUs: 2, TimeLimit: 5 * min}}, want: "a b"},
		{name: "without backfill nobody", off: true, subs: []Submission{{Name: "wide", GPUsPerNode: 4, Nodes: 3, TimeLimit: 60 * min},
			{Name: "short", GPUs: 4, TimeLimit: 5 * min}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{}
			if c.off {
				cfg.BackfillInterval = -1
			}
			s := small(cfg)
			s.Submit(Submission{Name: "first", GPUsPerNode: 4, Nodes: 2, TimeLimit: 10 * min, Body: train(1e6)})
			s.wait(5 * time.Second)
			for _, sub := range c.subs {
				sub.Body = train(1e6)
				s.Submit(sub)
			}
			s.wait(min)
			var got []string
			began := s.began()
			for _, sub := range c.subs {
				if _, ok := began[sub.Name]; ok {
					got = append(got, sub.Name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("began %v, want %q", began, c.want)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The first waiting job begins no later than it would have without backfill.
func TestBackfillDelaysNobody(t *testing.T) {
	begins := func(interval time.Duration) int {
		s := small(Config{BackfillInterval: interval, MinJobAge: 10 * time.Hour})
		s.Submit(Submission{Name: "first", GPUsPerNode: 4, Nodes: 2, TimeLimit: 10 * time.Minute, Body: train(590)})
		s.wait(5 * time.Second)
		s.Submit(Submission{Name: "wide", GPUsPerNode: 4, Nodes: 3, TimeLimit: time.Hour, Body: train(60)})
		for i := range 40 {
			s.Submit(Submission{Name: fmt.Sprint("small", i), GPUs: 1 + i%4, TimeLimit: time.Duration(1+i%13) * time.Minute, Body: train(int64(20 * (i%13 + 1)))})
		}
		s.wait(time.Hour)
		return s.began()["wide"]
	}
	with, without := begins(30*time.Second), begins(-1)
	if with > without+3 { // both within one scheduling latency of the first job's end
		t.Errorf("the wide job began after %d s with backfill, %d s without", with, without)
	}
}

// Checkpoints share the storage when more are written at once than it serves at full speed; one that is killed leaves its part to the others.
func TestStorageIsShared(t *testing.T) {
	cases := []struct {
		name    string
		streams int
		kill    bool
		want    []int // seconds from the signal to the end of each
	}{
		{"without a limit", 0, false, []int{10, 10, 10, 10}},
		{"four at a time", 4, false, []int{10, 10, 10, 10}},
		{"two at a time", 2, false, []int{20, 20, 20, 20}},
		{"one at a time, and one is killed after 8 s", 1, true, []int{8, 32, 32, 32}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			left := map[slurm.JobID]time.Time{}
			s := small(Config{Streams: c.streams, Watch: func(m Moment) {
				if m.Kind == Left {
					left[m.Job] = m.At
				}
			}})
			var ids []slurm.JobID
			for range 4 {
				ids = append(ids, s.Submit(Submission{GPUs: 1, Body: Body{Iterations: 1e6, Ready: time.Second, Save: 10 * time.Second}}))
			}
			s.wait(30 * time.Second)
			at := s.Now()
			for _, id := range ids {
				usr1(s, id)
			}
			if c.kill {
				s.wait(8 * time.Second)
				s.Cancel(ids[0])
			}
			s.wait(time.Minute)
			var got []int
			for _, id := range ids {
				got = append(got, int(left[id].Sub(at).Round(time.Second).Seconds()))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("ends (-want +got):\n%s", d)
			}
		})
	}
}

// case 25: capacity of a node that never finishes its epilog is not given out again; a launch that fails leaves the job held by Slurm.
func TestNodesThatMisbehave(t *testing.T) {
	s := small(Config{MinJobAge: 10 * time.Hour})
	s.SlowEpilog("n1", 30*time.Minute)
	a := s.Submit(Submission{Name: "a", GPUsPerNode: 4, Nodes: 1, Body: train(10)})
	s.wait(20 * time.Second)
	if j := s.show(t, a); j.State != slurm.StateCompleted || !j.HasFlag(slurm.FlagCompleting) || placed(j) != "n1:4" {
		t.Fatalf("%s %v on %s", j.State, j.Flags, placed(j))
	}
	s.Submit(Submission{Name: "b", GPUsPerNode: 4, Nodes: 3, Body: train(10)})
	s.wait(29 * time.Minute)
	if _, ok := s.began()["b"]; ok || s.FreeGPUs() != 8 {
		t.Errorf("b began: %v; %d GPUs free", ok, s.FreeGPUs())
	}
	s.SlowEpilog("n1", 0)
	s.wait(2 * time.Minute)
	if _, ok := s.began()["b"]; !ok {
		t.Error("b did not begin when the node was done")
	}
	s.FailLaunches("n1", 1)
	c := s.Submit(Submission{Name: "c", GPUs: 1, Body: train(10)})
	s.wait(10 * time.Second)
	j := s.show(t, c)
	got := fmt.Sprint(j.State, " ", j.Reason, " held ", j.Held, " priority ", j.Priority, " restarts ", j.Restarts)
	if want := "PENDING JobHeldUser held true priority 0 restarts 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// case 51: no job starts that might still run when a reservation begins; one whose limit fits does.
func TestReservation(t *testing.T) {
	s := small(Config{MinJobAge: 10 * time.Hour})
	s.Reserve(slurm.Reservation{Name: "maint", Nodes: []string{"n1", "n2", "n3"}, Start: s.Now().Add(2 * time.Hour), End: s.Now().Add(3 * time.Hour)})
	for name, limit := range map[string]time.Duration{"fits": time.Hour, "over": 3 * time.Hour, "endless": 0} {
		s.Submit(Submission{Name: name, GPUs: 1, TimeLimit: limit, Body: train(60)})
	}
	s.wait(90 * time.Minute)
	if _, ok := s.began()["fits"]; !ok || len(s.began()) != 1 {
		t.Errorf("began before the reservation: %v", s.began())
	}
	s.wait(100 * time.Minute)
	if began := s.began(); len(began) != 3 || began["over"] < 3*3600 || began["endless"] < 3*3600 {
		t.Errorf("began: %v", began)
	}
}

// An hour without events costs nothing: no event is due on an idle cluster, nor while jobs wait and nothing changes.
func TestIdleCostsNothing(t *testing.T) {
	s := small(Config{})
	s.wait(time.Minute)
	if at := s.Next(); !at.IsZero() {
		t.Errorf("on an idle cluster something is due at %v", at)
	}
	s.Submit(Submission{Name: "held", GPUs: 1, Hold: true})
	s.Submit(Submission{Name: "full", GPUsPerNode: 4, Nodes: 3, Body: Body{Iterations: 1e9, Every: 1e9 * time.Second}})
	s.wait(time.Minute)
	s.Submit(Submission{Name: "waits", GPUsPerNode: 4, Nodes: 3, TimeLimit: time.Hour})
	s.Submit(Submission{Name: "behind", GPUs: 1, TimeLimit: time.Hour})
	s.wait(10 * time.Minute)
	before := s.seq
	s.wait(100 * time.Hour)
	if s.seq != before {
		t.Errorf("%d events in 100 hours in which nothing happened", s.seq-before)
	}
}
