package estimator

import "math"

// What the step-time model leaves unexplained is not white: placements of one GPU count err alike, and one placement errs alike at every batch size. The residuals of
// measurements beyond two GPUs therefore correct the prediction (kriging with the covariance below), so that one real lease teaches about its neighbours.
const (
	groupComp     = 0.35 // part of the unexplained variance of the computation that placements of one GPU count share
	groupExchange = 0.05 // the same of the exchange
	shapeComp     = 0.60 // part that belongs to the shape
	shapeExchange = 0.90
	maxResiduals  = 64 // newest samples used
)

// residual is one sample as kriging sees it.
type residual struct {
	geo   geometry
	logB  float64
	shape string
	// comp and exchange are the standard deviations of the unexplained parts.
	comp, exchange float64
}

// variance is that of the unexplained part of one measurement.
func (a *residual) variance() float64 { return sq(a.comp) + sq(a.exchange) }

// covariance of the unexplained parts of two measurements.
func (a *residual) covariance(b *residual) float64 {
	if (a.geo.nodes > 1) != (b.geo.nodes > 1) {
		return 0
	}
	near := math.Exp(-math.Abs(a.geo.logGPUs-b.geo.logGPUs) / 0.7)
	kc, kx := groupComp*near, groupExchange*near
	if a.shape == b.shape {
		kc, kx = kc+shapeComp, kx+shapeExchange
	}
	return (kc*a.comp*b.comp + kx*a.exchange*b.exchange) * math.Exp(-math.Abs(a.logB-b.logB))
}

// kriging holds the solved system of a job's residuals.
type kriging struct {
	at    []residual
	chol  [][]float64
	alpha []float64
}

// newKriging solves for the weights; y - f are the residuals, white the standard deviation of pure measurement noise per sample.
func newKriging(at []residual, resid, white []float64) *kriging {
	n := len(at)
	if n == 0 {
		return nil
	}
	l := make([][]float64, n)
	for i := range l {
		l[i] = make([]float64, n)
		for k := 0; k <= i; k++ {
			l[i][k] = at[i].covariance(&at[k])
		}
		l[i][i] = sq(white[i]) + at[i].variance()
	}
	for j := range n {
		for k := range j {
			l[j][j] -= l[j][k] * l[j][k]
		}
		if !(l[j][j] > 0) {
			return nil
		}
		l[j][j] = math.Sqrt(l[j][j])
		for i := j + 1; i < n; i++ {
			for k := range j {
				l[i][j] -= l[i][k] * l[j][k]
			}
			l[i][j] /= l[j][j]
		}
	}
	k := &kriging{at: at, chol: l}
	k.alpha = k.solve(resid)
	return k
}

// solve returns K^-1 b.
func (k *kriging) solve(b []float64) []float64 {
	n := len(b)
	x := make([]float64, n)
	copy(x, b)
	for i := range n {
		for j := range i {
			x[i] -= k.chol[i][j] * x[j]
		}
		x[i] /= k.chol[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			x[i] -= k.chol[j][i] * x[j]
		}
		x[i] /= k.chol[i][i]
	}
	return x
}

// correct returns the expected residual at r and the variance that the samples explain there.
func (k *kriging) correct(r *residual) (mean, explained float64) {
	if k == nil {
		return 0, 0
	}
	c := make([]float64, len(k.at))
	for i := range k.at {
		c[i] = k.at[i].covariance(r)
		mean += c[i] * k.alpha[i]
	}
	for i, w := range k.solve(c) {
		explained += c[i] * w
	}
	return mean, explained
}
