package estimator

import (
	"math"
	"time"

	"unisched/planner"
)

// ExpectedResumes is the expected number of resumes after the first start of a job that uses n of m lease slots, the n used ones being
// a uniformly random subset: n(m-n+1)/m maximal runs of consecutive slots, less the first (UniSched, section 4.3). It is 0 when n < 1 or n >= m.
func ExpectedResumes(n, m int) float64 {
	if n < 1 || m <= n {
		return 0
	}
	return float64(n)*float64(m-n+1)/float64(m) - 1
}

// cutPrior is the weight, in leases, of the paper's rule that a best-effort job is cut with probability 1/2 after each lease.
const cutPrior = 8

// cutRate is the probability that a best-effort job is preempted at the end of a lease.
func (f Fabric) cutRate() float64 {
	return (0.5*cutPrior + float64(max(f.BestEffortCuts, 0))) / (cutPrior + float64(max(f.BestEffortLeases, f.BestEffortCuts, 0)))
}

// suspensions is the expected number of further resumes of a job.
func (f Fabric) suspensions(j Job, est planner.Estimate, now time.Time) float64 {
	if j.Lease <= 0 || len(est.Speeds) == 0 {
		return 0
	}
	ref, ok := est.SpeedOf(j.Requested)
	if !ok {
		ref = est.Speeds[0].Speed
	}
	if !(ref.Mid > 0) {
		return 0
	}
	leases := math.Ceil(est.Iterations.Mid / ref.Mid / j.Lease.Seconds())
	if leases = min(leases, 1e6); leases <= 1 {
		return 0
	}
	if !j.Class.SLO() || j.Deadline.IsZero() {
		return f.cutRate() * (leases - 1)
	}
	slots := math.Floor(j.Deadline.Sub(now).Seconds() / j.Lease.Seconds())
	return ExpectedResumes(int(leases), int(min(max(slots, 0), 1e6)))
}

func (s SRSample) valid() bool {
	return s.GPUs > 0 && s.GPUs <= 1<<20 && s.Nodes > 0 && s.Nodes <= s.GPUs && s.Seconds > 0 && s.Seconds < 1e6 && s.Bytes >= 0 && s.Bytes < 1e18 &&
		s.AtOnce >= 0 && s.AtOnce < 1<<16
}

// The cost of a checkpoint or a resume: t = a (1 + b log2 g) + c GB (1 + d others). a is start-up (imports, allocation, data loaders), b its growth with the
// GPUs that must come together, c the storage, d how much others at the same time slow it down.
const (
	srBase  = iota // log a
	srGrow         // log b
	srGB           // log c
	srCrowd        // log d
	srDims
)

// srKind is the prior of one kind of cost. Resume: 30 s (1 + log2 g) is the rule of the CHRONUS artifact; a checkpoint is usually under 4 s (UniSched, section 4.3).
type srKind struct{ mu, tau vec }

var (
	resumeKind     = srKind{vec{math.Log(25), math.Log(0.4), math.Log(1), math.Log(0.4)}, vec{0.9, 0.8, 1, 0.7}}
	checkpointKind = srKind{vec{math.Log(3), math.Log(0.15), math.Log(1), math.Log(0.4)}, vec{0.9, 0.8, 1, 0.7}}
)

// srNoise is the standard deviation of the log of a measured cost; srJobs that of a job against the cluster.
const (
	srNoise = 0.15
	srJobs  = 0.5
	srFit   = 128 // newest cluster samples of a fit
)

// costTerms are the parameters as they enter the cost: worked out once for all samples.
type costTerms struct{ base, grow, gb, crowd float64 }

func costOf(p *vec) costTerms {
	return costTerms{math.Exp(p[srBase]), math.Exp(p[srGrow]), math.Exp(p[srGB]), math.Exp(p[srCrowd])}
}

// log is the logarithm of the cost of a sample.
func (t *costTerms) log(s *SRSample) float64 {
	base := t.base * (1 + t.grow*math.Log2(float64(s.GPUs)))
	return math.Log(base + t.gb*s.Bytes/1e9*(1+t.crowd*float64(s.AtOnce)))
}

// costFit is what a cluster's jobs have taught about one kind of cost: a posterior of the four parameters, the prior of the next job.
type costFit struct {
	kind srKind
	fitted
}

// fitCost learns from the newest measurements of all jobs, each off by an offset of its own job.
func fitCost(kind srKind, cluster []SRSample) costFit {
	all := make([]SRSample, 0, srFit)
	for i := len(cluster) - 1; i >= 0 && len(all) < srFit; i-- {
		if cluster[i].valid() {
			all = append(all, cluster[i])
		}
	}
	q := costProblem(kind.mu, independent(kind.tau, srDims), srDims, len(all))
	for i := range all {
		q.y[i], q.sd[i] = math.Log(max(all[i].Seconds, 0.05)), math.Hypot(srNoise, srJobs)
	}
	q.predict = func(p *vec, out []float64) {
		t := costOf(p)
		for i := range out {
			out[i] = t.log(&all[i])
		}
	}
	var buf scratch
	return costFit{kind, q.solve(q.mu, &buf, make([]float64, len(all)*q.dim))}
}

func costProblem(mu vec, prec mat, dim, n int) problem {
	q := problem{dim: dim, mu: mu, prec: prec, nu: 4, iters: 40, y: make([]float64, n), sd: make([]float64, n)}
	for k := range dim {
		q.lo[k], q.hi[k] = mu[k]-6, mu[k]+6
	}
	return q
}

// of predicts the cost of j at its requested shape from the job's own measurements and its declaration (0: none), on top of what the cluster taught.
func (c *costFit) of(j Job, own []SRSample, hint float64) planner.Interval {
	ask := SRSample{GPUs: min(max(j.Requested.GPUs(), 1), 1<<20), Nodes: 1, Bytes: min(finiteOr(j.CheckpointBytes, 0), 1e18)}
	var mine []SRSample
	for i := len(own) - 1; i >= 0 && len(mine) < 16; i-- {
		if own[i].valid() {
			mine = append(mine, own[i])
			ask.Bytes = max(ask.Bytes, own[i].Bytes)
		}
	}
	eval := func(p *vec) float64 {
		t := costOf(p)
		return t.log(&ask)
	}
	if len(mine) == 0 && hint <= 0 {
		y, v := predictAt(&c.fitted, srDims, eval)
		return costInterval(y, v+sq(srJobs))
	}
	if hint > 0 {
		h := ask
		h.Seconds = hint
		mine = append(mine, h)
	}
	fit := c.own(mine, hint > 0)
	y, v := predictAt(&fit, srDims+1, func(p *vec) float64 { return eval(p) + p[srDims] })
	return costInterval(y, v)
}

// own fits one job's measurements: the cluster's posterior is the prior, and one more parameter is the offset of this job. hinted says that the last one is a declaration.
func (c *costFit) own(mine []SRSample, hinted bool) fitted {
	mu, prec := c.p, independent(c.kind.tau, srDims)
	if c.ok {
		prec = c.hess
	}
	mu[srDims], prec[srDims][srDims] = 0, 1/sq(srJobs)
	q := costProblem(mu, prec, srDims+1, len(mine))
	for i := range mine {
		q.y[i], q.sd[i] = math.Log(max(mine[i].Seconds, 0.05)), srNoise
	}
	if hinted {
		q.sd[len(mine)-1] = 0.35
	}
	q.predict = func(p *vec, out []float64) {
		t := costOf(p)
		for i := range out {
			out[i] = t.log(&mine[i]) + p[srDims]
		}
	}
	var buf scratch
	return q.solve(q.mu, &buf, make([]float64, len(mine)*q.dim))
}

// costInterval is the 80 % interval of a cost whose logarithm is y with variance v before noise.
func costInterval(y, v float64) planner.Interval {
	w := z80 * math.Sqrt(v+sq(srNoise))
	return planner.Interval{Low: math.Exp(y - w), Mid: math.Exp(y), High: math.Exp(y + w)}
}

// predictAt is the value of a function of the parameters and its variance (delta method).
func predictAt(fit *fitted, dim int, eval func(*vec) float64) (y, v float64) {
	y = eval(&fit.p)
	var grad vec
	for k := range dim {
		p := fit.p
		p[k] += 1e-4
		grad[k] = (eval(&p) - y) / 1e-4
	}
	for a := range dim {
		for b := range dim {
			v += grad[a] * fit.cov[a][b] * grad[b]
		}
	}
	return y, max(v, 0)
}
