package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/planner/milp/highs"
)

func TestMain(m *testing.M) {
	highs.MaybeChild()
	os.Exit(m.Run())
}

// solver returns HiGHS, or skips the test in builds without it.
func solver(t *testing.T) milp.Solver {
	solve := highs.New(highs.Options{})
	m := &milp.Model{}
	m.AddCol(1, 0, 1, true)
	if _, err := solve(context.Background(), m, milp.Limits{}); errors.Is(err, highs.ErrUnavailable) {
		t.Skip(err)
	}
	return solve
}

// generous makes wall-clock limits irrelevant on a loaded machine.
func generous() lease.Config {
	var c lease.Config
	c.Limits.Time = time.Minute
	return c
}

func instances(t *testing.T, gpus, jobs int, run func(*testing.T, planner.Snapshot)) {
	for _, mix := range []string{"strict", "mix1", "mix2"} {
		for _, shape := range []string{"philly", "helios"} {
			t.Run(fmt.Sprint(mix, " ", shape), func(t *testing.T) {
				s, err := Spec{GPUs: gpus, Jobs: jobs, Mix: mix, Shape: shape, Seed: 1}.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				run(t, s)
			})
		}
	}
}

// TestInstances: with HiGHS every plan is feasible, within the gap, and earns and meets at least what greedy does.
func TestInstances(t *testing.T) {
	solve := solver(t)
	instances(t, 320, 250, func(t *testing.T, s planner.Snapshot) {
		r := Run(context.Background(), s, generous(), solve, time.Now, func() time.Duration { return 0 })
		for _, v := range planner.Check(s, r.Plan) {
			t.Error(v)
		}
		if r.Status != "optimal" || r.Gap > 0.001 {
			t.Errorf("status %s, gap %g, error %q", r.Status, r.Gap, r.Plan.Solver.Error)
		}
		for _, g := range []Greedy{r.Greedy, r.GreedyCandidates} {
			// Our own candidates may have been promoted beyond the model's rows, where within the gap another one won.
			if r.Objective < g.Objective*(1-r.Gap-0.001) || r.SLOMet < g.SLOMet {
				t.Errorf("objective %g, %d deadlines met; %s: %g, %d", r.Objective, r.SLOMet, g.Name, g.Objective, g.SLOMet)
			}
		}
		if r.Objective < r.Greedy.Objective {
			t.Errorf("objective %g below that of %s, %g", r.Objective, r.Greedy.Name, r.Greedy.Objective)
		}
	})
}

// TestDeterminism: the same snapshot gives the same plan, whatever the number of processors. Only the wall-clock figures may differ.
func TestDeterminism(t *testing.T) {
	solve := solver(t)
	instances(t, 160, 200, func(t *testing.T, s planner.Snapshot) {
		plan := func() planner.Plan {
			p := lease.New(generous(), solve).Plan(context.Background(), s)
			p.Solver.Build, p.Solver.Solve, p.Solver.Pack = 0, 0, 0
			return p
		}
		first := plan()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		if d := cmp.Diff(first, plan()); d != "" {
			t.Error(d)
		}
	})
}

// TestSpecs: instances are what the description says, and bad ones are refused.
func TestSpecs(t *testing.T) {
	instances(t, 320, 250, func(t *testing.T, s planner.Snapshot) {
		held := 0
		for _, j := range s.Jobs {
			held += j.Current.GPUs()
		}
		if held < 320*80/100 || held > 320*95/100 {
			t.Errorf("%d of 320 GPUs held", held)
		}
		for _, v := range planner.Check(s, lease.Fallback(s)) {
			t.Error(v)
		}
	})
	for _, sp := range []Spec{{GPUs: 8, Jobs: 1, Mix: "strict"}, {GPUs: 8, Jobs: 1, Shape: "philly"}, {GPUs: 4, Jobs: 1, Mix: "mix1", Shape: "philly"},
		{GPUs: 8, Jobs: -1, Mix: "mix1", Shape: "philly"}} {
		if _, err := sp.Snapshot(); err == nil {
			t.Errorf("%+v accepted", sp)
		}
	}
}

// TestPlayedOut: the list scheduler keeps most of what the plan counts on.
func TestPlayedOut(t *testing.T) {
	instances(t, 320, 250, func(t *testing.T, s planner.Snapshot) {
		plan := lease.New(lease.Config{}, nil).Plan(context.Background(), s)
		counted, kept := 0, 0
		for i, end := range lease.PlayOut(s, plan, lease.Config{}) {
			if tier := plan.Entries[i].Tier; tier >= 0 {
				counted++
				if !end.IsZero() && !end.After(s.Jobs[i].Tiers[tier].At) {
					kept++
				}
			}
			if end.IsZero() {
				t.Errorf("job %s never ends", s.Jobs[i].Run)
			}
		}
		if kept*100 < counted*97 {
			t.Errorf("%d of %d tiers kept", kept, counted)
		}
	})
}
