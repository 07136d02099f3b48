package bridge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/topology"
)

// serviceOf says whether a node takes new work, when, and why not, in words: power saving, faults, what its admin wrote.
func (b *Bridge) serviceOf(pn *planner.Node, n *slurm.Node) {
	power, wakes := n.Power()
	switch {
	case n.Usable:
		return
	case wakes:
		pn.Usable, pn.Wake, pn.Why = true, b.cfg.ResumeTimeout, string(power)
		if power == slurm.Falling {
			pn.Wake += b.cfg.SuspendTimeout
		}
		pn.Wake = max(pn.Wake, time.Second)
		return
	case len(n.Odd) > 0:
		pn.Why = "its record is not understood: " + strings.Join(n.Odd, ", ")
		return
	}
	state := strings.ToLower(string(n.State))
	for _, w := range []struct{ flag, word string }{{"DRAIN", "drained"}, {"FAIL", "failing"}, {"MAINTENANCE", "in maintenance"}, {"NOT_RESPONDING", "not responding"},
		{"REBOOT_ISSUED", "rebooting"}, {"INVALID_REG", "registered wrongly"}} {
		if n.HasFlag(w.flag) {
			state = w.word
			break
		}
	}
	if pn.Why = state; n.Reason != "" {
		pn.Why += ": " + n.Reason
	}
}

// closing is the next time from which a node is somebody else's.
type closing struct {
	from, until time.Time
	name        string
}

// closings are the nodes that reservations close, by name; lookup only.
type closings map[string]closing

// maxClosing bounds how far ahead reservations are looked at.
const maxClosing = 366 * 24 * time.Hour

// closingsOf finds for each node the reservation that begins first, of those that are not over.
func closingsOf(at time.Time, rs []slurm.Reservation) closings {
	out := closings{}
	for _, r := range rs { // by name: of two that begin together the first counts
		if !r.End.IsZero() && !r.End.After(at) || r.Start.Sub(at) > maxClosing {
			continue
		}
		for _, n := range r.Nodes {
			if old, ok := out[n]; !ok || r.Start.Before(old.from) {
				out[n] = closing{r.Start, r.End, r.Name}
			}
		}
	}
	return out
}

// apply closes a node: now when its reservation has begun, else to jobs that could still run then. Jobs of a reservation are not managed.
func (c closings) apply(at time.Time, pn *planner.Node) {
	r, ok := c[pn.Name]
	switch {
	case !ok:
	case r.from.After(at):
		pn.ClosesIn, pn.ClosedFor = r.from.Sub(at), "reservation "+r.name
	case pn.Usable:
		pn.Usable, pn.Why = false, fmt.Sprintf("reserved: %s", r.name)
		if !r.until.IsZero() {
			pn.Why += " until " + r.until.UTC().Format(time.RFC3339)
		}
	}
}

// reservedNow marks a node that says itself that it is reserved although no reservation could be read.
func reservedNow(pn *planner.Node, n *slurm.Node) {
	if pn.Usable && n.HasFlag("RESERVED") {
		pn.Usable, pn.Why = false, "reserved: "+cmp.Or(n.Reservation, "by a reservation that could not be read")
	}
}

// wiringOf says where a node hangs, by the site's file, else by the node's own record, and which of its GPUs are in use, when that is told for all of them.
func (b *Bridge) wiringOf(pn *planner.Node, n *slurm.Node) {
	path := b.cfg.Network.Of(n.Name)
	if path == nil {
		path = topology.OfNode(n.Topology)
	}
	if len(path) > 0 {
		pn.Switch = path[0]
	}
	if len(path) > 1 {
		pn.Above = path[1:]
	}
	if len(n.GPUs) == 1 && !n.GPUs[0].MIG && len(n.GPUs[0].UsedIndices) == n.GPUs[0].Used {
		pn.Busy = n.GPUs[0].UsedIndices
	}
}
