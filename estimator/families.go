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
	f    func(p *vec, x, logx float64) float64
}

// The families: those of Domhan, Springenberg, Hutter (IJCAI'15, table 1) and the loss curves of Optimus (EuroSys'18) and SLAQ (SoCC'17). Parameters that must be
// positive are logarithms. Priors: asymptotes somewhat above the target, rates of order one, all wide.
var families = []family{
	{"pow3", 3, [5]float64{0.15, 0, -0.7}, [5]float64{0.35, 1, 0.7}, [5]float64{-1.5, -6, -4}, [5]float64{2, 4, 1.5},
		func(p *vec, _, lx float64) float64 { return math.Exp(p[0]) - math.Exp(p[1]-math.Exp(p[2])*lx) }},
	{"pow4", 4, [5]float64{0.15, -1, 0, -0.4}, [5]float64{0.35, 1.5, 1, 0.7}, [5]float64{-1.5, -9, -6, -4}, [5]float64{2, 4, 5, 1.5},
		func(p *vec, x, _ float64) float64 {
			return math.Exp(p[0]) - math.Exp(-math.Exp(p[3])*math.Log(math.Exp(p[1])*x+math.Exp(p[2])))
		}},
	{"log-power", 3, [5]float64{0.15, 1, 0}, [5]float64{0.35, 1.5, 0.6}, [5]float64{-1.5, -5, -3}, [5]float64{2, 10, 2},
		func(p *vec, _, lx float64) float64 { return math.Exp(p[0]) / (1 + math.Exp(math.Exp(p[2])*(p[1]-lx))) }},
	{"weibull", 4, [5]float64{0.15, 0, -2, -0.3}, [5]float64{0.35, 0.5, 1.5, 0.5}, [5]float64{-1.5, -3, -12, -3}, [5]float64{2, 3, 3, 1.5},
		func(p *vec, _, lx float64) float64 {
			a := math.Exp(p[0])
			return a - (a-p[1])*math.Exp(-math.Exp(math.Exp(p[3])*(p[2]+lx)))
		}},
	{"mmf", 4, [5]float64{0.15, 0, -1.5, 0}, [5]float64{0.35, 0.5, 1.5, 0.5}, [5]float64{-1.5, -3, -12, -3}, [5]float64{2, 3, 3, 1.5},
		func(p *vec, _, lx float64) float64 {
			a := math.Exp(p[0])
			return a - (a-p[1])/(1+math.Exp(math.Exp(p[3])*(p[2]+lx)))
		}},
	{"janoschek", 4, [5]float64{0.15, 0, -1, -0.3}, [5]float64{0.35, 0.5, 1.5, 0.4}, [5]float64{-1.5, -3, -12, -3}, [5]float64{2, 3, 3, 1.2},
		func(p *vec, _, lx float64) float64 {
			a := math.Exp(p[0])
			return a - (a-p[1])*math.Exp(-math.Exp(p[2]+math.Exp(p[3])*lx))
		}},
	{"exp4", 4, [5]float64{0.15, 0, -1, -0.5}, [5]float64{0.35, 0.7, 1.5, 0.5}, [5]float64{-1.5, -5, -10, -3}, [5]float64{2, 4, 3, 1.2},
		func(p *vec, _, lx float64) float64 {
			return math.Exp(p[0]) - math.Exp(p[1]-math.Exp(p[2]+math.Exp(p[3])*lx))
		}},
	{"ilog2", 2, [5]float64{0.3, 0}, [5]float64{0.4, 1}, [5]float64{-1.5, -6}, [5]float64{2, 4},
		func(p *vec, x, _ float64) float64 { return math.Exp(p[0]) - math.Exp(p[1])/math.Log(x+1) }},
	{"vapor-pressure", 3, [5]float64{0, -1, 0.05}, [5]float64{0.7, 1, 0.1}, [5]float64{-4, -9, -0.3}, [5]float64{3, 1, 0.6},
		func(p *vec, x, lx float64) float64 { return math.Exp(p[0]+p[1]/x+p[2]*lx) - 0.2 }},
	{"log-log-linear", 2, [5]float64{-0.5, 0.7}, [5]float64{1, 0.7}, [5]float64{-6, 0}, [5]float64{3, 3},
		func(p *vec, _, lx float64) float64 { return math.Log(math.Exp(p[0])*lx + math.Exp(p[1]) - 0.5) }},
	{"hill3", 3, [5]float64{0.15, 1, 0}, [5]float64{0.35, 1.5, 0.5}, [5]float64{-1.5, -5, -3}, [5]float64{2, 10, 1.5},
		func(p *vec, _, lx float64) float64 { return math.Exp(p[0]) / (1 + math.Exp(math.Exp(p[2])*(p[1]-lx))) }},
	{"optimus", 3, [5]float64{0.15, -1, 0}, [5]float64{0.35, 1.5, 0.7}, [5]float64{-1.5, -9, -4}, [5]float64{2, 4, 4},
		func(p *vec, x, _ float64) float64 { return math.Exp(p[0]) - 1/(math.Exp(p[1])*x+math.Exp(p[2])) }},
	{"slaq", 4, [5]float64{0.15, -5, -1, 0}, [5]float64{0.35, 2, 1.5, 0.7}, [5]float64{-1.5, -15, -9, -4}, [5]float64{2, 2, 4, 4},
		func(p *vec, x, _ float64) float64 {
			return math.Exp(p[0]) - 1/((math.Exp(p[1])*x+math.Exp(p[2]))*x+math.Exp(p[3]))
		}},
}
