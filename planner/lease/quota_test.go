package lease

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// TestQuotas: what an account's quota, its share and the budgets of preemptions do in worlds in which the right plan is plain to see.
func TestQuotas(t *testing.T) {
	four, two := planner.Shape{4}, planner.Shape{2}
	of := func(account string, j planner.Job) planner.Job {
		j.Account = account
		return j
	}
	runs := func(j planner.Job, n string) planner.Job {
		return plantest.Running(j, at(node(n, j.Estimate.Speeds[0].Shape.GPUs())))
	}
	grants := func(as ...planner.Account) func(*planner.Snapshot) {
		return func(s *planner.Snapshot) { s.Accounts = as }
	}
	tight := func(id int, shape planner.Shape) planner.Job { return plantest.Strict(plantest.Job(id, 4, shape), 6) }
	often := func(j planner.Job, n int) planner.Job {
		j.Preempted = n
		return j
	}
	for _, c := range []struct {
		name  string
		nodes int
		jobs  []planner.Job
		tweak func(*planner.Snapshot)
		want  []string
	}{
		{"the quota leaves GPUs free", 2, []planner.Job{of("bio", plantest.Job(1, 9, four)), of("bio", plantest.Job(2, 9, four))},
			grants(planner.Account{Name: "bio", MaxGPUs: 6}), []string{"1 start starts", "2 wait quota"}},
		{"others may have them", 2, []planner.Job{of("bio", plantest.Job(1, 9, four)), of("bio", plantest.Job(2, 9, four)), of("phys", plantest.Job(3, 99, four))},
			grants(planner.Account{Name: "bio", MaxGPUs: 6}), []string{"1 start starts", "2 wait quota", "3 start starts"}},
		{"what it holds outside of the plan counts", 2, []planner.Job{of("bio", plantest.Job(1, 9, four))},
			grants(planner.Account{Name: "bio", MaxGPUs: 6, OtherGPUs: 3}), []string{"1 wait quota"}},
		{"a quota stops nobody", 2, []planner.Job{runs(of("bio", plantest.Job(1, 9, four)), "a000"), runs(of("bio", plantest.Job(2, 9, four)), "a001")},
			grants(planner.Account{Name: "bio", MaxGPUs: 4}), []string{"1 keep runs", "2 keep runs"}},
		{"the account's own job is the victim, though GPUs are free", 2, []planner.Job{runs(of("bio", plantest.Job(1, 90, four)), "a000"), of("bio", tight(2, four))},
			grants(planner.Account{Name: "bio", MaxGPUs: 4}), []string{"1 stop preempted", "2 start starts"}},
		{"no victim for a job beyond the quota", 1, []planner.Job{runs(plantest.Job(1, 90, four), "a000"), of("bio", tight(2, four))},
			grants(planner.Account{Name: "bio", MaxGPUs: 3}), []string{"1 keep runs", "2 wait quota"}},
		{"deadlines that the quota loses are not counted on", 2, []planner.Job{of("bio", tight(1, four)), of("bio", tight(2, four))},
			grants(planner.Account{Name: "bio", MaxGPUs: 4}), []string{"1 start starts", "2 wait quota"}},
		{"who has had less than its share goes first", 1, []planner.Job{of("bio", plantest.Job(1, 9, four)), of("phys", plantest.Job(2, 9, four))},
			func(s *planner.Snapshot) { s.Jobs[0].ShareFactor, s.Jobs[1].ShareFactor = 0.8, 1.2 }, []string{"1 wait outbid", "2 start starts"}},
		{"so it does between deadlines of which one is lost", 1, []planner.Job{of("bio", tight(1, four)), of("phys", tight(2, four))},
			func(s *planner.Snapshot) { s.Jobs[0].ShareFactor, s.Jobs[1].ShareFactor = 0.5, 2 }, []string{"1 wait outbid", "2 start starts"}},
		{"but a share buys no deadline of another", 1, []planner.Job{of("bio", tight(1, four)), of("phys", plantest.Job(2, 9, four))},
			func(s *planner.Snapshot) { s.Jobs[0].ShareFactor, s.Jobs[1].ShareFactor = 0.5, 2 }, []string{"1 start starts", "2 wait outbid"}},
		{"the hour's budget is used up (case 46)", 1, []planner.Job{runs(plantest.Job(1, 90, four), "a000"), tight(2, four)},
			func(s *planner.Snapshot) { s.HourlyPreemptions, s.Preempted = 5, 5 }, []string{"1 keep runs", "2 wait budget"}},
		{"one is left of it (case 46)", 2, []planner.Job{runs(plantest.Job(1, 90, four), "a000"), runs(plantest.Job(2, 99, four), "a001"), tight(3, four), tight(4, four)},
			func(s *planner.Snapshot) { s.HourlyPreemptions, s.Preempted = 5, 4 }, []string{"1 keep runs", "2 stop preempted", "3 start starts", "4 wait budget"}},
		{"a job that was preempted often is spared (case 46)", 2, []planner.Job{runs(plantest.Job(1, 90, four), "a000"), often(runs(plantest.Job(2, 99, four), "a001"), 2), tight(3, four), tight(4, four)},
			func(s *planner.Snapshot) { s.JobHourlyPreemptions = 2 }, []string{"1 stop preempted", "2 keep spared", "3 start starts", "4 wait outbid"}},
		{"checkpoints at once are fewer than the hour allows", 2, []planner.Job{runs(plantest.Job(1, 90, four), "a000"), runs(plantest.Job(2, 99, four), "a001"), tight(3, four), tight(4, four)},
			func(s *planner.Snapshot) { s.HourlyPreemptions, s.MaxPreemptions = 5, 1 }, []string{"1 keep runs", "2 stop preempted", "3 start starts", "4 wait budget"}},
		{"small jobs fill what a quota leaves", 1, []planner.Job{of("bio", plantest.Job(1, 9, four)), of("bio", plantest.Job(2, 12, two))},
			grants(planner.Account{Name: "bio", MaxGPUs: 3}), []string{"1 wait quota", "2 start starts"}},
	} {
		for _, solver := range []string{"greedy", "exact"} {
			t.Run(c.name+"/"+solver, func(t *testing.T) {
				s := plantest.Snapshot(plantest.Nodes(c.nodes, 4), c.jobs...)
				if c.tweak != nil {
					c.tweak(&s)
				}
				p := New(Config{}, nil)
				if solver == "exact" {
					p = New(Config{}, bruteSolver)
				}
				plan := p.Plan(context.Background(), s)
				if d := cmp.Diff(c.want, told(plan)); d != "" {
					t.Errorf("%s\n%+v", d, plan.Scores)
				}
				if plan.Candidate == "fallback" {
					t.Errorf("fallback: %v", plan.Scores)
				}
			})
		}
	}
}

// drawGranted draws a plain world with quotas of accounts and a budget of preemptions.
func drawGranted(t *rapid.T) planner.Snapshot {
	s := drawPlain(t)
	for _, name := range []string{"bio", "phys"} {
		s.Accounts = append(s.Accounts, planner.Account{Name: name, MaxGPUs: rapid.IntRange(1, 8).Draw(t, "quota"), OtherGPUs: rapid.IntRange(0, 2).Draw(t, "outside")})
	}
	for i := range s.Jobs {
		s.Jobs[i].Account = rapid.SampledFrom([]string{"bio", "phys", "other"}).Draw(t, "account")
	}
	s.HourlyPreemptions, s.Preempted = rapid.IntRange(0, 3).Draw(t, "budget"), 1
	return s
}

// TestGrantsAgainstTwin: with quotas and budgets the plan still earns what the best of all choices and packings earns.
func TestGrantsAgainstTwin(t *testing.T) {
	bound := 0
	untilSeen(t, &bound, "no quota or budget was ever in the way", func(t *rapid.T) {
		s := drawGranted(t)
		plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
		in := newInstance(s, Config{}.filled())
		w := &twin{in: in, choice: make([]int, len(in.jobs)), best: math.Inf(-1)}
		for _, node := range in.nodes {
			w.free = append(w.free, node.gpus)
		}
		w.walk(0, 0)
		w.judge(t, plan)
		for _, e := range plan.Entries {
			if e.Reason.Code == planner.ReasonQuota || e.Reason.Code == planner.ReasonBudget {
				bound++
			}
		}
	})
}

// TestQuotaInTheForecast: the unrolled plan keeps quotas at every instant, and explain names the one in the way.
func TestQuotaInTheForecast(t *testing.T) {
	var jobs []planner.Job
	for i := range 5 {
		j := plantest.Job(i+1, 3, planner.Shape{2})
		j.Account = "bio"
		jobs = append(jobs, j)
	}
	s := plantest.Snapshot(plantest.Nodes(2, 4), jobs...)
	s.Accounts = []planner.Account{{Name: "bio", MaxGPUs: 4}}
	plan := New(Config{}, bruteSolver).Plan(context.Background(), s)
	last := plantest.Now
	for _, l := range plan.Leases {
		if l.Until.After(last) {
			last = l.Until
		}
	}
	if got := last.Sub(plantest.Now); got != 45*time.Minute { // three waves of two jobs
		t.Errorf("the forecast ends after %v, want 45m", got)
	}
	if v := planner.Check(s, plan); len(v) > 0 {
		t.Error(v)
	}
	x, _ := Explain(s, plan, s.Jobs[4].Run, Config{})
	if len(x.ToRun) == 0 || !strings.Contains(x.ToRun[0], "account bio") {
		t.Errorf("to run: %q", x.ToRun)
	}
}

// TestThrash: case 46: deadlines that keep coming preempt no job more often than the site allows, and nobody before its lease is over.
func TestThrash(t *testing.T) {
	s := plantest.Snapshot(plantest.Nodes(2, 4), plantest.Job(1, 200, planner.Shape{4}), plantest.Job(2, 200, planner.Shape{4}))
	s.HourlyPreemptions, s.JobHourlyPreemptions = 3, 2
	w := plantest.NewWorld(s)
	p := New(Config{}, bruteSolver)
	var stopped []time.Time
	byJob := map[planner.JobID][]time.Time{}
	recent := func(ts []time.Time) (n int) {
		for _, at := range ts {
			if w.Now.Sub(at) < time.Hour {
				n++
			}
		}
		return n
	}
	for round := range 60 {
		if round%2 == 1 {
			urgent := plantest.Strict(plantest.Job(100+round, 1, planner.Shape{4}), 0)
			urgent.Tiers[0].At = w.Now.Add(15 * time.Minute)
			w.Add(urgent)
		}
		w.Preempted = recent(stopped)
		for i := range w.Jobs {
			w.Jobs[i].Preempted = recent(byJob[w.Jobs[i].Run.Job])
		}
		plan, err := w.Round(func(s planner.Snapshot) planner.Plan { return p.Plan(context.Background(), s) })
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range plan.Entries {
			if e.Decision == planner.Stop || e.Decision == planner.Move {
				stopped = append(stopped, plan.Now)
				byJob[e.Run.Job] = append(byJob[e.Run.Job], plan.Now)
			}
		}
		most := recent(stopped)
		for _, id := range []planner.JobID{1, 2} {
			if recent(byJob[id]) > 2 {
				t.Fatalf("job %d was preempted %d times within an hour", id, recent(byJob[id]))
			}
		}
		if most > 3 {
			t.Fatalf("%d preemptions within an hour", most)
		}
	}
	if len(stopped) < 5 {
		t.Errorf("only %d preemptions in five hours: the budget was never tried", len(stopped))
	}
}
