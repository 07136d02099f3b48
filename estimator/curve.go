package estimator

import (
	"math"
	"math/rand/v2"
	"slices"

	"unisched/planner"
)

// Target is the question put to a learning curve: at which iteration will the metric reach the target, when the user's maximum is Max?
type Target struct {
	Up    bool
	Value float64
	Max   float64
	// Milestones are iterations of learning-rate drops, past and to come.
	Milestones []float64
}

// Crossing is the answer: the iteration of the first report that reaches the target, given that one does before Max, as a sorted sample; and the probability that one does.
type Crossing struct {
	At      []float64
	Reaches float64
	// Gap is the distance of two reports in iterations.
	Gap float64
	// Weights of the families after the fit, by name, for explanations.
	Families []FamilyWeight
}

// FamilyWeight is the posterior weight of one family.
type FamilyWeight struct {
	Name   string
	Weight float64
}

// Interval is the 80 % interval of the crossing iteration. It is never narrower than the distance of two reports, as nobody knows what happens between them.
func (c Crossing) Interval() planner.Interval {
	mid := c.Quantile(0.5)
	return planner.Interval{Low: min(c.Quantile(0.1), mid-c.Gap/2), Mid: mid, High: max(c.Quantile(0.9), mid+c.Gap/2)}
}

// Quantile of the crossing iteration.
func (c Crossing) Quantile(q float64) float64 {
	if len(c.At) == 0 {
		return 0
	}
	x := q * float64(len(c.At)-1)
	i := int(x)
	if i+1 >= len(c.At) {
		return c.At[len(c.At)-1]
	}
	return c.At[i] + (x-float64(i))*(c.At[i+1]-c.At[i])
}

const (
	minPoints  = 4   // fewer reports are no curve
	maxFit     = 128 // points of a fit; longer curves are thinned, denser towards the end
	trendDraws = 120 // draws of the straight line through the last reports
	totalDraws = 480 // draws of curves, over all families
	maxGrid    = 160 // future reports simulated
	reachFloor = 0.3 // that a target is reached which no curve reaches: users know their schedules
	lateDraws  = 320 // draws of the prior
	noiseFloor = 0.004
	// sharpen narrows the distribution about its median. The ensemble is wider than its errors: its members disagree more with each other than the
	// ensemble with the truth. A short extrapolation is narrowed less, by sharpenNear, since there the noise of single reports decides; so is one to more than twice
	// what was seen, by sharpenFar. Measured on published curves, not derived.
	sharpen     = 0.5
	sharpenFar  = 0.375
	sharpenNear = 0.25
	milestoneTo = 3 // passed milestones fitted, at most
)

// Cross extrapolates a cleaned curve (see [CleanCurve]) to the target. It needs at least minPoints reports; ok is false when the curve says nothing.
func Cross(c []Point, t Target) (Crossing, bool) {
	cf, ok := newCurveFit(c, t)
	if !ok {
		return Crossing{}, false
	}
	fits, weights := cf.fitAll()
	rng := rand.New(rand.NewPCG(0x9e3779b97f4a7c15, uint64(len(c))))
	tr := cf.lastTrend()
	var reached []float64
	drawn, hits := 0.0, 0.0
	var out Crossing
	for i := range families {
		if weights[i] <= 0 {
			continue
		}
		out.Families = append(out.Families, FamilyWeight{families[i].name, weights[i]})
		n := int(math.Round(weights[i] * totalDraws))
		for range n {
			x, kept := cf.draw(&families[i], &fits[i], rng)
			if !kept {
				continue
			}
			drawn++
			if x > 0 {
				hits++
				reached = append(reached, x)
			}
		}
	}
	for range trendDraws { // what keeps its pace: schedules that decay the learning rate to the end
		drawn++
		if x := cf.trendDraw(&tr, rng); x > 0 {
			hits++
			reached = append(reached, x)
		}
	}
	frac := 0.0
	if drawn > 0 {
		frac = hits / drawn
	}
	out.At = cf.blend(reached, frac, rng)
	out.Reaches = reachFloor + (0.99-reachFloor)*frac
	for i := range out.At {
		out.At[i] = out.At[i]*cf.x0 + cf.off
	}
	out.Gap = cf.gap * cf.x0
	return out, len(out.At) > 0
}

// blend joins the draws that reach the target with a prior for the case that the curves are wrong: users choose a maximum that suffices, so a curve that
// will not get there has something to come (a learning-rate schedule) and gets there late.
func (c *curveFit) blend(reached []float64, frac float64, rng *rand.Rand) []float64 {
	doubt := 0.5 * (1 - c.now/c.max) // the less of the run was seen
	late := int(math.Round(lateDraws * (doubt + (1-doubt)*(1-frac))))
	out := make([]float64, 0, len(reached)+late)
	out = append(out, reached...)
	for range late {
		u := betaLate(rng)
		out = append(out, c.now+(c.max-c.now)*u)
	}
	slices.Sort(out)
	if len(out) > 0 { // see sharpen
		m := out[len(out)/2]
		r := (m - c.now) / c.now
		k := sharpen + sharpenFar*min(max(r-1, 0), 0.8) + sharpenNear*max(1-r/0.6, 0)
		for i := range out {
			out[i] = m + k*(out[i]-m)
		}
	}
	return out
}

// betaLate draws from Beta(6, 2): the sixth smallest of seven uniform numbers.
func betaLate(rng *rand.Rand) float64 {
	var top, second float64
	for range 7 {
		switch u := rng.Float64(); {
		case u > top:
			top, second = u, top
		case u > second:
			second = u
		}
	}
	return second
}
