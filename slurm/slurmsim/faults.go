package slurmsim

import (
	"slices"
	"time"

	"unisched/slurm"
)

// SlowEpilog lets every job that ends on a node from now on stay in COMPLETING for so long (0: as usual).
func (c *Cluster) SlowEpilog(node string, d time.Duration) { c.byNode[node].epilog = d }

// launchTakes is how long it takes until a launch is known to have failed.
const launchTakes = 50 * time.Millisecond

// FailLaunches lets the next n launches on a node fail, as a prolog that fails does: the node is drained, and the job goes back to the queue, held. Slurm 24.11 shows
// that hold as one of its user.
func (c *Cluster) FailLaunches(node string, n int) { c.byNode[node].failing = n }

// prologError is the reason with which slurmctld drains a node.
const prologError = "Prolog error"

// launchFails ends a run that its node could not launch.
func (c *Cluster) launchFails(j *job) bool {
	i := slices.IndexFunc(j.alloc, func(s share) bool { return s.node.failing > 0 })
	if i < 0 {
		return false
	}
	n, r := j.alloc[i].node, j.run
	n.failing--
	c.at(c.now.Add(launchTakes), func() {
		if r.over {
			return
		}
		c.goesBack(j, "launch failed on "+n.Name)
		j.held, j.reason = true, "JobHeldUser"
		n.drained, n.reason = true, prologError
		c.version++
		c.touch(j)
	})
	return true
}

// Reserve makes an advance reservation that nobody here may use: no job starts on its nodes that might still run when it begins.
func (c *Cluster) Reserve(r slurm.Reservation) {
	c.reserved = append(c.reserved, r)
	slices.SortFunc(c.reserved, func(a, b slurm.Reservation) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	c.version++
	for _, t := range []time.Time{c.now, r.Start, r.End} {
		c.at(t, func() {
			c.version++
			c.rouse()
		})
	}
}

// spoken reports whether a reservation keeps a job off a node: it holds now, or begins before the job must have ended.
func (c *Cluster) spoken(j *job, n *node) bool {
	return slices.ContainsFunc(c.reserved, func(r slurm.Reservation) bool {
		return r.End.After(c.now) && slices.Contains(r.Nodes, n.Name) && (j.limit == 0 || c.now.Add(j.limit).After(r.Start))
	})
}

// Unreserve takes a reservation back.
func (c *Cluster) Unreserve(name string) {
	c.reserved = slices.DeleteFunc(c.reserved, func(r slurm.Reservation) bool { return r.Name == name })
	c.version++
	c.rouse()
}
