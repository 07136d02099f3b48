package postmortem

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"unisched/bridge"
	"unisched/planner"
)

// Judge says why a job missed its deadline. The shares are of its lateness: each cause counts with the lateness that it alone would have spared, and all are scaled to add up
// to one. A job that did not complete has one cause, by rule.
func Judge(c Case) Report {
	e := c.Job
	r := Report{Schema: bridge.ViewSchema, Job: e.Ref, Name: e.Name, User: e.User, Account: e.Account, Class: e.Class, GPUs: e.GPUs, Submitted: e.Submitted, Ended: e.Ended, Phase: e.Phase,
		Exit: e.Exit, Parts: []Part{}, Notes: []string{}}
	if len(e.Tiers) == 0 {
		r.Verdict = "It has no deadline: there is nothing that it could have missed."
		return r
	}
	if e.Met == nil {
		r.Verdict = "Its end was not seen: whether it met its deadline is not known."
		return r
	}
	r.Deadline = e.Last()
	if *e.Met > 0 { // a later tier: the first one was missed
		r.Deadline = e.Tiers[0].At
	}
	r.LateS, r.WindowS = e.Ended.Sub(r.Deadline).Seconds(), r.Deadline.Sub(e.Submitted).Seconds()
	r.Missed = *e.Met != 0
	l := newLedger(&c)
	l.waiting()
	need := l.running()
	r.NeedS = need
	switch {
	case e.Phase != bridge.Completed:
		r.Missed = e.Phase != bridge.Cancelled
		l.unfinished(&r)
	case !r.Missed || r.LateS <= 0:
		r.Missed = false
		r.Verdict = fmt.Sprintf("It met its deadline, with %s to spare.", span(-r.LateS))
		return r
	default:
		l.infeasible(&r)
		l.estimates(need, r.WindowS-need)
		l.share(&r)
		r.say()
	}
	l.notes(&r)
	return r
}

// unfinished judges a job that failed or was cancelled: its own end is why nothing was met.
func (l *ledger) unfinished(r *Report) {
	e := l.c.Job
	exit := strings.ToUpper(e.Exit)
	p := Part{Cause: User, Share: 1, How: Rule, Evidence: []Line{line(e.Ended, "it ended: %s", cmp.Or(e.Exit, string(e.Phase)))}}
	switch {
	case e.Phase == bridge.Cancelled:
		r.Verdict = "It was cancelled: nobody waited for it any more."
	case strings.Contains(exit, "NODE_FAIL") || strings.Contains(exit, "BOOT_FAIL") || strings.Contains(exit, "LAUNCH"):
		p.Cause, r.Verdict = Fault, "Cluster fault: its nodes failed, and it did not come back."
	case strings.Contains(exit, "PREEMPTED"):
		p.Cause, r.Verdict = Fault, "Cluster fault: Slurm itself preempted it, and it did not come back."
	case strings.Contains(exit, "TIMEOUT") || strings.Contains(exit, "DEADLINE"):
		r.Verdict = "User: its time limit ended it before its work was done."
	default:
		r.Verdict = "User: it failed by itself."
	}
	if e.Why != "" {
		p.Evidence = append(p.Evidence, line(e.Ended, "%s", e.Why))
	}
	r.Cause, r.Parts = p.Cause, []Part{p}
}

// infeasible books what not even an empty cluster could have spared: the job needs longer than its window.
func (l *ledger) infeasible(r *Report) {
	short := r.NeedS - r.WindowS
	if short <= 1 {
		return
	}
	l.add(User, min(short, r.LateS), line(r.Submitted, "submitted %s before its deadline, and it needs %s alone: %s too late by itself", span(r.WindowS), span(r.NeedS), span(short)))
}

// wrong is the relative error of an estimate of the run time below which nothing is made of it.
const wrong = 0.05

// estimates moves waiting that the plan allowed since it believed that there was time to the estimates that made it believe so, up to their error.
//
// What of the trusted waiting is left then, up to the slack that the job truly had, did no harm: with a right estimate it could have waited that long.
func (l *ledger) estimates(need, slack float64) {
	trust := l.trusted[Reward] + l.trusted[Capacity]
	k := l.firstBelief()
	if k == nil || trust <= 0 {
		return
	}
	left, iters := l.leftAt(k, need)
	off := left - k.Need
	if off <= left*wrong {
		return
	}
	said := fmt.Sprintf("believed to need %s (%d leases), in truth %s (%d): the plan counted on the deadline and let it wait", span(k.Need), l.leases(k.Need), span(left), l.leases(left))
	basis := cmp.Or(k.Basis, "no basis kept")
	defer l.harmless(min(trust, off), slack)
	if iters <= 0 {
		l.move(Speed, min(trust, off), line(k.At, "%s; which part of the estimate (%s) was wrong the records do not tell", said, basis))
		l.rule[Speed] = true
		return
	}
	more := Iterations
	if n, ok := l.declared(); ok && l.c.Job.Iter > n+n/50 {
		more = User
		l.tell(User, line(l.c.Job.Submitted, "it declared %d iterations and did %d", n, l.c.Job.Iter))
	}
	byIters := min(max((iters-k.Iterations)/k.Speed, 0), off)
	moved := min(trust, off)
	l.move(more, moved*byIters/off, line(k.At, "%s; by %.0f iterations left (%s), in truth %.0f", said, k.Iterations, basis, iters))
	l.move(Speed, moved*(off-byIters)/off, line(k.At, "%s; by %.4g iterations a second (%s), in truth %.4g", said, k.Speed, basis, iters/left))
	cause := Speed
	if byIters > off/2 {
		cause = more
	}
	for _, ev := range l.c.Job.Events {
		if ev.What == "estimate-jump" {
			l.tell(cause, Line{ev.At, ev.Text})
		}
	}
}

// move books waiting that was trusted under the estimate that was trusted.
func (l *ledger) move(to Cause, seconds float64, why Line) {
	if seconds < 1 {
		return
	}
	trust := l.trusted[Reward] + l.trusted[Capacity]
	for _, from := range []Cause{Reward, Capacity} {
		l.delay[from] -= seconds * l.trusted[from] / trust
	}
	l.add(to, seconds, why)
}

// harmless takes waiting that was trusted and not moved out of the delays, up to the slack.
func (l *ledger) harmless(moved, slack float64) {
	trust := l.trusted[Reward] + l.trusted[Capacity]
	free := min(trust-moved, slack)
	if free <= 0 {
		return
	}
	for _, from := range []Cause{Reward, Capacity} {
		l.delay[from] -= free * l.trusted[from] / trust
	}
}

func (l *ledger) leases(seconds float64) int {
	return int(math.Ceil(seconds / max(float64(l.c.SLOUnits)*l.c.Unit.Seconds(), 1)))
}

// firstBelief is the first round in which the job waited with an estimate while the plan counted on its deadline.
func (l *ledger) firstBelief() *Look {
	for i := range l.c.Looks {
		if k := &l.c.Looks[i]; k.Need > 0 && k.State == planner.Waiting && k.Tier >= 0 && !k.Profiles {
			return k
		}
	}
	return nil
}

// leftAt is what the job truly needed from a round on, in seconds, and the iterations that it then still did; 0 iterations: not known.
func (l *ledger) leftAt(k *Look, need float64) (seconds, iters float64) {
	e := l.c.Job
	before, held := false, 0.0
	for _, s := range e.Stays {
		if before = before || s.From.Before(k.At); s.From.Before(k.At) && !s.Profile {
			held += s.To.Sub(s.From).Seconds()
		}
	}
	done := int64(0)
	if before { // how far it was the next run told
		i := slices.IndexFunc(e.Returns, func(r bridge.Return) bool { return r.At.After(k.At) })
		if i < 0 {
			return max(need-held, 0), 0
		}
		done = e.Returns[i].Resumed
	}
	if e.Iter <= done {
		return max(need-held, 0), 0
	}
	return need * float64(e.Iter-done) / float64(e.Iter), float64(e.Iter - done)
}

// declared is how many iterations the job's comment said.
func (l *ledger) declared() (int64, bool) {
	var n int64
	var word string
	if k, err := fmt.Sscanf(l.c.Job.Stop, "%d %s", &n, &word); err != nil || k != 2 || word != "iterations" {
		return 0, false
	}
	return n, true
}

// share turns delays into shares of the lateness.
func (l *ledger) share(r *Report) {
	sum := 0.0
	for _, c := range Causes() {
		if d := l.delay[c]; d >= 1 {
			p := Part{Cause: c, DelayS: d, WithoutS: max(r.LateS-d, 0), How: Computed, Evidence: l.lines[c]}
			if l.rule[c] {
				p.How = Rule
			}
			if p.Evidence == nil {
				p.Evidence = []Line{}
			}
			p.Share = min(d, r.LateS)
			sum += p.Share
			r.Parts = append(r.Parts, p)
		}
	}
	if sum == 0 {
		r.Parts = append(r.Parts, Part{Cause: Unknown, DelayS: r.LateS, Share: 1, How: Rule, Evidence: []Line{}})
		sum = 1
	}
	for i := range r.Parts {
		r.Parts[i].Share /= sum
	}
	slices.SortStableFunc(r.Parts, func(a, b Part) int { return cmp.Compare(b.Share, a.Share) })
	r.Cause = r.Parts[0].Cause
}

// say writes the verdict.
func (r *Report) say() {
	p := r.Parts[0]
	words := map[Cause]string{
		User: "User: the job itself is why it was late", Fault: "Cluster fault: nodes, Slurm or the planner were away", Capacity: "Capacity: nobody could have met it with what was there",
		Reward: "Rewards: others were given its GPUs", Speed: "Speed estimate: it was believed to be faster than it is", Iterations: "Iteration estimate: it needed more iterations than was believed",
		Topology: "Topology: no fitting hole, or a slow placement", Profile: "Profiling: it waited to be measured", Unknown: "Unknown: the records of that time are gone",
	}[p.Cause]
	r.Verdict = fmt.Sprintf("%s (%.0f %% of %s late).", words, 100*p.Share, span(r.LateS))
	switch {
	case p.Cause == Unknown:
	case p.How == Computed && p.WithoutS == 0:
		r.Verdict += " Without that it would have met its deadline."
	case p.How == Computed:
		r.Verdict += fmt.Sprintf(" Without that it would still have been %s late.", span(p.WithoutS))
	}
}

// notes say what the report does not know.
func (l *ledger) notes(r *Report) {
	c := l.c
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if len(c.Looks) == 0 {
		note("no stored round shows it: what it waited for is not known (rounds are kept for about a week)")
	}
	if l.hopeless > 0 {
		note("for %s it waited with no deadline left to meet: that follows from the rest and counts for no cause", span(l.hopeless))
	}
	if c.Job.Strikes > 0 {
		note("%d checkpoints that it was asked for did not come", c.Job.Strikes)
	}
	if c.Job.Iter == 0 {
		note("it reported no iterations: lost work and errors of speed cannot be told from one another")
	}
}
