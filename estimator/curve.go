package estimator

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"unisched/planner"
)

// Target is the question put to a learning curve: at which iteration will the metric reach the target, when the user's maximum is Max?
type Target struct {
	Up    bool
	Value float64
	Max   float64
	// Milestones are iterations of learning-rate drops, past and to come.
	Milestones []float64
}

// Crossing is the answer: the iteration of the first report that reaches the target, given that one does before Max, as a sorted sample; and the probability that one does.
type Crossing struct {
	At      []float64
	Reaches float64
	// Gap is the distance of two reports in iterations.
	Gap float64
	// Weights of the families after the fit, by name, for explanations.
	Families []FamilyWeight
}

// FamilyWeight is the posterior weight of one family.
type FamilyWeight struct {
	Name   string
	Weight float64
}

// Interval is the 80 % interval of the crossing iteration. It is never narrower than the distance of two reports, as nobody knows what happens between them.
func (c Crossing) Interval() planner.Interval {
	mid := c.Quantile(0.5)
	return planner.Interval{Low: min(c.Quantile(0.1), mid-c.Gap/2), Mid: mid, High: max(c.Quantile(0.9), mid+c.Gap/2)}
}

// Quantile of the crossing iteration.
func (c Crossing) Quantile(q float64) float64 {
	if len(c.At) == 0 {
		return 0
	}
	x := q * float64(len(c.At)-1)
	i := int(x)
	if i+1 >= len(c.At) {
		return c.At[len(c.At)-1]
	}
	return c.At[i] + (x-float64(i))*(c.At[i+1]-c.At[i])
}

const (
	minPoints  = 4   // fewer reports are no curve
	maxFit     = 128 // points of a fit; longer curves are thinned, denser towards the end
	trendDraws = 120 // draws of the straight line through the last reports
	totalDraws = 480 // draws of curves, over all families
	maxGrid    = 160 // future reports simulated
	reachFloor = 0.3 // that a target is reached which no curve reaches: users know their schedules
	lateDraws  = 320 // draws of the prior
	noiseFloor = 0.004
	// sharpen narrows the distribution about its median. The ensemble is wider than its errors: its members disagree more with each other than the
	// ensemble with the truth. An extrapolation to more than twice what was seen is narrowed less, by sharpenFar. Measured on published curves, not derived.
	sharpen     = 0.5
	sharpenFar  = 0.375
	milestoneTo = 3 // passed milestones fitted, at most
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
}

// Cross extrapolates a cleaned curve (see [CleanCurve]) to the target. It needs at least minPoints reports; ok is false when the curve says nothing.
func Cross(c []Point, t Target) (Crossing, bool) {
	cf, ok := newCurveFit(c, t)
	if !ok {
		return Crossing{}, false
	}
	fits, weights := cf.fitAll()
	rng := rand.New(rand.NewPCG(0x9e3779b97f4a7c15, uint64(len(c))))
	tr := cf.lastTrend()
	var reached []float64
	drawn, hits := 0.0, 0.0
	var out Crossing
	for i := range families {
		if weights[i] <= 0 {
			continue
		}
		out.Families = append(out.Families, FamilyWeight{families[i].name, weights[i]})
		n := int(math.Round(weights[i] * totalDraws))
		for range n {
			x, kept := cf.draw(&families[i], &fits[i], rng)
			if !kept {
				continue
			}
			drawn++
			if x > 0 {
				hits++
				reached = append(reached, x)
			}
		}
	}
	for range trendDraws { // what keeps its pace: schedules that decay the learning rate to the end
		drawn++
		if x := cf.trendDraw(&tr, rng); x > 0 {
			hits++
			reached = append(reached, x)
		}
	}
	frac := 0.0
	if drawn > 0 {
		frac = hits / drawn
	}
	out.At = cf.blend(reached, frac, rng)
	out.Reaches = reachFloor + (0.99-reachFloor)*frac
	for i := range out.At {
		out.At[i] = out.At[i]*cf.x0 + cf.off
	}
	out.Gap = cf.gap * cf.x0
	return out, len(out.At) > 0
}

// blend joins the draws that reach the target with a prior for the case that the curves are wrong: users choose a maximum that suffices, so a curve that
// will not get there has something to come (a learning-rate schedule) and gets there late.
func (c *curveFit) blend(reached []float64, frac float64, rng *rand.Rand) []float64 {
	doubt := 0.5 * (1 - c.now/c.max) // the less of the run was seen
	late := int(math.Round(lateDraws * (doubt + (1-doubt)*(1-frac))))
	out := make([]float64, 0, len(reached)+late)
	out = append(out, reached...)
	for range late {
		u := betaLate(rng)
		out = append(out, c.now+(c.max-c.now)*u)
	}
	slices.Sort(out)
	if len(out) > 0 { // see sharpen
		m := out[len(out)/2]
		k := sharpen + sharpenFar*min(max((m-c.now)/c.now-1, 0), 0.8)
		for i := range out {
			out[i] = m + k*(out[i]-m)
		}
	}
	return out
}

// betaLate draws from Beta(6, 2): the sixth smallest of seven uniform numbers.
func betaLate(rng *rand.Rand) float64 {
	var top, second float64
	for range 7 {
		switch u := rng.Float64(); {
		case u > top:
			top, second = u, top
		case u > second:
			second = u
		}
	}
	return second
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
	for x := c.now + c.gap; x <= c.max+1e-9; x += c.gap {
		v := level + slope*(x-c.now) + c.jitter*rng.NormFloat64()
		for i, m := range c.future {
			v += gains[i] * c.step(x, m)
		}
		if v >= 1 {
			return min(x, c.max)
		}
	}
	return 0
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
	if c.gap = max(c.gap, (c.max-c.now)/maxGrid); !(c.gap > 0) {
		return nil, false
	}
	c.milestones(t)
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

// fitAll fits every family and returns the weights of Bayesian model averaging, tempered for the correlation of the residuals.
func (c *curveFit) fitAll() ([]fitted, []float64) {
	n, k := len(c.v), len(c.steps)
	fits, w := make([]fitted, len(families)), make([]float64, len(families))
	var buf scratch
	jac := make([]float64, n*maxDim)
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
			for j := range out {
				v := fam.f(p, c.x[j], c.lx[j])
				for s, m := range c.steps {
					v += p[fam.dim+s] * c.step(c.x[j], m)
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

// draw simulates one future: a curve from the posterior of the family, moved to where the last reports are, steps to come, and the noise of each report. It returns the
// first report that reaches the target, 0 when none does before the maximum; kept is false for a curve that falls (the monotone prior).
func (c *curveFit) draw(fam *family, fit *fitted, rng *rand.Rand) (x float64, kept bool) {
	d := fam.dim + len(c.steps)
	p := fit.p
	if l, ok := fit.root(d); ok {
		p = fit.sampleFrom(&l, d, rng.NormFloat64)
	}
	curve := func(x float64) float64 {
		v := fam.f(&p, x, math.Log(x))
		for s, m := range c.steps {
			v += max(p[fam.dim+s], 0) * c.step(x, m)
		}
		return v
	}
	end := curve(c.now)
	top := curve(c.max)
	if math.IsNaN(end) || math.IsNaN(top) || top < end-0.5*c.noise {
		return 0, false
	}
	shift := c.anchor(curve)
	last := 0.0
	if k := len(c.steps); k > 0 {
		last = max(p[fam.dim+k-1], 0)
	}
	gains := c.gains(last, end+shift, rng)
	for x := c.now + c.gap; x <= c.max+1e-9; x += c.gap {
		v := curve(x) + shift + c.jitter*rng.NormFloat64()
		for i, m := range c.future {
			v += gains[i] * c.step(x, m)
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
func (c *curveFit) anchor(curve func(float64) float64) float64 {
	n := len(c.v)
	k := min(7, max(3, n/4))
	var r [7]float64
	for i := range k {
		r[i] = c.v[n-k+i] - curve(c.x[n-k+i])
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
