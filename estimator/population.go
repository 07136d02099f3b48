package estimator

import (
	"slices"
	"time"
)

// Lesson is what one job taught about the step-time model: a Normal approximation of its likelihood in information form, already
// widened by how much jobs differ, so that lessons of several jobs simply add up.
type Lesson struct {
	// Key names the job or model, so that a newer lesson replaces the older one.
	Key string    `json:"key"`
	At  time.Time `json:"at,omitzero"`
	// Mean is the job's own estimate of the parameters.
	Mean []float64 `json:"mean"`
	// Prec is the lower triangle of the precision, row by row; Info the information vector.
	Prec []float64 `json:"prec"`
	Info []float64 `json:"info"`
	// Exchange is log(seconds of exchange between two nodes / gradient bytes), 0 when the bytes are not known.
	Exchange float64 `json:"exchange,omitempty"`
}

// maxLessons bounds the jobs that a Fabric remembers one by one.
const maxLessons = 32

const speedPrecLen = speedDims * (speedDims + 1) / 2

func (l *Lesson) valid() bool {
	return len(l.Mean) == speedDims && len(l.Prec) == speedPrecLen && len(l.Info) == speedDims &&
		allFinite(l.Mean) && allFinite(l.Prec) && allFinite(l.Info)
}

func allFinite(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return !(x > -1e12 && x < 1e12) })
}

// population is the belief about the mean of a cluster's jobs.
type population struct {
	mean vec
	cov  mat
}

// population is the belief about the cluster's jobs in three steps: a neutral prior; what published lessons say about clusters at large, widened by how much clusters
// differ; the cluster's own lessons.
func (f Fabric) population() population {
	pop := population{mean: neutralMean}
	for k := range speedDims {
		pop.cov[k][k] = sq(neutralWide[k])
	}
	var known []*Lesson
	for i := range published {
		if !slices.Contains(f.Without, published[i].Key) {
			known = append(known, &published[i])
		}
	}
	pop = pop.pool(known)
	for k := range speedDims {
		pop.cov[k][k] += sq(betweenClusters * neutralWide[k])
	}
	known = known[:0]
	for i := range f.Lessons {
		if f.Lessons[i].valid() {
			known = append(known, &f.Lessons[i])
		}
	}
	return pop.pool(known)
}

// pool adds lessons to a belief. A job far from the others loses weight (Student-t with 4 degrees of freedom on its distance).
func (p population) pool(lessons []*Lesson) population {
	base, ok := inverse(p.cov, speedDims)
	if len(lessons) == 0 || !ok {
		return p
	}
	out := p
	for range 3 {
		prec := base
		var info vec
		for a := range speedDims {
			for b := range speedDims {
				info[a] += base[a][b] * p.mean[b]
			}
		}
		for _, l := range lessons {
			w, at := l.weight(&out.mean), 0
			for a := range speedDims {
				info[a] += w * l.Info[a]
				for b := 0; b <= a; b++ {
					prec[a][b] += w * l.Prec[at]
					if a != b {
						prec[b][a] = prec[a][b]
					}
					at++
				}
			}
		}
		c := prec
		if !cholesky(&c, speedDims) {
			return p
		}
		out.mean = solveChol(&c, &info, speedDims)
		out.cov = inverseFrom(&c, speedDims)
	}
	return out
}

// weight is 1 for a job near the population mean and falls with its distance.
func (l *Lesson) weight(mean *vec) float64 {
	const nu = 4
	d2, at := 0.0, 0
	for a := range speedDims {
		for b := 0; b <= a; b++ {
			t := (l.Mean[a] - mean[a]) * l.Prec[at] * (l.Mean[b] - mean[b])
			if a != b {
				t *= 2
			}
			d2 += t
			at++
		}
	}
	return min(1, (nu+speedDims)/(nu+max(d2, 0)))
}

// speedPrior is the prior of one more job: mean, precision and covariance.
type speedPrior struct {
	mu        vec
	prec, cov mat
}

// forJob is the prior of one more job: the population mean, its uncertainty and the spread from job to job.
func (p population) forJob() speedPrior {
	cov := p.cov
	for k := range speedDims {
		cov[k][k] += sq(betweenJobs[k])
	}
	prec, ok := inverse(cov, speedDims)
	if !ok {
		prec = independent(neutralWide, speedDims)
	}
	out := speedPrior{mu: p.mean, prec: prec}
	for k := range speedDims {
		out.mu[k] = min(max(out.mu[k], speedLow[k]), speedHigh[k])
	}
	if inv, ok := inverse(prec, speedDims); ok {
		out.cov = inv
	}
	return out
}

// lesson extracts what the fit of one job says about the population.
func (s *speedPosterior) lesson(key string, at time.Time) (Lesson, bool) {
	if !s.measured || !s.fit.ok {
		return Lesson{}, false
	}
	// The likelihood alone: posterior precision less prior precision, and its information vector. At the optimum the gradient of the likelihood
	// balances that of the prior.
	var h mat
	var info vec
	for a := range speedDims {
		for b := range speedDims {
			h[a][b] = s.fit.hess[a][b] - s.prec[a][b]
			info[a] += h[a][b]*s.fit.p[b] + s.prec[a][b]*(s.fit.p[b]-s.mu[b])
		}
	}
	// Marginalise the job's own deviation: (H^-1 + D)^-1 = E - E (H+E)^-1 E with E = D^-1.
	sum := h
	var e vec
	for k := range speedDims {
		e[k] = 1 / sq(betweenJobs[k])
		sum[k][k] += e[k]
	}
	c := sum
	if !cholesky(&c, speedDims) {
		return Lesson{}, false
	}
	inv := inverseFrom(&c, speedDims)
	x := solveChol(&c, &info, speedDims)
	l := Lesson{Key: key, At: at, Mean: slices.Clone(s.fit.p[:speedDims]), Info: make([]float64, speedDims), Prec: make([]float64, 0, speedPrecLen)}
	for a := range speedDims {
		l.Info[a] = e[a] * x[a]
		for b := 0; b <= a; b++ {
			v := -e[a] * inv[a][b] * e[b]
			if a == b {
				v += e[a]
			}
			l.Prec = append(l.Prec, v)
		}
	}
	return l, l.valid()
}
