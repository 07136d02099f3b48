package estimator

import (
	"cmp"
	"math"
	"slices"

	"unisched/planner"
)

// The parameters of the step-time model, per job. All are logarithms, and all communication is relative to the computation
// of one GPU at the reference batch size, so that one prior fits jobs of any size.
const (
	pComp  = iota // log seconds of computation of one iteration on one GPU at the reference batch
	pFixed        // logit of the part of it that does not depend on the batch size
	pLocal        // log ring time on one node / computation
	pCross        // log ring time across nodes / computation
	pGamma        // log of the overlap exponent: 0 = computation and exchange add up, large = the longer hides the shorter
	pShare        // exponent of NIC sharing: GPUs of one node leave through one NIC
	speedDims
)

// modelError is the standard deviation of log step time that no parameter explains.
const modelError = 0.04

// speedPosterior is what is believed about the step time of one job.
type speedPosterior struct {
	fit      fitted
	refBatch float64
	batchOf  func(planner.Shape) float64
	measured bool
	samples  []Sample
}

// speedPrior is the prior of the parameters, as learnt from the cluster's jobs.
func (f Fabric) speedPrior() (mu, tau vec) {
	return vec{pComp: math.Log(0.3), pFixed: -1, pLocal: math.Log(0.05), pCross: math.Log(0.25), pGamma: 0.7, pShare: 0.3},
		vec{pComp: 2, pFixed: 1, pLocal: 1.2, pCross: 1.2, pGamma: 0.5, pShare: 0.3}
}

// logStep is the log of seconds per iteration on a shape at a local batch size relative to the reference.
func logStep(p *vec, s planner.Shape, relBatch float64) float64 {
	g, n := s.GPUs(), s.Nodes()
	fixed := 1 / (1 + math.Exp(-p[pFixed]))
	comp := fixed + (1-fixed)*relBatch
	if g <= 1 {
		return p[pComp] + math.Log(comp)
	}
	ring := 2 * float64(g-1) / float64(g)
	var sync float64
	if n == 1 {
		sync = ring * math.Exp(p[pLocal])
	} else {
		sync = ring * math.Exp(p[pCross]) * math.Pow(float64(slices.Max(s)), p[pShare])
	}
	gamma := math.Exp(p[pGamma])
	return p[pComp] + math.Log(math.Pow(math.Pow(comp, gamma)+math.Pow(sync, gamma), 1/gamma))
}

// speed fits the step-time model to the samples of a job.
func (f Fabric) speed(j Job) speedPosterior {
	post := speedPosterior{samples: cleanSamples(j.Samples)}
	post.measured = len(post.samples) > 0
	post.refBatch, post.batchOf = batches(j, post.samples)
	mu, tau := f.speedPrior()
	post.fit = fitted{p: mu, ok: true}
	for k := range speedDims {
		post.fit.cov[k][k] = tau[k] * tau[k]
	}
	if !post.measured {
		return post
	}
	n := len(post.samples)
	q := problem{dim: speedDims, y: make([]float64, n), sd: make([]float64, n), mu: mu, tau: tau, nu: 4, iters: 40}
	q.mu[pComp] = math.Log(post.samples[0].IterTime)
	rel := make([]float64, n)
	for i, s := range post.samples {
		q.y[i] = math.Log(s.IterTime)
		q.sd[i] = math.Hypot(modelError, s.StdErr/s.IterTime)
		rel[i] = post.relBatch(s)
	}
	q.lo, q.hi = vec{pComp: -20, pFixed: -8, pLocal: -12, pCross: -12, pGamma: 0, pShare: 0}, vec{pComp: 20, pFixed: 8, pLocal: 6, pCross: 6, pGamma: 2.3, pShare: 1}
	q.predict = func(p *vec, out []float64) {
		for i, s := range post.samples {
			out[i] = logStep(p, s.Shape, rel[i])
		}
	}
	var buf scratch
	if fit := q.solve(q.mu, &buf, make([]float64, n*speedDims)); fit.ok {
		post.fit = fit
	}
	return post
}

// relBatch is the local batch size of a sample relative to the reference.
func (s speedPosterior) relBatch(x Sample) float64 {
	if x.Batch > 0 && s.refBatch > 0 {
		return x.Batch / s.refBatch
	}
	return s.batchOf(x.Shape)
}

// batches returns the reference local batch size (0: none known) and the local batch size, relative to it, that a shape would run with.
func batches(j Job, samples []Sample) (float64, func(planner.Shape) float64) {
	ref, global := 0.0, 0.0
	for _, s := range samples {
		if s.Batch > 0 {
			if ref == 0 || s.Shape.Equal(j.Requested) {
				ref, global = s.Batch, s.Batch*float64(s.Shape.GPUs())
			}
		}
	}
	if j.Scale != GlobalBatch {
		return ref, func(planner.Shape) float64 { return 1 }
	}
	req := float64(max(j.Requested.GPUs(), 1))
	return ref, func(s planner.Shape) float64 {
		g := float64(max(s.GPUs(), 1))
		if ref > 0 {
			return global / g / ref
		}
		return req / g
	}
}

// at is the step time on a shape in seconds: Low is the fast end.
func (s speedPosterior) at(shape planner.Shape) planner.Interval {
	rel := s.batchOf(shape)
	y := logStep(&s.fit.p, shape, rel)
	var grad vec
	for k := range speedDims {
		p := s.fit.p
		p[k] += 1e-4
		grad[k] = (logStep(&p, shape, rel) - y) / 1e-4
	}
	v := modelError * modelError
	for a := range speedDims {
		for b := range speedDims {
			v += grad[a] * s.fit.cov[a][b] * grad[b]
		}
	}
	w := z80 * math.Sqrt(max(v, 0))
	return planner.Interval{Low: math.Exp(y - w), Mid: math.Exp(y), High: math.Exp(y + w)}
}

// z80 is the 0.9 quantile of the Normal distribution: +-z80 standard deviations hold 80 %.
const z80 = 1.2815515655446004

// speeds lists the speed of every shape asked about, fastest first. A measured shape is pulled to its own measurements.
func (s speedPosterior) speeds(j Job) []planner.ShapeSpeed {
	shapes := askedShapes(j)
	out := make([]planner.ShapeSpeed, 0, len(shapes))
	for _, sh := range shapes {
		t := s.at(sh)
		out = append(out, planner.ShapeSpeed{Shape: sh, Speed: planner.Interval{Low: 1 / t.High, Mid: 1 / t.Mid, High: 1 / t.Low}})
	}
	slices.SortStableFunc(out, func(a, b planner.ShapeSpeed) int {
		return cmp.Or(cmp.Compare(b.Speed.Mid, a.Speed.Mid), cmp.Compare(a.Shape.GPUs(), b.Shape.GPUs()),
			cmp.Compare(a.Shape.Nodes(), b.Shape.Nodes()), slices.Compare(a.Shape, b.Shape))
	})
	return out
}

// askedShapes is Requested and the candidates without doubles, at most maxShapes.
func askedShapes(j Job) []planner.Shape {
	var out []planner.Shape
	add := func(s planner.Shape) {
		if validShape(s) && len(out) < maxShapes && !slices.ContainsFunc(out, s.Equal) {
			out = append(out, s)
		}
	}
	add(j.Requested)
	for _, s := range j.Candidates {
		add(s)
	}
	if len(out) == 0 {
		out = append(out, planner.Shape{1})
	}
	return out
}

func validShape(s planner.Shape) bool {
	return len(s) > 0 && len(s) <= 1<<14 && slices.Min(s) > 0 && slices.Max(s) <= 1<<14
}

// cleanSamples drops what cannot be a measurement and keeps the newest maxSamples.
func cleanSamples(in []Sample) []Sample {
	out := make([]Sample, 0, min(len(in), maxSamples))
	for _, s := range in {
		if !validShape(s.Shape) || !(s.IterTime > 1e-7 && s.IterTime < 1e7) {
			continue
		}
		s.Shape = slices.Clone(s.Shape)
		slices.SortFunc(s.Shape, func(a, b int) int { return b - a })
		s.StdErr = finiteOr(s.StdErr, 0.2*s.IterTime)
		if s.Batch = finiteOr(s.Batch, 0); s.Batch > 1e12 {
			s.Batch = 0
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Sample) int { return a.At.Compare(b.At) })
	if len(out) > maxSamples {
		out = out[len(out)-maxSamples:]
	}
	return out
}
