package slurm

import "slices"

// Power is what a node's power saving does with it.
type Power string

// A node that is Up, or whose state says nothing of power saving, has the empty Power. Slurm starts jobs on nodes that are asleep or waking; a node
// that is falling asleep has to be asleep first.
const (
	Up      Power = ""
	Asleep  Power = "powered down"
	Waking  Power = "powering up"
	Falling Power = "powering down"
)

var powerFlags = map[string]Power{"POWERED_DOWN": Asleep, "POWERING_UP": Waking, "POWER_UP": Waking, "POWERING_DOWN": Falling, "POWER_DOWN": Falling,
	"POWER_DRAIN": Falling}

// Power says what power saving does with the node; wakes reports whether that is all that keeps it from taking jobs.
func (n *Node) Power() (p Power, wakes bool) {
	wakes = len(n.Odd) == 0 && slices.Contains([]NodeState{NodeIdle, NodeMixed, NodeAllocated}, n.State)
	for _, f := range n.Flags {
		switch q, ok := powerFlags[f]; {
		case !ok:
			wakes = wakes && nodeFlags[f]
		case q == Falling || p == Up || p == Asleep && q == Waking: // a node asleep may be asked to wake; one that falls is not to be woken
			p = q
		}
	}
	return p, wakes && p != Up
}
