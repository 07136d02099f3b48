package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/planner"
)

func risk(j bridge.JobView) string { return j.Risk() }

func (a *app) title(j bridge.JobView) {
	fmt.Fprintln(a.out, cut(clean(fmt.Sprintf("Job %s %q of %s, %s, run %d", j.Ref, j.Name, j.User, cmp.Or(string(j.Class), "not managed"), j.Restart), false), width))
}

// job is a job in short.
func (a *app) job(x ask.Explanation) {
	j := x.Job
	a.title(j)
	item(a.out, "In short", "%s", x.Verdict)
	item(a.out, "Slurm says", "%s", x.Slurm)
	item(a.out, "UniSched", "%s", a.phase(j))
	item(a.out, "Lease", "%s", a.lease(j))
	a.expected(x)
	item(a.out, "Progress", "%s", progress(j))
}

// explain tells everything, in the order in which somebody asks: how it stands, what Slurm says, why, what comes, what would help, what was.
func (a *app) explain(x ask.Explanation) {
	j := x.Job
	a.title(j)
	item(a.out, "In short", "%s", x.Verdict)
	item(a.out, "Slurm says", "%s", x.Slurm)
	item(a.out, "Why", "%s", x.Cause.Text)
	if x.Cause.Do != "" {
		item(a.out, "To do", "%s", x.Cause.Do)
	}
	a.expected(x)
	for i, h := range x.Helps {
		item(a.out, label(i == 0, "What if"), "%s", helpText(h))
	}
	item(a.out, "UniSched", "%s", a.phase(j))
	item(a.out, "Lease", "%s", a.lease(j))
	if j.NoPreempt != "" {
		item(a.out, "", "it is not preempted: %s", j.NoPreempt)
	}
	if j.Phase.Ours() {
		a.estimate(j.Estimate)
		item(a.out, "Profile", "%s", profile(j.Profile))
	}
	item(a.out, "Progress", "%s", progress(j))
	if j.Stop != "" {
		item(a.out, "", "stops: %s", j.Stop)
	}
	for _, r := range j.Returns {
		item(a.out, "", "run %d came back at iteration %d: %d were reached before, %d saved", r.Run, r.Resumed, r.Reached, r.Saved)
	}
	if x.Managed || j.Changed.Any() {
		a.changed(j.Changed)
	}
	a.leases(x.Leases)
	if x.Plan != "" {
		made := ""
		if !x.PlanMade.IsZero() {
			made = ", made " + a.moment(x.PlanMade)
		}
		item(a.out, "Decided by", "plan %s%s", x.Plan, made)
	}
	a.happened(x.Audit)
}

// expected is when it starts and ends, and how that stands to its deadlines.
func (a *app) expected(x ask.Explanation) {
	j := x.Job
	switch {
	case !j.Ended.IsZero():
		item(a.out, "Ended", "%s, %s", a.moment(j.Ended), j.Exit)
	case x.Managed:
		if x.Start != nil {
			item(a.out, "Starts", "%s%s", about(x), a.between(*x.Start))
		} else if !j.Phase.OnGPUs() {
			item(a.out, "Starts", "%s", unforeseen(x))
		}
		if x.Finish != nil {
			item(a.out, "Ends", "%s%s", about(x), a.between(*x.Finish))
		} else {
			item(a.out, "Ends", "%s", unforeseen(x))
		}
	}
	for i, d := range x.Deadlines {
		item(a.out, label(i == 0, "Deadline"), "%s", a.deadline(d))
	}
	if x.Risk != "" {
		item(a.out, "At risk", "%s", x.Risk)
	}
}

// unforeseen is said where no start or end is known. That of a job that something outside the plan keeps back is no matter of how far the plan looks ahead.
func unforeseen(x ask.Explanation) string {
	switch {
	case x.Cause.Code == ask.CauseDoomed:
		return "never"
	case x.Job.Blocked != "" && !x.Job.Phase.OnGPUs():
		return "unknown while that keeps it waiting"
	case x.Cause.Code == ask.CauseNoPlan:
		return "unknown until it is planned"
	}
	return "later than the plan looks ahead"
}

// about marks what lies beyond the plan's horizon.
func about(x ask.Explanation) string {
	if x.Beyond {
		return "beyond the plan's horizon, about "
	}
	return ""
}

func (a *app) between(m ask.Moment) string {
	if m.Low.Equal(m.High) {
		return a.moment(m.Mid)
	}
	return fmt.Sprintf("%s; 80 %%: in %s to %s", a.moment(m.Mid), a.ahead(m.Low), a.ahead(m.High))
}

func (a *app) deadline(d ask.Deadline) string {
	s := fmt.Sprintf("%s, worth %g", a.moment(d.At), d.Value)
	if d.Chance != nil {
		s += ", chance " + chanceText(*d.Chance)
	}
	if d.Spare != nil {
		if left := time.Duration(*d.Spare * float64(time.Second)); left >= 0 {
			s += ", " + span(left) + " to spare"
		} else {
			s += ", missed by " + span(-left)
		}
	}
	switch {
	case d.Met:
		s += ", met"
	case d.Counted:
		s += ", the one counted on"
	}
	return s
}

// percent never claims certainty.
func chanceText(p float64) string {
	switch {
	case p > 0.99:
		return "over 99 %"
	case p < 0.01:
		return "under 1 %"
	}
	return fmt.Sprintf("%.0f %%", p*100)
}

func helpText(h ask.Help) string {
	s := h.What + ": " + strings.TrimSuffix(h.Result, ".")
	if h.Chance != nil {
		s += ", chance " + chanceText(*h.Chance)
	}
	if !h.Better {
		return s + " (no better)"
	}
	return s
}

// maxLeasesShown bounds the leases of one explanation.
const maxLeasesShown = 12

func (a *app) leases(leases []ask.Lease) {
	first := true
	if n := len(leases) - maxLeasesShown; n > 0 {
		item(a.out, "Leases", "%d earlier ones: -o json", n)
		leases, first = leases[n:], false
	}
	for i, l := range leases {
		to, what := a.short(l.To), fmt.Sprintf("run %d", l.Run)
		switch l.Kind {
		case "now":
			to = "now"
		case "plan":
			what = "planned"
		}
		if l.Profile {
			what += ", measured"
		}
		item(a.out, label(i == 0 && first, "Leases"), "%s to %s on %s (%s)", a.short(l.From), to, l.Where, what)
	}
}

// short writes an instant without its year and distance.
func (a *app) short(t time.Time) string { return t.In(a.zone).Format("01-02 15:04:05") }

// maxEventsShown bounds the events of one explanation.
const maxEventsShown = 40

// happened lists what was done, and how the journal and the log name it.
func (a *app) happened(events []ask.Audit) {
	if len(events) == 0 {
		return
	}
	n := len(events) - maxEventsShown
	if n > 0 {
		item(a.out, "Happened", "%d earlier events: -o json", n)
		events = events[n:]
	}
	for i, e := range events {
		s := fmt.Sprintf("%s run %d %s", a.short(e.At), e.Run, e.What)
		if e.Text != "" {
			s += ": " + e.Text
		}
		item(a.out, label(i == 0 && n <= 0, "Happened"), "%s", s)
	}
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Action != "" {
			item(a.out, "Audit", "the last action is %s in the journal and the log; all ids: -o json", events[i].Action)
			return
		}
	}
}

func (a *app) phase(j bridge.JobView) string {
	s := string(j.Phase)
	if !j.Since.IsZero() {
		s += " since " + a.moment(j.Since)
	}
	return s
}

func (a *app) lease(j bridge.JobView) string {
	switch {
	case j.Phase.Ended() || j.Phase == bridge.Released || j.Phase == bridge.Unmanaged || j.Releasing:
		return "none"
	case len(j.Placement) > 0 && j.Phase.OnGPUs():
		s := fmt.Sprintf("%s until %s", j.Placement, a.moment(j.LeaseUntil))
		if d := j.Target.Decision; d == planner.Stop || d == planner.Move {
			s += fmt.Sprintf("; the plan: %s", d)
		}
		if j.Target.Decision == planner.Move {
			s += " to " + j.Target.Placement.String()
		}
		return s
	case len(j.Target.Placement) > 0:
		return fmt.Sprintf("planned on %s until %s, rank %d", j.Target.Placement, a.moment(j.Target.Until), j.Target.Rank)
	case !j.Target.StartBy.IsZero():
		return fmt.Sprintf("none; start expected by %s, rank %d", a.moment(j.Target.StartBy), j.Target.Rank)
	}
	return "none, and none planned yet"
}

func label(first bool, text string) string {
	if first {
		return text
	}
	return ""
}

func (a *app) estimate(e planner.Estimate) {
	if len(e.Speeds) == 0 {
		item(a.out, "Estimate", "none yet")
		return
	}
	const most = 6 // fastest first
	for i, s := range e.Speeds {
		if i == most {
			item(a.out, "", "and %d more shapes (-o json)", len(e.Speeds)-most)
			break
		}
		item(a.out, label(i == 0, "Estimate"), "%s it/s on shape %s", interval(s.Speed), s.Shape)
	}
	item(a.out, "", "%s iterations left", interval(e.Iterations))
	if e.Reaches < 1 {
		item(a.out, "", "the target is reached within the maximum with probability %.2g", e.Reaches)
	}
	item(a.out, "", "resume %s s, checkpoint %s s", interval(e.Resume), interval(e.Checkpoint))
	basis := e.Basis
	if basis == "" {
		basis = "nothing measured"
	}
	item(a.out, "", "80 %% intervals, from: %s", basis)
}

func interval(i planner.Interval) string {
	if i.Low == i.High {
		return fmt.Sprintf("%.4g", i.Mid)
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", i.Mid, i.Low, i.High)
}

func progress(j bridge.JobView) string {
	s := fmt.Sprintf("iteration %d, saved %d; preempted %d times, %d iterations lost, %.3g GPU hours", j.Iter, j.SavedIter, j.Preemptions,
		j.LostIters, j.GPUSeconds/3600)
	if j.Strikes > 0 {
		s += fmt.Sprintf("; %d signals without a checkpoint", j.Strikes)
	}
	return s
}

func profile(p bridge.Profile) string {
	s := "done"
	switch {
	case p.Needed():
		shapes := make([]string, len(p.Steps))
		for i, sh := range p.Steps {
			shapes[i] = sh.String()
		}
		s = "still to be measured on shapes " + strings.Join(shapes, ", ")
	case !p.Done:
		s = "none"
	}
	if p.Note != "" {
		s += ": " + p.Note
	}
	return s
}

// changed lists what release would undo.
func (a *app) changed(c bridge.Changed) {
	var parts []string
	if c.Hold {
		parts = append(parts, "held")
	}
	if !c.Begin.IsZero() {
		parts = append(parts, "begin time "+c.Begin.In(a.zone).Format("15:04:05"))
	}
	if c.Nice {
		parts = append(parts, fmt.Sprintf("nice %d", c.NiceIs))
	}
	if len(c.Pinned) > 0 {
		parts = append(parts, "pinned to "+strings.Join(c.Pinned, ","))
	}
	if c.Reshape {
		parts = append(parts, "nodes, tasks, GPUs or partition")
	}
	if parts == nil {
		parts = []string{"nothing now"}
	}
	item(a.out, "We changed", "%s", strings.Join(parts, "; "))
}
