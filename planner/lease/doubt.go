package lease

import (
	"math"

	"unisched/planner"
)

// doubt is how much shorter or longer than planned a job's work may be because its estimate is not sure: in units at its best option, besides the luck of a run. What was only extrapolated
// from a profile, or from the first reports of a metric, may be off by half; a deadline is not lost because the middle of such an estimate lies behind it, nor safe because it lies before it.
type doubt struct {
	early        float64 // how much sooner than planned the middle of the estimate has it finished
	below, above float64 // standard deviations to the shorter and to the longer side of the middle
}

// normalTenth is the distance from the middle of a normal distribution to its 10 % and 90 % quantiles, in standard deviations: what an 80 % interval spans on each side.
const normalTenth = 1.2816

// doubtOf is that of a job whose work is planned at a quantile of its estimate. The iterations left and the speed of the fastest shape err independently.
func (in *instance) doubtOf(j *job, planned float64) doubt {
	speed, it := planner.Interval{}, j.Estimate.Iterations
	for _, v := range j.Estimate.Speeds {
		if v.Shape.Valid() && good(v.Speed.Mid) && v.Speed.Mid > speed.Mid {
			speed = v.Speed
		}
	}
	mid := it.Mid / speed.Mid
	if !good(speed.Mid) || !good(mid) || !good(planned) {
		return doubt{}
	}
	side := func(iters, pace float64) float64 { // of the middle, one standard deviation
		byIters, byPace := iters/speed.Mid-mid, 0.0
		if good(pace) {
			byPace = it.Mid/pace - mid
		}
		if d := math.Hypot(finite(byIters), byPace) / normalTenth / in.unit; d < maxUnits {
			return d
		}
		return maxUnits
	}
	return doubt{early: max(0, min((planned-mid)/in.unit, maxUnits)), below: side(it.Low, speed.High), above: side(it.High, speed.Low)}
}

// chance is the probability that what would end so meets a deadline: the luck of a run and the doubt in the estimate are independent.
func (in *instance) chance(j *job, w way, due float64) float64 {
	middle := w.finish - j.doubt.early/w.phi
	side := j.doubt.above
	if due < middle {
		side = j.doubt.below
	}
	return 0.5 * math.Erfc((middle-due)/(math.Hypot(in.cfg.Risk*(w.finish+riskUnits), side/w.phi)*math.Sqrt2))
}
