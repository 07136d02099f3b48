package slurmsim

import (
	"slices"

	"unisched/slurm"
)

// endDeadlines ends the waiting jobs that cannot be done by their own --deadline any more: begin time, or now, and time limit together pass it. Slurm does so at its
// next pass, long before the begin time itself (seen).
func (c *Cluster) endDeadlines() {
	c.deadlined = slices.DeleteFunc(c.deadlined, func(j *job) bool { return j.finished() })
	for _, j := range slices.Clone(c.deadlined) {
		begin := c.now
		if j.begin.After(begin) {
			begin = j.begin
		}
		if j.pending() && !j.completing && begin.Add(j.limit).After(j.sub.Deadline) {
			c.finish(j, slurm.StateDeadline, 0, 0)
		}
	}
}

// SetPartition lets a partition start jobs, or none: scontrol update PartitionName= State=UP or DOWN. What runs in it goes on.
func (c *Cluster) SetPartition(name string, up bool) {
	for i := range c.parts {
		if c.parts[i].Name == name {
			c.parts[i].Down = !up
		}
	}
	c.version++
	c.rouse()
}
