package ask

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"unisched/planner"
	"unisched/slurm"
)

// waiting is why the plan lets it wait.
func (e *explainer) waiting() Cause {
	j, r := e.j, e.j.Target.Reason
	switch {
	case r.Code == "":
		return Cause{CauseNoPlan, fmt.Sprintf("No plan has looked at it yet; the next one comes %s.", e.clock(e.v.NextPlan)), ""}
	case j.Profile.Needed():
		return e.profile()
	case j.Target.Decision == planner.Start:
		return Cause{CauseStarting, fmt.Sprintf("The plan gives it %s now.", j.Target.Placement), ""}
	}
	if c, ok := e.nodesGone(); ok {
		return c
	}
	if e.inTime() {
		return Cause{CausePlanned, "It waits by plan: " + e.whoHolds() + ", and there is time.", ""}
	}
	switch r.Code {
	case planner.ReasonNoHole:
		return Cause{CauseNoHole, fmt.Sprintf("%s: it needs %s.", firstUpper(r.Text), e.shapes()), e.lessDo("more GPUs free up as jobs end")}
	case planner.ReasonBudget:
		return Cause{CauseBudget, fmt.Sprintf("The GPUs for it could be freed, but the site's bound on preemptions is used up: %s.", r.Text), "Nothing: a later round may stop others again; the next one comes " + e.clock(e.v.NextPlan) + "."}
	case planner.ReasonQuota:
		return Cause{CauseQuota, sentence(r.Text, "its account holds as many GPUs as it may"), "Wait until other jobs of the account end, or cancel one; your admins set the bound."}
	case planner.ReasonLate:
		return Cause{CauseLate, "None of its deadlines can be met any more: jobs that can still meet theirs go first, and it runs when GPUs are left.",
			"Leave it, if late is better than never. Else cancel it and submit it anew, with a later deadline or other GPUs: unisched whatif SCRIPT shows first what is possible."}
	case planner.ReasonFull:
		return Cause{CauseFull, firstUpper(r.Text) + ".", e.lessDo("leases end at unit boundaries, the next " + e.clock(e.v.NextPlan))}
	case planner.ReasonOutbid:
		return e.outbid()
	}
	return Cause{r.Code, sentence(r.Text, r.Code), ""}
}

func firstUpper(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

// anew goes with advice about the comment: the obvious thing, to edit that of the waiting job, does nothing.
const anew = "Such a change takes a new submission, which has to wait from the start: UniSched ignores a changed comment."

// lessDo is advice for whoever is waiting for room; more are further changes of the comment that would help.
func (e *explainer) lessDo(other string, more ...string) string {
	head := "Nothing needs to be done: " + other + "."
	if e.x.Risk != "" {
		head = firstUpper(other) + ", but that is too late for its deadline: submit it anew with a later one, or cancel something of yours."
	}
	if e.j.GPUs > 1 && len(e.j.Estimate.Speeds) > 0 && e.j.Estimate.Speeds[len(e.j.Estimate.Speeds)-1].Shape.GPUs() >= e.j.GPUs {
		more = append([]string{fmt.Sprintf("A job that can also run on fewer GPUs may start sooner: gpus=%d-%d in the comment, when its training allows that.", max(1, e.j.GPUs/4), e.j.GPUs)}, more...)
	}
	if len(more) == 0 {
		return head
	}
	return head + " " + strings.Join(append(more, anew), " ")
}

// shapes are the forms in which it can take GPUs.
func (e *explainer) shapes() string {
	var s []string
	for _, x := range e.j.Estimate.Speeds {
		if len(s) == 3 {
			s = append(s, "...")
			break
		}
		s = append(s, shapeWords(x.Shape))
	}
	if s == nil {
		return fmt.Sprintf("%d GPUs", e.j.GPUs)
	}
	return strings.Join(s, ", or ")
}

func shapeWords(s planner.Shape) string {
	gpus := func(n int) string {
		if n == 1 {
			return "1 GPU"
		}
		return fmt.Sprintf("%d GPUs", n)
	}
	switch {
	case len(s) == 1 && s[0] == 1:
		return "1 GPU"
	case len(s) == 1:
		return gpus(s[0]) + " on one node"
	case s.IsEven():
		return fmt.Sprintf("%s on each of %d nodes", gpus(s[0]), len(s))
	}
	return fmt.Sprintf("%d GPUs as %s", s.GPUs(), s)
}

func (e *explainer) profile() Cause {
	p := e.j.Profile
	text := fmt.Sprintf("It is new and waits to be measured: next %s for a few minutes", shapeWords(p.Steps[0]))
	if n := len(p.Steps) - 1; n > 0 {
		text += fmt.Sprintf(", then %d more such %s with other numbers of GPUs or nodes", n, plural(n, "measurement"))
	}
	switch e.j.Target.Reason.Code {
	case planner.ReasonNoHole, planner.ReasonFull:
		text += "; no GPU is free for that now"
	case planner.ReasonOutbid:
		text += "; other jobs go first now"
	}
	return Cause{CauseProfile, text + ". What it computes meanwhile counts.", "Nothing: a measurement that finds no place is left out after a while, and then it is planned without. For your next job: profile=skip in the comment leaves them out."}
}

// doomed says what the cluster has against what it asks for.
func (e *explainer) doomed() Cause {
	most, total := 0, 0
	for _, n := range e.v.Nodes {
		most, total = max(most, n.GPUs), total+n.GPUs
	}
	text := sentence(e.j.Target.Reason.Text, "no set of nodes of this cluster can ever hold it")
	if total > 0 {
		text += fmt.Sprintf(" It asks for %d GPUs; the %d managed nodes have %d, at most %d each.", e.j.GPUs, len(e.v.Nodes), total, most)
	}
	return Cause{CauseDoomed, text, "Cancel it and ask for less: look at --gpus, --nodes, --mem, --cpus-per-task, --constraint and --exclude."}
}

// nodesGone finds a job that waits only because nodes are not usable.
func (e *explainer) nodesGone() (Cause, bool) {
	i, ok := slices.BinarySearchFunc(e.v.Snapshot.Jobs, e.run(), func(j planner.Job, r planner.Run) int { return j.Run.Compare(r) })
	if !ok || e.j.Target.Reason.Code == planner.ReasonOutbid {
		return Cause{}, false
	}
	p := e.v.Snapshot.Jobs[i]
	least := 1 << 30
	for _, s := range p.Estimate.Speeds {
		least = min(least, s.Shape.GPUs())
	}
	room := 0
	var gone []string
	for _, n := range e.v.Snapshot.Nodes {
		switch {
		case p.Needs.Allows(n) != "":
		case !n.Usable:
			gone = append(gone, n.Name+" "+paren(cmp.Or(n.Why, "no reason given")))
		default:
			room += n.GPUs
		}
	}
	if len(gone) == 0 || room >= least {
		return Cause{}, false
	}
	if len(gone) > 4 {
		gone = append(gone[:4], fmt.Sprintf("and %d more", len(gone)-4))
	}
	others := fmt.Sprintf("The others that it may use have %d GPUs in all, it needs %d.", room, least)
	if room == 0 {
		others = "It may use no others."
	}
	return Cause{CauseNode, fmt.Sprintf("Nodes that it needs take no work now: %s. %s", strings.Join(gone, ", "), others),
		"Wait until they are back (sinfo -R shows why they are away). If it is your --constraint, --nodelist or --exclude that keeps it from other nodes, submit it anew without."}, true
}

// inTime says that it has a deadline, waits, and the plan ends it before.
func (e *explainer) inTime() bool {
	j := e.j
	due := j.Due()
	return !due.IsZero() && j.Target.Tier >= 0 && j.Risk() == "" && (!j.Forecast.IsZero() && !j.Forecast.After(due) || j.Forecast.IsZero() && j.Laxity > 0)
}

// holders sums up who holds the managed GPUs in the newest plan, besides this job.
func (e *explainer) holders() (slo, best int, names []string) {
	for i := range e.v.Snapshot.Jobs {
		s := &e.v.Snapshot.Jobs[i]
		entry, ok := e.v.LastPlan.Of(s.Run)
		if !ok || s.Run == e.run() || len(entry.Placement) == 0 || entry.Decision == planner.Stop {
			continue
		}
		if !s.Class.SLO() {
			best += entry.Placement.GPUs()
			continue
		}
		slo += entry.Placement.GPUs()
		if len(names) < 4 {
			name := fmt.Sprint(s.Run.Job)
			if o := jobOf(e.v, slurm.JobID(s.Run.Job)); o != nil {
				name = o.Ref
			}
			names = append(names, name)
		}
	}
	return slo, best, names
}

func (e *explainer) whoHolds() string {
	slo, best, names := e.holders()
	switch {
	case slo == 0 && best == 0:
		return "others go first now"
	case slo == 0:
		return fmt.Sprintf("%d GPUs are held by best-effort work that it does not need to stop yet", best)
	}
	return fmt.Sprintf("jobs with tighter deadlines go first now (%s)", jobs(names))
}

// jobs lists jobs by their numbers, and says that these are jobs: a bare number after so many GPUs reads as one more of them.
func jobs(names []string) string {
	head := plural(len(names), "job") + " "
	if len(names) == 4 {
		names = append(slices.Clone(names[:3]), "...")
	}
	return head + strings.Join(names, ", ")
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

func (e *explainer) outbid() Cause {
	slo, best, names := e.holders()
	total := e.v.GPUs.Total
	var more []string
	if e.j.Class == planner.BestEffort {
		more = append(more, "A job with a deadline that matters to you counts for more: class=strict,deadline=...")
	}
	do := e.lessDo("waiting raises its rank, so that it cannot starve", more...)
	if slo > 0 && total-slo < max(e.j.GPUs, 1)+best {
		also := ""
		if best > 0 {
			also = fmt.Sprintf(", best-effort jobs that go first hold %d", best)
		}
		return Cause{CauseSLO, fmt.Sprintf("Jobs with deadlines (%s) need %d of the %d managed GPUs now%s, and it asks for %d. It gets its turn when they end, or can pause without missing a deadline.",
			jobs(names), slo, total, also, max(e.j.GPUs, 1)), do}
	}
	if slo+best == 0 {
		return Cause{CauseOutbid, sentence(e.j.Target.Reason.Text, "others go first now"), do}
	}
	var who []string
	if slo > 0 {
		who = append(who, fmt.Sprintf("jobs with deadlines hold %d", slo))
	}
	if best > 0 {
		who = append(who, fmt.Sprintf("best-effort jobs that are shorter or have waited longer hold %d", best))
	}
	return Cause{CauseOutbid, fmt.Sprintf("Others go first now: of the %d managed GPUs, %s.", total, strings.Join(who, ", ")), do}
}
