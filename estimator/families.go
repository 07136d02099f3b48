package estimator

import "math"

// family is one parametric learning curve v(x) with a Normal prior on its (transformed) parameters. x is 1 at the first report, v is 0 at the level of the first
// reports and 1 at the target, so that one prior serves every metric, both directions and every scale.
type family struct {
	name string
	dim  int
	mu   [5]float64
	tau  [5]float64
	lo   [5]float64
	hi   [5]float64
	// settle turns parameters into the coefficients of f: what is the same at every x is worked out once a curve, not once a point.
	settle func(p *vec) coefs
	f      func(k *coefs, x, logx float64) float64
}

type coefs [5]float64

// The families: those of Domhan, Springenberg, Hutter (IJCAI'15, table 1) and the loss curves of Optimus (EuroSys'18) and SLAQ (SoCC'17). Parameters that must be
// positive are logarithms. Priors: asymptotes somewhat above the target, rates of order one, all wide.
var families = []family{
	{"pow3", 3, [5]float64{0.15, 0, -0.7}, [5]float64{0.35, 1, 0.7}, [5]float64{-1.5, -6, -4}, [5]float64{2, 4, 1.5},
		func(p *vec) coefs { return coefs{math.Exp(p[0]), p[1], math.Exp(p[2])} },
		func(k *coefs, _, lx float64) float64 { return k[0] - math.Exp(k[1]-k[2]*lx) }},
	{"pow4", 4, [5]float64{0.15, -1, 0, -0.4}, [5]float64{0.35, 1.5, 1, 0.7}, [5]float64{-1.5, -9, -6, -4}, [5]float64{2, 4, 5, 1.5},
		func(p *vec) coefs { return coefs{math.Exp(p[0]), math.Exp(p[1]), math.Exp(p[2]), -math.Exp(p[3])} },
		func(k *coefs, x, _ float64) float64 { return k[0] - math.Exp(k[3]*math.Log(k[1]*x+k[2])) }},
	{"log-power", 3, [5]float64{0.15, 1, 0}, [5]float64{0.35, 1.5, 0.6}, [5]float64{-1.5, -5, -3}, [5]float64{2, 10, 2}, sigmoid, sigmoidAt},
	{"weibull", 4, [5]float64{0.15, 0, -2, -0.3}, [5]float64{0.35, 0.5, 1.5, 0.5}, [5]float64{-1.5, -3, -12, -3}, [5]float64{2, 3, 3, 1.5}, growth,
		func(k *coefs, _, lx float64) float64 { return k[0] - (k[0]-k[1])*math.Exp(-math.Exp(k[3]*(k[2]+lx))) }},
	{"mmf", 4, [5]float64{0.15, 0, -1.5, 0}, [5]float64{0.35, 0.5, 1.5, 0.5}, [5]float64{-1.5, -3, -12, -3}, [5]float64{2, 3, 3, 1.5}, growth,
		func(k *coefs, _, lx float64) float64 { return k[0] - (k[0]-k[1])/(1+math.Exp(k[3]*(k[2]+lx))) }},
	{"janoschek", 4, [5]float64{0.15, 0, -1, -0.3}, [5]float64{0.35, 0.5, 1.5, 0.4}, [5]float64{-1.5, -3, -12, -3}, [5]float64{2, 3, 3, 1.2}, growth,
		func(k *coefs, _, lx float64) float64 { return k[0] - (k[0]-k[1])*math.Exp(-math.Exp(k[2]+k[3]*lx)) }},
	{"exp4", 4, [5]float64{0.15, 0, -1, -0.5}, [5]float64{0.35, 0.7, 1.5, 0.5}, [5]float64{-1.5, -5, -10, -3}, [5]float64{2, 4, 3, 1.2}, growth,
		func(k *coefs, _, lx float64) float64 { return k[0] - math.Exp(k[1]-math.Exp(k[2]+k[3]*lx)) }},
	{"ilog2", 2, [5]float64{0.3, 0}, [5]float64{0.4, 1}, [5]float64{-1.5, -6}, [5]float64{2, 4},
		func(p *vec) coefs { return coefs{math.Exp(p[0]), math.Exp(p[1])} },
		func(k *coefs, x, _ float64) float64 { return k[0] - k[1]/math.Log(x+1) }},
	{"vapor-pressure", 3, [5]float64{0, -1, 0.05}, [5]float64{0.7, 1, 0.1}, [5]float64{-4, -9, -0.3}, [5]float64{3, 1, 0.6},
		func(p *vec) coefs { return coefs{p[0], p[1], p[2]} },
		func(k *coefs, x, lx float64) float64 { return math.Exp(k[0]+k[1]/x+k[2]*lx) - 0.2 }},
	{"log-log-linear", 2, [5]float64{-0.5, 0.7}, [5]float64{1, 0.7}, [5]float64{-6, 0}, [5]float64{3, 3},
		func(p *vec) coefs { return coefs{math.Exp(p[0]), math.Exp(p[1])} },
		func(k *coefs, _, lx float64) float64 { return math.Log(k[0]*lx + k[1] - 0.5) }},
	{"hill3", 3, [5]float64{0.15, 1, 0}, [5]float64{0.35, 1.5, 0.5}, [5]float64{-1.5, -5, -3}, [5]float64{2, 10, 1.5}, sigmoid, sigmoidAt},
	{"optimus", 3, [5]float64{0.15, -1, 0}, [5]float64{0.35, 1.5, 0.7}, [5]float64{-1.5, -9, -4}, [5]float64{2, 4, 4},
		func(p *vec) coefs { return coefs{math.Exp(p[0]), math.Exp(p[1]), math.Exp(p[2])} },
		func(k *coefs, x, _ float64) float64 { return k[0] - 1/(k[1]*x+k[2]) }},
	{"slaq", 4, [5]float64{0.15, -5, -1, 0}, [5]float64{0.35, 2, 1.5, 0.7}, [5]float64{-1.5, -15, -9, -4}, [5]float64{2, 2, 4, 4},
		func(p *vec) coefs { return coefs{math.Exp(p[0]), math.Exp(p[1]), math.Exp(p[2]), math.Exp(p[3])} },
		func(k *coefs, x, _ float64) float64 { return k[0] - 1/((k[1]*x+k[2])*x+k[3]) }},
}

// growth are an asymptote, a beginning, a place and a rate.
func growth(p *vec) coefs { return coefs{math.Exp(p[0]), p[1], p[2], math.Exp(p[3])} }

// sigmoid and sigmoidAt are an S over the logarithm of x; log-power and hill3 are the same curve with two priors.
func sigmoid(p *vec) coefs { return coefs{math.Exp(p[0]), p[1], math.Exp(p[2])} }

func sigmoidAt(k *coefs, _, lx float64) float64 { return k[0] / (1 + math.Exp(k[2]*(k[1]-lx))) }
