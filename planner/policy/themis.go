package policy

import (
	"cmp"
	"slices"
)

// newThemis makes Themis (Mahajan et al., NSDI 2020): leases of 300 s, and at each end an auction among the 80 % of the jobs with the
// worst finish-time fairness rho = (time since submission + time left)/(time it would have taken alone). The auction maximises the
// product of 1/rho, so a GPU goes where it lowers log(rho) most: a job that gets no lease now ends one lease later, which hurts those
// most that could be through soonest since their submission, per GPU. The fair 20 % get what is left, by the same rule.
func newThemis(o Options) Policy {
	k := &ranker{name: "themis", o: o}
	var rhos []float64
	var limit float64
	k.begin = func(r *round) {
		rhos = rhos[:0]
		for i := range r.jobs {
			j := &r.jobs[i]
			j.units = unitsOf(o.Lease, r.s.Unit)
			if j.idle == "" && j.pin == "" {
				rhos = append(rhos, rho(r, j))
			}
		}
		slices.SortFunc(rhos, func(a, b float64) int { return cmp.Compare(b, a) })
		limit = 0
		if n := int(float64(len(rhos)) * o.Share); n > 0 {
			limit = rhos[n-1]
		}
	}
	k.key = func(r *round, j *job) [3]float64 {
		class := float64(last)
		if rho(r, j) >= limit {
			class = normal
		}
		return [3]float64{class, (elapsed(r, j) + j.left) * float64(max(1, j.gpus()))}
	}
	return k
}

// rho is the finish-time fairness of a job, with the GPUs it wants for itself as the ideal.
func rho(r *round, j *job) float64 {
	alone := positive(j.Attained)/float64(max(1, j.gpus())) + j.left
	return (elapsed(r, j) + j.left) / max(alone, 1)
}

func elapsed(r *round, j *job) float64 { return positive(r.s.Now.Sub(j.Submitted).Seconds()) }
