package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// Admission says who may ask for deadlines, and for how much. Whoever may not is planned as best effort, with the reason; no job is refused or ended for it.
type Admission struct {
	// StrictQOS and the others name who may use a class; empty: everybody.
	StrictQOS, StrictAccounts, SoftQOS, SoftAccounts []string
	// StrictGPUHours is what the strict jobs of one account may reserve within BudgetWindow, where [AccountGrant] says nothing of it (0: no bound).
	StrictGPUHours float64
	BudgetWindow   time.Duration
	// JobGPUHours is what one job may reserve under deadlines, strict or soft (0: no bound). Where more is submitted than the GPUs can do, the few largest
	// deadlines are what makes everybody else wait.
	JobGPUHours float64
	// WaitHours is how much longer all waiting best-effort jobs together may have to wait for one job with deadlines (0: no bound). In a backlog it gives up the
	// largest deadlines, and none without one.
	WaitHours float64
}

// Demotion is why a job that asked for deadlines is planned as best effort. The zero value is no demotion.
type Demotion struct {
	Kind DemotionKind `json:"kind"`
	At   time.Time    `json:"at"`
	Why  string       `json:"why"`
	// Asked is the class that its user wrote, Tiers the deadlines.
	Asked comment.Class  `json:"asked"`
	Tiers []planner.Tier `json:"tiers,omitempty"`
}

// DemotionKind is a stable word for the rule that a job fell under.
type DemotionKind string

// The rules.
const (
	NotAllowed DemotionKind = "not-allowed" // its QOS or account may not use the class
	OverBudget DemotionKind = "over-budget" // its account has reserved its strict GPU-hours
	TooLarge   DemotionKind = "too-large"   // it alone would reserve more than a job with deadlines may
	TooDear    DemotionKind = "too-dear"    // best-effort jobs would wait for it for longer than it is worth
	Infeasible DemotionKind = "infeasible"  // it could not meet its last deadline even alone on the cluster
	Overrun    DemotionKind = "overrun"     // it went on beyond the iterations or the time that it had declared
)

// What a job has been judged on.
const (
	judgedNothing  = iota
	judgedWish     // rights, budget, and feasibility by what was known when it came
	judgedMeasured // feasibility by its own measured speed
)

// Bounds of the judgement of feasibility and of overruns.
const (
	// certainly is the quantile of the run time that must not fit: a job is demoted only when it would be late all but certainly.
	certainly = 0.02
	// The slack that what a job declared is given, for rounding, warm-up and lines that come late.
	slackIters, slackTime = 0.02, 0.1
)

func (a Admission) validate() []error {
	var errs []error
	if !(a.StrictGPUHours >= 0 && a.StrictGPUHours <= 1e12) {
		errs = append(errs, fmt.Errorf("admission.strict_gpu_hours %v is not within 0..1e12", a.StrictGPUHours))
	}
	if !(a.JobGPUHours >= 0 && a.JobGPUHours <= 1e12) {
		errs = append(errs, fmt.Errorf("admission.job_gpu_hours %v is not within 0..1e12", a.JobGPUHours))
	}
	if !(a.WaitHours >= 0 && a.WaitHours <= 1e12) {
		errs = append(errs, fmt.Errorf("admission.wait_hours %v is not within 0..1e12", a.WaitHours))
	}
	if a.BudgetWindow < time.Hour || a.BudgetWindow > 2*366*24*time.Hour {
		errs = append(errs, fmt.Errorf("admission.budget_window %v is not within 1h..17568h", a.BudgetWindow))
	}
	for _, l := range [][]string{a.StrictQOS, a.StrictAccounts, a.SoftQOS, a.SoftAccounts} {
		if slices.Contains(l, "") || len(l) > maxGrants {
			errs = append(errs, errors.New("admission: a list of QOS or accounts holds an empty name, or too many"))
		}
	}
	return errs
}

// Allows says whether jobs of a QOS and an account may use a class; why not, in words, "" when they may.
func (a Admission) Allows(c comment.Class, qos, account string) string {
	qoses, accounts := a.lists(c)
	switch {
	case len(qoses) > 0 && !slices.Contains(qoses, qos):
		return fmt.Sprintf("class %s is for QOS %s here, not for QOS %q", c, strings.Join(qoses, ", "), qos)
	case len(accounts) > 0 && !slices.Contains(accounts, account):
		return fmt.Sprintf("class %s is for certain accounts here, not for account %q", c, account)
	}
	return ""
}

func (a Admission) lists(c comment.Class) (qoses, accounts []string) {
	switch c {
	case comment.Strict:
		return a.StrictQOS, a.StrictAccounts
	case comment.Soft:
		return a.SoftQOS, a.SoftAccounts
	}
	return nil, nil
}

// Rules says in one sentence who may use a class, "" when everybody may.
func (a Admission) Rules(c comment.Class) string {
	qoses, accounts := a.lists(c)
	var parts []string
	if len(qoses) > 0 {
		parts = append(parts, "QOS "+strings.Join(qoses, ", "))
	}
	if n := len(accounts); n > 0 && n <= 8 {
		parts = append(parts, "accounts "+strings.Join(accounts, ", "))
	} else if n > 0 {
		parts = append(parts, fmt.Sprintf("%d accounts", n))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("class %s is for %s here: other jobs run as best effort", c, strings.Join(parts, " and "))
}

// judgeAdmissions decides, job by job in the order of their ids, who keeps the class that its user wrote. It is called when the estimates are made: a job is
// judged when it is new, once more when its own speed has been measured, and from then on only for overruns.
func (b *Bridge) judgeAdmissions(now time.Time) {
	if b.cfg.Admission.WaitHours > 0 {
		b.crowded = b.crowd() // a new map: views hold the old one
	}
	for _, rec := range b.known() {
		if !rec.slo() || !rec.Phase.Ours() {
			continue
		}
		if rec.Judged == judgedNothing {
			b.judgeWish(now, rec)
			continue
		}
		if rec.Judged == judgedWish && rec.made.input.samples > 0 && !rec.Profile.Needed() {
			rec.Judged, rec.dirty = judgedMeasured, true
			if why := b.neverInTime(now, rec); why != "" {
				b.demote(now, rec, Infeasible, why)
				continue
			}
		}
		if why := rec.overrun(now); why != "" {
			b.demote(now, rec, Overrun, why)
		}
	}
}

// slo reports whether the job is planned with deadlines.
func (r *Record) slo() bool { return r.Wish.Class == comment.Strict || r.Wish.Class == comment.Soft }

// judgeWish judges a new job: rights first, then whether it can be done, then its size and what others would wait for it, then whether its account can pay.
func (b *Bridge) judgeWish(now time.Time, rec *Record) {
	rec.Judged, rec.dirty = judgedWish, true
	if why := b.cfg.Admission.Allows(rec.Wish.Class, rec.QOS, rec.Account); why != "" {
		b.demote(now, rec, NotAllowed, why)
		return
	}
	if why := b.neverInTime(now, rec); why != "" {
		b.demote(now, rec, Infeasible, why)
		return
	}
	if b.judgeSize(now, rec) {
		return
	}
	b.reserve(now, rec)
}

// neverInTime says why the job could not have met its last deadline even if it had run alone on its best shape from its submission on. What it waited for us does
// not count against it.
func (b *Bridge) neverInTime(now time.Time, rec *Record) string {
	n, e := len(rec.Wish.Tiers), b.untold(now, rec)
	if n == 0 || e.Iterations.Mid <= 0 {
		return ""
	}
	least := -1.0
	for _, s := range e.Speeds {
		d, ok := estimator.DurationOf(e, s.Shape)
		if !ok {
			continue
		}
		if q := d.Quantile(certainly); least < 0 || q < least {
			least = q
		}
	}
	if least < 0 {
		return ""
	}
	need, window := planner.Seconds(least)+planner.Seconds(rec.heldSeconds(now)), rec.Wish.Tiers[n-1].At.Sub(rec.FirstSubmit)
	if need <= window {
		return ""
	}
	return fmt.Sprintf("it takes at least %s (%s), and had %s from its submission to its last deadline: it could not meet it even alone on the cluster",
		Span(need), cmp.Or(e.Basis, "estimate"), Span(window))
}

// overrun says by what the job has gone beyond what its user declared, "" when it has not: more iterations than stop= or max=, or more GPU time than its request and
// time limit come to. What our moves cost it is not its own.
func (r *Record) overrun(now time.Time) string {
	declared := cmp.Or(r.Wish.Stop.Iterations, r.Wish.Max)
	if declared > 0 && float64(r.Iter) > float64(declared)*(1+slackIters)+1 {
		return fmt.Sprintf("it is at iteration %d, and had declared %d", r.Iter, declared)
	}
	if r.Reserved.GPUHours <= 0 {
		return ""
	}
	used := r.gpuSeconds(now)
	for _, s := range r.Resumes {
		used -= s.Seconds * float64(s.GPUs)
	}
	for _, s := range r.Checkpoints {
		used -= s.Seconds * float64(s.GPUs)
	}
	if hours := used / 3600; hours > r.Reserved.GPUHours*(1+slackTime) {
		return fmt.Sprintf("it has used %.1f GPU-hours, and its request and time limit came to %.1f", hours, r.Reserved.GPUHours)
	}
	return ""
}

// demote makes a job a best-effort one: never silently, and never again the other way. It keeps its GPUs until its lease ends.
func (b *Bridge) demote(now time.Time, rec *Record, kind DemotionKind, why string) {
	rec.Demoted = Demotion{Kind: kind, At: now, Why: why, Asked: rec.Wish.Class, Tiers: tiersOf(rec.Wish)}
	rec.Wish.Class, rec.Wish.Tiers = comment.BestEffort, nil
	rec.note(now, "demoted", fmt.Sprintf("%s -> besteffort (%s): %s", rec.Demoted.Asked, kind, why))
	b.log(now, "warn", "demoted", rec.Job, "%s -> besteffort (%s): %s", rec.Demoted.Asked, kind, why)
	b.rouse("a job was demoted")
}

// tiersOf are the deadlines of a wish.
func tiersOf(w comment.Wish) []planner.Tier {
	var out []planner.Tier
	for _, t := range w.Tiers {
		out = append(out, planner.Tier{At: t.At, Value: t.Value})
	}
	return out
}

// watchEdits sees to what its user, or an admin, changes of a job that has been admitted: deadlines stand as submitted, and a class is kept only as long as QOS and
// account may use it.
func (b *Bridge) watchEdits(now time.Time, rec *Record, job *slurm.Job) {
	if !rec.Phase.Ours() {
		return
	}
	if seen := cmp.Or(rec.CommentSeen, rec.Comment); job.Comment != seen {
		rec.CommentSeen, rec.dirty = job.Comment, true
		if !b.sameWish(rec, job) {
			rec.note(now, "comment-edited", "what its comment says to UniSched was changed after admission: ignored, what it was submitted with stands; cancel and submit it again to change it")
			b.log(now, "info", "comment-edited", rec.Job, "ignored")
		}
	}
	if job.QOS == rec.QOS && job.Account == rec.Account {
		return
	}
	rec.note(now, "edited", fmt.Sprintf("QOS %q, account %q instead of %q, %q", job.QOS, job.Account, rec.QOS, rec.Account))
	rec.QOS, rec.Account = job.QOS, job.Account
	if !rec.slo() {
		return
	}
	if why := b.cfg.Admission.Allows(rec.Wish.Class, job.QOS, job.Account); why != "" {
		b.demote(now, rec, NotAllowed, why)
	}
}

// sameWish reports whether what a comment says to us now is what it said at admission: others write into comments too.
func (b *Bridge) sameWish(rec *Record, job *slurm.Job) bool {
	of := func(text string) string {
		w, err := comment.Parse(text, comment.Context{Now: rec.FirstSubmit, First: rec.FirstSubmit, Zone: b.cfg.Zone, RequestGPUs: rec.Original.GPUs})
		if err != nil {
			return err.Error()
		}
		return comment.Echo(w)
	}
	return of(job.Comment) == of(rec.Comment)
}
