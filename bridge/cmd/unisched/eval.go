package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/estimator/eval"
)

// evalData is where the tables of an evaluation are.
type evalData struct {
	a     *app
	dir   string
	paths []string
}

func (a *app) evalCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "eval", Short: "Measure the estimator on published measurements", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return fmt.Errorf("eval: want speed, curves or durations") },
	}
	d := &evalData{a: a}
	c.PersistentFlags().StringVar(&d.dir, "data-dir", "", "folder of the published tables (default $UNISCHED_DATA, else ../shared/data)")
	c.AddCommand(a.evalSpeedCommand(d), a.evalCurvesCommand(d), a.evalDurationsCommand(d))
	return c
}

func (d *evalData) flag(c *cobra.Command) {
	c.Flags().StringArrayVar(&d.paths, "data", nil, "a table, or a folder whose *.csv are taken (`FILE|DIR`, repeatable; default: the format's tables of --data-dir)")
}

// root is the folder of the published tables.
func (d *evalData) root() string {
	return cmp.Or(d.dir, d.a.env("UNISCHED_DATA"), filepath.Join("..", "shared", "data"))
}

// open opens what --data names, or the tables that a format has below the data folder. The caller closes them.
func (d *evalData) open(standard string) (files []eval.File, done func(), err error) {
	var opened []*os.File
	done = func() {
		for _, f := range opened {
			f.Close()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	paths := d.paths
	if len(paths) == 0 {
		paths = []string{filepath.Join(d.root(), standard)}
	}
	for _, p := range paths {
		names, err := tables(p)
		if err != nil {
			return nil, done, err
		}
		for _, n := range names {
			f, err := os.Open(n)
			if err != nil {
				return nil, done, err
			}
			opened = append(opened, f)
			files = append(files, eval.File{Name: n, R: f})
		}
	}
	return files, done, nil
}

// maxTables bounds the files of one evaluation: all are open at the same time.
const maxTables = 500

// tables lists a file, or the *.csv of a folder in order.
func tables(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	names, err := filepath.Glob(filepath.Join(escaped(path), "*.csv"))
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, fmt.Errorf("%s: no *.csv in it", path)
	case len(names) > maxTables:
		return nil, fmt.Errorf("%s: %d tables, at most %d are read", path, len(names), maxTables)
	}
	slices.Sort(names)
	return names, nil
}

// escaped quotes what a pattern would take for wild cards.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// progress says on stderr how far long work is: nothing in the first two seconds, then at every twentieth.
func (a *app) progress(what string) func(done, of int) {
	shown, began := -1, a.now()
	return func(done, of int) {
		if part := 20 * done / max(of, 1); part != shown && a.now().Sub(began) > 2*time.Second {
			shown = part
			fmt.Fprintf(a.err, "%s: %d of %d\n", what, done, of)
		}
	}
}

// usage turns a fault of the options into the exit code of a wrong command line.
func usage(err error) error {
	if errors.Is(err, eval.ErrOption) {
		return coded{exitUsage, err}
	}
	return err
}

func (a *app) evalSpeedCommand(d *evalData) *cobra.Command {
	opt := eval.SpeedOptions{}
	c := &cobra.Command{
		Use: "speed", Short: "How well step times are extrapolated from a profile on 1 and 2 GPUs", Args: cobra.NoArgs,
		Long: "Predicts every measured step time from the rows of the same model on 1 GPU, 2 GPUs of one node and 2 GPUs of two nodes, with what the other\n" +
			"models taught, and prints the relative errors; those of the paper's rule (computation + ring allreduce) beside them.",
		RunE: do(func(*cobra.Command, []string) error {
			standard := filepath.Join("throughput", "pollux")
			if opt.Format == "iteration-times" {
				standard = filepath.Join("throughput", "v100_ib_iteration_times.csv")
			}
			if opt.Format != "pollux" && opt.Format != "iteration-times" {
				return coded{exitUsage, fmt.Errorf("--format %q is neither pollux nor iteration-times", opt.Format)}
			}
			if opt.NodeGPUs < 1 || opt.NodeGPUs > 1024 {
				return coded{exitUsage, fmt.Errorf("--node-gpus %d is not within 1..1024", opt.NodeGPUs)}
			}
			files, done, err := d.open(standard)
			if err != nil {
				return err
			}
			defer done()
			opt.Progress = a.progress("models")
			rep, err := eval.Speed(files, opt)
			if err != nil {
				return usage(err)
			}
			if a.output == "json" {
				return a.json(rep)
			}
			a.speedReport(rep)
			return nil
		}),
	}
	d.flag(c)
	c.Flags().StringVar(&opt.Format, "format", "pollux", "pollux or iteration-times")
	c.Flags().IntVar(&opt.NodeGPUs, "node-gpus", 4, "GPUs of a node, for tables that give only a count")
	return c
}

// percent writes a fraction; "-" when there is none.
func percent(f eval.Figure) string {
	if f != f {
		return "-"
	}
	return strconv.FormatFloat(100*float64(f), 'f', 1, 64)
}

func (a *app) speedReport(r eval.SpeedReport) {
	t := table{head: []string{"ERROR, %", "ROWS", "MEAN", "P90", "P95", "WORST"}, bound: []int{30, 6, 6, 6, 6, 6}}
	for _, g := range []struct {
		name string
		e    eval.Errors
	}{{"this model", r.Errors}, {"the paper's rule", r.PaperRule}, {"this model after one lease", r.AfterOneLease}} {
		t.add(g.name, strconv.Itoa(g.e.N), percent(g.e.Mean), percent(g.e.P90), percent(g.e.P95), percent(g.e.Worst))
	}
	t.write(a.out)
	fmt.Fprintf(a.out, "80 %% interval holds %s %%; %d rows skipped\n\n", percent(r.Coverage80), r.Skipped)
	t = table{head: []string{"MODEL", "ROWS", "MEAN", "PAPER'S RULE", "AFTER ONE LEASE"}, bound: []int{36, 6, 6, 12, 15}}
	for _, m := range r.ByModel {
		t.add(m.Model, strconv.Itoa(m.N), percent(m.Mean), percent(m.Paper), percent(m.Lease))
	}
	t.write(a.out)
	fmt.Fprintln(a.out)
	t = table{head: []string{"GPUS", "ROWS", "MEAN", "PAPER'S RULE"}, bound: []int{6, 6, 6, 12}}
	for _, g := range r.ByGPUs {
		t.add(strconv.Itoa(g.GPUs), strconv.Itoa(g.N), percent(g.Mean), percent(g.Paper))
	}
	t.write(a.out)
}

func (a *app) evalCurvesCommand(d *evalData) *cobra.Command {
	opt := eval.CurveOptions{Clock: a.now}
	var at, milestones string
	c := &cobra.Command{
		Use: "curves", Short: "How well iterations to a target are extrapolated from the beginning of a run", Args: cobra.NoArgs,
		Long: "Shows the estimator the beginning of every run and compares its answer with the first x that reached the target, and with the rule \"use the\n" +
			"last x\". Runs with fewer than 5 points seen, with the target already reached, or whose last x errs by less than 10 % are skipped.",
		RunE: do(func(*cobra.Command, []string) (err error) {
			if opt.At, err = numbers(at, ",", 32); err != nil {
				return coded{exitUsage, fmt.Errorf("--at: %w", err)}
			}
			ms, err := numbers(milestones, "/", 64)
			if err != nil {
				return coded{exitUsage, fmt.Errorf("--milestones: %w", err)}
			}
			opt.Milestones = nil
			for _, m := range ms {
				if !(m >= 1 && m <= 1e9) {
					return coded{exitUsage, fmt.Errorf("--milestones: %v is no epoch", m)}
				}
				opt.Milestones = append(opt.Milestones, int(m))
			}
			if opt.Format != "pollux" && opt.Format != "mlperf" && opt.Format != "steploss" {
				return coded{exitUsage, fmt.Errorf("--format %q is none of pollux, mlperf, steploss", opt.Format)}
			}
			standard := filepath.Join("curves", "pollux")
			if opt.Format == "mlperf" {
				standard = filepath.Join("curves", "mlperf_v0.7.csv")
			} else if opt.Format == "steploss" && len(d.paths) == 0 {
				return coded{exitUsage, errors.New("--format steploss: name its table with --data")}
			}
			files, done, err := d.open(standard)
			if err != nil {
				return err
			}
			defer done()
			opt.Progress = a.progress("extrapolations")
			rep, err := eval.Curves(files, opt)
			if err != nil {
				return usage(err)
			}
			if a.output == "json" {
				return a.json(rep)
			}
			a.curveReport(rep)
			return nil
		}),
	}
	d.flag(c)
	c.Flags().StringVar(&opt.Format, "format", "pollux", "pollux, mlperf or steploss")
	c.Flags().StringVar(&at, "at", "0.3,0.5,0.7", "parts of the run that are shown")
	c.Flags().Float64Var(&opt.Target, "target", 0.99, "the target, as a part of the run's own best value")
	c.Flags().StringVar(&milestones, "milestones", "", "epochs of learning-rate drops, such as 30/60/80")
	return c
}

// numbers reads a list.
func numbers(s, sep string, most int) ([]float64, error) {
	if s == "" {
		return nil, nil
	}
	var out []float64
	for f := range strings.SplitSeq(s, sep) {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number", f)
		}
		if out = append(out, v); len(out) > most {
			return nil, fmt.Errorf("more than %d numbers", most)
		}
	}
	return out, nil
}

func (a *app) curveReport(r eval.CurveReport) {
	t := table{head: []string{"GROUP", "SEEN, %", "RUNS", "SKIPPED", "ERROR, %", "MAX, %", "HOLDS, %", "FIT, ms", "MOST"},
		bound: []int{20, 7, 6, 7, 8, 7, 8, 8, 8}}
	row := func(group string, p eval.CurvePoint) {
		ms := func(f eval.Figure) string {
			if f != f {
				return "-"
			}
			return strconv.FormatFloat(float64(f), 'f', 1, 64)
		}
		t.add(group, strconv.FormatFloat(100*p.At, 'g', 4, 64), strconv.Itoa(p.Runs), strconv.Itoa(p.Skipped), percent(p.Error), percent(p.Baseline),
			percent(p.Coverage), ms(p.FitMS), ms(p.FitMax))
	}
	for _, p := range r.Points {
		row("all", p)
	}
	var groups []string
	for g := range r.ByGroup {
		groups = append(groups, g)
	}
	slices.Sort(groups)
	for _, g := range groups {
		for _, p := range r.ByGroup[g] {
			row(g, p)
		}
	}
	t.write(a.out)
	fmt.Fprintln(a.out, "ERROR of the estimate, MAX that of the rule \"use the last x\";")
	fmt.Fprintln(a.out, "HOLDS: truths within the 80 % interval.")
}

func (a *app) evalDurationsCommand(d *evalData) *cobra.Command {
	opt := eval.DurationOptions{}
	c := &cobra.Command{
		Use: "durations", Short: "How well the remaining duration of simulated jobs is forecast", Args: cobra.NoArgs,
		Long: "Lives jobs whose step times and learning curves are the measured ones of the Pollux tables below --data-dir, with noise, leases and preemptions, forecasts\n" +
			"the remaining run time at 25, 50 and 75 % of each, and prints the errors by age, class and GPU count.",
		RunE: do(func(*cobra.Command, []string) error {
			if opt.Jobs < 1 || opt.Jobs > 100000 {
				return coded{exitUsage, fmt.Errorf("--jobs %d is not within 1..100000", opt.Jobs)}
			}
			speeds, done, err := d.open(filepath.Join("throughput", "pollux"))
			if err != nil {
				return err
			}
			defer done()
			curves, done2, err := d.open(filepath.Join("curves", "pollux"))
			if err != nil {
				return err
			}
			defer done2()
			opt.Progress = a.progress("jobs")
			rep, err := eval.Durations(speeds, curves, opt)
			if err != nil {
				return usage(err)
			}
			if a.output == "json" {
				return a.json(rep)
			}
			a.forecastReport(rep)
			return nil
		}),
	}
	c.Flags().IntVar(&opt.Jobs, "jobs", 400, "number of jobs")
	c.Flags().Uint64Var(&opt.Seed, "seed", 1, "seed of the noise")
	return c
}
