package estimator

import "math"

// maxDim bounds the parameters of any model here, so that fits need no allocation for their matrices.
const maxDim = 16

type vec [maxDim]float64
type mat [maxDim][maxDim]float64

// problem is a maximum-a-posteriori fit: observations y with standard deviations sd, a Normal prior.
type problem struct {
	dim int
	// predict fills out with the prediction of every observation.
	predict func(p *vec, out []float64)
	y, sd   []float64
	mu      vec // prior mean
	prec    mat // prior precision
	lo, hi  vec // hard bounds
	// nu is the degrees of freedom of the Student-t noise (0: Normal): outliers lose weight.
	nu    float64
	iters int
}

// fitted is a Laplace approximation of the posterior.
type fitted struct {
	p    vec
	cov  mat
	loss float64 // minus the log posterior, up to a constant
	hess mat     // the precision: Gauss-Newton matrix with the prior
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
	return l + 0.5*q.prior(p, &q.mu)
}

// prior is the squared distance between p and o in standard deviations of the prior.
func (q *problem) prior(p, o *vec) float64 { return distance(&q.prec, p, o, q.dim) }

// distance is the squared distance between p and o by a precision.
func distance(prec *mat, p, o *vec, d int) float64 {
	l := 0.0
	for a := 0; a < d; a++ {
		da := p[a] - o[a]
		l += da * da * prec[a][a]
		for b := 0; b < a; b++ {
			l += 2 * da * prec[a][b] * (p[b] - o[b])
		}
	}
	return l
}

// independent is the precision of independent parameters with standard deviations tau.
func independent(tau vec, d int) (m mat) {
	for k := 0; k < d; k++ {
		m[k][k] = 1 / (tau[k] * tau[k])
	}
	return m
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
		e := 1e-5
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
		for b := 0; b < d; b++ {
			g[a] -= q.prec[a][b] * (p[b] - q.mu[b])
			if b <= a {
				h[a][b] += q.prec[a][b]
				h[b][a] = h[a][b]
			}
		}
	}
	return h, g
}

// laplace inverts the Gauss-Newton matrix at the optimum.
func (q *problem) laplace(p vec, loss float64, h mat) fitted {
	out := fitted{p: p, loss: loss}
	c := h
	if math.IsNaN(loss) || math.IsInf(loss, 0) || !cholesky(&c, q.dim) {
		return out
	}
	logdet := 0.0
	for k := 0; k < q.dim; k++ {
		logdet += 2 * math.Log(c[k][k])
	}
	if pr := q.prec; cholesky(&pr, q.dim) {
		for k := 0; k < q.dim; k++ {
			logdet -= 2 * math.Log(pr[k][k])
		}
	}
	for _, sd := range q.sd {
		loss += math.Log(sd)
	}
	out.logEvidence = -loss - 0.5*logdet
	out.hess = h
	out.cov = inverseFrom(&c, q.dim)
	out.ok = true
	return out
}

// inverseFrom is the inverse of the matrix whose Cholesky factor is c.
func inverseFrom(c *mat, d int) (inv mat) {
	for k := 0; k < d; k++ {
		var e vec
		e[k] = 1
		col := solveFrom(c, &e, d, k)
		for a := 0; a < d; a++ {
			inv[a][k] = col[a]
		}
	}
	return inv
}

// inverse of a symmetric positive definite matrix; false when it is not.
func inverse(m mat, d int) (mat, bool) {
	if !cholesky(&m, d) {
		return mat{}, false
	}
	return inverseFrom(&m, d), true
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
func solveChol(l *mat, b *vec, d int) vec { return solveFrom(l, b, d, 0) }

// solveFrom is solveChol for a b that is nought before first.
func solveFrom(l *mat, b *vec, d, first int) vec {
	x := *b
	for i := first; i < d; i++ {
		for k := first; k < i; k++ {
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
