package planner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
	"unisched/planner/plantest"
)

func TestQuotas(t *testing.T) {
	of := func(account string, j planner.Job) planner.Job {
		j.Account = account
		return j
	}
	foreign := of("bio", plantest.Job(9, 3, planner.Shape{4}))
	foreign.Foreign = true
	s := plantest.Snapshot(plantest.Nodes(2, 4), of("bio", plantest.Running(plantest.Job(1, 3, planner.Shape{2}), on(at("a000", 2)))),
		of("art", plantest.Running(plantest.Job(2, 3, planner.Shape{2}), on(at("a000", 2)))), foreign)
	s.Accounts = []planner.Account{{Name: "bio", MaxGPUs: 6, OtherGPUs: 5}, {Name: "art", MaxGPUs: 3}, {Name: "cs", Share: 0.4}, {Name: "bio", MaxGPUs: 100}}
	qs := s.Quotas()
	want := []planner.Quota{{Account: "art", Max: 3, Room: 3}, {Account: "bio", Max: 6, Room: 2}}
	if d := cmp.Diff(want, qs); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		job  planner.Job
		want int
	}{{s.Jobs[0], 1}, {s.Jobs[1], 0}, {foreign, -1}, {of("cs", plantest.Job(1, 1)), -1}, {plantest.Job(1, 1), -1}} {
		if got := planner.QuotaOf(qs, &c.job); got != c.want {
			t.Errorf("job of account %q counts towards quota %d, want %d", c.job.Account, got, c.want)
		}
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		name                   string
		atOnce, hourly, before int
		want                   int
		bounded                bool
	}{
		{"none", 0, 0, 7, 0, false},
		{"checkpoints at once", 3, 0, 7, 3, true},
		{"the hour", 0, 5, 2, 3, true},
		{"the hour is used up", 3, 5, 9, 0, true},
		{"the smaller counts", 2, 5, 1, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := planner.Snapshot{MaxPreemptions: c.atOnce, HourlyPreemptions: c.hourly, Preempted: c.before}
			if n, bounded := s.Budget(); n != c.want || bounded != c.bounded {
				t.Errorf("%d, %v", n, bounded)
			}
		})
	}
}
