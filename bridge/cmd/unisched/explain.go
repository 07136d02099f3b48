package main

import (
	"fmt"
	"strings"

	"unisched/bridge"
	"unisched/planner"
)

func risk(j bridge.JobView) string { return j.Risk() }

func (a *app) title(j bridge.JobView) {
	fmt.Fprintln(a.out, cut(clean(fmt.Sprintf("Job %s %q of %s, %s, run %d", j.Ref, j.Name, j.User, j.Class, j.Restart), false), width))
}

func (a *app) job(j bridge.JobView) {
	a.title(j)
	item(a.out, "Slurm", "%s", slurmSays(j))
	item(a.out, "UniSched", "%s", a.phase(j))
	item(a.out, "Lease", "%s", a.lease(j))
	a.outlook(j)
	item(a.out, "Progress", "%s", progress(j))
}

// explain tells everything, in the order in which somebody asks: what Slurm says, what we say, what comes, what was.
func (a *app) explain(j bridge.JobView) {
	a.title(j)
	item(a.out, "Slurm says", "%s", slurmSays(j))
	item(a.out, "UniSched", "%s", a.phase(j))
	if why := binding(j); why != "" {
		item(a.out, "Why", "%s", why)
	}
	if j.Blocked != "" {
		item(a.out, "", "it cannot start: %s", j.Blocked)
	}
	if j.NoPreempt != "" {
		item(a.out, "", "it is not preempted: %s", j.NoPreempt)
	}
	item(a.out, "Lease", "%s", a.lease(j))
	a.outlook(j)
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
	a.changed(j.Changed)
	a.events(j.Events)
}

// slurmWords explains the reasons that our own doing gives rise to, and the commonest others.
var slurmWords = map[string]string{
	"BeginTime":       "its begin time has not come",
	"JobHeldAdmin":    "held by an operator",
	"JobHeldUser":     "held by its user: `scontrol release` it",
	"Dependency":      "waits for another job",
	"Resources":       "waits for resources",
	"Priority":        "others are before it in Slurm's order",
	"Reservation":     "waits for its reservation",
	"ReqNodeNotAvail": "a node that it needs is not available",
}

func slurmSays(j bridge.JobView) string {
	s := j.SlurmState
	if s == "" {
		s = "nothing: the job is no longer shown"
	}
	if j.SlurmReason == "" {
		return s
	}
	s += " (" + j.SlurmReason + ")"
	if w := slurmWords[j.SlurmReason]; w != "" {
		s += ": " + w
	}
	switch {
	case j.SlurmReason == "BeginTime" && !j.Changed.Begin.IsZero():
		s += "; UniSched set it, and renews it while the job waits"
	case j.SlurmReason == "JobHeldAdmin" && j.Changed.Hold:
		s += "; UniSched holds it inside a move, and lets go at its end"
	}
	return s
}

func (a *app) phase(j bridge.JobView) string {
	s := string(j.Phase)
	if !j.Since.IsZero() {
		s += " since " + a.moment(j.Since)
	}
	return s
}

// binding is the reason that decides, in words: the phase's own, then the plan's.
func binding(j bridge.JobView) string {
	var parts []string
	if j.Why != "" {
		parts = append(parts, j.Why)
	}
	if r := j.Target.Reason; j.Phase.Ours() && r.Code != "" {
		text := r.Code
		if r.Text != "" {
			text += ": " + r.Text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func (a *app) lease(j bridge.JobView) string {
	switch {
	case j.Phase.Ended() || j.Phase == bridge.Released || j.Phase == bridge.Unmanaged:
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
	return "none, and none within the plan's horizon"
}

// outlook is what is expected: finish, deadlines, laxity.
func (a *app) outlook(j bridge.JobView) {
	switch {
	case !j.Ended.IsZero():
		item(a.out, "Ended", "%s, %s", a.moment(j.Ended), j.Exit)
	case !j.ForecastHigh.IsZero():
		item(a.out, "Forecast", "ends %s; 80 %%: in %s to %s", a.moment(j.Forecast), a.ahead(j.ForecastLow), a.ahead(j.ForecastHigh))
	case !j.Forecast.IsZero():
		item(a.out, "Forecast", "ends %s", a.moment(j.Forecast))
	case j.Phase.Ours():
		item(a.out, "Forecast", "none: its end is not within the plan's horizon")
	}
	for i, t := range j.Tiers {
		s := fmt.Sprintf("%s, worth %g", a.moment(t.At), t.Value)
		if j.Met != nil && *j.Met == i {
			s += ", met"
		} else if j.Phase.Ours() && j.Target.Decision != "" && j.Target.Tier == i {
			s += ", the one counted on"
		}
		item(a.out, label(i == 0, "Deadline"), "%s", s)
	}
	if len(j.Tiers) > 0 && j.Phase.Ours() {
		item(a.out, "Laxity", "%s", span(j.Laxity))
	}
	if r := risk(j); r != "" {
		item(a.out, "At risk", "%s", r)
	}
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

func (a *app) events(events []bridge.Event) {
	for i, e := range events {
		s := fmt.Sprintf("%s run %d %s", e.At.In(a.zone).Format("01-02 15:04:05"), e.Run, e.What)
		if e.Text != "" {
			s += ": " + e.Text
		}
		item(a.out, label(i == 0, "Happened"), "%s", s)
	}
}
