package bench

import (
	"cmp"
	"math"
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/lease"
)

// rivals are the plain greedy schedulers that a plan has to beat: preemptive list schedulers that know nothing of the load to come.
var rivals = []struct {
	name string
	key  func(s planner.Snapshot, j planner.Job, w lease.Work, now time.Time) float64
}{
	{"edf", func(_ planner.Snapshot, j planner.Job, _ lease.Work, now time.Time) float64 { return due(j, now) }},
	{"llf", func(s planner.Snapshot, j planner.Job, w lease.Work, now time.Time) float64 {
		return due(j, now) - w.Units*s.Unit.Seconds()
	}},
	{"srsf", func(_ planner.Snapshot, _ planner.Job, w lease.Work, _ time.Time) float64 {
		return w.Units * float64(w.GPUs)
	}},
}

// due is the time in seconds until the first tier that is not over; best effort, and what has no tier left, comes last.
func due(j planner.Job, now time.Time) float64 {
	for _, t := range j.Tiers {
		if j.Class.SLO() && t.At.After(now) {
			return t.At.Sub(now).Seconds()
		}
	}
	return math.MaxFloat32
}

// plain plays every rival to the end. SLOMet is the better of two ways to go on: in its own order,
// and with the tiers that this met as the selection of the list scheduler that plays all plans.
func plain(s planner.Snapshot, cfg lease.Config) []Greedy {
	var all []Greedy
	for _, r := range rivals {
		p, ends := lease.PlayList(s, cfg, func(j planner.Job, w lease.Work, now time.Time) float64 { return r.key(s, j, w, now) })
		g := Greedy{Name: r.name, Objective: p.Objective, OwnOrder: metBy(s, ends)}
		g.SLOMet = max(g.OwnOrder, metBy(s, lease.PlayOut(s, p, cfg)))
		for i, j := range s.Jobs {
			if j.Class.SLO() && len(j.Tiers) > 0 {
				p.Entries[i].Tier = 0
			}
		}
		g.AllSelected = metBy(s, lease.PlayOut(s, p, cfg))
		all = append(all, g)
	}
	return all
}

// best is the one that meets most deadlines, then earns most; with the highest objective of any.
func best(all []Greedy) Greedy {
	top := slices.MaxFunc(all, func(a, b Greedy) int {
		return cmp.Or(cmp.Compare(a.SLOMet, b.SLOMet), cmp.Compare(a.Objective, b.Objective))
	})
	for _, g := range all {
		top.Objective = max(top.Objective, g.Objective)
	}
	return top
}
