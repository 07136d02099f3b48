package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm/slurmsim"
)

// train submits a best-effort job of 4 GPUs for an account.
func (w *world) train(name, account string, seconds int64) {
	w.submit(name, slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Tasks: 1, Body: training(seconds), Account: account,
		Comment: fmt.Sprintf("unisched:class=besteffort,ckpt=B:USR1,profile=skip,stop=iters:%d", seconds)})
}

// TestScenarioAssociationLimit: a job that Slurm keeps waiting for a limit of its association gets no lease and causes no victim after the one that showed the
// limit; it starts once somebody of its account is done.
func TestScenarioAssociationLimit(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4, sim: slurmsim.Config{GroupGPUs: map[string]int{"bio": 4}}})
	w.train("bio1", "bio", 3600)
	w.train("phys1", "phys", 3*3600)
	w.until(15*time.Minute, "both train", func() bool { return w.view("bio1").Iter > 0 && w.view("phys1").Iter > 0 })
	w.train("bio2", "bio", 900)
	w.train("bio3", "bio", 900)
	w.until(70*time.Minute, "the first of the account ends", w.finished("bio1"))
	if got := w.view("bio1").Preemptions + w.view("phys1").Preemptions; got > 2 {
		t.Errorf("%d preemptions for jobs that Slurm keeps waiting", got)
	}
	w.until(3*time.Hour, "all end", w.finished("bio2", "bio3", "phys1"))
	if got := w.view("phys1").Preemptions; got > 3 {
		t.Errorf("%d preemptions of the other account's job", got)
	}
	w.clean()
}

// TestScenarioLimitIsRemembered: a second job of the same account is not tried either, and the reason names the first.
func TestScenarioLimitIsRemembered(t *testing.T) {
	w := newWorld(t, site{nodes: 3, gpus: 4, sim: slurmsim.Config{GroupGPUs: map[string]int{"bio": 4}}})
	w.train("bio1", "bio", 2*3600)
	w.until(15*time.Minute, "it trains", func() bool { return w.view("bio1").Iter > 0 })
	w.train("bio2", "bio", 900)
	w.until(15*time.Minute, "the limit is found", func() bool { return strings.Contains(w.view("bio2").Blocked, "AssocGrpGRES") })
	w.train("bio3", "bio", 900)
	w.until(15*time.Minute, "the next is told", func() bool { return strings.Contains(w.view("bio3").Blocked, "as it does job") })
	w.run(30*time.Minute, nil)
	for _, n := range []string{"bio2", "bio3"} {
		if v := w.view(n); v.Target.Decision == planner.Start || v.Blocked == "" {
			t.Errorf("%s: %s, blocked %q", n, v.Target.Decision, v.Blocked)
		}
	}
	w.until(5*time.Hour, "they run in the end", w.finished("bio1", "bio2", "bio3"))
	w.clean()
}

// TestScenarioQuota: a quota of the site is kept at every moment, what the account's plain jobs hold counted in.
func TestScenarioQuota(t *testing.T) {
	held := func(w *world, account string) int {
		n := 0
		for name := range w.ids {
			if j := w.job(name); j.Account == account && w.running(name) {
				n += j.Request.GPUs
			}
		}
		return n
	}
	w := newWorld(t, site{nodes: 3, gpus: 4, cfg: func(c *bridge.Config) { c.Accounts = map[string]bridge.AccountGrant{"bio": {MaxGPUs: 8}} }})
	w.submit("plain", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(1800), TimeLimit: 40 * time.Minute, User: "eve", UID: 1003, Account: "bio"})
	w.until(5*time.Minute, "the plain job runs", func() bool { return w.running("plain") })
	for i := range 3 {
		w.train(fmt.Sprint("bio", i), "bio", 900)
	}
	most, waited := 0, false
	w.until(4*time.Hour, "all end", func() bool {
		most = max(most, held(w, "bio"))
		for i := range 3 {
			waited = waited || w.view(fmt.Sprint("bio", i)).Target.Reason.Code == planner.ReasonQuota
		}
		return w.finished("plain", "bio0", "bio1", "bio2")()
	})
	if most != 8 || !waited {
		t.Errorf("account held %d GPUs at most, want 8; somebody waited for the quota: %v", most, waited)
	}
	w.clean()
}

// TestScenarioPreemptionBudget: case 46: urgent jobs one after the other preempt no more often within an hour than the site allows, and no run
// before it has had its time.
func TestScenarioPreemptionBudget(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4, cfg: func(c *bridge.Config) {
		c.MaxPreemptionsPerHour, c.MaxJobPreemptionsPerHour, c.MinRun = 3, 2, 12*time.Minute
	}})
	long := w.fill(1, 5*3600)[0]
	for i := range 9 {
		w.urgent(fmt.Sprint("urgent", i), 240, 100*time.Minute)
		w.run(20*time.Minute, nil)
	}
	w.until(12*time.Hour, "all end", w.finished(long))
	var ends []time.Time
	for _, s := range w.view(long).Stays {
		if !s.Cut {
			continue
		}
		ends = append(ends, s.To)
		if s.To.Sub(s.From) < 12*time.Minute {
			t.Errorf("a run was stopped after %v", s.To.Sub(s.From))
		}
	}
	if len(ends) == 0 {
		t.Error("it was never preempted")
	}
	for i := 2; i < len(ends); i++ {
		if d := ends[i].Sub(ends[i-2]); d < 58*time.Minute {
			t.Errorf("three preemptions within %v", d)
		}
	}
	w.clean()
}
