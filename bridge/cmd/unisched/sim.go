package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
)

// simFlags are what `unisched sim` is told.
type simFlags struct {
	trace, format, cluster string
	nodes, perNode         int
	policies               []string
	workload               string
	from, until            string
	seed                   uint64
	unit                   time.Duration
	sloUnits               int
	ratio                  float64
	profileGPUs            int
	solverLimit            time.Duration
	noise                  float64
	oracle, flat, spread   bool
	ablate                 []string
	overhead, estimates    string
	requeue                time.Duration
	jobGPUHours, waitHours float64
	streams                int
	chronusLease           time.Duration
	load                   float64
	days                   float64
	dataDir, out           string
	parallel               int
	quiet                  bool
	shadow                 string
	profile                string
	set, all               map[string]string // flags given on the command line, and all of them
	names                  []string          // of those given, in order
}

// ablations are what --ablate knows.
var ablations = []string{"no-iter-estimator", "fixed-profile", "roundup", "no-topology", "no-margins", "no-second-stage", "single-candidate"}

const simLong = `Plays a trace of training jobs on a simulated cluster, in virtual time, under one policy after the other: the daemon's own loop against a
model of Slurm. Rates are fractions, times seconds. With --oracle nobody is profiled and every policy knows the truth; without it
all get the same estimates and pay for the same profiles.

Formats: unisched (JSON lines, one job each), chronus, philly, itp, helios, sacct (--parsable2), helios-like (synthetic, from
the published summary). --workload gives deadlines and stopping criteria to traces that have none.`

func (a *app) simCommand() *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use: "sim", Short: "Play a trace under several policies in virtual time", Args: cobra.NoArgs, Long: simLong,
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			f.set, f.all = map[string]string{}, map[string]string{}
			cmd.LocalFlags().VisitAll(func(x *pflag.Flag) { f.all[x.Name] = x.Value.String() })
			cmd.LocalFlags().Visit(func(x *pflag.Flag) { f.set[x.Name], f.names = x.Value.String(), append(f.names, x.Name) })
			return a.simulate(cmd.Context(), f)
		}),
	}
	s := c.Flags()
	s.StringVar(&f.trace, "trace", "", "trace `file` (- for standard input)")
	s.StringVar(&f.format, "format", "unisched", "one of "+strings.Join(trace.Formats(), ", "))
	s.StringVar(&f.cluster, "cluster", "", "one virtual cluster of the trace (philly, helios, helios-like)")
	s.IntVar(&f.nodes, "nodes", 0, "nodes of the cluster")
	s.IntVar(&f.perNode, "gpus-per-node", 8, "GPUs of each node")
	s.StringSliceVar(&f.policies, "policy", []string{"unisched"}, "policies, separated by commas: "+strings.Join(simPolicies(), ", "))
	s.StringVar(&f.workload, "workload", "asis", "one of "+strings.Join(trace.Workloads(), ", "))
	s.StringVar(&f.from, "from", "0", "leave out what was submitted before this (2d, 36h) after the first job")
	s.StringVar(&f.until, "until", "", "leave out what was submitted from this on")
	s.Uint64Var(&f.seed, "seed", 1, "seed of everything that is drawn")
	s.DurationVar(&f.unit, "unit", 5*time.Minute, "best-effort lease")
	s.IntVar(&f.sloUnits, "slo-lease-units", 2, "SLO lease in units")
	s.Float64Var(&f.ratio, "reward-ratio", 0, "worth of an SLO job against a best-effort job, of unisched (0: its default)")
	s.IntVar(&f.profileGPUs, "profile-gpus", 2, "GPUs of a profile run at most (0: nobody is profiled)")
	s.DurationVar(&f.solverLimit, "solver-limit", 2*time.Second, "bound of one solve, counted in branch-and-bound nodes so that runs repeat")
	s.Float64Var(&f.noise, "noise", 0.05, "relative spread of the speed of runs")
	s.BoolVar(&f.oracle, "oracle", false, "nobody is profiled, and every policy knows the truth")
	s.BoolVar(&f.flat, "flat-placement", false, "placement has no effect on speed")
	s.BoolVar(&f.spread, "spread", false, "jobs have a task for each GPU and may be split over twice as many nodes as they need")
	s.StringSliceVar(&f.ablate, "ablate", nil, "leave out, separated by commas: "+strings.Join(ablations, ", "))
	s.StringVar(&f.overhead, "overhead", "", "chronus: the costs of that artifact (a resume costs 0.5(1+log2 g) min, saving nothing)")
	s.StringVar(&f.estimates, "estimates", "", "chronus: durations as that artifact guesses them")
	s.Float64Var(&f.waitHours, "wait-hours", 0, "hours that all waiting best-effort jobs together may wait longer for one job with deadlines; dearer ones are planned as best effort (0: no bound)")
	s.Float64Var(&f.jobGPUHours, "job-gpu-hours", 0, "GPU-hours that one job may reserve under deadlines; larger ones are planned as best effort (0: no bound)")
	s.DurationVar(&f.requeue, "requeue-delay", 0, "Slurm's own delay after a requeue (0: as measured, 121 s)")
	s.IntVar(&f.streams, "storage-streams", 0, "checkpoints that shared storage reads or writes at full speed at once (0: any number)")
	s.DurationVar(&f.chronusLease, "chronus-lease", 20*time.Minute, "lease of chronus, rounded up to whole units")
	s.Float64Var(&f.load, "load", 1, "load of a helios-like trace")
	s.Float64Var(&f.days, "days", 14, "days of a helios-like trace")
	s.StringVar(&f.dataDir, "data-dir", "", "`folder` of side tables (default $UNISCHED_DATA, else ../shared/data)")
	s.StringVar(&f.out, "out", "", "`folder` for figures, CSV and a manifest")
	s.StringVar(&f.shadow, "shadow", "", "let plain Slurm decide and write the rounds of a daemon that only looks into `folder`, for unisched replay; one policy")
	s.IntVar(&f.parallel, "parallel", 0, "policies at the same time (0: one per core)")
	s.BoolVar(&f.quiet, "quiet", false, "no progress")
	s.StringVar(&f.profile, "cpuprofile", "", "write a CPU profile to `file`")
	_ = s.MarkHidden("cpuprofile")
	return c
}

// timeSpan reads a time span that may be in days: 2d, 36h, 1.5d.
func timeSpan(s string) (time.Duration, error) {
	if s == "" || s == "0" {
		return 0, nil
	}
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days float64
		if _, err := fmt.Sscanf(n+"\n", "%g\n", &days); err == nil && days >= 0 && days < 1e5 {
			return time.Duration(days * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no time span like 2d or 36h", s)
	}
	return d, nil
}

// simUsage is an error of the command line.
func simUsage(format string, args ...any) error {
	return coded{exitUsage, fmt.Errorf(format+"\nTry: unisched sim --help", args...)}
}

func (f simFlags) check() error {
	switch {
	case f.trace == "":
		return simUsage("--trace is missing")
	case f.nodes <= 0 || f.perNode <= 0 || f.nodes > 20000 || f.perNode > 64:
		return simUsage("--nodes %d --gpus-per-node %d: no such cluster", f.nodes, f.perNode)
	case f.unit < 10*time.Second || f.unit > time.Hour:
		return simUsage("--unit %v is not within 10s..1h", f.unit)
	case f.overhead != "" && f.overhead != "chronus":
		return simUsage("--overhead %q: only chronus", f.overhead)
	case f.estimates != "" && f.estimates != "chronus":
		return simUsage("--estimates %q: only chronus", f.estimates)
	case f.streams < 0 || f.streams > 1e6:
		return simUsage("--storage-streams %d is below 0, or no number of streams", f.streams)
	case f.chronusLease < time.Minute || f.chronusLease > 24*time.Hour:
		return simUsage("--chronus-lease %v is not within 1m..24h", f.chronusLease)
	case !(f.noise >= 0 && f.noise <= 1):
		return simUsage("--noise %v is not within 0..1", f.noise)
	case !slices.Contains([]int{0, 1, 2, 4, 8}, f.profileGPUs):
		return simUsage("--profile-gpus %d: only 0, 1, 2, 4 and 8", f.profileGPUs)
	case f.shadow != "" && len(f.policies) != 1:
		return simUsage("--shadow: one daemon looks, with one policy")
	case len(f.policies) == 0:
		return simUsage("--policy is empty")
	case !slices.Contains(trace.Formats(), f.format):
		return simUsage("--format %q is none of %s", f.format, strings.Join(trace.Formats(), ", "))
	case !slices.Contains(trace.Workloads(), f.workload):
		return simUsage("--workload %q is none of %s", f.workload, strings.Join(trace.Workloads(), ", "))
	}
	for _, x := range f.ablate {
		if !slices.Contains(ablations, x) {
			return simUsage("--ablate %q is none of %s", x, strings.Join(ablations, ", "))
		}
	}
	for _, p := range f.policies {
		if !slices.Contains(simPolicies(), p) {
			return simUsage("--policy %q is none of %s", p, strings.Join(simPolicies(), ", "))
		}
	}
	return nil
}

func (f simFlags) ablated(what string) bool { return slices.Contains(f.ablate, what) }

// simulate is the whole of the command.
func (a *app) simulate(ctx context.Context, f simFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	jobs, err := a.simTrace(f)
	if err != nil {
		return err
	}
	cfg, err := a.simConfig(f, jobs)
	if err != nil {
		return err
	}
	a.simTold(f, jobs)
	var stored *shadowRounds
	if f.shadow != "" {
		stored = &shadowRounds{dir: f.shadow}
		cfg.Shadow, cfg.Seen = true, stored.keep
	}
	debug.SetGCPercent(400) // a run's working set is small and its garbage is not
	debug.SetMemoryLimit(800 << 20)
	if f.profile != "" {
		file, err := os.Create(f.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	results, err := a.simAll(ctx, f, cfg, jobs.Jobs)
	if err != nil {
		return err
	}
	if stored != nil && stored.err != nil {
		return stored.err
	}
	if err := a.simShow(f, jobs, results); err != nil {
		return err
	}
	for _, r := range results {
		if r.Error != "" {
			return coded{exitError, fmt.Errorf("policy %s: %s", r.Name, r.Error)}
		}
	}
	return nil
}

// simTrace reads the trace and gives it what it lacks.
func (a *app) simTrace(f simFlags) (trace.Trace, error) {
	from, err := timeSpan(f.from)
	if err != nil {
		return trace.Trace{}, simUsage("--from: %v", err)
	}
	until, err := timeSpan(f.until)
	if err != nil {
		return trace.Trace{}, simUsage("--until: %v", err)
	}
	in := a.in
	if f.trace != "-" {
		file, err := os.Open(f.trace)
		if err != nil {
			return trace.Trace{}, err
		}
		defer file.Close()
		in = bufio.NewReaderSize(file, 1<<20)
	}
	t, err := trace.Read(in, f.format, trace.Options{Seed: f.seed, GPUs: f.nodes * f.perNode, Days: f.days, Load: f.load, Cluster: f.cluster, Zone: a.zone})
	if err != nil {
		return t, fmt.Errorf("%s: %w", f.trace, err)
	}
	if t, err = t.Between(from, until).Workload(f.workload, f.seed, f.unit); err != nil {
		return t, simUsage("%v", err)
	}
	t = t.NameModels(f.seed, sim.Published().Models())
	if f.ablated("roundup") {
		t = t.RoundUp()
	}
	if len(t.Jobs) == 0 {
		return t, errors.New("no jobs are left of the trace")
	}
	return t, nil
}

// simConfig is the simulated site.
func (a *app) simConfig(f simFlags, t trace.Trace) (sim.Config, error) {
	c := sim.Config{Nodes: f.nodes, GPUsPerNode: f.perNode, Unit: f.unit, SLOUnits: f.sloUnits, Seed: f.seed, Noise: f.noise, Profile: 5 * time.Minute, ProfileGPUs: f.profileGPUs,
		Requeue: f.requeue, Streams: f.streams, Speeds: sim.Published(), Spread: f.spread, JobGPUHours: f.jobGPUHours, WaitHours: f.waitHours, Clock: a.now}
	if slices.ContainsFunc(t.Jobs, func(j trace.Job) bool { return len(j.Counts) > 1 }) {
		rows, err := a.strongRows(f, c.Speeds.Models())
		if err != nil {
			return c, err
		}
		c.Speeds.Strong = rows
	}
	if f.flat {
		c.Speeds.Slowdown = nil
	}
	if f.overhead == "chronus" {
		c.NoSave, c.Poll = true, 10*time.Second
	}
	if f.profileGPUs == 0 || f.oracle || f.estimates == "chronus" {
		c.Profile = 0
	}
	if f.ablated("fixed-profile") {
		c.ProfileNodes = f.profileNodes()
	}
	switch {
	case f.oracle:
		c.Oracle = true
	case f.estimates == "chronus":
		c.Oracle = true // the rule starts from true durations; the rivals apply it themselves
	}
	if f.ablated("no-iter-estimator") {
		c.Lenses = append(c.Lenses, sim.NoIterationEstimator)
	}
	if f.ablated("no-topology") {
		c.Lenses = append(c.Lenses, sim.FlatPlacement)
	}
	return c, nil
}

// simTold says on standard error what was read, and what was left out.
func (a *app) simTold(f simFlags, t trace.Trace) {
	if f.quiet {
		return
	}
	last := t.Jobs[len(t.Jobs)-1].Submit
	load := 0.0
	if last > 0 {
		load = t.GPUTime() / (last.Seconds() * float64(f.nodes*f.perNode))
	}
	fmt.Fprintf(a.err, "%s: %d jobs over %v, load %.2f of %d GPUs\n", clean(f.trace, false), len(t.Jobs), last.Round(time.Minute), load, f.nodes*f.perNode)
	for _, o := range t.Odd {
		fmt.Fprintf(a.err, "  %s: %d rows, the first in line %d\n", clean(o.What, false), o.Rows, o.First)
	}
}
