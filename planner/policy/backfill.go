package policy

import (
	"cmp"
	"slices"
	"time"

	"unisched/planner"
)

// Arrival is a job as plain Slurm sees it.
type Arrival struct {
	Run    planner.Run
	Submit time.Time
	// Shapes are tried in this order.
	Shapes []planner.Shape
	Needs  planner.Needs
	// Duration is how long the job really runs, Limit the time limit on which reservations are planned (0: Duration).
	Duration, Limit time.Duration
}

// Outcome is what became of an Arrival. A job that no node set can ever hold has no Placement and zero times.
type Outcome struct {
	Run           planner.Run
	Start, Finish time.Time
	Placement     planner.Placement
}

// Backfill plays arrivals (in any order) on nodes under first-come-first-served with backfill and without preemption, and returns the
// outcomes by Run. The first reservations waiting jobs, in order of submission, get a reservation at the earliest time that fits; whoever
// is behind may start now only if it delays none of them. reservations 1 is EASY backfill, 0 means all: conservative backfill.
//
// Jobs are started at submissions and at ends, as Slurm would within a scheduling interval.
func Backfill(nodes []planner.Node, arrivals []Arrival, reservations int) []Outcome {
	queue := slices.Clone(arrivals)
	slices.SortFunc(queue, func(a, b Arrival) int { return cmp.Or(a.Submit.Compare(b.Submit), a.Run.Compare(b.Run)) })
	b := &backfiller{nodes: nodes, most: reservations}
	for len(queue) > 0 || len(b.waiting) > 0 {
		now, ok := b.nextEvent(queue)
		if !ok { // nobody runs or arrives, and those waiting fit nowhere
			for _, a := range b.waiting {
				b.out = append(b.out, Outcome{Run: a.Run})
			}
			break
		}
		for len(queue) > 0 && !queue[0].Submit.After(now) {
			b.waiting = append(b.waiting, queue[0])
			queue = queue[1:]
		}
		b.finish(now)
		b.step(now)
	}
	slices.SortFunc(b.out, func(x, y Outcome) int { return x.Run.Compare(y.Run) })
	return b.out
}

type stay struct {
	a           Arrival
	place       planner.Placement
	start, done time.Time
}

type backfiller struct {
	nodes   []planner.Node
	most    int
	waiting []Arrival
	running []stay
	out     []Outcome
}

// nextEvent is the next submission or end.
func (b *backfiller) nextEvent(queue []Arrival) (time.Time, bool) {
	var next time.Time
	found := false
	see := func(t time.Time) {
		if !found || t.Before(next) {
			next, found = t, true
		}
	}
	if len(queue) > 0 {
		see(queue[0].Submit)
	}
	for _, s := range b.running {
		see(s.done)
	}
	return next, found
}

func (b *backfiller) finish(now time.Time) {
	b.running = slices.DeleteFunc(b.running, func(s stay) bool { return !s.done.After(now) })
}

// limit is the time that a reservation is planned for.
func (a Arrival) limit() time.Duration {
	if a.Limit > 0 {
		return a.Limit
	}
	return max(a.Duration, time.Second)
}

// step starts whoever may start now.
func (b *backfiller) step(now time.Time) {
	cal := newCalendar(b.nodes)
	for _, s := range b.running {
		end := s.start.Add(s.a.limit())
		if !end.After(now) { // runs past its limit: it may end any moment
			end = now.Add(time.Second)
		}
		cal.book(s.a.Needs, s.place, s.start, end)
	}
	var still []Arrival
	reserved := 0
	for _, a := range b.waiting {
		if b.most > 0 && reserved >= b.most {
			if p, ok := cal.now(a, now); ok {
				b.begin(cal, a, p, now)
			} else {
				still = append(still, a)
			}
			continue
		}
		t, p, ok := cal.earliest(a.Needs, a.Shapes, now, a.limit())
		switch {
		case ok && t.Equal(now):
			b.begin(cal, a, p, now)
			continue
		case ok:
			cal.book(a.Needs, p, t, t.Add(a.limit()))
			reserved++
		}
		still = append(still, a)
	}
	b.waiting = still
}

// now finds nodes that are free now and stay free of reservations for as long as the job may run.
func (c *calendar) now(a Arrival, now time.Time) (planner.Placement, bool) {
	for _, s := range a.Shapes {
		if p, ok := c.place(a.Needs, s, now, now.Add(a.limit())); ok {
			return p, true
		}
	}
	return nil, false
}

func (b *backfiller) begin(cal *calendar, a Arrival, p planner.Placement, now time.Time) {
	cal.book(a.Needs, p, now, now.Add(a.limit()))
	done := now.Add(max(a.Duration, time.Nanosecond))
	b.running = append(b.running, stay{a, p, now, done})
	b.out = append(b.out, Outcome{Run: a.Run, Start: now, Finish: done, Placement: p})
}
