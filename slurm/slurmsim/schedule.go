package slurmsim

import (
	"cmp"
	"slices"
	"time"
)

// rouse asks for a scheduling pass, as every change does.
func (c *Cluster) rouse() {
	if c.cfg.BatchDelay > 0 {
		c.passAt(c.nextLoop())
		c.planBackfill()
		return
	}
	d := c.cfg.LatencyMin + time.Duration(c.rng.Int64N(int64(c.cfg.LatencyMax-c.cfg.LatencyMin)+1))
	c.passAt(c.now.Add(d))
}

// nextLoop is when slurmctld's loop, which turns once a second, makes its next pass: BatchDelay after the last one at the earliest, where those that came
// by themselves meanwhile count.
func (c *Cluster) nextLoop() time.Time {
	last := c.passed.Add(c.now.Sub(c.passed) / c.cfg.SchedInterval * c.cfg.SchedInterval)
	at := c.now
	if next := last.Add(c.cfg.BatchDelay); next.After(at) {
		at = next
	}
	loop := at.Truncate(time.Second).Add(c.phase)
	if loop.Before(at) {
		loop = loop.Add(time.Second)
	}
	return loop
}

// passAt plans a pass unless one comes earlier anyway.
func (c *Cluster) passAt(t time.Time) {
	if !c.pass.IsZero() && !c.pass.After(t) {
		return
	}
	c.pass = t
	c.at(t, func() {
		if c.pass.Equal(t) {
			c.pass = time.Time{}
			c.schedule()
		}
	})
}

// tick is the first regular pass at or after t.
func (c *Cluster) tick(t time.Time) time.Time {
	edge := t.Truncate(c.cfg.SchedInterval)
	if edge.Before(t) {
		edge = edge.Add(c.cfg.SchedInterval)
	}
	return edge
}

// order is Slurm's order of the queue.
func order(a, b *job) int {
	return cmp.Or(cmp.Compare(b.priority(), a.priority()), a.submit.Compare(b.submit), cmp.Compare(a.id, b.id))
}

// enqueue puts a pending job where it belongs; jobs that are held or wait for a time or another job are not in the queue.
func (c *Cluster) enqueue(j *job) {
	c.dequeue(j)
	if !j.pending() || j.completing {
		return
	}
	if c.cfg.AgePerHour > 0 {
		c.grow(j)
		c.touch(j)
	}
	if !j.held && j.begin.After(c.now) {
		begin := j.begin
		c.at(c.tick(begin), func() {
			if j.pending() && j.begin.Equal(begin) && !j.held && !j.queued {
				c.enqueue(j)
				c.passAt(c.now)
			}
		})
	}
	if j.held || j.begin.After(c.now) || j.after != 0 {
		c.rouse() // the next pass shows the reason
		c.unshown = append(c.unshown, j)
		return
	}
	i, _ := slices.BinarySearchFunc(c.queue, j, order)
	c.queue = slices.Insert(c.queue, i, j)
	j.queued = true
	c.rouse()
}

func (c *Cluster) dequeue(j *job) {
	if !j.queued {
		return
	}
	// Its key may have changed since it was inserted: look by identity.
	if i := slices.Index(c.queue, j); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
	j.queued = false
}

// schedule is one pass of the main scheduler: jobs in order of priority; one that does not fit keeps the lower ones of its partition waiting, unless it
// requires certain nodes: then only those are closed.
func (c *Cluster) schedule() {
	c.passed = c.now
	c.endDeadlines()
	for _, j := range c.unshown {
		c.showReason(j)
	}
	c.unshown = c.unshown[:0]
	blocked, behind := map[string]bool{}, false
	closed := map[*node]bool{}
	for _, j := range slices.Clone(c.queue) {
		if blocked[j.partition] {
			why := c.limit(j)
			if why == "" {
				why, behind = "Priority", true
			}
			c.setReason(j, why)
			continue
		}
		shares, v, why := c.place(j, closed)
		switch v {
		case fits:
			c.begins(j, shares)
		case busy:
			c.setReason(j, why)
			if len(j.req.required) > 0 {
				for _, name := range j.req.required {
					closed[c.byNode[name]] = true
				}
			} else {
				blocked[j.partition] = true
			}
		case impossible:
			c.dequeue(j)
			j.held = true
			c.note(j, "put aside: %s", why)
			c.setReason(j, why)
		default:
			c.setReason(j, why)
		}
	}
	if behind {
		c.planBackfill()
	}
}

func (c *Cluster) setReason(j *job, why string) {
	if j.reason != why {
		j.reason = why
		c.touch(j)
	}
}

// showReason gives a waiting job the reason that a pass finds.
func (c *Cluster) showReason(j *job) {
	switch {
	case !j.pending() || j.completing || j.queued:
	case j.held:
		if j.reason == "" || j.reason == "BeginTime" {
			c.setReason(j, "JobHeldAdmin")
		}
	case j.after != 0:
		c.setReason(j, "Dependency")
	case j.begin.After(c.now):
		c.setReason(j, "BeginTime")
	}
}
