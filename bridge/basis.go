package bridge

import (
	"unisched/slurm"
)

// Basis is what the loop knew at one moment and never writes to again: enough to treat a job that does not exist as the loop would treat it.
type Basis struct {
	cfg  Config
	seen slurm.State
	lore lore
	// crowded is as in [Bridge].
	crowded map[string]int
}

func (b *Bridge) newBasis() *Basis { return &Basis{b.cfg, b.seen, b.lore, b.crowded} }

// Partition is the first of the managed partitions, "" when none is known.
func (v *View) Partition() string {
	if v.Basis == nil || len(v.Basis.cfg.Partitions) == 0 {
		return ""
	}
	return v.Basis.cfg.Partitions[0]
}
