package planner

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// Check is the only judge of whether p is a feasible plan for s. It returns every violation found, in a fixed order; none means
// that the plan may be carried out.
//
// GPUs, CPUs and memory of jobs that are stopped, moved away or leaving count as free: a start may have to wait for its victim, but no
// GPU is counted on twice. A node whose kept jobs alone exceed it (the snapshot's doing) is a violation only when the plan adds to it.
func Check(s Snapshot, p Plan) []Violation {
	c := checker{s: s, p: p, quotas: s.Quotas(), node: make(map[string]int, len(s.Nodes))}
	for i := range s.Nodes {
		c.node[s.Nodes[i].Name] = i
	}
	for i := 1; i < len(s.Jobs) && c.job == nil; i++ {
		if s.Jobs[i-1].Run.Compare(s.Jobs[i].Run) >= 0 { // not in the order that they should have
			c.job = make(map[Run]int, len(s.Jobs))
		}
	}
	for i := 0; i < len(s.Jobs) && c.job != nil; i++ {
		c.job[s.Jobs[i].Run] = i
	}
	if !c.entriesMatch() {
		return c.out
	}
	c.decisions()
	c.ranksAndBudget()
	c.capacityNow()
	c.leases()
	return c.out
}

type checker struct {
	s      Snapshot
	p      Plan
	quotas []Quota
	node   map[string]int // lookup only
	job    map[Run]int    // lookup only; nil: the jobs are in order
	found  []int          // memory of the tenants' nodes
	out    []Violation
}

// find is the index of a run's job; from is where to look first.
func (c *checker) find(r Run, from int) (int, bool) {
	jobs := c.s.Jobs
	if c.job != nil {
		i, ok := c.job[r]
		return i, ok
	}
	i := from
	if i >= len(jobs) || jobs[i].Run != r {
		i = sort.Search(len(jobs), func(k int) bool { return jobs[k].Run.Compare(r) >= 0 })
	}
	return i, i < len(jobs) && jobs[i].Run == r
}

func (c *checker) bad(r Run, node, format string, args ...any) {
	c.out = append(c.out, Violation{Run: r, Node: node, What: fmt.Sprintf(format, args...)})
}

// entriesMatch reports whether there is exactly one entry per job, in the order of the snapshot; without that nothing else is judged.
func (c *checker) entriesMatch() bool {
	if len(c.p.Entries) != len(c.s.Jobs) {
		c.bad(Run{}, "", "%d entries for %d jobs", len(c.p.Entries), len(c.s.Jobs))
		return false
	}
	for i := range c.p.Entries {
		if e := &c.p.Entries[i]; e.Run != c.s.Jobs[i].Run {
			c.bad(e.Run, "", "entry %d is not for job %s", i, c.s.Jobs[i].Run)
		}
	}
	if !c.p.Now.Equal(c.s.Now) {
		c.bad(Run{}, "", "plan made for another time")
	}
	return len(c.out) == 0
}

func (c *checker) decisions() {
	for i := range c.p.Entries {
		e, j := &c.p.Entries[i], &c.s.Jobs[i]
		if what := legal(&c.s, j, e.Decision); what != "" {
			c.bad(j.Run, "", "%s", what)
		}
		if e.Anew && (e.Decision != Move || !slices.Equal(e.Placement, j.Current)) {
			c.bad(j.Run, "", "%s to %s cannot be anew: it runs at %s", e.Decision, e.Placement, j.Current)
		}
		switch e.Decision {
		case Wait, Stop:
			if len(e.Placement) > 0 {
				c.bad(j.Run, "", "%s with a placement", e.Decision)
			}
			continue
		case Keep:
			if !slices.Equal(e.Placement, j.Current) {
				c.bad(j.Run, "", "keep at %s although it runs at %s", e.Placement, j.Current)
			}
		case Move:
			if !e.Anew && slices.Equal(e.Placement, j.Current) {
				c.bad(j.Run, "", "move to where it runs")
			}
			c.placement(j, e.Placement, true)
		case Start:
			c.placement(j, e.Placement, true)
		default:
			continue // reported by legal
		}
		c.leaseEnd(j, e)
	}
}

// legal says why decision d is not possible for job j, or nothing.
func legal(s *Snapshot, j *Job, d Decision) string {
	switch j.State {
	case Leaving:
		if d != Wait {
			return fmt.Sprintf("%s of a job that is leaving", d)
		}
	case Running:
		why, pinned := s.Pinned(j)
		switch {
		case d == Keep:
		case d != Stop && d != Move:
			return fmt.Sprintf("%s of a running job", d)
		case pinned:
			return fmt.Sprintf("%s of a job that may only be kept (%s)", d, why)
		case d == Move && j.Blocked != "":
			return "move of a blocked job"
		}
	case Waiting:
		switch {
		case d == Wait:
		case d != Start:
			return fmt.Sprintf("%s of a waiting job", d)
		case j.Blocked != "":
			return "start of a blocked job"
		}
	default:
		if d != Wait {
			return fmt.Sprintf("%s of a job in unknown state %q", d, j.State)
		}
	}
	return ""
}

func (c *checker) leaseEnd(j *Job, e *Entry) {
	switch {
	case j.Foreign && e.LeaseUntil.IsZero():
	case e.Decision == Keep && c.s.MidLease(j):
		if !e.LeaseUntil.Equal(j.LeaseUntil) {
			c.bad(j.Run, "", "a running lease changes its end")
		}
	case e.LeaseUntil.Before(c.s.Now.Add(c.s.Unit - epsilon(c.s.Unit))):
		c.bad(j.Run, "", "lease shorter than a unit")
	}
}

// placement judges where a job may start; fresh placements need usable nodes.
func (c *checker) placement(j *Job, p Placement, fresh bool) {
	if !slices.ContainsFunc(j.Estimate.Speeds, func(x ShapeSpeed) bool { return p.Has(x.Shape) }) {
		c.bad(j.Run, "", "shape %s is not one of its shapes", p.Shape())
	}
	if !p.Shape().Valid() {
		c.bad(j.Run, "", "malformed placement %s", p)
		return
	}
	if !slices.IsSortedFunc(p, compareShares) {
		c.bad(j.Run, "", "placement %s is not in order", p)
	}
	if n := j.Needs.MaxNodes; n > 0 && len(p) > n {
		c.bad(j.Run, "", "%d nodes where at most %d are allowed", len(p), n)
	}
	if len(p) > 1 {
		names := p.Names()
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			if names[i] == names[i-1] {
				c.bad(j.Run, names[i], "named twice")
			}
		}
	}
	kind, known := "", false
	for _, sh := range p {
		i, ok := c.node[sh.Node]
		if !ok {
			c.bad(j.Run, sh.Node, "no such node")
			continue
		}
		n := &c.s.Nodes[i]
		if fresh && !n.Usable {
			c.bad(j.Run, n.Name, "is not usable: %s", n.Why)
		}
		if why := j.Needs.Allows(*n); why != "" {
			c.bad(j.Run, n.Name, "%s", why)
		}
		if known && kind != n.GPUType {
			c.bad(j.Run, n.Name, "mixes GPU types %q and %q", kind, n.GPUType)
		}
		kind, known = n.GPUType, true
	}
}

func compareShares(a, b Share) int {
	return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), strings.Compare(a.Node, b.Node))
}

func (c *checker) ranksAndBudget() {
	ranks := make([]int, len(c.p.Entries))
	victims := 0
	for i := range c.p.Entries {
		e := &c.p.Entries[i]
		ranks[i] = e.Rank
		if e.Decision == Stop || e.Decision == Move {
			victims++
		}
	}
	if !distinct(ranks) {
		slices.Sort(ranks)
		for i := 1; i < len(ranks); i++ {
			if ranks[i] == ranks[i-1] {
				c.bad(Run{}, "", "rank %d given twice", ranks[i])
			}
		}
	}
	if b, bounded := c.s.Budget(); bounded && victims > b {
		c.bad(Run{}, "", "%d preemptions where at most %d are allowed", victims, b)
	}
}

// distinct reports that ranks are the numbers from 0 on, each once, as they mostly are; false says nothing.
func distinct(ranks []int) bool {
	seen := make([]bool, len(ranks))
	for _, r := range ranks {
		if r < 0 || r >= len(seen) || seen[r] {
			return false
		}
		seen[r] = true
	}
	return true
}

// tenant is a job on its GPUs; fresh when the plan, not the snapshot, put it there.
type tenant struct {
	job   int
	place Placement
	nodes []int // of place, by share; -1: no such node
	fresh bool
	until time.Time // end of the lease; zero: of the decisions
}

// tenant looks the nodes up once, however many instants of the lease plan the job is seen at.
func (c *checker) tenant(job int, place Placement, fresh bool, until time.Time) tenant {
	at := len(c.found)
	for _, sh := range place {
		i, ok := c.node[sh.Node]
		if !ok {
			i = -1
		}
		c.found = append(c.found, i)
	}
	return tenant{job: job, place: place, nodes: c.found[at:len(c.found):len(c.found)], fresh: fresh, until: until}
}

func (c *checker) capacityNow() {
	all := make([]tenant, 0, len(c.p.Entries))
	for i := range c.p.Entries {
		switch e := &c.p.Entries[i]; e.Decision {
		case Keep:
			all = append(all, c.tenant(i, c.s.Jobs[i].Current, false, time.Time{}))
		case Start, Move:
			all = append(all, c.tenant(i, e.Placement, true, time.Time{}))
		}
	}
	ts := make([]*tenant, len(all))
	for i := range all {
		ts[i] = &all[i]
	}
	c.capacity(ts, time.Time{})
}

// quota judges what accounts hold at once. Kept jobs alone never break it, see Quotas.
func (c *checker) quota(ts []*tenant, when string) {
	held := make([]int, len(c.quotas))
	for _, t := range ts {
		if q := QuotaOf(c.quotas, &c.s.Jobs[t.job]); q >= 0 {
			held[q] += t.place.GPUs()
		}
	}
	for q, g := range held {
		if a := c.quotas[q]; g > a.Room {
			c.bad(Run{}, "", "account %s holds %d GPUs where %d are left of its %d%s", a.Account, g, a.Room, a.Max, when)
		}
	}
}

// capacity judges every node that a fresh tenant uses, now (zero) or at a moment of the lease plan.
func (c *checker) capacity(ts []*tenant, at time.Time) {
	type load struct {
		gpus, cpus, tenants int
		mem                 int64
		fresh, freshCPUs    bool // the plan adds to it
		freshMem, alone     bool
		loneRun             Run
	}
	loads := make([]load, len(c.s.Nodes))
	when := ""
	if !at.IsZero() {
		when = " in the lease plan at " + at.Format(time.TimeOnly)
	}
	if len(c.quotas) > 0 {
		c.quota(ts, when)
	}
	for _, t := range ts {
		j := &c.s.Jobs[t.job]
		for n, sh := range t.place {
			i := t.nodes[n]
			if i < 0 {
				continue
			}
			l, cpus, mem := &loads[i], j.Needs.CPUs(sh.GPUs), j.Needs.MemMB(sh.GPUs)
			l.gpus += sh.GPUs
			l.cpus += cpus
			l.mem += mem
			l.tenants++
			l.fresh = l.fresh || t.fresh
			l.freshCPUs = l.freshCPUs || t.fresh && cpus > 0
			l.freshMem = l.freshMem || t.fresh && mem > 0
			if j.Needs.Exclusive {
				l.alone, l.loneRun = true, j.Run
			}
		}
	}
	for i := range c.s.Nodes {
		n, l := &c.s.Nodes[i], &loads[i]
		if !l.fresh {
			continue
		}
		if l.gpus+n.OtherGPUs > n.GPUs {
			c.bad(Run{}, n.Name, "%d GPUs used and %d held by others of %d%s", l.gpus, n.OtherGPUs, n.GPUs, when)
		}
		if l.freshCPUs && l.cpus+n.OtherCPUs > n.CPUs {
			c.bad(Run{}, n.Name, "%d CPUs used and %d held by others of %d%s", l.cpus, n.OtherCPUs, n.CPUs, when)
		}
		if l.freshMem && l.mem+n.OtherMemMB > n.MemMB {
			c.bad(Run{}, n.Name, "%d MB used and %d held by others of %d%s", l.mem, n.OtherMemMB, n.MemMB, when)
		}
		if l.alone && (l.tenants > 1 || n.Held()) {
			c.bad(l.loneRun, n.Name, "wants the node for itself%s", when)
		}
	}
}

// leases judges the unrolled plan: whole gangs on nodes that they may use, one lease per job at a time, capacity at every instant, and the
// first slice equal to the decisions.
func (c *checker) leases() {
	all := make([]tenant, len(c.p.Leases))
	until := make([]time.Time, len(c.s.Jobs))
	ji := -1
	for i := range c.p.Leases {
		l, ok := &c.p.Leases[i], false
		if ji, ok = c.find(l.Run, ji+1); !ok {
			c.bad(l.Run, "", "lease of a job that is not in the snapshot")
			return
		}
		if i > 0 && (l.From.Before(c.p.Leases[i-1].From) || l.From.Equal(c.p.Leases[i-1].From) && l.Run.Compare(c.p.Leases[i-1].Run) <= 0) {
			c.bad(l.Run, "", "lease %d is out of order", i)
			return
		}
		if !l.From.Before(l.Until) || l.From.Before(c.s.Now) {
			c.bad(l.Run, "", "lease from %s until %s", l.From.Format(time.TimeOnly), l.Until.Format(time.TimeOnly))
			return
		}
		if l.From.Before(until[ji]) {
			c.bad(l.Run, "", "two leases at once")
		}
		until[ji] = l.Until
		kept := c.kept(ji, l.Placement)
		if !kept {
			c.lease(ji, l)
		}
		all[i] = c.tenant(ji, l.Placement, !kept, l.Until)
	}
	if !c.leasesFit(all) {
		c.everyMoment(all)
	}
}

// everyMoment judges the capacity at each moment at which a lease begins.
func (c *checker) everyMoment(all []tenant) {
	var ts []*tenant // those of all with a lease at the moment looked at
	for i := range c.p.Leases {
		l := &c.p.Leases[i]
		ts = append(ts, &all[i])
		if i+1 < len(c.p.Leases) && c.p.Leases[i+1].From.Equal(l.From) {
			continue
		}
		ts = slices.DeleteFunc(ts, func(t *tenant) bool { return !t.until.After(l.From) })
		c.capacity(ts, l.From)
	}
}

// kept reports whether the plan keeps the job at exactly this placement.
func (c *checker) kept(ji int, p Placement) bool {
	return c.p.Entries[ji].Decision == Keep && slices.Equal(p, c.s.Jobs[ji].Current)
}

// lease judges one that is not of a job kept where it is.
func (c *checker) lease(ji int, l *Lease) {
	j, e := &c.s.Jobs[ji], &c.p.Entries[ji]
	c.placement(j, l.Placement, true)
	if !l.From.Equal(c.s.Now) {
		return
	}
	if e.Decision != Start && e.Decision != Move || !slices.Equal(e.Placement, l.Placement) {
		c.bad(j.Run, "", "the lease plan starts with %s at %s, the decision is %s", j.Run, l.Placement, e.Decision)
	}
}
