package eval

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"unisched/estimator"
)

// CurveOptions of [Curves].
type CurveOptions struct {
	// Format is "pollux", "mlperf" or "steploss".
	Format string
	// At are fractions of the run's last x; Target the fraction of the run's own best value.
	At     []float64
	Target float64
	// Milestones are epochs of learning-rate drops.
	Milestones []int
	// Clock times the fits; nil leaves the times 0.
	Clock func() time.Time
	// Progress hears how many of how many extrapolations are done; nil: nobody.
	Progress func(done, of int)
}

// CurvePoint is what was measured at one fraction of the runs.
type CurvePoint struct {
	At       float64 `json:"at"`
	Runs     int     `json:"runs"`
	Skipped  int     `json:"skipped"`
	Error    Figure  `json:"mean_rel_error"`
	Baseline Figure  `json:"max_rel_error_baseline"`
	Coverage Figure  `json:"coverage_80"`
	FitMS    Figure  `json:"fit_ms_median"`
	FitMax   Figure  `json:"fit_ms_max"`
}

// CurveReport is the answer of "unisched eval curves".
type CurveReport struct {
	Schema  int                     `json:"schema_version"`
	Points  []CurvePoint            `json:"points"`
	ByGroup map[string][]CurvePoint `json:"by_group"`
}

// run is one learning curve. points are sorted by x; Iter is x in units of unit.
type run struct {
	group  string
	up     bool
	unit   float64
	points []estimator.Point
}

// Curves extrapolates the beginning of every run to its target and compares with the first x that reached it, and with the rule "use the last x".
func Curves(files []File, opt CurveOptions) (CurveReport, error) {
	rep := CurveReport{Schema: 1, ByGroup: map[string][]CurvePoint{}}
	runs, err := readCurves(files, opt.Format)
	if err != nil {
		return rep, err
	}
	if !(opt.Target > 0 && opt.Target <= 1) {
		return rep, fmt.Errorf("%w: target %v is not within 0..1", ErrOption, opt.Target)
	}
	for _, at := range opt.At {
		if !(at > 0 && at < 1) {
			return rep, fmt.Errorf("%w: %v of a run is not within 0..1", ErrOption, at)
		}
	}
	groups := map[string][]run{}
	for _, r := range runs {
		groups[r.group] = append(groups[r.group], r)
	}
	done := 0
	for _, at := range opt.At {
		var all []score
		for _, g := range sortedKeys(groups) {
			var part []score
			for _, r := range groups[g] {
				part = append(part, r.score(at, opt))
				if done++; opt.Progress != nil {
					opt.Progress(done, len(runs)*len(opt.At))
				}
			}
			rep.ByGroup[g] = append(rep.ByGroup[g], sumUp(at, part))
			all = append(all, part...)
		}
		rep.Points = append(rep.Points, sumUp(at, all))
	}
	return rep, nil
}

// score is the result of one run at one fraction.
type score struct {
	skipped       bool
	err, baseline float64
	covered       bool
	ms            float64
}

// score extrapolates one run.
func (r run) score(at float64, opt CurveOptions) score {
	n := len(r.points)
	if n == 0 {
		return score{skipped: true}
	}
	best := r.points[0].Value
	for _, p := range r.points {
		if r.up == (p.Value > best) {
			best = p.Value
		}
	}
	target := best * opt.Target
	if !r.up {
		target = best / opt.Target
	}
	last := float64(r.points[n-1].Iter)
	truth := math.NaN()
	seen := 0
	for _, p := range r.points {
		x := float64(p.Iter)
		if x <= at*last {
			seen++
		}
		if math.IsNaN(truth) && ((r.up && p.Value >= target) || (!r.up && p.Value <= target)) {
			truth = x
		}
	}
	if seen < 5 || math.IsNaN(truth) || truth <= float64(r.points[seen-1].Iter) || (last-truth)/truth < 0.10 {
		return score{skipped: true}
	}
	start := time.Time{}
	if opt.Clock != nil {
		start = opt.Clock()
	}
	pts := estimator.CleanCurve(r.points[:seen])
	t := estimator.Target{Up: r.up, Value: target, Max: last, Milestones: estimator.MilestoneIters(pts, opt.Milestones, 0)}
	c, ok := estimator.Cross(pts, t)
	s := score{baseline: (last - truth) / truth, err: (last - truth) / truth}
	if opt.Clock != nil {
		s.ms = float64(opt.Clock().Sub(start)) / float64(time.Millisecond)
	}
	if ok {
		i := c.Interval()
		s.err = relErr(i.Mid, truth)
		s.covered = i.Low <= truth && truth <= i.High
	}
	return s
}

// sumUp averages the scores that count.
func sumUp(at float64, in []score) CurvePoint {
	p := CurvePoint{At: at}
	var errs, base, cover, ms []float64
	for _, s := range in {
		if s.skipped {
			p.Skipped++
			continue
		}
		p.Runs++
		errs, base, ms = append(errs, s.err), append(base, s.baseline), append(ms, s.ms)
		c := 0.0
		if s.covered {
			c = 1
		}
		cover = append(cover, c)
	}
	slices.Sort(ms)
	p.Error, p.Baseline, p.Coverage = mean(errs), mean(base), mean(cover)
	p.FitMS, p.FitMax = quantile(ms, 0.5), quantile(ms, 1)
	return p
}

// readCurves reads the tables into runs.
func readCurves(files []File, format string) ([]run, error) {
	var out []run
	for _, f := range files {
		var rs []run
		var err error
		switch format {
		case "pollux":
			rs, err = polluxRuns(f)
		case "mlperf":
			rs, err = mlperfRuns(f)
		case "steploss":
			rs, err = steplossRuns(f)
		default:
			err = fmt.Errorf("%w: format %q is none of pollux, mlperf, steploss", ErrOption, format)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, rs...)
	}
	return out, nil
}

// polluxRuns is one run a file; every row ends an epoch. The group is the name up to the first dash.
func polluxRuns(f File) ([]run, error) {
	t, _, err := readTable(f, "iteration", "metric")
	if err != nil {
		return nil, err
	}
	group, _, _ := strings.Cut(f.base(), "-")
	r := run{group: group, unit: 1}
	for i, row := range t.rows {
		r.add(t.number(row, "iteration"), float64(i+1), t.number(row, "metric"))
	}
	r = r.sorted()
	r.up = r.rises()
	return []run{r}, nil
}

// rises tells an accuracy from an error rate: the last third of the reports lies above the first one.
func (r run) rises() bool {
	n := len(r.points)
	k := (n + 2) / 3
	sum := 0.0
	for i := range k {
		sum += r.points[n-1-i].Value - r.points[i].Value
	}
	return sum >= 0
}

// mlperfRuns is one run for each submitter, system, benchmark and run number; the group is the benchmark.
func mlperfRuns(f File) ([]run, error) {
	t, _, err := readTable(f, "submitter", "system", "benchmark", "run", "x", "value")
	if err != nil {
		return nil, err
	}
	byKey := map[string]*run{}
	for _, row := range t.rows {
		bench := t.text(row, "benchmark")
		key := strings.Join([]string{bench, t.text(row, "submitter"), t.text(row, "system"), t.text(row, "run")}, "/")
		if byKey[key] == nil {
			byKey[key] = &run{group: bench, up: true, unit: 1000}
		}
		byKey[key].add(t.number(row, "x"), t.number(row, "x"), t.number(row, "value"))
	}
	return inOrder(byKey), nil
}

// steplossRuns is one run for each "file"; the loss falls.
func steplossRuns(f File) ([]run, error) {
	t, _, err := readTable(f, "file", "step", "val_loss")
	if err != nil {
		return nil, err
	}
	byKey := map[string]*run{}
	for _, row := range t.rows {
		key := t.text(row, "file")
		if byKey[key] == nil {
			byKey[key] = &run{group: "steploss", unit: 1}
		}
		byKey[key].add(t.number(row, "step"), 0, t.number(row, "val_loss"))
	}
	return inOrder(byKey), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func inOrder(m map[string]*run) []run {
	var out []run
	for _, k := range sortedKeys(m) {
		out = append(out, m[k].sorted())
	}
	return out
}

// add appends a row; rows that are no numbers are dropped.
func (r *run) add(x, epoch, v float64) {
	if !(x >= 0 && x < 1e12) || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	r.points = append(r.points, estimator.Point{Iter: int64(math.Round(x * r.unit)), Epoch: epoch, Value: v})
}

func (r *run) sorted() run {
	r.points = estimator.CleanCurve(r.points)
	return *r
}
