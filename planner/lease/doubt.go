package lease

import (
	"math"

	"unisched/planner"
)

// doubt is how much shorter or longer than planned a job's work may be because its estimate is not sure, in units at its best option, besides the luck of a run: standard deviations. What was
// only extrapolated from a profile, or from the first reports of a metric, may be off by half: a deadline is not lost because the middle of such a guess lies behind it.
type doubt struct {
	// below is by how much it may be shorter.
	below float64
	// above is by how much it may be longer, for the iterations that it may take. That it may be slower is in the quantile that deadlines are planned on: a speed becomes known
	// while others of its kind are measured, and within minutes once the job runs; how many iterations it takes nobody knows before it has run for long.
	above float64
	// ahead is by how much the middle of the estimate lies before the cautious end that is planned with: an estimate that may be far too short is planned long, and its middle
	// may well meet a deadline that the plan does not.
	ahead float64
}

// normalTenth is the distance from the middle of a normal distribution to its 10 % and 90 % quantiles, in standard deviations: what an 80 % interval spans on each side.
const normalTenth = 1.2816

// doubtOf reads it off a job's estimate, of which planned seconds are planned with. The iterations left and the speed of the fastest shape err independently.
func (in *instance) doubtOf(j *job, planned float64) doubt {
	var speed planner.Interval
	for _, v := range j.Estimate.Speeds {
		if v.Shape.Valid() && good(v.Speed.Mid) && v.Speed.Mid > speed.Mid {
			speed = v.Speed
		}
	}
	it := j.Estimate.Iterations
	mid := it.Mid / speed.Mid
	if !good(mid) && mid != 0 { // with a middle of nothing left it may still take long
		return doubt{}
	}
	faster := 0.0
	if good(speed.High) {
		faster = mid - it.Mid/speed.High
	}
	span := func(seconds float64) float64 { return min(max(0, finite(seconds))/in.unit, maxUnits) }
	return doubt{
		below: span(math.Hypot(mid-it.Low/speed.Mid, max(0, faster)) / normalTenth),
		above: span((it.High/speed.Mid - mid) / normalTenth),
		ahead: span(planned - mid),
	}
}

// chance is the probability that what would end so meets a deadline: one half between the middle of the estimate and the end that is planned with.
func (in *instance) chance(j *job, w way, due float64) float64 {
	side := j.doubt.above
	if due < w.finish {
		side = j.doubt.below
		due = min(due+j.doubt.ahead/w.phi, w.finish)
	}
	return 0.5 * math.Erfc((w.finish-due)/(math.Hypot(in.cfg.Risk*(w.finish+riskUnits), side/w.phi)*math.Sqrt2))
}
