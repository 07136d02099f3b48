package policy

import (
	"context"

	"unisched/planner"
)

// genie is GENIE (Chen et al., QoS-aware dynamic resource allocation for deep-learning jobs, 2020): deadline jobs by deadline - duration -
// now, each with the number of GPUs, a power of two between a quarter of and four times what was asked for, that meets its deadline with the least
// time x GPUs. Best effort and hopeless jobs come last, as asked for, in order of submission.
type genie struct {
	o     Options
	round round
}

func newGenie(o Options) Policy { return &genie{o: o} }

func (p *genie) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	r := &p.round
	r.open(s, p.o, false)
	for i := range r.jobs {
		if j := &r.jobs[i]; j.Elastic && j.Class.SLO() && j.idle == "" && j.pin == "" {
			r.cheapest(j)
		}
	}
	r.rank(func(j *job) [3]float64 {
		switch {
		case j.Profiles():
			return [3]float64{first}
		case j.alive():
			return [3]float64{urgent, j.slack()}
		}
		return [3]float64{last}
	})
	r.settle(inPlace)
	return r.plan("genie")
}

// cheapest makes a job ask for the count that meets its earliest possible deadline at the least GPU-seconds.
func (r *round) cheapest(j *job) {
	asked := j.asked()
	best, bestTier, cost := asked, len(j.Tiers), 0.0
	for k, o := range j.opts {
		if k > 0 && j.opts[k-1].gpus == o.gpus || o.gpus*4 < asked || o.gpus > asked*4 || o.gpus != asked && o.gpus&(o.gpus-1) != 0 {
			continue
		}
		j.ask(o.gpus)
		r.expect(j)
		if j.tier >= 0 && (j.tier < bestTier || j.tier == bestTier && j.service() < cost) {
			best, bestTier, cost = o.gpus, j.tier, j.service()
		}
	}
	j.ask(best)
	r.expect(j)
}
