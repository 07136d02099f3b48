package slurmsim

import (
	"container/heap"
	"time"
)

// SetBack sets the clock of the whole cluster back. What is under way takes as long as before, and what was said in absolute times (begin times, submissions, starts) stays
// as it was said, in the future now.
func (c *Cluster) SetBack(d time.Duration) {
	var training []*run
	for _, j := range c.sorted {
		if r := j.run; r != nil && !r.over && !r.saving && !r.ready.IsZero() {
			r.from = r.iter(c.now)
			training = append(training, r)
		}
	}
	c.now = c.now.Add(-d)
	for i := range c.events {
		c.events[i].at = c.events[i].at.Add(-d)
	}
	heap.Init(&c.events)
	for _, r := range training { // from here on, by the new clock
		r.since, r.ready = c.now, c.now
		r.goOn(c)
	}
	c.storage.at = c.storage.at.Add(-d)
	c.passed, c.pass = c.now, time.Time{}
	c.changed = c.now
	c.version++
	c.rouse()
}
