package planner

// load is what the tenants of a node use at a moment of the lease plan, and how many of them make a difference.
type load struct {
	gpus, cpus, tenants, alone int
	mem                        int64
	fresh, freshCPUs, freshMem int // tenants that the plan put there, those with CPUs, those with memory
}

// leasesFit reports that no moment of the lease plan breaks the capacity of a node. It follows the loads from lease to lease, where capacity sums them up anew
// for each moment, and looks only at nodes that somebody comes to: who leaves breaks nothing. False says that something may be wrong, not what.
func (c *checker) leasesFit(all []tenant) bool {
	if len(c.quotas) > 0 {
		return false
	}
	loads := make([]load, len(c.s.Nodes))
	var here []*tenant
	first := 0 // of those that come at this moment
	for i := range all {
		if i+1 < len(all) && c.p.Leases[i+1].From.Equal(c.p.Leases[i].From) {
			continue
		}
		stay := here[:0]
		for _, t := range here {
			if t.until.After(c.p.Leases[i].From) {
				stay = append(stay, t)
			} else {
				c.book(loads, t, -1)
			}
		}
		here = stay
		coming := all[first : i+1]
		first = i + 1
		for k := range coming {
			if !c.book(loads, &coming[k], 1) {
				return false
			}
			here = append(here, &coming[k])
		}
		for k := range coming {
			for _, n := range coming[k].nodes {
				if n >= 0 && !loads[n].fits(&c.s.Nodes[n]) {
					return false
				}
			}
		}
	}
	return true
}

// book adds a tenant to the loads (sign 1) or takes it off (-1). It is false for one that asks for less than nothing.
func (c *checker) book(loads []load, t *tenant, sign int) bool {
	needs := &c.s.Jobs[t.job].Needs
	for k, sh := range t.place {
		i := t.nodes[k]
		if i < 0 {
			continue
		}
		l, cpus, mem := &loads[i], needs.CPUs(sh.GPUs), needs.MemMB(sh.GPUs)
		if sh.GPUs < 0 || cpus < 0 || mem < 0 {
			return false
		}
		l.gpus += sign * sh.GPUs
		l.cpus += sign * cpus
		l.mem += int64(sign) * mem
		l.tenants += sign
		if needs.Exclusive {
			l.alone += sign
		}
		if t.fresh {
			l.fresh += sign
			if cpus > 0 {
				l.freshCPUs += sign
			}
			if mem > 0 {
				l.freshMem += sign
			}
		}
	}
	return true
}

// fits reports whether what the plan adds to a node is within what it offers.
func (l *load) fits(n *Node) bool {
	if l.fresh == 0 {
		return true
	}
	return l.gpus+n.OtherGPUs <= n.GPUs && (l.freshCPUs == 0 || l.cpus+n.OtherCPUs <= n.CPUs) && (l.freshMem == 0 || l.mem+n.OtherMemMB <= n.MemMB) &&
		(l.alone == 0 || l.tenants <= 1 && !n.Held())
}
