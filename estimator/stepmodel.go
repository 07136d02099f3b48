package estimator

import (
	"cmp"
	"math"
	"slices"

	"unisched/planner"
)

// The step-time model of one job. With C(b) the computation of one GPU at local batch size b, a shape s of g GPUs on n nodes takes
//
//	T = (1-β) C' + ((β C')^γ + S^γ)^(1/γ),   C' = C(b) (1 + max(κ (1 + q (1-1/(maxg-1))), η log2 g))
//
// β is the part of the computation that the gradient exchange S can hide behind (the backward pass), γ how well it hides (1: not at all).
// κ is what GPUs of one node cost each other (memory, PCIe, input pipeline), η the straggler effect. S is the exchange: a ring on one node, S_local;
// across nodes S_cross times a product of powers: GPUs that share a NIC, number of nodes, GPUs, and three steps for the kinds of shape that
// measurements tell apart (more than two GPUs; several GPUs on two nodes; single GPUs on three and more nodes). The exponents belong to the
// fabric: jobs of one cluster agree on them within a small deviation, which is what [Fabric] learns. γ-overlap follows Pollux (OSDI'21, section 3.2).
const (
	pComp     = iota // log of a correction to C
	pFixed           // logit of the part of C that does not depend on b
	pLocal           // log S_local / C(reference batch), two GPUs of one node
	pCross           // log S_cross / C(reference batch), two GPUs of two nodes
	pOverlap         // logit β
	pGamma           // log γ
	pContend         // log κ
	pStraggle        // log η
	fContend         // q
	fLocal           // exponent of g/2 on top of the ring, on one node
	fShare           // exponent of the most GPUs on one node, across nodes
	fNodes           // exponent of n/2
	fGPUs            // exponent of g/2
	fMany            // step: more than two GPUs across nodes
	fTwo             // step: more than two GPUs on exactly two nodes
	fSingles         // step: one GPU on each of three or more nodes
	speedDims
)

// speedLow and speedHigh are hard bounds that keep the model finite whatever is observed.
var (
	speedLow = vec{pComp: -25, pFixed: -8, pLocal: -12, pCross: -12, pOverlap: -5, pGamma: 0, pContend: -9, pStraggle: -9,
		fContend: 0, fLocal: -1, fShare: -1, fNodes: -1, fGPUs: -1, fMany: -2, fTwo: -2, fSingles: -2}
	speedHigh = vec{pComp: 25, pFixed: 8, pLocal: 6, pCross: 8, pOverlap: 5, pGamma: 2.5, pContend: 1, pStraggle: 1,
		fContend: 2, fLocal: 2, fShare: 1.5, fNodes: 1, fGPUs: 1, fMany: 2, fTwo: 2, fSingles: 2}
)

// neutralMean and neutralWide are the population prior of a cluster of which nothing is known: structure only, no measurement went into it.
var (
	neutralMean = vec{pComp: 0, pFixed: -1, pLocal: math.Log(0.05), pCross: math.Log(0.25), pOverlap: 0.7, pGamma: 1, pContend: -3, pStraggle: -3.5,
		fContend: 0.9, fLocal: 0, fShare: 0.35, fNodes: 0, fGPUs: 0, fMany: 0, fTwo: 0, fSingles: 0}
	neutralWide = vec{pComp: 3, pFixed: 1, pLocal: 1, pCross: 1, pOverlap: 0.6, pGamma: 0.5, pContend: 0.8, pStraggle: 0.8,
		fContend: 0.3, fLocal: 0.4, fShare: 0.35, fNodes: 0.3, fGPUs: 0.3, fMany: 0.4, fTwo: 0.4, fSingles: 0.4}
	// betweenJobs is the standard deviation of each parameter from job to job of one cluster.
	betweenJobs = vec{pComp: 3, pFixed: 1, pLocal: 1.2, pCross: 1.2, pOverlap: 0.5, pGamma: 0.35, pContend: 0.7, pStraggle: 0.7,
		fContend: 0.15, fLocal: 0.2, fShare: 0.02, fNodes: 0.02, fGPUs: 0.02, fMany: 0.03, fTwo: 0.03, fSingles: 0.03}
)

// betweenClusters is how much clusters differ, as a part of neutralWide.
const betweenClusters = 0.4

// geometry is what the model needs of a shape, computed once.
type geometry struct {
	gpus, nodes                         float64
	logMax, logNodes, logGPUs, log2GPUs float64
	logRing                             float64
	crowd                               float64 // 0 for two GPUs on the fullest node, towards 1 for many
	many, two, singles                  bool
}

func geometryOf(s planner.Shape) geometry {
	g, n, m := s.GPUs(), s.Nodes(), slices.Max(s)
	crowd := 0.0
	if m > 2 {
		crowd = 1 - 1/float64(m-1)
	}
	return geometry{
		crowd: crowd,
		gpus:  float64(g), nodes: float64(n), logMax: math.Log(float64(m)), logNodes: math.Log(float64(n) / 2), logGPUs: math.Log(float64(g) / 2),
		log2GPUs: math.Log2(float64(g)), logRing: math.Log(2 * float64(g-1) / float64(g)),
		many: n > 1 && g > 2, two: n == 2 && g > 2, singles: m == 1 && n > 2,
	}
}

// stepTerms are the parameters of a job with what follows from them alone: worked out once for all samples.
type stepTerms struct {
	p                                       *vec
	contend, straggle, beta, logBeta, gamma float64
}

func stepOf(p *vec) stepTerms {
	beta := 1 / (1 + math.Exp(-p[pOverlap]))
	return stepTerms{p, math.Exp(p[pContend]), math.Exp(p[pStraggle]), beta, math.Log(beta), math.Exp(p[pGamma])}
}

// log is the log of the seconds of one iteration; comp is the log of C(b), ref that of C at the reference batch.
func (t *stepTerms) log(g *geometry, comp, ref float64) float64 {
	p := t.p
	comp += p[pComp]
	if g.gpus <= 1 {
		return comp
	}
	contend, straggle := 0.0, 0.0
	if g.logMax > 0 {
		contend = t.contend * (1 + p[fContend]*g.crowd)
	}
	if g.nodes > 1 {
		straggle = t.straggle * g.log2GPUs
	}
	slow := 1 + math.Sqrt(math.Sqrt(sq(sq(contend))+sq(sq(straggle)))) // the step waits for the larger of the two
	var ex float64
	if g.nodes <= 1 {
		ex = p[pLocal] + g.logRing + p[fLocal]*g.logGPUs
	} else {
		ex = p[pCross] + p[fShare]*g.logMax + p[fNodes]*g.logNodes + p[fGPUs]*g.logGPUs
		if g.many {
			ex += p[fMany]
		}
		if g.two {
			ex += p[fTwo]
		}
		if g.singles {
			ex += p[fSingles]
		}
	}
	// All relative to C'.
	logSlow := math.Log(slow)
	ex += ref + p[pComp] - comp - logSlow
	a, b := t.gamma*t.logBeta, t.gamma*ex
	hi := max(a, b)
	over := math.Exp((hi + math.Log(math.Exp(a-hi)+math.Exp(b-hi))) / t.gamma)
	return comp + logSlow + math.Log(1-t.beta+over)
}

// compute is C(b): what one GPU needs for one iteration at local batch size b.
type compute struct {
	// batch and logT are the measurements on one GPU, by batch size; empty when there are none.
	batch, logT []float64
	refBatch    float64
	// level is the log of C(refBatch) when nothing was measured on one GPU.
	level float64
}

// computeOf collects what was measured on one GPU; alone is the local batch size there of samples that do not say theirs. Several measurements of one
// batch size count by their median.
func computeOf(samples []Sample, refBatch, alone float64) compute {
	c := compute{refBatch: refBatch}
	type bt struct{ b, t float64 }
	var all []bt
	level := math.Inf(1)
	for _, s := range samples {
		level = min(level, math.Log(s.IterTime))
		if s.Shape.GPUs() == 1 {
			b := s.Batch
			if b == 0 {
				b = alone
			}
			all = append(all, bt{b, math.Log(s.IterTime)})
		}
	}
	c.level = level
	slices.SortFunc(all, func(x, y bt) int { return cmp.Or(cmp.Compare(x.b, y.b), cmp.Compare(x.t, y.t)) })
	for i := 0; i < len(all); {
		k := i
		for k < len(all) && all[k].b == all[i].b {
			k++
		}
		c.batch, c.logT = append(c.batch, all[i].b), append(c.logT, all[(i+k-1)/2].t)
		i = k
	}
	return c
}

// at is log C(b) without the correction pComp: interpolated between the batch sizes measured on one GPU, beyond them affine in b with the fixed part phi of the
// nearest one.
func (c *compute) at(b, logitFixed float64) float64 {
	n := len(c.batch)
	if n == 0 {
		return c.level + affine(b/c.refBatch, logitFixed)
	}
	i, ok := slices.BinarySearch(c.batch, b)
	switch {
	case ok:
		return c.logT[i]
	case i == 0:
		return c.logT[0] + affine(b/c.batch[0], logitFixed)
	case i == n:
		return c.logT[n-1] + affine(b/c.batch[n-1], logitFixed)
	}
	w := (math.Log(b) - math.Log(c.batch[i-1])) / (math.Log(c.batch[i]) - math.Log(c.batch[i-1]))
	return c.logT[i-1]*(1-w) + c.logT[i]*w
}

// affine is the log of φ + (1-φ) r.
func affine(r, logitFixed float64) float64 {
	if r == 1 {
		return 0
	}
	phi := 1 / (1 + math.Exp(-logitFixed))
	return math.Log(phi + (1-phi)*max(r, 1e-9))
}
