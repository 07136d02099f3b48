package policy

import (
	"context"

	"unisched/planner"
)

// fifo is first come, first served without preemption, as the capacity scheduler of Hadoop YARN in one queue: the first job that does not fit
// holds up all behind it. A job that can never fit holds up nobody.
type fifo struct {
	o     Options
	round round
}

func newFIFO(o Options) Policy { return &fifo{o: o} }

func (p *fifo) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, true)
	r.rank(func(*job) [3]float64 { return [3]float64{} })
	r.keepPinned()
	r.letThrough()
	for _, i := range r.order {
		if !r.start(&r.jobs[i], false) {
			break
		}
	}
	return r.plan("fifo")
}
