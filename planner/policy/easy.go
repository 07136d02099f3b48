package policy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"unisched/planner"
)

// easy is FIFO with EASY backfill (Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001), what plain Slurm does in essence: the first job
// that does not fit gets a reservation at the earliest time at which enough GPUs are expected free, and whoever is behind may start as long as he
// does not delay that. Nothing is ever stopped. The time that a job holds its GPUs is its estimate, as for all others here. Reservations look at GPUs
// alone.
type easy struct {
	o     Options
	round round
	ends  []sortable
	then  floor
}

func newBackfill(o Options) Policy { return &easy{o: o} }

func (p *easy) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, true)
	r.rank(func(*job) [3]float64 { return [3]float64{} })
	r.keepPinned()
	r.letThrough()
	shadow, head := math.Inf(1), -1
	for _, i := range r.order {
		j := &r.jobs[i]
		long := j.left > shadow
		switch ok := r.start(j, long); {
		case ok && long:
			for _, sh := range j.place {
				r.floor.spots[r.floor.index[sh.Node]].slack -= sh.GPUs
			}
		case !ok && head < 0:
			head = i
			shadow = p.reserve(j)
		}
	}
	return r.plan("backfill")
}

// reserve finds when job j could start if nobody else did, and leaves in every node's slack how many GPUs a job that runs beyond then may
// take. It returns the seconds from now; nobody is held up by a job that is not expected to start at all.
func (p *easy) reserve(j *job) float64 {
	r := &p.round
	p.ends = p.ends[:0]
	for i := range r.jobs {
		if x := &r.jobs[i]; x.decided == planner.Keep || x.decided == planner.Start {
			p.ends = append(p.ends, sortable{[3]float64{max(x.left, 1)}, i})
		}
	}
	slices.SortFunc(p.ends, func(a, b sortable) int {
		return cmp.Or(cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.job, b.job))
	})
	then := &p.then
	then.nodes, then.index, then.spots = r.floor.nodes, r.floor.index, append(then.spots[:0], r.floor.spots...)
	k := kind{needs: j.kind.needs, groups: j.kind.groups}
	for n, end := range p.ends {
		x := &r.jobs[end.job]
		then.take(&x.Needs, x.place, -1, false)
		if n+1 < len(p.ends) && p.ends[n+1].key[0] == end.key[0] {
			continue
		}
		for _, o := range j.want {
			if place, ok := then.put(&k, o.shape, false); ok {
				then.take(&j.Needs, place, 1, true)
				for _, sh := range place {
					i := r.floor.index[sh.Node]
					r.floor.spots[i].slack = max(0, then.spots[i].gpus)
				}
				return end.key[0]
			}
		}
		k.full = k.full[:0]
	}
	return math.Inf(1)
}
