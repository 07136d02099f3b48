package ask

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm"
)

// The codes of a Cause besides the planner's own reason codes. They are stable.
const (
	CauseUnmanaged  = "unmanaged"   // a plain Slurm job, with a reason
	CauseComment    = "comment"     // its comment could not be read
	CauseReleased   = "released"    // given back for good
	CauseEnded      = "ended"       //
	CauseHold       = "hold"        // its user or an admin holds it
	CauseDependency = "dependency"  //
	CauseBegin      = "begin-time"  // its user's own begin time
	CauseLimit      = "limit"       // a limit of Slurm's
	CauseBlocked    = "blocked"     // a start failed; it is tried again
	CausePaused     = "paused"      // an operator has paused UniSched
	CauseStage      = "stage"       // the site does not let us act on its class yet
	CauseProfile    = "profile"     // waits to be measured, or is being measured
	CauseCheckpoint = "checkpoint"  // is saving, or waits for one that is
	CauseStarting   = "starting"    // released to Slurm at its place
	CauseRequeueing = "requeueing"  // its run has ended, it is on the way back to the queue
	CausePlanned    = "by-plan"     // waits, and the plan lets it start in time
	CauseSLO        = "outbid-slo"  // jobs with deadlines hold what it needs
	CauseNode       = "node"        // the nodes that could hold it are not usable
	CauseNoPlan     = "no-plan"     // no round has looked at it yet
	CauseRuns       = "runs"        //
	CausePreempted  = "preempted"   // leaves at the end of its lease
	CauseDoomed     = "never-fits"  // planner.ReasonNeverFits
	CauseLate       = "late"        // planner.ReasonLate
	CauseNoHole     = "no-hole"     // planner.ReasonNoHole
	CauseBudget     = "budget"      // planner.ReasonBudget
	CauseFull       = "full"        // planner.ReasonFull
	CauseOutbid     = "outbid"      // planner.ReasonOutbid
	CauseLetThrough = "let-through" // planner.ReasonLetThrough
)

// cause finds the binding constraint: what would have to change first.
func (e *explainer) cause() Cause {
	j := e.j
	switch {
	case j.Phase == bridge.Unmanaged:
		return e.unmanaged()
	case j.Phase == bridge.Released:
		return Cause{CauseReleased, sentence(j.Why, "given back to plain Slurm"), "UniSched does not take it up again; submit it anew to have it managed."}
	case j.Phase.Ended():
		return Cause{CauseEnded, sentence(strings.TrimSpace(j.Why+" "+paren(j.Exit)), "it is over"), ""}
	case j.Target.Reason.Code == planner.ReasonNeverFits && !j.Phase.OnGPUs():
		return e.doomed()
	case j.Blocked != "" && !j.Phase.OnGPUs():
		return e.blocked()
	case e.v.Paused:
		return Cause{CausePaused, "An operator has paused UniSched: Slurm alone decides about this job until `unisched resume`.", ""}
	case j.Watched && e.v.Stage == bridge.Shadow:
		return Cause{CauseStage, "UniSched only watches here (shadow): it plans, and Slurm alone decides about this job.", ""}
	case j.Watched:
		return Cause{CauseStage, fmt.Sprintf("At this site UniSched acts for other classes only so far (stage %s): Slurm alone decides about this job.", e.v.Stage), ""}
	}
	switch j.Phase {
	case bridge.Running:
		return e.running()
	case bridge.Profiling:
		return Cause{CauseProfile, fmt.Sprintf("It is being measured on %s; its iterations count. Then it saves and comes back for its real place.", j.Placement), ""}
	case bridge.Checkpointing:
		return Cause{CauseCheckpoint, fmt.Sprintf("It was asked to save its work %s ago and leaves %s once it has%s.", bridge.Span(e.v.At.Sub(j.Since)), j.Placement, e.usually(j.Estimate.Checkpoint)), ""}
	case bridge.Requeueing:
		return Cause{CauseRequeueing, "Its run has ended and Slurm is putting it back into the queue; its next place is decided then.", ""}
	case bridge.Starting:
		return e.starting()
	}
	return e.waiting()
}

// sentence is text, or the other when there is none, as a sentence.
func sentence(text, other string) string {
	s := cmp.Or(strings.TrimSpace(text), other)
	s = strings.ToUpper(s[:1]) + s[1:]
	return stop(s)
}

// stop ends a sentence that may have its end already.
func stop(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "!") {
		return s
	}
	return s + "."
}

func paren(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

func (e *explainer) usually(i planner.Interval) string {
	if i.Mid <= 0 {
		return ""
	}
	return fmt.Sprintf(", usually within %s", bridge.Span(planner.Seconds(max(i.High, 1))))
}

func (e *explainer) unmanaged() Cause {
	why := e.j.Why
	if strings.HasPrefix(why, "comment: ") {
		return Cause{CauseComment, stop("Its comment could not be read, so Slurm alone decides about it: " + strings.TrimPrefix(why, "comment: ")),
			fmt.Sprintf("While it waits: scontrol update JobId=%s Comment='unisched:...'; check the text first: unisched lint '...'", e.j.Ref)}
	}
	return Cause{CauseUnmanaged, stop("Slurm alone decides about it: " + why), ""}
}

func (e *explainer) blocked() Cause {
	j := e.j
	switch j.BlockedBy {
	case bridge.BlockHold:
		if j.SlurmReason == "JobHeldAdmin" {
			return Cause{CauseHold, "An admin holds it in Slurm. UniSched never takes somebody else's hold off.", "Ask your admins; they release it with: scontrol release " + j.Ref}
		}
		return Cause{CauseHold, "Its user holds it in Slurm. UniSched never takes somebody else's hold off.", "scontrol release " + j.Ref}
	case bridge.BlockDependency:
		return Cause{CauseDependency, sentence("it "+j.Blocked, ""), "It is planned as soon as Slurm says that the dependency is met."}
	case bridge.BlockBegin:
		return Cause{CauseBegin, sentence("it has a "+j.Blocked, ""), fmt.Sprintf("It is planned from then on; sooner: scontrol update JobId=%s StartTime=now", j.Ref)}
	case bridge.BlockLimit:
		return Cause{CauseLimit, sentence(strings.TrimPrefix(j.Blocked, "Slurm would keep it waiting: ")+" of Slurm keeps it waiting, also on free GPUs", ""),
			"It is tried again every half minute. Wait until other jobs under that limit end, or ask your admins (sacctmgr show assoc, sacctmgr show qos)."}
	}
	return Cause{CauseBlocked, sentence(j.Blocked, ""), "It is tried again by itself."}
}

func (e *explainer) running() Cause {
	j := e.j
	text := fmt.Sprintf("It holds %s; its lease ends %s and may be renewed", j.Placement, e.clock(j.LeaseUntil))
	switch j.Target.Decision {
	case planner.Stop:
		return Cause{CausePreempted, fmt.Sprintf("It leaves %s at the end of its lease, %s: %s. Its work is saved first and it comes back by itself.", j.Placement, e.clock(j.LeaseUntil),
			cmp.Or(j.Target.Reason.Text, "others need the GPUs more")), ""}
	case planner.Move:
		return Cause{CausePreempted, fmt.Sprintf("It moves from %s to %s at the end of its lease; its work is saved first.", j.Placement, j.Target.Placement), ""}
	}
	if j.NoPreempt != "" {
		return Cause{CauseRuns, text + ". It is never preempted: " + j.NoPreempt + ".", ""}
	}
	return Cause{CauseRuns, text + ".", ""}
}

// starting: released to Slurm; its GPUs are free, or somebody is still leaving them.
func (e *explainer) starting() Cause {
	j := e.j
	nodes := j.Target.Placement.Names()
	for i := range e.v.Jobs {
		o := &e.v.Jobs[i]
		if o.Phase == bridge.Checkpointing && slices.ContainsFunc(o.Placement.Names(), func(n string) bool { return slices.Contains(nodes, n) }) {
			return Cause{CauseCheckpoint, fmt.Sprintf("It gets %s as soon as job %s, asked %s ago, has saved its work and left%s.", j.Target.Placement, o.Ref, bridge.Span(e.v.At.Sub(o.Since)),
				e.usually(o.Estimate.Checkpoint)), ""}
		}
	}
	return Cause{CauseStarting, fmt.Sprintf("It was let go to Slurm %s ago for %s and starts within seconds.", bridge.Span(e.v.At.Sub(j.Since)), j.Target.Placement), ""}
}

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
		return Cause{CauseNoHole, fmt.Sprintf("%s: it needs %s.", firstUpper(r.Text), e.shapes()), e.lessDo("GPUs of other shapes free up as jobs end")}
	case planner.ReasonBudget:
		return Cause{CauseBudget, fmt.Sprintf("The GPUs for it could be freed, but the site's limit for this round is used up: %s.", r.Text), "Nothing: the next round, " + e.clock(e.v.NextPlan) + ", may stop others again."}
	case planner.ReasonLate:
		return Cause{CauseLate, "No deadline of it can be met any more: jobs that can still meet theirs go first, and it runs when GPUs are left.",
			"Give it a later deadline by submitting it anew, or ask for fewer GPUs: unisched whatif shows what is possible."}
	case planner.ReasonFull:
		return Cause{CauseFull, firstUpper(r.Text) + ".", e.lessDo("leases end at unit boundaries, the next " + e.clock(e.v.NextPlan))}
	case planner.ReasonOutbid:
		return e.outbid()
	}
	return Cause{r.Code, sentence(r.Text, r.Code), ""}
}

func firstUpper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// lessDo is advice for whoever is waiting for room.
func (e *explainer) lessDo(other string) string {
	head := "Nothing needs to be done: " + other + "."
	if e.x.Risk != "" {
		head = firstUpper(other) + ", but that is too late for its deadline: submit it anew with a later one, or cancel something of yours."
	}
	if e.j.GPUs > 1 && len(e.j.Estimate.Speeds) > 0 && e.j.Estimate.Speeds[len(e.j.Estimate.Speeds)-1].Shape.GPUs() >= e.j.GPUs {
		head += fmt.Sprintf(" It would start sooner if it might run on fewer GPUs (gpus=%d-%d in its comment), when its training allows that.", max(1, e.j.GPUs/4), e.j.GPUs)
	}
	return head
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
		text += fmt.Sprintf(", then %d more", n)
	}
	switch e.j.Target.Reason.Code {
	case planner.ReasonNoHole, planner.ReasonFull:
		text += "; no GPU is free for that now"
	case planner.ReasonOutbid:
		text += "; other jobs go first now"
	}
	return Cause{CauseProfile, text + ". What it computes meanwhile counts.", "Nothing: a step that finds no place is left out after a while. To go without: profile=skip in the comment."}
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
	return Cause{CauseNode, fmt.Sprintf("Nodes that it needs take no work now: %s. The others that it may use have %d GPUs, it needs %d.", strings.Join(gone, ", "), room, least),
		"It starts when they are back (sinfo -R); a --constraint, --nodelist or --exclude may keep it from others."}, true
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
	return fmt.Sprintf("jobs with tighter deadlines go first now (%s)", list(names))
}

func list(names []string) string {
	if len(names) == 4 {
		names = append(slices.Clone(names[:3]), "...")
	}
	return strings.Join(names, ", ")
}

func (e *explainer) outbid() Cause {
	slo, best, names := e.holders()
	total := e.v.GPUs.Total
	do := e.lessDo("waiting raises its rank, so that it cannot starve")
	if e.j.Class == planner.BestEffort {
		do += " With a deadline that matters to you it would count for more: class=strict,deadline=..."
	}
	if slo > 0 && total-slo < max(e.j.GPUs, 1)+best {
		return Cause{CauseSLO, fmt.Sprintf("Jobs with deadlines hold %d of the %d managed GPUs and need them now (%s); it gets its turn when they have slack or end.", slo, total, list(names)), do}
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
	return Cause{CauseOutbid, fmt.Sprintf("Others go first with the %d managed GPUs now: %s.", total, strings.Join(who, ", ")), do}
}

func (e *explainer) clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	if d := t.Sub(e.v.At); d > 0 {
		return "in " + bridge.Span(d)
	}
	return bridge.Span(e.v.At.Sub(t)) + " ago"
}

// verdict is the one sentence to read.
func (e *explainer) verdict() string {
	j, c := e.j, e.x.Cause
	switch {
	case j.Phase == bridge.Unmanaged:
		return "A plain Slurm job: not managed."
	case j.Phase == bridge.Released:
		return "Given back to plain Slurm."
	case j.Phase.Ended():
		return e.over()
	case j.Phase.OnGPUs():
		return e.onGPUs()
	}
	head := map[string]string{CauseHold: "Held", CauseDependency: "Waits for another job", CauseBegin: "Waits for its begin time", CauseLimit: "Waits at a limit of Slurm's",
		CauseDoomed: "Can never start here", CauseLate: "Its deadline cannot be met", CauseProfile: "Waits to be measured", CausePlanned: "Waits by plan", CauseCheckpoint: "Starts in a moment",
		CauseStarting: "Starts in a moment", CauseSLO: "Waits for jobs with deadlines", CauseOutbid: "Waits for its turn", CauseNoHole: "Waits for GPUs in the right shape",
		CauseBudget: "Waits for the next round", CauseFull: "Waits for GPUs", CauseNode: "Waits for nodes to come back", CausePaused: "Left to Slurm", CauseStage: "Left to Slurm",
		CauseRequeueing: "On its way back to the queue", CauseNoPlan: "Waits for its first plan", CauseBlocked: "Waits to be tried again"}[c.Code]
	head = cmp.Or(head, "Waits")
	if c.Code == CauseDoomed || c.Code == CauseHold || c.Code == CausePaused || c.Code == CauseStage {
		return head + "."
	}
	var tail []string
	if s := e.x.Start; s != nil && c.Code != CauseStarting && c.Code != CauseCheckpoint {
		if d := s.Mid.Sub(e.v.At); d >= time.Second {
			tail = append(tail, "starts in "+about(d))
		}
	} else if c.Code == CausePlanned && e.x.Start == nil {
		tail = append(tail, "starts later than the plan reaches")
	}
	tail = append(tail, e.dueWords()...)
	if len(tail) == 0 {
		return head + "."
	}
	return head + ": " + strings.Join(tail, ", ") + "."
}

// about rounds to what a person would say.
func about(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
		if d < 24*time.Hour {
			return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
		}
		return bridge.Span(d)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", int(d.Round(time.Minute).Minutes()))
	}
	return bridge.Span(d)
}

// dueWords is how it stands with the deadline that counts.
func (e *explainer) dueWords() []string {
	due := e.j.Due()
	if due.IsZero() || e.x.Cause.Code == CauseLate {
		return nil
	}
	f := e.x.Finish
	switch {
	case f == nil && e.j.Laxity > 0 && e.j.Target.Tier >= 0:
		return []string{"the plan counts on its deadline, " + about(e.j.Laxity) + " to spare if it ran now"}
	case f == nil:
		return nil
	case f.Mid.After(due):
		return []string{"misses its deadline by " + about(f.Mid.Sub(due))}
	}
	return []string{"meets its deadline with " + about(due.Sub(f.Mid)) + " to spare"}
}

func (e *explainer) onGPUs() string {
	j := e.j
	var tail []string
	if f := e.x.Finish; f != nil {
		tail = append(tail, "ends in about "+about(f.Mid.Sub(e.v.At)))
	}
	tail = append(tail, e.dueWords()...)
	head := map[bridge.Phase]string{bridge.Running: "Runs", bridge.Profiling: "Is being measured", bridge.Checkpointing: "Saves its work and leaves its GPUs"}[j.Phase]
	if len(tail) == 0 {
		return head + "."
	}
	return head + ": " + strings.Join(tail, ", ") + "."
}

func (e *explainer) over() string {
	j := e.j
	head := map[bridge.Phase]string{bridge.Completed: "Completed", bridge.Failed: "Failed", bridge.Cancelled: "Was cancelled"}[j.Phase]
	switch due := j.Due(); {
	case j.Met == nil || due.IsZero():
	case *j.Met < 0:
		head += fmt.Sprintf(", %s after its last deadline", about(j.Ended.Sub(j.LastDeadline())))
		if j.Ended.Before(j.LastDeadline()) {
			return head[:strings.Index(head, ",")] + "; no deadline was met."
		}
	default:
		head += fmt.Sprintf(", %s before its deadline", about(due.Sub(j.Ended)))
	}
	return head + "."
}
