package bridge

import (
	"fmt"
	"time"

	"unisched/slurm"
)

// judge decides whether the snapshot can be trusted. A suspect one permits nothing disruptive: no signals, requeues or new starts; delays are still
// renewed, since letting them lapse would change what runs.
func (b *Bridge) judge(now time.Time, s slurm.State) {
	why := ""
	switch old := b.seen; {
	case !b.last.IsZero() && now.Before(b.last):
		why = clockText(b.last.Sub(now))
	case !b.last.IsZero() && now.Sub(b.last) > 10*b.cfg.Poll+10*time.Second:
		why = fmt.Sprintf("%v since the last cycle", now.Sub(b.last).Round(time.Second))
	case len(s.Nodes) == 0:
		why = "Slurm shows no nodes"
	case 4*len(s.Nodes) < 3*len(old.Nodes):
		why = fmt.Sprintf("nodes dropped from %d to %d", len(old.Nodes), len(s.Nodes))
	case len(old.Jobs) >= 10 && len(s.Jobs) < len(old.Jobs)/2:
		why = fmt.Sprintf("jobs dropped from %d to %d", len(old.Jobs), len(s.Jobs))
	case !old.SlurmTime.IsZero() && s.SlurmTime.Before(old.SlurmTime.Add(-time.Minute)):
		why = "Slurm shows an older state than before"
		b.slurmClockBack(old.SlurmTime.Sub(s.SlurmTime))
	}
	switch {
	case b.unsaved != "":
		why = b.unsaved
	case b.rival.why(now) != "":
		why = b.rival.why(now)
	case why != "":
		b.quiet = max(b.quiet, 2)
		b.counts.Suspect++
		b.log(now, "warn", "suspect-snapshot", 0, "%s", why)
	case b.quiet > 0:
		b.quiet--
		why = "first look after a start or trouble"
	}
	if b.trouble != "" {
		b.log(now, "info", "slurm-back", 0, "Slurm answers again")
	}
	b.suspect, b.trouble, b.seen = why, "", s
	if why == "" || b.calm.IsZero() {
		b.calm = now
	}
	clear(b.perNode)
}
