package policy

import (
	"cmp"
	"container/heap"
	"context"
	"time"

	"unisched/planner"
)

// optimus is Optimus (Peng et al., EuroSys 2018): every ten minutes each job gets its smallest number of GPUs, so that nobody starves, then one step
// after the other goes to the job whose predicted remaining time it shortens most per GPU. Where not even the smallest counts fit all, the shortest
// go first, as its aim, the mean completion time, wants. A job of fixed size has one count and one step.
type optimus struct {
	o     Options
	round round
	grow  grower
}

// optimusInterval is the paper's scheduling interval.
const optimusInterval = 10 * time.Minute

func newOptimus(o Options) Policy { return &optimus{o: o} }

func (p *optimus) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	for i := range r.jobs {
		j := &r.jobs[i]
		j.units = unitsOf(optimusInterval, s.Unit)
		if j.Class != planner.Profiler && j.Elastic && len(j.opts) > 0 && j.idle == "" && j.pin == "" {
			j.ask(j.opts[0].gpus)
			r.expect(j)
		}
	}
	r.rank(func(j *job) [3]float64 {
		if j.Profiles() {
			return [3]float64{first}
		}
		return [3]float64{normal, j.left}
	})
	r.keepPinned()
	r.letThrough()
	p.grow.run(r, r.choose())
	r.settle(inPlace)
	return r.plan("optimus")
}

// step is a larger number of GPUs that a job could use, and the seconds it saves per GPU.
type step struct {
	job, gpus, more int
	gain            float64
}

// grower hands out GPUs beyond the first by marginal gain.
type grower struct{ steps []step }

func (g *grower) Len() int { return len(g.steps) }
func (g *grower) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(g.steps[b].gain, g.steps[a].gain), cmp.Compare(g.steps[a].job, g.steps[b].job)) < 0
}
func (g *grower) Swap(a, b int) { g.steps[a], g.steps[b] = g.steps[b], g.steps[a] }
func (g *grower) Push(x any)    { g.steps = append(g.steps, x.(step)) }
func (g *grower) Pop() any {
	x := g.steps[len(g.steps)-1]
	g.steps = g.steps[:len(g.steps)-1]
	return x
}

// run gives free GPUs to the elastic jobs that were chosen.
func (g *grower) run(r *round, free int) {
	g.steps = g.steps[:0]
	for _, i := range r.order {
		g.offer(r, i)
	}
	heap.Init(g)
	for free > 0 && len(g.steps) > 0 {
		st := heap.Pop(g).(step)
		if st.more > free {
			continue
		}
		free -= st.more
		j := &r.jobs[st.job]
		j.ask(st.gpus)
		r.expect(j)
		n := len(g.steps)
		g.offer(r, st.job)
		if len(g.steps) > n {
			heap.Fix(g, n)
		}
	}
}

// offer appends the best next step of a job: the larger count with the highest gain per GPU, since a count in between may help less than none.
func (g *grower) offer(r *round, i int) {
	j := &r.jobs[i]
	if !j.Elastic || !j.chosen || j.Class == planner.Profiler {
		return
	}
	best := step{job: i}
	for k, o := range j.opts {
		if o.gpus <= j.gpus() || k > 0 && j.opts[k-1].gpus == o.gpus {
			continue
		}
		more := o.gpus - j.gpus()
		if gain := (j.left - r.estimate(j, o.gpus)) / float64(more); gain > best.gain {
			best.gpus, best.more, best.gain = o.gpus, more, gain
		}
	}
	if best.more > 0 {
		g.steps = append(g.steps, best)
	}
}
