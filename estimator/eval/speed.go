package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"unisched/estimator"
	"unisched/planner"
)

// SpeedOptions of [Speed].
type SpeedOptions struct {
	// Format is "pollux" or "iteration-times"; NodeGPUs the GPUs of a node for tables that give only a count (0: 4).
	Format   string
	NodeGPUs int
	// Progress hears how many of how many models are done; nil: nobody.
	Progress func(done, of int)
}

// Errors sums up relative errors |predicted - true| / true.
type Errors struct {
	Mean  Figure `json:"mean_abs_error"`
	P90   Figure `json:"p90_abs_error"`
	P95   Figure `json:"p95_abs_error"`
	Worst Figure `json:"worst"`
	N     int    `json:"n"`
}

// GPUErrors are the errors at one GPU count.
type GPUErrors struct {
	GPUs int    `json:"gpus"`
	N    int    `json:"n"`
	Mean Figure `json:"mean_abs_error"`
	// Paper is the error of the paper's rule.
	Paper Figure `json:"paper_rule"`
}

// SpeedReport is the answer of "unisched eval speed".
type SpeedReport struct {
	Schema int `json:"schema_version"`
	Errors
	// Coverage80 is the part of the rows inside the 80 % interval.
	Coverage80    Figure        `json:"coverage_80"`
	ByGPUs        []GPUErrors   `json:"by_gpus"`
	ByModel       []ModelErrors `json:"by_model"`
	PaperRule     Errors        `json:"paper_rule"`
	AfterOneLease Errors        `json:"after_one_lease"`
	Skipped       int           `json:"skipped"`
}

// ModelErrors are the errors of one model; the paper's rule and the error after one lease beside its own.
type ModelErrors struct {
	Model string `json:"model"`
	N     int    `json:"n"`
	Mean  Figure `json:"mean_abs_error"`
	Paper Figure `json:"paper_rule"`
	Lease Figure `json:"after_one_lease"`
}

// speedRow is one measured step time.
type speedRow struct {
	shape     planner.Shape
	batch     float64
	time, err float64
}

// speedModel is all rows of one model.
type speedModel struct {
	name string
	rows []speedRow
}

// Speed predicts every row of each model from its rows on one GPU, two GPUs of one node and two GPUs of two nodes. The fabric that it starts from has learnt from
// the other models given, never from the one predicted.
func Speed(files []File, opt SpeedOptions) (SpeedReport, error) {
	rep := SpeedReport{Schema: 1}
	models, skipped, err := readSpeed(files, opt)
	if err != nil {
		return rep, err
	}
	rep.Skipped = skipped
	var all, paper, lease []float64
	byGPUs, paperByGPUs := map[int][]float64{}, map[int][]float64{}
	covered := 0
	for i, m := range models {
		fab := estimator.Fabric{Without: []string{m.name}}
		for k, o := range models {
			if k != i && baseName(o.name) != baseName(m.name) {
				fab = fab.Learn(estimator.Outcome{Key: o.name, Job: o.job(o.rows)}, time.Time{})
			}
		}
		prof, rest := m.split()
		if len(prof) == 0 || len(rest) == 0 {
			rep.Skipped += len(rest)
			continue
		}
		pred := fab.StepTimes(m.job(prof))
		name := ModelErrors{Model: m.name}
		var e1, e2, e3 []float64
		for _, r := range rest {
			t := pred(r.shape, r.batch)
			e1 = append(e1, relErr(t.Mid, r.time))
			byGPUs[r.shape.GPUs()] = append(byGPUs[r.shape.GPUs()], relErr(t.Mid, r.time))
			if t.Low <= r.time && r.time <= t.High {
				covered++
			}
			if p, ok := paperRule(prof, r); ok {
				e2 = append(e2, relErr(p, r.time))
				paperByGPUs[r.shape.GPUs()] = append(paperByGPUs[r.shape.GPUs()], relErr(p, r.time))
			}
		}
		e3 = afterLease(fab, m, prof, rest)
		if opt.Progress != nil {
			opt.Progress(i+1, len(models))
		}
		name.N, name.Mean, name.Paper, name.Lease = len(e1), mean(e1), mean(e2), mean(e3)
		rep.ByModel = append(rep.ByModel, name)
		all, paper, lease = append(all, e1...), append(paper, e2...), append(lease, e3...)
	}
	rep.Errors, rep.PaperRule, rep.AfterOneLease = summarise(all), summarise(paper), summarise(lease)
	rep.Coverage80 = Figure(float64(covered) / float64(len(all)))
	for _, g := range slices.Sorted(maps.Keys(byGPUs)) {
		rep.ByGPUs = append(rep.ByGPUs, GPUErrors{g, len(byGPUs[g]), mean(byGPUs[g]), mean(paperByGPUs[g])})
	}
	return rep, nil
}

// baseName drops what tells repeated measurements of one model apart: the set before a slash.
func baseName(s string) string {
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		return s[i+1:]
	}
	return s
}

// afterLease predicts each row again after one observation of the same GPU count and batch size on another placement; the error of a row is the mean over the
// choices of that placement.
func afterLease(fab estimator.Fabric, m speedModel, prof, rest []speedRow) []float64 {
	type cell struct {
		gpus  int
		batch float64
	}
	groups := map[cell][]speedRow{}
	var order []cell
	for _, r := range rest {
		c := cell{r.shape.GPUs(), r.batch}
		if groups[c] == nil {
			order = append(order, c)
		}
		groups[c] = append(groups[c], r)
	}
	var out []float64
	for _, c := range order {
		g := groups[c]
		sum := make([]float64, len(g))
		if len(g) < 2 {
			continue
		}
		for i, seen := range g {
			pred := fab.StepTimes(m.job(append(slices.Clone(prof), seen)))
			for k, r := range g {
				if k != i {
					sum[k] += relErr(pred(r.shape, r.batch).Mid, r.time)
				}
			}
		}
		for _, s := range sum {
			out = append(out, s/float64(len(g)-1))
		}
	}
	return out
}

// paperRule is computation plus ring allreduce: the communication of two GPUs, of one node or of two, scaled by 2(g-1)/g.
func paperRule(prof []speedRow, r speedRow) (float64, bool) {
	var one, local, cross float64
	for _, p := range prof {
		if p.batch != r.batch {
			continue
		}
		switch {
		case p.shape.GPUs() == 1:
			one = p.time
		case p.shape.Nodes() == 1:
			local = p.time
		default:
			cross = p.time
		}
	}
	two := local
	if r.shape.Nodes() > 1 && cross > 0 {
		two = cross
	}
	if one == 0 || two == 0 {
		return 0, false
	}
	g := float64(r.shape.GPUs())
	return one + max(two-one, 0)*2*(g-1)/g, true
}

// split tells the profile rows (one GPU, two GPUs) from those to predict.
func (m speedModel) split() (prof, rest []speedRow) {
	for _, r := range m.rows {
		if r.shape.GPUs() <= 2 {
			prof = append(prof, r)
		} else {
			rest = append(rest, r)
		}
	}
	return prof, rest
}

func (m speedModel) job(rows []speedRow) estimator.Job {
	j := estimator.Job{Requested: planner.Shape{1}, Scale: estimator.LocalBatch}
	for _, r := range rows {
		j.Samples = append(j.Samples, estimator.Sample{Shape: r.shape, Batch: r.batch, IterTime: r.time, StdErr: r.err})
	}
	return j
}

func relErr(p, t float64) float64 { return math.Abs(p-t) / t }

// summarise sorts its argument.
func summarise(v []float64) Errors {
	slices.Sort(v)
	return Errors{mean(v), quantile(v, 0.9), quantile(v, 0.95), quantile(v, 1), len(v)}
}

// readSpeed reads the tables into models, sorted by name.
func readSpeed(files []File, opt SpeedOptions) ([]speedModel, int, error) {
	skipped := 0
	byName := map[string]*speedModel{}
	add := func(name string, r speedRow) {
		if len(r.shape) == 0 || !(r.time > 0) || math.IsInf(r.time, 1) {
			skipped++
			return
		}
		if byName[name] == nil {
			byName[name] = &speedModel{name: name}
		}
		byName[name].rows = append(byName[name].rows, r)
	}
	for _, f := range files {
		switch opt.Format {
		case "pollux":
			t, bad, err := readTable(f, "placement", "local_bsz", "step_time")
			if err != nil {
				return nil, 0, err
			}
			skipped += bad
			for _, row := range t.rows {
				b := t.number(row, "local_bsz")
				if !(b > 0) {
					skipped++
					continue
				}
				add(f.base(), speedRow{shape: digits(t.text(row, "placement")), batch: b, time: t.number(row, "step_time")})
			}
		case "iteration-times":
			t, bad, err := readTable(f, "app", "gpus", "mean_s")
			if err != nil {
				return nil, 0, err
			}
			skipped += bad
			for _, row := range t.rows {
				name := t.text(row, "set") + "/" + t.text(row, "app")
				se := t.number(row, "std_s") / math.Sqrt(t.number(row, "samples"))
				if !(se >= 0) || math.IsInf(se, 1) {
					se = 0
				}
				add(name, speedRow{shape: consolidated(t.number(row, "gpus"), opt.NodeGPUs), time: t.number(row, "mean_s"), err: se})
			}
		default:
			return nil, 0, fmt.Errorf("%w: format %q is neither pollux nor iteration-times", ErrOption, opt.Format)
		}
	}
	var out []speedModel
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out, skipped, nil
}

// digits reads a placement with one digit per node; nil when it is none.
func digits(s string) planner.Shape {
	if len(s) > 4096 {
		return nil
	}
	var out planner.Shape
	for _, c := range s {
		if c < '0' || c > '9' {
			return nil
		}
		if c > '0' {
			out = append(out, int(c-'0'))
		}
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(b, a) })
	return out
}

// consolidated is a GPU count on the fewest nodes.
func consolidated(gpus float64, perNode int) planner.Shape {
	if !(gpus >= 1 && gpus <= 1<<14) || gpus != math.Trunc(gpus) {
		return nil
	}
	if perNode <= 0 {
		perNode = 4
	}
	var out planner.Shape
	for g := int(gpus); g > 0; g -= perNode {
		out = append(out, min(g, perNode))
	}
	return out
}
