package estimator

import (
	"cmp"
	"math"
	"slices"
)

// curveFit is a curve in the units of the families.
type curveFit struct {
	x, lx, v, sd []float64
	x0           float64 // iterations per unit of x
	noise        float64 // of one report and of the families, in units of v
	jitter       float64 // of one report alone
	steps        []float64
	rise         float64 // how fast a drop of the learning rate takes effect, in x
	max, now     float64
	off          float64 // iterations at x = 0
	perfect      float64 // the best value that the metric can have, 0 when unknown
	gap          float64 // distance of two reports, in x
	future       []float64
	ahead        ahead
}

// newCurveFit normalises a curve.
func newCurveFit(pts []Point, t Target) (*curveFit, bool) {
	n := len(pts)
	if n < minPoints || !(t.Max > float64(pts[n-1].Iter)) {
		return nil, false
	}
	first := 0
	for first < n && pts[first].Iter <= 0 {
		first++
	}
	pts = pts[first:]
	n = len(pts)
	if n < minPoints {
		return nil, false
	}
	sign := 1.0
	if !t.Up {
		sign = -1
	}
	ref := pts[0].Value
	if m := min(3, n); m == 3 { // one odd first report does not set the scale
		ref = medianOf(pts[0].Value, pts[1].Value, pts[2].Value)
		if sign*(pts[0].Value-ref) < 0 {
			ref = pts[0].Value
		}
	}
	scale := sign * (t.Value - ref)
	if !(scale > 0) || math.IsInf(scale, 1) {
		return nil, false
	}
	c := &curveFit{x0: float64(pts[0].Iter)}
	xs := c.axis(pts, &t)
	for _, i := range thinned(n) {
		c.x = append(c.x, xs[i]/c.x0)
		c.v = append(c.v, min(max(sign*(pts[i].Value-ref)/scale, -5), 5))
	}
	if t.Up && t.Value <= 1 && ref >= 0 && slices.MaxFunc(pts, func(a, b Point) int { return cmp.Compare(a.Value, b.Value) }).Value <= 1 {
		c.perfect = (1 - ref) / scale
	}
	for _, x := range c.x {
		c.lx = append(c.lx, math.Log(x))
	}
	c.now, c.max = c.x[len(c.x)-1], t.Max/c.x0
	c.gap = c.now - xs[n-2]/c.x0
	if n > 4 {
		c.gap = (c.now - xs[n-5]/c.x0) / 4
	}
	if c.gap = max(c.gap, (c.max-c.now)/maxGrid); !(c.gap > 0) || math.IsInf(c.gap, 1) || math.IsInf(c.max, 1) { // users write epochs: a first one of 1e-300 puts the maximum at infinity
		return nil, false
	}
	c.milestones(t)
	c.ahead = c.lookAhead()
	c.noiseLevels()
	return c, true
}

// axis chooses the abscissa. Reports that carry epochs are fitted over epochs, turned into iterations at the pace of the last ones: when the batch size changes on the way, progress
// goes by samples seen, not by iterations.
func (c *curveFit) axis(pts []Point, t *Target) []float64 {
	n := len(pts)
	byEpoch := pts[0].Epoch > 0
	for i := 1; i < n; i++ {
		byEpoch = byEpoch && pts[i].Epoch > pts[i-1].Epoch
	}
	xs := make([]float64, n)
	if !byEpoch {
		for i := range pts {
			xs[i] = float64(pts[i].Iter)
		}
		return xs
	}
	k := max(0, n-11)
	pace := float64(pts[n-1].Iter-pts[k].Iter) / (pts[n-1].Epoch - pts[k].Epoch)
	for i := range pts {
		xs[i] = pts[i].Epoch * pace
	}
	c.x0, c.off = xs[0], float64(pts[n-1].Iter)-xs[n-1]
	t.Max -= c.off
	t.Milestones = slices.Clone(t.Milestones)
	for i := range t.Milestones {
		t.Milestones[i] -= c.off
	}
	return xs
}

func medianOf(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// thinned lists the reports of a fit: all of the last half of maxFit, the older ones evenly.
func thinned(n int) []int {
	out := make([]int, 0, min(n, maxFit))
	if n <= maxFit {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	old := n - maxFit/2
	for i := range maxFit / 2 {
		out = append(out, i*old/(maxFit/2))
	}
	for i := old; i < n; i++ {
		out = append(out, i)
	}
	return out
}

// milestones sorts the drops of the learning rate into those passed, which are fitted as steps, and those to come.
func (c *curveFit) milestones(t Target) {
	ms := slices.Clone(t.Milestones)
	slices.Sort(ms)
	c.rise = 0.7 * c.gap
	for _, m := range ms {
		x := m / c.x0
		switch {
		case !(x > c.x[0]) || x >= c.max:
		case x < c.now && len(c.steps) < milestoneTo && c.now-x > 0.5*c.gap:
			c.steps = append(c.steps, x)
		case len(c.future) < 8:
			c.future = append(c.future, max(x, c.now))
		}
	}
}

// noiseLevels estimates the noise of one report from second differences (their median, so that steps and spikes count little), and gives older reports
// less weight: the families are approximations, and the end matters most.
func (c *curveFit) noiseLevels() {
	n := len(c.v)
	d := make([]float64, 0, n)
	for i := max(1, n/4); i+1 < n; i++ {
		w := (c.x[i] - c.x[i-1]) / max(c.x[i+1]-c.x[i-1], 1e-12)
		d = append(d, math.Abs(c.v[i]-(c.v[i-1]*(1-w)+c.v[i+1]*w)))
	}
	slices.Sort(d)
	c.jitter = 1e-4
	if len(d) > 0 {
		c.jitter = max(c.jitter, 1.2*d[len(d)/2])
	}
	c.noise = max(noiseFloor, c.jitter)
	c.sd = make([]float64, n)
	for i, x := range c.x {
		c.sd[i] = c.noise * math.Sqrt(1+1.5*math.Log(c.now/x))
	}
}

// step is how much of its gain a drop at m has brought at x.
func (c *curveFit) step(x, m float64) float64 {
	if x <= m {
		return 0
	}
	return 1 - math.Exp(-(x-m)/c.rise)
}

// risen is how much of the gain of each drop at ms has been brought at each of xs, row by row.
func (c *curveFit) risen(xs, ms []float64) []float64 {
	out := make([]float64, 0, len(xs)*len(ms))
	for _, x := range xs {
		for _, m := range ms {
			out = append(out, c.step(x, m))
		}
	}
	return out
}

// fitAll fits every family and returns the weights of Bayesian model averaging, tempered for the correlation of the residuals.
func (c *curveFit) fitAll() ([]fitted, []float64) {
	n, k := len(c.v), len(c.steps)
	fits, w := make([]fitted, len(families)), make([]float64, len(families))
	var buf scratch
	jac := make([]float64, n*maxDim)
	risen := c.risen(c.x, c.steps)
	best := math.Inf(-1)
	for i := range families {
		fam := &families[i]
		q := problem{dim: fam.dim + k, y: c.v, sd: c.sd, nu: 5, iters: 60}
		var tau vec
		for d := range fam.dim {
			q.mu[d], tau[d], q.lo[d], q.hi[d] = fam.mu[d], fam.tau[d], fam.lo[d], fam.hi[d]
		}
		for s := range k {
			d := fam.dim + s
			q.mu[d], tau[d], q.lo[d], q.hi[d] = 0.2, 0.3, 0, 3
		}
		q.prec = independent(tau, q.dim)
		q.predict = func(p *vec, out []float64) {
			co := fam.settle(p)
			for j := range out {
				v := fam.f(&co, c.x[j], c.lx[j])
				for s := range k {
					v += p[fam.dim+s] * risen[j*k+s]
				}
				out[j] = v
			}
		}
		fits[i] = q.solve(q.mu, &buf, jac)
		if w[i] = math.Inf(-1); fits[i].ok {
			w[i] = fits[i].logEvidence
			best = max(best, w[i])
		}
	}
	sum := 0.0
	for i := range w {
		w[i] = math.Exp(0.3 * (w[i] - best))
		if w[i] < 0.005 || math.IsNaN(w[i]) {
			w[i] = 0
		}
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return fits, w
}
