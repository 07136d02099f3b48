package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
	"unisched/slurm/slurmsim"
)

// demoted is the rule that a job fell under, "" when it keeps its class.
func (w *world) demoted(name string) bridge.DemotionKind {
	if d := w.view(name).Demoted; d != nil {
		return d.Kind
	}
	return ""
}

// told fails unless the demotion is an event of the job and a line of the log, and its class shows.
func (w *world) told(name string) {
	w.t.Helper()
	v := w.view(name)
	logged := false
	for _, n := range w.notes {
		logged = logged || n.What == "demoted" && n.Job == v.ID && n.Text != ""
	}
	if !w.noted(name, "demoted") || !logged || v.Class != "besteffort" || len(v.Tiers) != 0 {
		w.t.Errorf("job %s: event %v, log %v, class %s, deadlines %v", name, w.noted(name, "demoted"), logged, v.Class, v.Tiers)
	}
}

// deadlined is a job of one GPU with a deadline and a time limit.
func deadlined(class string, iters int64, deadline, limit time.Duration) slurmsim.Submission {
	c := fmt.Sprintf("unisched:class=strict,deadline=now+%ds,ckpt=B:USR1,profile=skip,stop=iters:%d", int(deadline.Seconds()), iters)
	if class == "soft" {
		c = fmt.Sprintf("unisched:class=soft,deadlines=now+%ds:100/now+%ds:50,ckpt=B:USR1,profile=skip,stop=iters:%d", int(deadline.Seconds())/2, int(deadline.Seconds()), iters)
	}
	return slurmsim.Submission{GPUs: 1, Body: training(iters), TimeLimit: limit, Comment: c}
}

func TestScenarioWhoMayAskForDeadlines(t *testing.T) {
	only := bridge.Admission{StrictQOS: []string{"high"}, StrictAccounts: []string{"phys", "bio"}, SoftAccounts: []string{"bio"}, BudgetWindow: time.Hour}
	for _, c := range []struct {
		name, class, qos, account string
		want                      bridge.DemotionKind
		why                       string
	}{
		{"strict, all right", "strict", "high", "phys", "", ""},
		{"strict, other QOS", "strict", "normal", "phys", bridge.NotAllowed, `class strict is for QOS high here, not for QOS "normal"`},
		{"strict, other account", "strict", "high", "chem", bridge.NotAllowed, `not for account "chem"`},
		{"soft, any QOS", "soft", "normal", "bio", "", ""},
		{"soft, other account", "soft", "high", "phys", bridge.NotAllowed, `class soft is for certain accounts here, not for account "phys"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{cfg: func(cfg *bridge.Config) { cfg.Admission = only }})
			s := deadlined(c.class, 300, time.Hour, time.Hour)
			s.QOS, s.Account = c.qos, c.account
			w.submit("job", s)
			w.until(40*time.Minute, "it ends", w.finished("job"))
			if got := w.demoted("job"); got != c.want {
				t.Fatalf("demoted for %q, want %q", got, c.want)
			}
			v := w.view("job")
			if c.want == "" {
				w.checkMet("job")
				return
			}
			w.told("job")
			if !strings.Contains(v.Demoted.Why, c.why) || v.Demoted.Asked != comment.Class(c.class) || len(v.Demoted.Tiers) == 0 {
				t.Errorf("%+v", v.Demoted)
			}
			if v.Met != nil || v.Phase != bridge.Completed { // no deadline was promised, and it ran all the same
				t.Errorf("met %v, phase %s", v.Met, v.Phase)
			}
		})
	}
}

// A job that alone would reserve more than one may is planned as best effort, strict or soft, and charges nobody; without a time limit it is presumed to need
// the time until its last deadline.
func TestScenarioTooLarge(t *testing.T) {
	w := newWorld(t, site{cfg: func(c *bridge.Config) { c.Admission.JobGPUHours, c.Admission.StrictGPUHours = 4, 100 }})
	for name, s := range map[string]slurmsim.Submission{
		"fits":   deadlined("strict", 120, 2*time.Hour, 4*time.Hour),
		"large":  deadlined("strict", 120, 2*time.Hour, 5*time.Hour),
		"soft":   deadlined("soft", 120, 2*time.Hour, 5*time.Hour),
		"no end": deadlined("strict", 120, 6*time.Hour, 0),
	} {
		w.submit(name, s)
	}
	w.run(time.Minute, nil)
	for name, want := range map[string]bridge.DemotionKind{"fits": "", "large": bridge.TooLarge, "soft": bridge.TooLarge, "no end": bridge.TooLarge} {
		if got := w.demoted(name); got != want {
			t.Errorf("%s: demoted for %q, want %q", name, got, want)
		}
	}
	w.told("large")
	if want := "it asks for 5.0 GPU-hours (1 GPUs for 5h00m), and a job with deadlines may reserve 4.0 here"; w.view("large").Demoted.Why != want {
		t.Errorf("%q is not %q", w.view("large").Demoted.Why, want)
	}
	if got := w.b.View().Budgets[0].Reserved; got != 4 {
		t.Errorf("%v GPU-hours are charged, want those of the one that fits", got)
	}
}

// Where best-effort jobs wait, a job with deadlines may cost them so many hours and no more. Twelve GPUs and six jobs that wait: twelve GPU-hours make each wait
// an hour longer.
func TestScenarioTooDear(t *testing.T) {
	w := newWorld(t, site{cfg: func(c *bridge.Config) { c.Admission.WaitHours = 6 }})
	w.submit("before", deadlined("strict", 120, 24*time.Hour, 15*time.Hour)) // nobody waits
	w.run(10*time.Minute, nil)
	for i := range 17 {
		w.submit(fmt.Sprintf("best %d", i), slurmsim.Submission{GPUs: 1, Body: training(6000), TimeLimit: 48 * time.Hour,
			Comment: "unisched:class=besteffort,ckpt=B:USR1,profile=skip,stop=iters:6000"})
	}
	w.run(20*time.Minute, nil)
	waiting := 0
	for i := range 17 {
		if !w.view(fmt.Sprintf("best %d", i)).Phase.OnGPUs() {
			waiting++
		}
	}
	if waiting != 5 && waiting != 6 { // "before" may have ended
		t.Fatalf("%d wait", waiting)
	}
	fits := time.Duration(12*6/waiting) * time.Hour
	for name, s := range map[string]slurmsim.Submission{
		"fits": deadlined("strict", 120, 24*time.Hour, fits),
		"dear": deadlined("strict", 120, 24*time.Hour, fits+time.Hour),
		"soft": deadlined("soft", 120, 24*time.Hour, fits+time.Hour),
	} {
		w.submit(name, s)
	}
	for limit, want := range map[time.Duration]bridge.DemotionKind{fits: "", fits + time.Hour: bridge.TooDear} { // a what-if judges alike
		d := deadlined("strict", 120, 24*time.Hour, limit)
		s, err := w.b.View().Suppose(w.sim.Now(), slurm.Job{Partition: "gpu", Comment: d.Comment, TimeLimit: limit, Requeue: true,
			Request: slurm.Request{GPUs: 1, TRESPerJob: "gres/gpu:1", Nodes: slurm.MinMax{Min: 1, Max: 1}, Tasks: 1}})
		if err != nil || s.Unmanaged != "" {
			t.Fatal(err, s.Unmanaged)
		}
		if got := s.View(w.sim.Now(), planner.Plan{}).Demoted; got == nil && want != "" || got != nil && got.Kind != want {
			t.Errorf("what if for %v: demoted %+v, want %q", limit, got, want)
		}
	}
	w.run(time.Minute, nil)
	for name, want := range map[string]bridge.DemotionKind{"before": "", "fits": "", "dear": bridge.TooDear, "soft": bridge.TooDear} {
		if got := w.demoted(name); got != want {
			t.Errorf("%s: demoted for %q, want %q", name, got, want)
		}
	}
	w.told("dear")
	if want := "best-effort jobs that wait for the 12 GPUs of partition gpu would wait"; !strings.Contains(w.view("dear").Demoted.Why, want) {
		t.Errorf("%q does not say %q", w.view("dear").Demoted.Why, want)
	}
}

// What strict jobs reserve is charged to their account when they are admitted, for a window: used or not. A job that never ran is given back.
func TestScenarioBudgets(t *testing.T) {
	w := newWorld(t, site{cfg: func(c *bridge.Config) {
		c.Admission.StrictGPUHours, c.Admission.BudgetWindow = 10, 12*time.Hour
		c.Accounts = map[string]bridge.AccountGrant{"rich": {StrictGPUHours: 100}}
	}})
	submit := func(name, account string, limit time.Duration) {
		s := deadlined("strict", 120, 2*time.Hour, limit)
		s.Account = account
		w.submit(name, s)
		w.until(time.Minute, "admitted", func() bool { return w.view(name).Phase != "" })
	}
	submit("first", "poor", 6*time.Hour)
	submit("second", "poor", 6*time.Hour) // 12 GPU-hours in all
	submit("third", "poor", 4*time.Hour)  // just fits
	submit("other", "rich", 24*time.Hour)
	for name, want := range map[string]bridge.DemotionKind{"first": "", "second": bridge.OverBudget, "third": "", "other": ""} {
		if got := w.demoted(name); got != want {
			t.Errorf("%s: demoted for %q, want %q", name, got, want)
		}
	}
	w.told("second")
	if want := "account poor has reserved 6.0 of its 10.0 in 12h00m"; !strings.Contains(w.view("second").Demoted.Why, want) {
		t.Errorf("%q does not say %q", w.view("second").Demoted.Why, want)
	}
	want := []bridge.Budget{{Account: "poor", Reserved: 10, Limit: 10, WindowS: 43200}, {Account: "rich", Reserved: 24, Limit: 100, WindowS: 43200}}
	if d := cmp.Diff(want, w.b.View().Budgets); d != "" {
		t.Error(d)
	}
	w.until(30*time.Minute, "all end", w.finished("first", "second", "third", "other"))
	if d := cmp.Diff(want, w.b.View().Budgets); d != "" { // although they took minutes
		t.Error(d)
	}

	w.open() // a restart forgets nothing
	submit("fourth", "poor", time.Hour)
	if got := w.demoted("fourth"); got != bridge.OverBudget {
		t.Errorf("after a restart: demoted for %q", got)
	}
	s := deadlined("strict", 120, 2*time.Hour, 30*time.Hour)
	s.Account, s.Hold = "rich", true
	w.submit("held", s)
	w.run(time.Minute, nil)
	if got := w.b.View().Budgets[1].Reserved; got != 54 {
		t.Errorf("rich has reserved %v", got)
	}
	w.sim.Cancel(w.ids["held"])
	w.run(time.Minute, nil)
	if got := w.b.View().Budgets[1].Reserved; got != 24 || !w.noted("held", "refunded") {
		t.Errorf("rich has reserved %v after the cancel, told: %v", got, w.noted("held", "refunded"))
	}
	w.run(12*time.Hour, nil)
	submit("fifth", "poor", 10*time.Hour)
	if got := w.demoted("fifth"); got != "" {
		t.Errorf("after the window: demoted for %q", got)
	}
}

// Charges outlive the records of their jobs, of which only so many are kept.
func TestScenarioBudgetsOutliveRecords(t *testing.T) {
	w := newWorld(t, site{nodes: 40, gpus: 8, sim: slurmsim.Config{MinJobAge: 20 * time.Second}, cfg: func(c *bridge.Config) {
		c.Admission.StrictGPUHours, c.Admission.BudgetWindow, c.MaxStarts = 1300, 24*time.Hour, 400
	}})
	for i := range 1200 {
		s := deadlined("strict", 5, 6*time.Hour, time.Hour)
		s.Account = "phys"
		w.submit(fmt.Sprint("job", i), s)
	}
	w.until(3*time.Hour, "all are over and forgotten", func() bool { return w.sim.Finished() == 1200 && w.job("job1199").ID == 0 })
	w.run(2*time.Minute, nil)
	check := func(when string) {
		t.Helper()
		if got := w.b.View().Budgets[0].Reserved; got < 1199.99 || got > 1200.01 {
			t.Errorf("%s: %v GPU-hours reserved, want 1200", when, got)
		}
	}
	check("at the end")
	w.open()
	w.run(time.Minute, nil)
	check("after a restart")
}

// case 47: whoever declares a deadline that cannot be met, or changes it later, is told so and gains nothing; the honest twin keeps its class.
func TestScenarioAbsurdDeadlines(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("honest", deadlined("strict", 1800, 2*time.Hour, time.Hour))
	w.submit("absurd", deadlined("strict", 1800, 5*time.Minute, time.Hour))
	w.submit("soft", deadlined("soft", 1800, 8*time.Minute, time.Hour))
	w.until(2*time.Hour, "all end", w.finished("honest", "absurd", "soft"))
	for name, want := range map[string]bridge.DemotionKind{"honest": "", "absurd": bridge.Infeasible, "soft": bridge.Infeasible} {
		if got := w.demoted(name); got != want {
			t.Errorf("%s: demoted for %q, want %q", name, got, want)
		}
	}
	w.told("absurd")
	w.told("soft")
	w.checkMet("honest")
}

// case 47: a deadline that is edited after the submission stays what it was, for better and for worse; foreign words in the comment are nobody's business.
func TestScenarioDeadlinesAreImmutable(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.fill(1, 1800)
	s := deadlined("strict", 600, 3*time.Hour, time.Hour)
	w.submit("job", s)
	w.until(time.Minute, "admitted", func() bool { return w.view("job").Phase != "" })
	before := w.view("job").Tiers
	w.sim.Edit(w.ids["job"], slurmsim.Edit{Comment: s.Comment + " jobstats=abc"})
	w.run(time.Minute, nil)
	if w.noted("job", "comment-edited") {
		t.Error("somebody else's words in the comment count as an edit of ours")
	}
	w.sim.Edit(w.ids["job"], slurmsim.Edit{Comment: strings.Replace(s.Comment, "now+10800s", "now+900s", 1)})
	w.run(time.Minute, nil)
	n := 0
	for _, e := range w.view("job").Events {
		if e.What == "comment-edited" {
			n++
		}
	}
	if d := cmp.Diff(before, w.view("job").Tiers); d != "" || n != 1 {
		t.Errorf("told %d times, deadlines %s", n, d)
	}
	w.until(3*time.Hour, "it ends", w.finished("job"))
	w.checkMet("job")
}

// A QOS that was left after the admission takes the class along.
func TestScenarioClassNeedsItsQOSToTheEnd(t *testing.T) {
	w := newWorld(t, site{cfg: func(c *bridge.Config) { c.Admission.StrictQOS = []string{"high"} }})
	s := deadlined("strict", 1800, 2*time.Hour, time.Hour)
	s.QOS = "high"
	w.submit("job", s)
	w.until(10*time.Minute, "it runs", func() bool { return w.running("job") })
	if got := w.demoted("job"); got != "" {
		t.Fatalf("demoted for %q", got)
	}
	w.sim.Edit(w.ids["job"], slurmsim.Edit{QOS: "low"})
	w.run(time.Minute, nil)
	if got := w.demoted("job"); got != bridge.NotAllowed {
		t.Errorf("demoted for %q", got)
	}
	w.told("job")
	w.until(time.Hour, "it ends", w.finished("job"))
}

// A strict job that goes on beyond what it declared is planned as best effort from then on; its deadline still counts in the end.
func TestScenarioOverrunsAreDemoted(t *testing.T) {
	for _, c := range []struct {
		name     string
		declared int64 // iterations
		limit    time.Duration
		requeue  time.Duration // its user requeues it so often
		why      string
	}{
		{name: "iterations", declared: 600, limit: 2 * time.Hour, why: "had declared 600"},
		{name: "time, by requeues that restart the limit", declared: 1 << 20, limit: 12 * time.Minute, requeue: 10 * time.Minute, why: "its request and time limit came to 0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{})
			s := deadlined("strict", c.declared, 14*24*time.Hour, c.limit)
			s.Body = training(1800)
			s.Body.SaveEvery = 10
			w.submit("job", s)
			w.until(10*time.Minute, "it runs", func() bool { return w.running("job") })
			began := w.sim.Now()
			w.until(2*time.Hour, "it is demoted", func() bool {
				if j := w.job("job"); c.requeue > 0 && w.running("job") && w.sim.Now().Sub(j.Start) > c.requeue {
					_ = w.sim.Requeue(t.Context(), j.Ref())
				}
				return w.demoted("job") != ""
			})
			v := w.view("job")
			if v.Demoted.Kind != bridge.Overrun || !strings.Contains(v.Demoted.Why, c.why) || w.sim.Now().Sub(began) < 600*time.Second {
				t.Errorf("%+v after %v", v.Demoted, w.sim.Now().Sub(began))
			}
			w.told("job")
			w.until(2*time.Hour, "it ends", w.finished("job"))
			if v := w.view("job"); v.Met == nil {
				t.Error("its deadline is forgotten")
			}
		})
	}
}
