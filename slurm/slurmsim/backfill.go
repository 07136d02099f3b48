package slurmsim

import (
	"slices"
	"time"
)

// What one backfill looks at, as bf_max_job_test and the like bound it.
const (
	maxBackfillJobs = 200
	maxBackfillTops = 8
)

// top is a job that waits for GPUs, and when it can begin if all jobs run to their time limits (zero: never).
type top struct {
	job *job
	at  time.Time
}

// planBackfill asks for the next backfill, which comes at the multiples of its interval, when somebody waits behind another.
func (c *Cluster) planBackfill() {
	if c.cfg.BackfillInterval <= 0 || c.backfilling {
		return
	}
	at := c.now.Truncate(c.cfg.BackfillInterval).Add(c.bfPhase)
	if !at.After(c.now) {
		at = at.Add(c.cfg.BackfillInterval)
	}
	c.backfilling = true
	c.at(at, func() {
		c.backfilling = false
		c.backfill()
	})
}

// backfill starts jobs behind those that wait for GPUs, as long as these begin no later for it: every job is taken to run to its time limit. Like
// Slurm's it reserves for the first waiting jobs in order of priority.
func (c *Cluster) backfill() {
	var tops []top
	for i, j := range slices.Clone(c.queue) {
		if i >= maxBackfillJobs {
			return
		}
		shares, v, _ := c.place(j, nil)
		switch {
		case v == fits && !c.delays(j, shares, tops):
			c.begins(j, shares)
			c.note(j, "backfilled")
		case v == fits || v == busy:
			if len(tops) < maxBackfillTops {
				tops = append(tops, top{j, c.earliest(j)})
			}
		}
	}
}

// ends is when a job leaves its nodes at the latest, zero when it has no time limit.
func (c *Cluster) ends(j *job) time.Time {
	switch {
	case j.run == nil: // completing
		return c.now
	case j.limit > 0:
		return j.start.Add(j.limit)
	}
	return time.Time{}
}

// earliest is the first end of a running job after which the job fits; zero when there is none.
func (c *Cluster) earliest(j *job) time.Time {
	var ends []time.Time
	for _, r := range c.sorted {
		if len(r.alloc) > 0 {
			if end := c.ends(r); !end.IsZero() {
				ends = append(ends, end)
			}
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	i, _ := slices.BinarySearchFunc(ends, true, func(t time.Time, _ bool) int { // more is free later
		if c.fitsAt(j, t, nil, time.Time{}) {
			return 0
		}
		return -1
	})
	if i == len(ends) {
		return time.Time{}
	}
	return ends[i]
}

// delays reports whether a job that starts now on these shares keeps one of the tops from beginning when it could.
func (c *Cluster) delays(j *job, shares []share, tops []top) bool {
	var end time.Time
	if j.limit > 0 {
		end = c.now.Add(j.limit)
	}
	return slices.ContainsFunc(tops, func(t top) bool {
		if t.at.IsZero() || !end.IsZero() && !end.After(t.at) {
			return false
		}
		return !c.fitsAt(t.job, t.at, shares, end)
	})
}

// fitsAt reports whether a job fits when the jobs that end by t are gone and extra, which ends at until (zero: never), is taken.
func (c *Cluster) fitsAt(j *job, t time.Time, extra []share, until time.Time) bool {
	change := func(shares []share, sign int) {
		for _, s := range shares {
			s.node.freeGPUs += sign * s.gpus
			s.node.freeCPUs += sign * s.cpus
		}
	}
	var gone []*job
	for _, r := range c.sorted {
		if len(r.alloc) == 0 {
			continue
		}
		if end := c.ends(r); !end.IsZero() && !end.After(t) {
			gone = append(gone, r)
			change(r.alloc, 1)
		}
	}
	taken := extra
	if !until.IsZero() && !until.After(t) {
		taken = nil
	}
	change(taken, -1)
	_, v, _ := c.place(j, nil)
	change(taken, 1)
	for _, r := range gone {
		change(r.alloc, -1)
	}
	return v == fits
}
