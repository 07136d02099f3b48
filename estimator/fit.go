package estimator

import "math"

// maxDim bounds the parameters of any model here, so that fits need no allocation for their matrices.
const maxDim = 12

type vec [maxDim]float64
type mat [maxDim][maxDim]float64

// problem is a maximum-a-posteriori fit: observations y with standard deviations sd, a prior that is Normal and independent per parameter.
type problem struct {
	dim int
	// predict fills out with the prediction of every observation.
	predict func(p *vec, out []float64)
	y, sd   []float64
	mu, tau vec // prior mean and standard deviation
	lo, hi  vec // hard bounds
	// nu is the degrees of freedom of the Student-t noise (0: Normal): outliers lose weight.
	nu    float64
	iters int
}

// fitted is a Laplace approximation of the posterior.
type fitted struct {
	p   vec
	cov mat
	// logEvidence is the Laplace approximation of the log marginal likelihood.
	logEvidence float64
	ok          bool
}

// scratch holds the buffers of a fit, sized once per number of observations.
type scratch struct{ f0, f1, w []float64 }

func (s *scratch) size(n int) {
	if cap(s.f0) < n {
		s.f0, s.f1, s.w = make([]float64, n), make([]float64, n), make([]float64, n)
	}
	s.f0, s.f1, s.w = s.f0[:n], s.f1[:n], s.w[:n]
}

// loss is minus the log posterior up to a constant.
func (q *problem) loss(p *vec, f []float64) float64 {
	q.predict(p, f)
	l := 0.0
	for i, y := range q.y {
		r := (y - f[i]) / q.sd[i]
		if math.IsNaN(r) {
			return math.Inf(1)
		}
		if q.nu > 0 {
			l += 0.5 * (q.nu + 1) * math.Log1p(r*r/q.nu)
		} else {
			l += 0.5 * r * r
		}
	}
	for k := 0; k < q.dim; k++ {
		d := (p[k] - q.mu[k]) / q.tau[k]
		l += 0.5 * d * d
	}
	return l
}

// solve runs a damped Gauss-Newton (Levenberg-Marquardt) search from start, with numeric derivatives and reweighting for the Student-t noise.
func (q *problem) solve(start vec, s *scratch, jac []float64) fitted {
	n, d := len(q.y), q.dim
	s.size(n)
	p := start
	q.clamp(&p)
	cur := q.loss(&p, s.f0)
	lambda := 1e-2
	var h mat
	for it := 0; it < q.iters; it++ {
		q.jacobian(&p, s, jac)
		var g vec
		h, g = q.normal(&p, s, jac)
		improved := false
		var step float64
		for try := 0; try < 8; try++ {
			a := h
			for k := 0; k < d; k++ {
				a[k][k] *= 1 + lambda
			}
			if !cholesky(&a, d) {
				lambda = lambda*10 + 1e-8
				continue
			}
			delta := solveChol(&a, &g, d)
			next := p
			for k := 0; k < d; k++ {
				next[k] += delta[k]
			}
			q.clamp(&next)
			l := q.loss(&next, s.f1)
			if l < cur {
				step = cur - l
				p, cur = next, l
				lambda = max(lambda*0.2, 1e-9)
				improved = true
				break
			}
			lambda *= 6
		}
		if !improved || step < 1e-7 {
			break
		}
		copy(s.f0, s.f1)
	}
	q.loss(&p, s.f0)
	q.jacobian(&p, s, jac)
	h, _ = q.normal(&p, s, jac)
	return q.laplace(p, cur, h)
}

func (q *problem) clamp(p *vec) {
	for k := 0; k < q.dim; k++ {
		p[k] = min(max(p[k], q.lo[k]), q.hi[k])
	}
}

// jacobian fills jac (row-major, observation x parameter) by forward differences from s.f0.
func (q *problem) jacobian(p *vec, s *scratch, jac []float64) {
	d := q.dim
	for k := 0; k < d; k++ {
		e := 1e-5 * max(q.tau[k], 1e-3)
		t := *p
		if t[k]+e > q.hi[k] {
			e = -e
		}
		t[k] += e
		q.predict(&t, s.f1)
		for i := range q.y {
			jac[i*d+k] = (s.f1[i] - s.f0[i]) / e
		}
	}
}

// normal returns the Gauss-Newton matrix and the negative gradient.
func (q *problem) normal(p *vec, s *scratch, jac []float64) (h mat, g vec) {
	d := q.dim
	for i, y := range q.y {
		r := (y - s.f0[i]) / q.sd[i]
		w := 1.0
		if q.nu > 0 {
			w = (q.nu + 1) / (q.nu + r*r)
		}
		w /= q.sd[i] * q.sd[i]
		row := jac[i*d : i*d+d]
		for a := 0; a < d; a++ {
			g[a] += w * row[a] * (y - s.f0[i])
			for b := 0; b <= a; b++ {
				h[a][b] += w * row[a] * row[b]
			}
		}
	}
	for a := 0; a < d; a++ {
		it := 1 / (q.tau[a] * q.tau[a])
		h[a][a] += it
		g[a] -= (p[a] - q.mu[a]) * it
		for b := 0; b < a; b++ {
			h[b][a] = h[a][b]
		}
	}
	return h, g
}

// laplace inverts the Gauss-Newton matrix at the optimum.
func (q *problem) laplace(p vec, loss float64, h mat) fitted {
	out := fitted{p: p}
	c := h
	if math.IsNaN(loss) || math.IsInf(loss, 0) || !cholesky(&c, q.dim) {
		return out
	}
	logdet := 0.0
	for k := 0; k < q.dim; k++ {
		logdet += 2*math.Log(c[k][k]) + 2*math.Log(q.tau[k])
	}
	for _, sd := range q.sd {
		loss += math.Log(sd)
	}
	out.logEvidence = -loss - 0.5*logdet
	for k := 0; k < q.dim; k++ {
		var e vec
		e[k] = 1
		col := solveChol(&c, &e, q.dim)
		for a := 0; a < q.dim; a++ {
			out.cov[a][k] = col[a]
		}
	}
	out.ok = true
	return out
}

// cholesky replaces the lower triangle of a by its factor; false when a is not positive definite.
func cholesky(a *mat, d int) bool {
	for j := 0; j < d; j++ {
		s := a[j][j]
		for k := 0; k < j; k++ {
			s -= a[j][k] * a[j][k]
		}
		if !(s > 0) || math.IsInf(s, 1) {
			return false
		}
		a[j][j] = math.Sqrt(s)
		for i := j + 1; i < d; i++ {
			t := a[i][j]
			for k := 0; k < j; k++ {
				t -= a[i][k] * a[j][k]
			}
			a[i][j] = t / a[j][j]
		}
	}
	return true
}

// solveChol solves L L' x = b.
func solveChol(l *mat, b *vec, d int) vec {
	x := *b
	for i := 0; i < d; i++ {
		for k := 0; k < i; k++ {
			x[i] -= l[i][k] * x[k]
		}
		x[i] /= l[i][i]
	}
	for i := d - 1; i >= 0; i-- {
		for k := i + 1; k < d; k++ {
			x[i] -= l[k][i] * x[k]
		}
		x[i] /= l[i][i]
	}
	return x
}

// sampleFrom draws from the Laplace posterior: p + L z.
func (f *fitted) sampleFrom(l *mat, d int, normal func() float64) vec {
	var z vec
	for k := 0; k < d; k++ {
		z[k] = normal()
	}
	out := f.p
	for a := 0; a < d; a++ {
		for b := 0; b <= a; b++ {
			out[a] += l[a][b] * z[b]
		}
	}
	return out
}
