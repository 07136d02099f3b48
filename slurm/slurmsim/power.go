package slurmsim

import (
	"time"

	"unisched/slurm"
)

// PowerDown puts an empty node to sleep; a job that Slurm starts there wakes it, which takes that long: the job holds its GPUs from then on, shows
// CONFIGURING, and its script and its time limit begin when its nodes are up. falling is how long the node takes to be down, during which nothing
// starts on it. (After Slurm's documentation of power saving; not measured.)
func (c *Cluster) PowerDown(name string, falling, resume time.Duration) {
	n := c.byNode[name]
	if len(n.holders) > 0 {
		return
	}
	n.power, n.resume = slurm.Asleep, resume
	c.version++
	if falling <= 0 {
		return
	}
	n.power = slurm.Falling
	c.at(c.now.Add(falling), func() {
		if n.power == slurm.Falling {
			n.power = slurm.Asleep
			c.version++
			c.rouse()
		}
	})
}

// powersUp wakes the nodes of a job that was started on some that sleep, and calls up when they are there; false when none does.
func (c *Cluster) powersUp(j *job, r *run, up func()) bool {
	wait := time.Duration(0)
	for _, s := range j.alloc {
		if s.node.power == slurm.Asleep {
			s.node.power, s.node.upAt = slurm.Waking, c.now.Add(s.node.resume)
			c.at(s.node.upAt, func() {
				s.node.power = slurm.Up
				c.version++
			})
		}
		if s.node.power == slurm.Waking {
			wait = max(wait, s.node.upAt.Sub(c.now))
		}
	}
	if wait <= 0 {
		return false
	}
	c.version++
	j.configuring = true
	c.note(j, "wakes its nodes")
	c.at(c.now.Add(wait), func() {
		if r.over {
			return
		}
		j.configuring, j.start = false, c.now
		c.touch(j)
		up()
	})
	return true
}

// powerFlags are the words of the node's state.
func powerFlags(p slurm.Power) []string {
	switch p {
	case slurm.Asleep:
		return []string{"POWERED_DOWN"}
	case slurm.Waking:
		return []string{"POWERING_UP"}
	case slurm.Falling:
		return []string{"POWERING_DOWN"}
	}
	return nil
}
