package estimator

import (
	"cmp"
	"math"
	"slices"

	"unisched/planner"
)

// Noise of a measured step time that no parameter explains, as a standard deviation of its logarithm: noiseComp for the computation, noiseExchange for
// the part of the step that waits for the exchange, which other traffic disturbs.
const (
	noiseComp     = 0.03
	noiseExchange = 0.15
)

// speedPosterior is what is believed about the step time of one job.
type speedPosterior struct {
	fit      fitted
	mu       vec // the prior that the fit started from
	prec     mat
	comp     compute
	batchOf  func(planner.Shape) float64
	measured bool
	samples  []Sample
	counts   sampleCounts
	krige    *kriging
	q        *problem // that the fit solved; nil when the computation of one GPU is not measured
	draws    []vec    // of the parameters, filled by spread
}

// speed fits the step-time model to the newest samples of a job, at most limit.
func (f Fabric) speed(prior *speedPrior, j Job, limit int) speedPosterior {
	clean := cleanSamples(j.Samples, limit)
	post := speedPosterior{samples: merged(clean), counts: countSamples(clean)}
	post.measured = len(post.samples) > 0
	var refBatch float64
	refBatch, post.batchOf = batches(j, post.samples)
	post.comp = computeOf(post.samples, refBatch, post.batchOf(planner.Shape{1}))
	post.mu, post.prec = prior.mu, prior.prec
	post.fit = fitted{p: post.mu, cov: prior.cov, ok: true}
	if !post.measured { // only relative speeds are asked for
		post.comp.level = 0
		for k := range speedDims {
			post.fit.cov[pComp][k], post.fit.cov[k][pComp] = 0, 0
		}
		post.fit.cov[pComp][pComp] = 1e-12
		return post
	}
	if len(post.comp.batch) > 0 { // C is measured, up to the noise
		post.prec[pComp][pComp] = 1 / (noiseComp * noiseComp)
	}
	q := problem{dim: speedDims, mu: post.mu, prec: post.prec, lo: speedLow, hi: speedHigh, nu: 4, iters: 40}
	post.observe(&q)
	f.useGradBytes(j, &post, &q)
	var buf scratch
	jac := make([]float64, len(q.y)*speedDims)
	best := math.Inf(1)
	for i, start := range []vec{q.mu, post.exposed(q.mu)} {
		if i > 0 && start == q.mu {
			break // nothing is exposed
		}
		if fit := q.solve(start, &buf, jac); fit.ok && fit.loss < best {
			post.fit, best = fit, fit.loss
		}
	}
	post.krige = post.residuals(&q)
	if len(post.comp.batch) > 0 {
		post.q = &q
	}
	return post
}

// exchange is log(seconds of exchange between two nodes / gradient bytes), 0 when that is not known: no bytes, or no measurement across nodes.
func (s *speedPosterior) exchange(bytes float64) float64 {
	if !(bytes > 1 && bytes < 1e15) || !slices.ContainsFunc(s.samples, func(x Sample) bool { return x.Shape.Nodes() > 1 }) {
		return 0
	}
	return s.comp.at(s.comp.refBatch, s.fit.p[pFixed]) + s.fit.p[pCross] - math.Log(bytes)
}

// useGradBytes adds what the gradient size says about the exchange across nodes, once other jobs have taught how long a byte takes: one more observation, of doubt
// exchangeDoubt and the spread of those jobs.
func (f Fabric) useGradBytes(j Job, post *speedPosterior, q *problem) {
	const exchangeDoubt = 0.4
	if !(j.GradBytes > 1 && j.GradBytes < 1e15) {
		return
	}
	var n, sum, sum2 float64
	for _, l := range f.Lessons {
		if x := l.Exchange; x != 0 && math.Abs(x) < 100 {
			n, sum, sum2 = n+1, sum+x, sum2+x*x
		}
	}
	if n == 0 {
		return
	}
	mean := sum / n
	q.y = append(q.y, mean+math.Log(j.GradBytes))
	q.sd = append(q.sd, math.Sqrt(sq(exchangeDoubt)*(1+1/n)+max(sum2/n-mean*mean, 0)))
	inner, k := q.predict, len(q.y)-1
	q.predict = func(p *vec, out []float64) {
		inner(p, out[:k])
		out[k] = post.comp.at(post.comp.refBatch, p[pFixed]) + p[pCross]
	}
}

// residualAt describes a shape for kriging; y is the log of the predicted step time there.
func (s *speedPosterior) residualAt(shape planner.Shape, geo *geometry, batch, y float64) residual {
	share := max(0, 1-math.Exp(s.comp.at(batch, s.fit.p[pFixed])+s.fit.p[pComp]-y))
	return residual{geo: *geo, logB: math.Log(batch), shape: shape.String(), comp: noiseComp, exchange: noiseExchange * share}
}

// residuals prepares the correction by what the model leaves unexplained in samples beyond two GPUs.
func (s *speedPosterior) residuals(q *problem) *kriging {
	var at []residual
	var resid, white []float64
	f := make([]float64, len(q.y)) // may end with the pseudo-observation of the gradient size
	q.predict(&s.fit.p, f)
	for i := len(s.samples) - 1; i >= 0 && len(at) < maxResiduals; i-- {
		x := s.samples[i]
		if x.Shape.GPUs() <= 2 {
			continue
		}
		geo := geometryOf(x.Shape)
		at = append(at, s.residualAt(x.Shape, &geo, s.sampleBatch(x), f[i]))
		resid = append(resid, q.y[i]-f[i])
		white = append(white, x.StdErr/x.IterTime)
	}
	return newKriging(at, resid, white)
}

// exposed is a second start of the search: the exchange as large as the whole excess over the computation. Where the prior expects the exchange to hide behind the computation, the
// slope is nought and the search from there would not find out.
func (s *speedPosterior) exposed(mu vec) vec {
	ref := s.comp.at(s.comp.refBatch, mu[pFixed])
	for _, x := range s.samples {
		g := x.Shape.GPUs()
		c := math.Exp(s.comp.at(s.sampleBatch(x), mu[pFixed]))
		if g < 2 || !(x.IterTime > 1.05*c) {
			continue
		}
		v := math.Log((x.IterTime - 0.5*c) / math.Exp(ref))
		if x.Shape.Nodes() > 1 {
			mu[pCross] = max(mu[pCross], v)
		} else {
			mu[pLocal] = max(mu[pLocal], v)
		}
	}
	return mu
}

// observe fills in the observations of a fit.
func (s *speedPosterior) observe(q *problem) {
	n := len(s.samples)
	q.y, q.sd = make([]float64, n), make([]float64, n)
	geo, batch := make([]geometry, n), make([]float64, n)
	for i, x := range s.samples {
		geo[i], batch[i] = geometryOf(x.Shape), s.sampleBatch(x)
		q.y[i] = math.Log(x.IterTime)
		share := 0.0
		if len(s.comp.batch) > 0 {
			share = max(0, 1-math.Exp(s.comp.at(batch[i], q.mu[pFixed])-q.y[i]))
		}
		q.sd[i] = math.Sqrt(sq(noiseComp) + sq(noiseExchange*share) + sq(x.StdErr/x.IterTime))
	}
	q.predict = func(p *vec, out []float64) {
		ref := s.comp.at(s.comp.refBatch, p[pFixed])
		t := stepOf(p)
		for i := range out {
			out[i] = t.log(&geo[i], s.comp.at(batch[i], p[pFixed]), ref)
		}
	}
}

func sq(x float64) float64 { return x * x }

// sampleBatch is the local batch size of a sample.
func (s *speedPosterior) sampleBatch(x Sample) float64 {
	if x.Batch > 0 {
		return x.Batch
	}
	return s.batchOf(x.Shape)
}

// batches returns the reference local batch size (1 when none is known) and the local batch size that a shape would run with.
func batches(j Job, samples []Sample) (float64, func(planner.Shape) float64) {
	ref, global := 0.0, 0.0
	for _, s := range samples {
		if s.Batch > 0 && (ref == 0 || s.Shape.Equal(j.Requested)) {
			ref, global = s.Batch, s.Batch*float64(s.Shape.GPUs())
		}
	}
	if ref == 0 {
		ref, global = 1, float64(max(j.Requested.GPUs(), 1))
	}
	if j.Scale != GlobalBatch {
		return ref, func(planner.Shape) float64 { return ref }
	}
	return ref, func(s planner.Shape) float64 { return global / float64(max(s.GPUs(), 1)) }
}

// at is the step time in seconds on a shape at a local batch size: Low is the fast end.
func (s *speedPosterior) at(shape planner.Shape, batch float64) planner.Interval {
	geo := geometryOf(shape)
	eval := func(p *vec) float64 {
		t := stepOf(p)
		return t.log(&geo, s.comp.at(batch, p[pFixed]), s.comp.at(s.comp.refBatch, p[pFixed]))
	}
	y := eval(&s.fit.p)
	here := s.residualAt(shape, &geo, batch, y)
	shift, explained := s.krige.correct(&here)
	noise := sq(z80) * max(here.variance()-explained, 0)
	low, high := s.spread(y, eval)
	y += shift
	return planner.Interval{Low: math.Exp(y - math.Sqrt(sq(low)+noise)), Mid: math.Exp(y), High: math.Exp(y + math.Sqrt(sq(high)+noise))}
}

// speeds lists the speed of every shape asked about, fastest first. An iteration counts as what it is, also on another number of GPUs: more GPUs at
// the same local batch do not shorten a declared number of iterations. Where nobody counts iterations (no stop criterion), the work is the samples,
// and an iteration on g GPUs is worth g/requested of one as requested.
func (s *speedPosterior) speeds(j Job) []planner.ShapeSpeed {
	shapes := askedShapes(j)
	out := make([]planner.ShapeSpeed, 0, len(shapes))
	for _, sh := range shapes {
		t := s.at(sh, s.batchOf(sh))
		worth := 1.0
		if asked := j.Requested.GPUs(); j.Stop.Kind == NoStop && j.Scale != GlobalBatch && validShape(j.Requested) {
			worth = float64(sh.GPUs()) / float64(asked)
		}
		out = append(out, planner.ShapeSpeed{Shape: sh, Speed: planner.Interval{Low: worth / t.High, Mid: worth / t.Mid, High: worth / t.Low}})
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

// StepTimes fits the samples of a job and returns the seconds of one iteration on any shape at any local batch size (0: the job's own).
func (f Fabric) StepTimes(j Job) func(s planner.Shape, batch float64) planner.Interval {
	prior := f.population().forJob()
	post := f.speed(&prior, j, maxSamples)
	return func(s planner.Shape, batch float64) planner.Interval {
		if !validShape(s) {
			return planner.Interval{}
		}
		if !(batch > 0) {
			batch = post.batchOf(s)
		}
		return post.at(s, batch)
	}
}
