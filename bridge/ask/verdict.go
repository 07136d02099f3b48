package ask

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"unisched/bridge"
)

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
		CauseBudget: "Waits for a later round", CauseQuota: "Waits for GPUs of its account", CauseFull: "Waits for GPUs", CauseNode: "Waits for nodes to come back", CausePaused: "Left to Slurm", CauseStage: "Left to Slurm",
		CauseRequeueing: "On its way back to the queue", CauseNoPlan: "Waits for its first plan", CauseBlocked: "Waits to be tried again"}[c.Code]
	head = cmp.Or(head, "Waits")
	if c.Code == CauseLimit && !strings.HasPrefix(j.Blocked, blockedByLimit) {
		head = "Waits because of a reservation"
	}
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
