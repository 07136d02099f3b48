package slurmsim

import (
	"slices"
	"time"
)

// storage is the shared file system on which checkpoints lie: Config.Streams of them are read or written at full speed at once, more share the same
// bandwidth equally. What a checkpoint costs alone is the job's own figure.
type storage struct {
	active []*transfer
	at     time.Time // until when left is worked off
	epoch  int64
}

// transfer is one checkpoint on its way.
type transfer struct {
	r    *run
	left time.Duration // at full speed
	done func()
}

// moves reads or writes a checkpoint that takes so long alone, and then goes on.
func (c *Cluster) moves(r *run, alone time.Duration, done func()) {
	if c.cfg.Streams <= 0 || alone <= 0 {
		c.at(c.now.Add(max(alone, 0)), done)
		return
	}
	c.workOff()
	c.storage.active = append(c.storage.active, &transfer{r, alone, done})
	c.nextTransfer()
}

// stopTransfer takes back what a run that is over was reading or writing.
func (c *Cluster) stopTransfer(r *run) {
	if len(c.storage.active) == 0 {
		return
	}
	c.workOff()
	c.storage.active = slices.DeleteFunc(c.storage.active, func(t *transfer) bool { return t.r == r })
	c.nextTransfer()
}

// share is the part of its full speed that each transfer has.
func (s *storage) share(streams int) float64 {
	return min(1, float64(streams)/float64(max(len(s.active), 1)))
}

// workOff books what was moved since the last change.
func (c *Cluster) workOff() {
	s := &c.storage
	moved := time.Duration(float64(c.now.Sub(s.at)) * s.share(c.cfg.Streams))
	for _, t := range s.active {
		t.left -= moved
	}
	s.at = c.now
}

// nextTransfer plans the next end of a transfer.
func (c *Cluster) nextTransfer() {
	s := &c.storage
	s.epoch++
	if len(s.active) == 0 {
		return
	}
	first := slices.MinFunc(s.active, func(a, b *transfer) int { return int(a.left - b.left) })
	epoch := s.epoch
	c.at(c.now.Add(time.Duration(float64(max(first.left, 0))/s.share(c.cfg.Streams))), func() {
		if s.epoch == epoch {
			c.endTransfers()
		}
	})
}

// endTransfers ends those that are done, in the order in which they began.
func (c *Cluster) endTransfers() {
	c.workOff()
	var over []*transfer
	s := &c.storage
	s.active = slices.DeleteFunc(s.active, func(t *transfer) bool {
		if t.left > time.Microsecond { // less is rounding
			return false
		}
		over = append(over, t)
		return true
	})
	c.nextTransfer()
	for _, t := range over {
		t.done()
	}
}
