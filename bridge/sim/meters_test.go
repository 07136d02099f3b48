package sim

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/sim/trace"
	"unisched/planner"
)

// TestQueueFits: free GPUs count as a hole only where a waiting job would take them, the smallest first.
func TestQueueFits(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits []int
		free  int
		want  int
	}{
		{"nobody waits", nil, 8, 0},
		{"the only one is too wide", []int{8}, 7, 0},
		{"one fits", []int{8, 4}, 7, 4},
		{"the smallest first", []int{4, 1, 1}, 5, 2},
		{"all of them", []int{4, 1, 1}, 6, 6},
		{"as many as fit", []int{2, 2, 2, 2}, 5, 4},
		{"nothing free", []int{1}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q queue
			q.add(3, 1)
			for _, g := range c.waits {
				q.add(g, 1)
			}
			q.add(3, -1) // no longer waits
			if got := q.fits(c.free); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestHoles: under first come first served a wide job at the head of the queue keeps a small one from free GPUs; how long is known.
func TestHoles(t *testing.T) {
	after := func(d time.Duration) trace.Tier { return trace.Tier{After: d, Value: 100} }
	r := play(t, Config{Oracle: true}, rival(t, "fifo"), job("two", 2, 0, time.Hour), job("wide", 4, time.Minute, time.Hour, after(90*time.Minute)),
		job("small", 1, 2*time.Minute, time.Hour))
	// "small" would fit into the two free GPUs from its submission until "wide" starts, and "wide" leaves it nothing.
	if want := 58. * 60; math.Abs(r.HoleGPU-want) > 180 {
		t.Errorf("holes of %.0f GPU-seconds, want about %.0f", r.HoleGPU, want)
	}
	if *r.HoleShare <= 0.05 || *r.HoleShare > 0.15 {
		t.Errorf("share %v", *r.HoleShare)
	}
	sum := 0.0
	for _, h := range r.Holes {
		sum += h * r.Unit.Seconds()
	}
	if math.Abs(sum-r.HoleGPU) > 1 {
		t.Errorf("holes over time add up to %v, in all %v", sum, r.HoleGPU)
	}
	if *r.QueueMean < 0.4 || *r.QueueMean > 2 {
		t.Errorf("queue of %v", *r.QueueMean)
	}
	// The wide one came too late and no plan could have helped under this policy: it is booked once, with the time it held.
	a := r.Accounts
	if n := a.Runtime.Misses + a.Solver.Misses + a.Prediction.Misses + a.Crowding.Misses; n != 1 || r.SLOLost != 1 {
		t.Errorf("accounts %+v", a)
	}
}

// TestAccounts: a job that lost value is booked in the first account that applies.
func TestAccounts(t *testing.T) {
	missed := Outcome{Class: planner.Strict, Miss: 1, Tier: -1}
	late := Outcome{Class: planner.Soft, Miss: 0.5, Tier: 1}
	var got Accounts
	got.book(&account{retries: 1, greedy: true, promised: 0, held: 10}, missed)
	got.book(&account{greedy: true, promised: 0, held: 20}, missed)
	got.book(&account{promised: 0, held: 30}, late)
	got.book(&account{promised: 1, held: 40}, late)
	got.book(&account{promised: -1, held: 50}, missed)
	want := Accounts{Runtime: Account{Misses: 1, Value: 1}, Solver: Account{Misses: 1, Value: 1}, Prediction: Account{Misses: 1, Value: 0.5, GPU: 30},
		Crowding: Account{Misses: 2, Value: 1.5, GPU: 90}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestForecasts: with the truth known and no noise, the run time left is forecast to within the rounding of a start.
func TestForecasts(t *testing.T) {
	r := play(t, Config{Oracle: true}, rival(t, "fifo"), job("a", 4, 0, 2*time.Hour), job("b", 2, 0, 2*time.Hour))
	if r.Forecasts == 0 || *r.ForecastError > 0.02 || *r.ForecastMid > 0.02 {
		t.Errorf("%d forecasts, error %v, at half time %v", r.Forecasts, *r.ForecastError, *r.ForecastMid)
	}
}

// TestTenants: by account, or by user where there are none; the largest first.
func TestTenants(t *testing.T) {
	of := func(user, account string, held float64, end time.Duration) Outcome {
		return Outcome{User: user, Account: account, Class: planner.BestEffort, Held: held, Begin: 0, End: end}
	}
	names := func(ts []Tenant) (out []string) {
		for _, x := range ts {
			out = append(out, x.Name)
		}
		return out
	}
	users := Tenants([]Outcome{of("ann", "", 1, time.Hour), of("bob", "", 5, -1), of("ann", "", 1, 3*time.Hour)})
	if d := cmp.Diff([]string{"bob", "ann"}, names(users)); d != "" {
		t.Error(d)
	}
	if u := users[0]; u.Unfinished != 1 || u.JCTP50 != nil || *users[1].JCTP95 != 10800 || *users[1].BEJCTMean != 7200 {
		t.Errorf("%+v", users)
	}
	if d := cmp.Diff([]string{"lab"}, names(Tenants([]Outcome{of("ann", "lab", 1, time.Hour), of("bob", "", 5, time.Hour)}))); d != "" {
		t.Error(d)
	}
	if got := Tenants([]Outcome{of("", "", 1, time.Hour)}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestProfilesApart: with nodes set apart for profiles, jobs are measured there, and run elsewhere.
func TestProfilesApart(t *testing.T) {
	r := play(t, Config{Nodes: 3, GPUsPerNode: 4, Profile: 5 * time.Minute, ProfileNodes: 1}, rival(t, "srsf"), job("a", 4, 0, time.Hour), job("b", 2, 0, time.Hour))
	if r.Profiles != 2 || r.Unfinished != 0 {
		t.Fatalf("%d profiles, %d unfinished", r.Profiles, r.Unfinished)
	}
	for _, s := range r.Stays {
		for _, g := range s.Where {
			if apart := g.Node == r.Stays[0].Where[0].Node; apart != s.Profile {
				t.Errorf("job %d on %s, a profile: %v", s.Job, g.Node, s.Profile)
			}
		}
	}
}

// TestSpread: who has a task for each GPU may take the last GPUs of two nodes, and is slower there; a single task waits for one node.
func TestSpread(t *testing.T) {
	crowded := []trace.Job{job("a", 3, 0, time.Hour), job("b", 3, 0, time.Hour), job("c", 2, 10*time.Minute, 10*time.Hour)}
	for _, c := range []struct {
		spread bool
		wait   time.Duration
		nodes  int
	}{{false, 50 * time.Minute, 1}, {true, 0, 2}} {
		r := play(t, Config{Nodes: 2, GPUsPerNode: 4, Oracle: true, Spread: c.spread}, rival(t, "fifo"), crowded...)
		last := r.Stays[len(r.Stays)-1]
		if got := last.From - 10*time.Minute; got < c.wait || got > c.wait+2*time.Minute || len(last.Where) != c.nodes {
			t.Errorf("spread %v: waited %v and ran on %d nodes, want %v and %d", c.spread, got, len(last.Where), c.wait, c.nodes)
		}
	}
}
