package estimator

import (
	"math/rand/v2"
	"slices"
)

// posteriorDraws is the number of draws of the parameters behind an interval: enough for its 0.1 and 0.9 quantiles.
const posteriorDraws = 60

// z80 is the 0.9 quantile of the Normal distribution: +-z80 standard deviations hold 80 %.
const z80 = 1.2815515655446004

// spread is how far the 0.1 and 0.9 quantiles of the prediction are from y when the parameters are drawn from their posterior. A linear approximation would see no
// doubt where the exchange hides behind the computation, though a slower one would not hide.
func (s *speedPosterior) spread(y float64, eval func(*vec) float64) (low, high float64) {
	if s.draws == nil {
		s.draw()
	}
	var v [posteriorDraws]float64
	for i := range s.draws {
		v[i] = eval(&s.draws[i])
	}
	n := len(s.draws)
	if n < 10 {
		return 0, 0
	}
	slices.Sort(v[:n])
	return max(y-v[n/10], 0), max(v[n-1-n/10]-y, 0)
}

// draw fills in the draws.
func (s *speedPosterior) draw() {
	s.draws = make([]vec, 0, posteriorDraws)
	l, ok := s.fit.root(speedDims)
	if !ok {
		return
	}
	var f []float64
	if s.q != nil {
		f = make([]float64, len(s.q.y))
	}
	rng := rand.New(rand.NewPCG(3, 14))
	for range posteriorDraws {
		p := s.fit.sampleFrom(&l, speedDims, rng.NormFloat64)
		for k := range speedDims {
			p[k] = min(max(p[k], speedLow[k]), speedHigh[k])
		}
		if s.q != nil {
			s.reel(&p, f)
		}
		s.draws = append(s.draws, p)
	}
}

// reelSlack is by how much more than it knows of the Laplace approximation may be contradicted, in units of the log likelihood: 1.4 standard deviations of one measurement.
const reelSlack = 1

// reel pulls a draw in, on a straight line towards the optimum, until the measurements contradict it hardly more than the Laplace approximation knows of. Where the exchange hides behind the
// computation that approximation has no slope, and draws would slow down even a shape that was measured. f is room for the predictions.
func (s *speedPosterior) reel(p *vec, f []float64) {
	unlikely := func(p *vec) float64 { return s.q.loss(p, f) - 0.5*s.q.prior(p, &s.q.mu) } // minus the log likelihood of the measurements
	best := s.fit.loss - 0.5*s.q.prior(&s.fit.p, &s.q.mu)
	limit := best + 0.5*(distance(&s.fit.hess, p, &s.fit.p, speedDims)-s.q.prior(p, &s.fit.p)) + reelSlack
	if unlikely(p) <= limit {
		return
	}
	far := *p
	move := func(t float64) {
		for k := range speedDims {
			p[k] = s.fit.p[k] + t*(far[k]-s.fit.p[k])
		}
	}
	near, out := 0.0, 1.0
	for range 6 {
		t := (near + out) / 2
		if move(t); unlikely(p) <= limit {
			near = t
		} else {
			out = t
		}
	}
	move(near)
}
