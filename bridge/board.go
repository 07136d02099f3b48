package bridge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"unisched/estimator"
	"unisched/slurm"
)

// NodeView is one node of the managed partitions as people see it.
type NodeView struct {
	Name     string   `json:"name"`
	GPUType  string   `json:"gpu_type,omitempty"`
	Topology string   `json:"topology,omitempty"` // Slurm's own words for where it hangs
	Features []string `json:"features,omitempty"`
	Usable   bool     `json:"usable"`
	Why      string   `json:"why,omitempty"` // why it is not usable
	GPUs     int      `json:"gpus"`
	Managed  int      `json:"managed"` // GPUs held by jobs of ours
	Other    int      `json:"other"`   // and by others
	// OtherUntil is when the first of the others' GPUs is expected back (zero: unknown).
	OtherUntil time.Time `json:"other_until,omitzero"`
}

// Load is how the managed GPUs were used at one moment.
type Load struct {
	At      time.Time `json:"at"`
	Total   int       `json:"total"`
	Managed int       `json:"managed"`
	Other   int       `json:"other"`
	Waiting int       `json:"waiting"` // jobs of ours without GPUs
}

// maxLoads bounds the history of loads: a day at the default unit.
const maxLoads = 288

// keepLoad adds the load of this moment, once a unit. Lists that a published view holds are never written to.
func (b *Bridge) keepLoad(v *View) {
	if n := len(b.loads); n > 0 && !v.At.Truncate(b.cfg.Unit).After(b.loads[n-1].At.Truncate(b.cfg.Unit)) {
		return
	}
	l := Load{At: v.At, Total: v.GPUs.Total, Managed: v.GPUs.Managed, Other: v.GPUs.Other}
	for _, c := range v.Counts {
		if c.Phase.Ours() && !c.Phase.OnGPUs() {
			l.Waiting += c.Jobs
		}
	}
	if len(b.loads) >= maxLoads {
		b.loads = slices.Clone(b.loads[len(b.loads)-maxLoads+1:])
	}
	b.loads = append(b.loads[:len(b.loads):len(b.loads)], l)
}

// nodeViews are the nodes of the managed partitions, by name.
func (b *Bridge) nodeViews() []NodeView {
	type held struct {
		ours, other int
		until       time.Time
	}
	use := make(map[string]*held, len(b.seen.Nodes))
	for i := range b.seen.Jobs {
		j := &b.seen.Jobs[i]
		if j.State != slurm.StateRunning && j.State != slurm.StateSuspended && !j.HasFlag(slurm.FlagCompleting) {
			continue
		}
		rec := b.records[j.ID]
		ours := rec != nil && rec.Phase.OnGPUs()
		for _, g := range j.NodeGPUs {
			h := use[g.Node]
			if h == nil {
				h = &held{}
				use[g.Node] = h
			}
			if ours {
				h.ours += g.Count
				continue
			}
			h.other += g.Count
			if h.until.IsZero() || !j.End.IsZero() && j.End.Before(h.until) {
				h.until = j.End
			}
		}
	}
	var out []NodeView
	for _, n := range b.seen.Nodes {
		if !b.ourNode(&n) {
			continue
		}
		v := NodeView{Name: n.Name, Topology: n.Topology, Features: n.Features, Usable: n.Usable, Why: n.Reason, GPUs: n.TotalGPUs()}
		for _, g := range n.GPUs {
			if g.Type != "" {
				v.GPUType = g.Type
			}
		}
		if n.Usable {
			v.Why = ""
		} else if v.Why == "" {
			v.Why = "state " + string(n.State)
		}
		if h := use[n.Name]; h != nil {
			v.Managed, v.Other, v.OtherUntil = h.ours, h.other, h.until
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, c NodeView) int { return compareNames(a.Name, c.Name) })
	return out
}

// Curves of job views are thinned to so many points.
const maxCurveShown = 300

// thinned is a curve with at most maxCurveShown points, the last one among them.
func thinned(c []estimator.Point) []estimator.Point {
	if len(c) <= maxCurveShown {
		return slices.Clone(c)
	}
	out := make([]estimator.Point, 0, maxCurveShown)
	for i := range maxCurveShown {
		out = append(out, c[i*(len(c)-1)/(maxCurveShown-1)])
	}
	return out
}

// compareNames orders names as people count: n2 before n10.
func compareNames(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx > 0 && dy > 0 {
			nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
			if c := cmp.Or(cmp.Compare(len(nx), len(ny)), cmp.Compare(nx, ny)); c != 0 {
				return c
			}
			x, y = x[dx:], y[dy:]
			continue
		}
		if c := cmp.Compare(x[0], y[0]); c != 0 {
			return c
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is the length of the number that s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
