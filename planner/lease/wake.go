package lease

import (
	"fmt"
	"strings"
	"time"

	"unisched/planner"
)

// Nodes that are powered down are capacity like any other, only later: who starts there waits until they are up. They are taken last, a node that
// is woken for somebody anyway before one that sleeps, and not at all by a job that would lose by it the deadline that it counts on.

// hurried returns the option, confined to nodes that are up when waiting for another would lose the tier.
func (in *instance) hurried(j *job, o option, tier int) option {
	if in.wake > 0 && tier >= 0 {
		o.awake = j.n/o.phi+in.cfg.Latency.Seconds()/in.unit+in.wake > j.due[tier]
	}
	return o
}

// hurried is the same at a later time of a forecast.
func (f *forecast) hurried(ji int, o option, t time.Time) option {
	if f.in.wake > 0 && f.tier[ji] >= 0 {
		now := t.Sub(f.in.s.Now).Seconds() / f.in.unit
		due := f.in.jobs[ji].due[f.tier[ji]]
		o.awake = now+f.left[ji]/o.phi <= due && now+f.left[ji]/o.phi+f.in.wake > due
	}
	return o
}

// wakes ranks a sleeping node behind all that are up.
func (f *floor) wakes(i, rank int) int {
	if f.tenants[i] > 0 {
		return rank | 1<<40
	}
	return rank | 1<<41
}

// rouse lets a job that a forecast seats wait until its nodes are up; whoever comes later finds them so.
func (f *forecast) rouse(ji int, p planner.Placement) {
	wait := 0.0
	for _, sh := range p {
		if i, ok := f.in.index[sh.Node]; ok && !f.woken[i] && f.in.nodes[i].wake > 0 {
			if f.in.jobs[ji].State != planner.Running || f.in.jobs[ji].Current.On(sh.Node) == 0 {
				wait = max(wait, f.in.nodes[i].wake)
			}
			f.woken[i] = true
		}
	}
	f.left[ji] = min(maxUnits, f.left[ji]+wait*f.phi[ji])
}

// wakeWhy says which nodes of a placement have to be woken, for people.
func (in *instance) wakeWhy(p planner.Placement) string {
	var names []string
	longest := time.Duration(0)
	for _, sh := range p {
		if i, ok := in.index[sh.Node]; ok && in.nodes[i].wake > 0 {
			names = append(names, sh.Node)
			longest = max(longest, in.s.Nodes[i].Wake)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s must be powered up first, within %s", listed(names), longest.Round(time.Second))
}

// outOfReach names the nodes that could hold the job and why they cannot now.
func (in *instance) outOfReach(j *job, needs planner.Needs) string {
	var why []string
	for _, n := range in.s.Nodes {
		switch {
		case n.GPUs <= 0 || needs.Allows(n) != "":
		case !n.Usable:
			why = append(why, n.Name+": "+n.Why)
		case j.Needs.Allows(n) != "":
			why = append(why, n.Name+" "+j.Needs.Allows(n))
		case n.OtherGPUs > 0:
			why = append(why, fmt.Sprintf("%s: %d of %d GPUs are held by others", n.Name, min(n.OtherGPUs, n.GPUs), n.GPUs))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return " (" + listed(why) + ")"
}

// listed joins the first few of a list.
func listed(words []string) string {
	const most = 3
	if n := len(words) - most; n > 0 {
		return strings.Join(words[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(words, ", ")
}
