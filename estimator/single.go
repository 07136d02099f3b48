package estimator

import (
	"math"
	"slices"

	"unisched/planner"
)

// single answers for a job that runs on one GPU at one batch size, where the step-time model has but one parameter and needs no search: most jobs of most clusters. ok is false for others.
func (f Fabric) single(prior *speedPrior, j Job) (post speedPosterior, speeds []planner.ShapeSpeed, ok bool) {
	one := func(s planner.Shape) bool { return len(s) == 1 && s[0] == 1 }
	if !one(j.Requested) || slices.ContainsFunc(j.Candidates, func(s planner.Shape) bool { return !one(s) }) {
		return post, nil, false
	}
	clean := cleanSamples(j.Samples, maxSamples)
	for i := range clean {
		if !one(clean[i].Shape) || clean[i].Batch != clean[0].Batch {
			return post, nil, false
		}
	}
	post.samples, post.counts = merged(clean), countSamples(clean)
	post.measured = len(post.samples) > 0
	mean, v := prior.mu[pComp], sq(noiseComp) // of the log of the step time; unmeasured: only relative speeds are asked for
	if post.measured {
		s := &post.samples[0]
		p0, p1 := 1/sq(noiseComp), 1.25/(sq(noiseComp)+sq(s.StdErr/s.IterTime)) // the weight of one good observation under Student-t noise
		mean = math.Log(s.IterTime) + mean*p0/(p0+p1)
		v += 1 / (p0 + p1)
	}
	w := z80 * math.Sqrt(v)
	return post, []planner.ShapeSpeed{{Shape: planner.Shape{1}, Speed: planner.Interval{Low: math.Exp(-mean - w), Mid: math.Exp(-mean), High: math.Exp(-mean + w)}}}, true
}
