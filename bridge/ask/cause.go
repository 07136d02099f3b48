package ask

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/planner"
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
	CauseQuota      = "quota"       // planner.ReasonQuota
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
	case j.Phase == bridge.Released, j.Releasing:
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
		return Cause{CauseStage, "UniSched only watches here (shadow): Slurm alone decides about this job. Start and end are what UniSched would plan, not what Slurm will do.", "Nothing. What Slurm expects: squeue --start -j " + j.Ref}
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
	return stop(firstUpper(cmp.Or(strings.TrimSpace(text), other)))
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

// blockedByLimit begins what is said of a job that a limit keeps waiting; a reservation that does is told of in other words.
const blockedByLimit = "Slurm would keep it waiting"

func (e *explainer) blocked() Cause {
	j := e.j
	switch j.BlockedBy {
	case bridge.BlockHold:
		if j.SlurmReason == "JobHeldAdmin" {
			return Cause{CauseHold, "An admin holds it in Slurm. UniSched never takes somebody else's hold off.", "Ask your admins; they release it with: scontrol release " + j.Ref}
		}
		return Cause{CauseHold, "Its user holds it in Slurm. UniSched never takes somebody else's hold off.", "scontrol release " + j.Ref}
	case bridge.BlockDependency:
		return Cause{CauseDependency, sentence("it "+j.Blocked, ""), "It is planned as soon as Slurm says that the dependency is met. If that cannot happen any more (the other job failed, say): scontrol update JobId=" + j.Ref + " Dependency= takes it off, scancel " + j.Ref + " gives up."}
	case bridge.BlockBegin:
		return Cause{CauseBegin, sentence("it has a "+j.Blocked, ""), fmt.Sprintf("It is planned from then on; sooner: scontrol update JobId=%s StartTime=now", j.Ref)}
	case bridge.BlockDeadline:
		return Cause{CauseLimit, sentence(j.Blocked, ""), "A lower limit leaves it more time: scontrol update JobId=" + j.Ref + " TimeLimit="}
	case bridge.BlockLimit:
		limit, ok := strings.CutPrefix(j.Blocked, blockedByLimit)
		if !ok { // a reservation, which says itself what it is about
			return Cause{CauseLimit, sentence(j.Blocked, ""), "It is tried again every half minute. Wait, or ask your admins (scontrol show reservation)."}
		}
		return Cause{CauseLimit, sentence(blockedByLimit+" even on free GPUs"+limit, ""),
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

func (e *explainer) clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	if d := t.Sub(e.v.At); d > 0 {
		return "in " + bridge.Span(d)
	}
	return bridge.Span(e.v.At.Sub(t)) + " ago"
}
