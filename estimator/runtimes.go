package estimator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// RunClass is how long the jobs of one class run: the moments of the logarithm of a time in seconds, or of its ratio to what was declared.
type RunClass struct {
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"`
	N    float64   `json:"n"`
	Mean float64   `json:"mean"`
	M2   float64   `json:"m2"` // sum of squared distances from Mean
}

// Bounds of what is remembered of run times: classes, and jobs that a class's memory reaches back.
const (
	maxRunClasses = 256
	maxRunMemory  = 400
	maxClassName  = 300
)

// The classes that every job belongs to: all jobs, and where its user declared something, the ratio of the run time to that.
const (
	classAll      = "all"
	classDeadline = "of deadline"
	classLimit    = "of limit"
)

// runPrior is the belief about a class without jobs, worth as much as runPriorJobs of them.
type runPrior struct{ mean, sd float64 }

const (
	runPriorJobs = 6
	// runFloor is the least standard deviation of the logarithm of a run time: classes never tell all.
	runFloor = 0.2
	// runKnown is from how many jobs on the ratio to the time limit is believed: limits mean nothing in particular before.
	runKnown = 8
)

var (
	anyRun = runPrior{math.Log(unknownRun.Mid), math.Log(unknownRun.High/unknownRun.Low) / 2 / z80}
	// Nobody asks for the impossible: most jobs need between a quarter and all of the time until their last deadline.
	deadlineShare = runPrior{math.Log(0.5), 0.55}
	limitShare    = runPrior{math.Log(0.4), 0.9}
)

// with is the belief after the jobs of a class.
func (p runPrior) with(c RunClass) runPrior {
	n := c.N + runPriorJobs
	d := c.Mean - p.mean
	v := (runPriorJobs*sq(p.sd) + c.M2 + d*d*runPriorJobs*c.N/n) / n
	return runPrior{p.mean + d*c.N/n, math.Sqrt(v)}
}

// seconds is the 80 % interval of base times a share, or of a time (base 1).
func (p runPrior) seconds(base float64) planner.Interval {
	sd := max(p.sd, runFloor)
	t := func(z float64) float64 { return min(base*math.Exp(p.mean+z*sd), maxSeconds) }
	return planner.Interval{Low: t(-z80), Mid: t(0), High: t(z80)}
}

// class finds what is known of a class.
func (f Fabric) class(name string) (RunClass, bool) {
	i, ok := slices.BinarySearchFunc(f.Runs, name, func(c RunClass, n string) int { return cmp.Compare(c.Name, n) })
	if !ok {
		return RunClass{}, false
	}
	return f.Runs[i], true
}

// classesOf are the classes of a job, general before special.
func classesOf(j Job) []string {
	size := " of " + doubling(max(j.Requested.GPUs(), 1)) + " GPUs"
	out := []string{classAll, classAll + size}
	for _, k := range j.Kinds {
		out = append(out, (k + size)[:min(len(k)+len(size), maxClassName)])
	}
	return out
}

// runTime is the whole run time of a job that was not measured, in seconds, by what jobs of its classes took and what its user declared; known is false when no job has taught
// anything and nothing was declared. Of several answers the narrowest counts.
func (f Fabric) runTime(j Job) (total planner.Interval, basis string, known bool) {
	p := anyRun
	for _, name := range classesOf(j) {
		if c, ok := f.class(name); ok {
			p, known = p.with(c), true
			basis = fmt.Sprintf("run time of %.0f jobs like it", c.N)
		}
	}
	best, base := p, 1.0
	try := func(q runPrior, b float64, why string) {
		if b > 0 && max(q.sd, runFloor) < best.sd {
			best, base, basis, known = q, b, why, true
		}
	}
	d, _ := f.class(classDeadline)
	try(deadlineShare.with(d), min(finiteOr(j.WindowSeconds, 0), maxSeconds), "run time from its deadline")
	if c, ok := f.class(classLimit); ok && c.N >= runKnown {
		try(limitShare.with(c), min(finiteOr(j.LimitSeconds, 0), maxSeconds), "run time from its time limit")
	}
	return best.seconds(base), basis, known
}

// learnRun returns the classes after a job whose whole run time has become known.
func (f Fabric) learnRun(j Job, total float64, now time.Time) []RunClass {
	if !(total > 0 && total < maxSeconds) {
		return f.Runs
	}
	out := slices.Clone(f.Runs)
	add := func(name string, x float64) {
		i, ok := slices.BinarySearchFunc(out, name, func(c RunClass, n string) int { return cmp.Compare(c.Name, n) })
		if !ok {
			out = slices.Insert(out, i, RunClass{Name: name})
		}
		c := &out[i]
		if c.N >= maxRunMemory { // what is long ago fades
			c.N, c.M2 = c.N/2, c.M2/2
		}
		d := x - c.Mean
		c.N++
		c.Mean += d / c.N
		c.M2 += d * (x - c.Mean)
		c.At = now
	}
	t := math.Log(max(total, 1))
	for _, name := range classesOf(j) {
		add(name, t)
	}
	if w := min(finiteOr(j.WindowSeconds, 0), maxSeconds); w > 0 {
		add(classDeadline, t-math.Log(max(w, 1)))
	}
	if l := min(finiteOr(j.LimitSeconds, 0), maxSeconds); l > 0 {
		add(classLimit, t-math.Log(max(l, 1)))
	}
	for len(out) > maxRunClasses { // the one not seen for longest goes
		oldest := 0
		for i := range out {
			if out[i].At.Before(out[oldest].At) {
				oldest = i
			}
		}
		out = slices.Delete(out, oldest, oldest+1)
	}
	return out
}
