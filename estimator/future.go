package estimator

import (
	"math"
	"math/rand/v2"
	"slices"
)

// ahead are the reports to come: where they are, and how much of the gain of each drop to come has been brought by then. Every draw walks them.
type ahead struct{ x, lx, risen []float64 }

func (c *curveFit) lookAhead() (a ahead) {
	for x := c.now + c.gap; x <= c.max+1e-9 && len(a.x) < 2*maxGrid; x += c.gap { // a gap below the last bit of x gets nowhere
		a.x, a.lx = append(a.x, x), append(a.lx, math.Log(x))
	}
	a.risen = c.risen(a.x, c.future)
	return a
}

// draw simulates one future: a curve from the posterior of the family, moved to where the last reports are, steps to come, and the noise of each report. It returns the
// first report that reaches the target, 0 when none does before the maximum; kept is false for a curve that falls (the monotone prior).
func (c *curveFit) draw(fam *family, fit *fitted, rng *rand.Rand) (x float64, kept bool) {
	d := fam.dim + len(c.steps)
	p := fit.p
	if l, ok := fit.root(d); ok {
		p = fit.sampleFrom(&l, d, rng.NormFloat64)
	}
	co := fam.settle(&p)
	curve := func(x, lx float64) float64 {
		v := fam.f(&co, x, lx)
		for s, m := range c.steps {
			v += max(p[fam.dim+s], 0) * c.step(x, m)
		}
		return v
	}
	end := curve(c.now, math.Log(c.now))
	top := curve(c.max, math.Log(c.max))
	if math.IsNaN(end) || math.IsNaN(top) || top < end-0.5*c.noise {
		return 0, false
	}
	shift := c.anchor(curve)
	last := 0.0
	if k := len(c.steps); k > 0 {
		last = max(p[fam.dim+k-1], 0)
	}
	gains := c.gains(last, end+shift, rng)
	for k, x := range c.ahead.x {
		v := curve(x, c.ahead.lx[k]) + shift + c.jitter*rng.NormFloat64()
		for i := range c.future {
			v += gains[i] * c.ahead.risen[k*len(c.future)+i]
		}
		if v >= 1 {
			return min(x, c.max), true
		}
	}
	return 0, true
}

// root is the Cholesky factor of the posterior covariance.
func (f *fitted) root(d int) (mat, bool) {
	l := f.cov
	ok := cholesky(&l, d)
	return l, ok
}

// anchor is the median residual of the last reports.
func (c *curveFit) anchor(curve func(x, lx float64) float64) float64 {
	n := len(c.v)
	k := min(7, max(3, n/4))
	var r [7]float64
	for i := range k {
		r[i] = c.v[n-k+i] - curve(c.x[n-k+i], c.lx[n-k+i])
	}
	return 0.7 * median(r[:k])
}

// gains draws what the drops to come will bring at level v: after a drop of known gain about a third of it each time. The first one takes about three tenths of the remaining error
// where the metric has a best value (ResNets lose a third of their error at the first drop), else seven tenths of the way to the target.
func (c *curveFit) gains(last, v float64, rng *rand.Rand) [8]float64 {
	var g [8]float64
	for i := range c.future {
		switch {
		case last > 0:
			last *= 0.35 * math.Exp(0.4*rng.NormFloat64())
		case c.perfect > 0:
			last = max(c.perfect-v, 0) * 0.3 * math.Exp(0.4*rng.NormFloat64())
		default:
			last = max(1-v, 0) * 0.7 * math.Exp(0.5*rng.NormFloat64())
		}
		g[i] = last
	}
	return g
}

// trend is the straight line through the last reports.
type trend struct{ level, slope, sdLevel, sdSlope float64 }

// lastTrend is the median slope of all pairs of the last quarter of the reports (Theil-Sen), so that a spike after a resume does not tilt it.
func (c *curveFit) lastTrend() trend {
	n := len(c.v)
	first := n - min(n, max(4, n/4))
	var slopes, levels []float64
	var sx, sxx, s float64
	for i := first; i < n; i++ {
		x := c.x[i] - c.now
		s, sx, sxx = s+1, sx+x, sxx+x*x
		for k := first; k < i; k++ {
			slopes = append(slopes, (c.v[i]-c.v[k])/(c.x[i]-c.x[k]))
		}
	}
	t := trend{slope: median(slopes)}
	for i := first; i < n; i++ {
		levels = append(levels, c.v[i]-t.slope*(c.x[i]-c.now))
	}
	t.level = median(levels)
	if den := s*sxx - sx*sx; den > 0 {
		t.sdLevel, t.sdSlope = c.noise*math.Sqrt(sxx/den), c.noise*math.Sqrt(s/den)
	}
	return t
}

// median sorts its argument.
func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

func (c *curveFit) trendDraw(t *trend, rng *rand.Rand) float64 {
	level, slope := t.level+t.sdLevel*rng.NormFloat64(), t.slope*(0.85+0.3*rng.NormFloat64())+t.sdSlope*rng.NormFloat64()
	gains := c.gains(0, level, rng)
	if len(c.steps) > 0 {
		gains = [8]float64{}
	}
	for k, x := range c.ahead.x {
		v := level + slope*(x-c.now) + c.jitter*rng.NormFloat64()
		for i := range c.future {
			v += gains[i] * c.ahead.risen[k*len(c.future)+i]
		}
		if v >= 1 {
			return min(x, c.max)
		}
	}
	return 0
}
