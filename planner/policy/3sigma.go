package policy

import (
	"math"

	"unisched/planner"
)

// newThreeSigma makes 3Sigma (Park et al., EuroSys 2018): the program of TetriSched with the whole distribution of the run time in place of its
// middle, so that a deadline counts with the probability that it is met, and with the right to stop best-effort jobs.
func newThreeSigma(o Options) Policy {
	return &ahead{name: "3sigma", o: o, stoppable: func(j *job) bool { return !j.Class.SLO() && j.Class != planner.Profiler }, value: expected}
}

// expected is the mean reward of a start in wait seconds. A running job is worth a resume more, which stopping it would cost.
func expected(r *round, j *job, wait float64) float64 {
	if !j.Class.SLO() || j.Foreign {
		if j.running() {
			return sooner(j.left) * (1 + positive(j.Estimate.Resume.Mid)/max(j.left, 60))
		}
		return sooner(wait + j.left)
	}
	v, before := 0.0, 0.0
	for _, t := range j.Tiers {
		if t.Value <= 0 {
			continue
		}
		if p := within(j, t.At.Sub(r.s.Now).Seconds()-wait); p > before {
			v += aheadSLO * t.Value / 100 * (p - before)
			before = p
		}
	}
	return max(v, sooner(wait+j.left))
}

// within is the probability that a job ends within so many seconds: linear between the 10, 50 and 90 % quantiles of its estimate, with tails
// as long as the parts between.
func within(j *job, seconds float64) float64 {
	low, mid, high := spreadOf(j)
	q := [5]float64{max(0, low-(mid-low)), low, mid, high, high + (high - mid)}
	p := [5]float64{0, 0.1, 0.5, 0.9, 1}
	if seconds >= q[4] {
		return 1
	}
	for k := 3; k >= 0; k-- {
		if seconds >= q[k] {
			return p[k] + (p[k+1]-p[k])*(seconds-q[k])/(q[k+1]-q[k])
		}
	}
	return 0
}

// spreadOf scales the interval of the iterations and of the speed to the time left: rising, however odd the estimate is.
func spreadOf(j *job) (low, mid, high float64) {
	mid = j.left
	down, up := 1.0, 1.0
	e := &j.Estimate
	if r := e.Iterations.Low / e.Iterations.Mid; r > 0 && r < 1 {
		down = r
	}
	if r := e.Iterations.High / e.Iterations.Mid; r > 1 && !math.IsInf(r, 1) {
		up = r
	}
	for _, v := range e.Speeds {
		if len(j.want) > 0 && !v.Shape.Equal(j.want[0].shape) {
			continue
		}
		if r := v.Speed.Mid / v.Speed.High; r > 0 && r < 1 {
			down *= r
		}
		if r := v.Speed.Mid / v.Speed.Low; r > 1 && !math.IsInf(r, 1) {
			up *= r
		}
		break
	}
	return mid * down, mid, min(mid*up, 2*forever)
}
