package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/assess"
	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/policy"
)

const assessLong = `Reads the history of a cluster and says whether UniSched is worth it there: the mix of jobs, how many could run on other GPU counts, what
spreading over nodes costs (or that history cannot tell), what stopping a job costs, and what a simulation of a part of the history predicts beside what
a site can do without it: EDF with a fixed reservation for jobs with deadlines, and plain Slurm's backfill.

History comes from, in one line:
  sacct -a -P -X -S now-30days -o JobID,User,Account,JobName,Partition,Submit,Start,End,ElapsedRaw,State,ReqTRES,AllocTRES,NNodes,NodeList,Comment

Jobs without a comment of UniSched's say neither what deadline they have nor whether they can be stopped. --deadline-partitions names
partitions for urgent work; without any deadline the mix of --workload (70 % strict by default) is supposed. --preemptible is the share of such jobs
that are supposed to save checkpoints. What was supposed is listed. Exit code 2: not worth it.`

const assessExample = `  unisched assess --sacct history.txt --nodes 16 --gpus-per-node 8
  unisched assess --sacct history.txt --nodes 16 --deadline-partitions urgent --preemptible 0.5
  unisched assess --trace jobs.jsonl --format unisched --nodes 4 -o json`

// assessFlags are what the command was told.
type assessFlags struct {
	simFlags
	sacct       string
	urgent      []string
	preemptible float64
	most        int
	long        time.Duration
	noSim       bool
}

func (a *app) assessCommand() *cobra.Command {
	f := assessFlags{simFlags: simFlags{seed: 1, unit: 5 * time.Minute, sloUnits: 2, profileGPUs: 2, solverLimit: 100 * time.Millisecond, noise: 0.05}}
	c := &cobra.Command{
		Use: "assess", Short: "Whether UniSched is worth it on a cluster, from its history", Args: cobra.NoArgs, Long: assessLong, Example: assessExample,
		RunE: do(func(cmd *cobra.Command, _ []string) error { return a.assess(cmd.Context(), f) }),
	}
	s := c.Flags()
	s.StringVar(&f.sacct, "sacct", "", "`file` of sacct --parsable2 (- for standard input)")
	s.StringVar(&f.trace, "trace", "", "trace `file` instead, of the format of --format")
	s.StringVar(&f.format, "format", "unisched", "one of "+strings.Join(trace.Formats(), ", "))
	s.IntVar(&f.nodes, "nodes", 0, "nodes of the cluster")
	s.IntVar(&f.perNode, "gpus-per-node", 8, "GPUs of each node")
	s.StringSliceVar(&f.urgent, "deadline-partitions", nil, "partitions whose jobs have deadlines, separated by commas")
	s.StringVar(&f.workload, "workload", "", "deadlines to suppose where no job has any: "+strings.Join(trace.Workloads(), ", ")+" (default mix1)")
	s.Float64Var(&f.preemptible, "preemptible", 1, "share of the jobs that say nothing which are supposed to save checkpoints")
	s.IntVar(&f.most, "jobs", 150, "jobs to simulate at most, in a row")
	s.DurationVar(&f.long, "longest", 48*time.Hour, "run time at which jobs are cut in the simulation")
	s.BoolVar(&f.noSim, "no-sim", false, "describe only")
	s.Uint64Var(&f.seed, "seed", 1, "seed of everything that is drawn")
	s.DurationVar(&f.solverLimit, "solver-limit", f.solverLimit, "bound of one solve, counted in branch-and-bound nodes so that runs repeat (unisched sim: 2s)")
	s.StringVar(&f.dataDir, "data-dir", "", "`folder` of side tables, for elastic jobs (default $UNISCHED_DATA, else ../shared/data)")
	s.IntVar(&f.parallel, "parallel", 0, "policies at the same time (0: one per core)")
	s.BoolVar(&f.quiet, "quiet", false, "no progress")
	return c
}

type assessDoc struct {
	Schema    int             `json:"schema_version"`
	Verdict   assess.Verdict  `json:"verdict"`
	Mix       assess.Mix      `json:"mix"`
	Nodes     int             `json:"nodes"`
	PerNode   int             `json:"gpus_per_node"`
	Simulated int             `json:"simulated_jobs"`
	Reserved  int             `json:"reserved_nodes"` // of the reservation compared with; 0: EDF on all nodes, where no reservation leaves room for both
	Compared  assess.Compared `json:"compared"`
	Assumed   []string        `json:"assumed"`
	Odd       []trace.Odd     `json:"odd_rows"`
}

// assess is the whole of the command.
func (a *app) assess(ctx context.Context, f assessFlags) error {
	switch {
	case (f.sacct == "") == (f.trace == ""):
		return coded{exitUsage, errors.New("want --sacct FILE or --trace FILE")}
	case f.nodes <= 0 || f.perNode <= 0 || f.nodes > 100000 || f.perNode > 1024:
		return coded{exitUsage, errors.New("--nodes and --gpus-per-node: want the size of the cluster")}
	case !(f.preemptible >= 0 && f.preemptible <= 1):
		return coded{exitUsage, fmt.Errorf("--preemptible %v is not within 0..1", f.preemptible)}
	case f.most < 10 || f.most > 100000:
		return coded{exitUsage, fmt.Errorf("--jobs %d is not within 10..100000", f.most)}
	case f.long < time.Hour:
		return coded{exitUsage, fmt.Errorf("--longest %v is below an hour", f.long)}
	}
	doc := assessDoc{Schema: bridge.ViewSchema, Nodes: f.nodes, PerNode: f.perNode, Assumed: []string{}}
	h, err := a.history(f, &doc)
	if err != nil {
		return err
	}
	doc.Mix = assess.Describe(h)
	if !f.noSim {
		if err := a.assessSim(ctx, f, h, &doc); err != nil {
			return err
		}
	}
	doc.Verdict = assess.Judge(h, doc.Mix, doc.Compared)
	if a.output == "json" {
		err = a.json(doc)
	} else {
		a.assessShow(doc)
	}
	if err == nil && !doc.Verdict.Worth {
		return coded{exitRisk, nil}
	}
	return err
}

// maxHistory bounds the bytes of a history.
const maxHistory = 1 << 30

// history reads the file and gives jobs what they do not say, all of which is listed.
func (a *app) history(f assessFlags, doc *assessDoc) (assess.History, error) {
	h := assess.History{Nodes: f.nodes, PerNode: f.perNode}
	name, format := f.trace, f.format
	if f.sacct != "" {
		name, format = f.sacct, "sacct"
	}
	in := a.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return h, err
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxHistory+1))
	if err == nil && len(raw) > maxHistory {
		err = fmt.Errorf("more than %d bytes", maxHistory)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", name, err)
	}
	t, err := trace.Read(bytes.NewReader(raw), format, trace.Options{Seed: f.seed, GPUs: f.nodes * f.perNode, Days: 14, Load: 1, Zone: a.zone})
	if err != nil {
		return h, fmt.Errorf("%s: %w", name, err)
	}
	if len(t.Jobs) == 0 {
		return h, fmt.Errorf("%s: no jobs with GPUs that ran", name)
	}
	if doc.Odd = t.Odd; doc.Odd == nil {
		doc.Odd = []trace.Odd{}
	}
	if format == "sacct" {
		if h.Rows, err = assess.ReadRows(bytes.NewReader(raw)); err != nil {
			return h, fmt.Errorf("%s: %w", name, err)
		}
	}
	return a.suppose(f, t, h, doc)
}

// suppose fills in what history lacks.
func (a *app) suppose(f assessFlags, t trace.Trace, h assess.History, doc *assessDoc) (assess.History, error) {
	say := func(format string, args ...any) { doc.Assumed = append(doc.Assumed, fmt.Sprintf(format, args...)) }
	slo := func(list []trace.Job) bool {
		return slices.ContainsFunc(list, func(j trace.Job) bool { return j.Class.SLO() })
	}
	if len(f.urgent) > 0 {
		given, err := t.Workload("strict", f.seed, f.unit)
		if err != nil {
			return h, err
		}
		t.Jobs = assess.Deadlines(t.Jobs, h.Rows, f.urgent, given.Jobs)
		if !slo(t.Jobs) {
			return h, coded{exitUsage, fmt.Errorf("--deadline-partitions %s: no job ran there", strings.Join(f.urgent, ","))}
		}
		say("jobs of %s are taken for strict, with deadlines of 1.1 to 2 times their run time after their submission", strings.Join(f.urgent, ", "))
	}
	switch {
	case f.workload != "" && len(f.urgent) == 0, !slo(t.Jobs) && f.workload == "":
		kind := f.workload
		if kind == "" {
			kind = "mix1"
		}
		was, err := t.Workload(kind, f.seed, f.unit)
		if err != nil {
			return h, coded{exitUsage, err}
		}
		if t = was; kind != "asis" {
			say("no job was asked for its deadline: the mix %s is supposed (--workload), with deadlines of 1.1 to 2 times the run time", kind)
		}
	}
	h.Jobs = assess.Fix(t.Jobs, h.Rows, f.preemptible)
	silent := 0
	for _, j := range h.Jobs {
		if r, ok := h.Rows[j.ID]; ok && !r.Wish {
			silent++
		}
	}
	if silent > 0 {
		say("%d jobs do not say whether they save checkpoints: %.0f %% of them are supposed to (--preemptible)", silent, 100*f.preemptible)
	}
	return h, nil
}

// assessSim plays a part of the history under ours and the others.
func (a *app) assessSim(ctx context.Context, f assessFlags, h assess.History, doc *assessDoc) error {
	say := func(format string, args ...any) { doc.Assumed = append(doc.Assumed, fmt.Sprintf(format, args...)) }
	gpus := f.nodes * f.perNode
	part := assess.Slice(slices.DeleteFunc(slices.Clone(h.Jobs), func(j trace.Job) bool { return j.GPUs > gpus }), f.most, gpus)
	cut := 0
	for i := range part {
		if j := &part[i]; j.Duration > f.long {
			shorter := f.long.Seconds() / j.Duration.Seconds()
			j.Tiers = slices.Clone(j.Tiers)
			for k := range j.Tiers {
				j.Tiers[k].After = time.Duration(float64(j.Tiers[k].After) * shorter).Round(time.Second)
			}
			j.Duration, j.Iterations = f.long, max(int64(float64(j.Iterations)*shorter), 1)
			if m := j.Metric; m != nil {
				j.Metric = &trace.Metric{Family: m.Family, Seed: m.Seed, Max: max(int64(float64(m.Max)*shorter), j.Iterations)}
			}
			cut++
		}
	}
	if cut > 0 {
		say("%d of the simulated jobs ran longer than %s and are cut there, their deadlines in proportion (--longest)", cut, span(f.long))
	}
	if len(part) < len(h.Jobs) {
		say("%d of %d jobs are simulated, in a row, of a busy time (--jobs)", len(part), len(h.Jobs))
	}
	if len(part) == 0 {
		return nil
	}
	t := trace.Trace{Jobs: part}.NameModels(f.seed, sim.Published().Models())
	cfg, err := a.simConfig(f.simFlags, t)
	if err != nil {
		for i := range t.Jobs {
			t.Jobs[i].Counts = nil
		}
		say("elastic jobs keep the GPUs that they asked for: there are no throughput tables (--data-dir)")
		if cfg, err = a.simConfig(f.simFlags, t); err != nil {
			return err
		}
	}
	say("what spreading and stopping cost is as published and measured elsewhere; all policies get the same estimates and pay for the same profiles")
	doc.Simulated = len(t.Jobs)
	return a.assessRun(ctx, f, cfg, t.Jobs, doc)
}

// assessRun runs the policies: ours, plain backfill, and reservations of the size that the jobs with deadlines take and a quarter more.
func (a *app) assessRun(ctx context.Context, f assessFlags, cfg sim.Config, jobs []trace.Job, doc *assessDoc) error {
	f.policies = []string{"unisched", "backfill"}
	sizes := map[string]int{}
	if k := assess.Reservation(jobs, f.nodes, f.perNode); k > 0 {
		for _, n := range []int{k, min((5*k+3)/4, f.nodes-1)} {
			if name := fmt.Sprintf("%s%d", reservedPrefix, n); n >= k && sizes[name] == 0 {
				sizes[name] = n
				f.policies = append(f.policies, name)
			}
		}
	} else if slices.ContainsFunc(jobs, func(j trace.Job) bool { return j.Class.SLO() }) { // no room for both sides
		f.policies = append(f.policies, assess.WholeEDF)
	}
	results, err := a.simAll(ctx, f.simFlags, cfg, jobs)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.Class.SLO() {
			doc.Compared.SLO++
		}
	}
	for i := range results {
		r := &results[i].Figures
		switch {
		case r.Error != "":
			return fmt.Errorf("policy %s: %s", r.Name, r.Error)
		case r.Name == "unisched":
			doc.Compared.Ours = r
		case r.Name == "backfill":
			doc.Compared.Plain = r
		case doc.Compared.Reserved == nil || assess.Better(r, doc.Compared.Reserved):
			doc.Compared.Reserved, doc.Reserved = r, sizes[r.Name]
		}
	}
	return nil
}

// reservedPrefix begins the names of fixed reservations among the policies of assess; their size in nodes follows.
const reservedPrefix = "reserved:"

// reservedPolicy makes one by its name.
func reservedPolicy(name string) (bridge.Policy, bool) {
	rest, ok := strings.CutPrefix(name, reservedPrefix)
	n := 0
	if _, err := fmt.Sscanf(rest, "%d", &n); !ok || err != nil {
		return nil, false
	}
	return policy.NewReserved(n, policy.Options{}), true
}

// assessShow prints an answer.
func (a *app) assessShow(d assessDoc) {
	m := d.Mix
	item(a.out, "Verdict", "%s", d.Verdict.Text)
	for _, r := range d.Verdict.Reasons {
		label := "Against"
		if r.For {
			label = "For"
		}
		item(a.out, label, "%s.", r.Text)
	}
	fmt.Fprintln(a.out)
	item(a.out, "History", "%d jobs of %d users in %.1f days, %.0f GPU hours, load %.2f of %d GPUs, %.1f jobs at once", m.Jobs, m.Users, m.Days, m.GPUHours, m.Load, d.Nodes*d.PerNode, m.InSystem)
	item(a.out, "Run times", "half below %s, nine tenths below %s; half of the GPU time in jobs of %s and more", span(planner.Seconds(m.P50)), span(planner.Seconds(m.P90)), span(planner.Seconds(m.Typical)))
	item(a.out, "Deadlines", "%.0f %% of the jobs, %.0f %% of the GPU time", 100*m.SLO, 100*m.SLOGPUTime)
	var sizes []string
	for _, s := range m.Sizes {
		sizes = append(sizes, fmt.Sprintf("%s: %.0f %% (%.0f %%)", s.GPUs, 100*s.Jobs, 100*s.GPUTime))
	}
	item(a.out, "GPUs", "%s of the jobs (of the GPU time)", strings.Join(sizes, ", "))
	item(a.out, "Resizing", "%s.", m.Flexibility.Text)
	item(a.out, "Spreading", "%s.", m.CrossNode.Text)
	item(a.out, "Stopping", "%s.", m.Preemption.Text)
	item(a.out, "Pools", "%s.", m.Pools.Text)
	if c := d.Compared; c.Ours != nil {
		fmt.Fprintf(a.out, "\n%d jobs simulated\n", d.Simulated)
		edf := fmt.Sprintf("EDF, %d nodes reserved", d.Reserved)
		if d.Reserved == 0 {
			edf = "EDF, nothing reserved"
		}
		t := table{head: []string{"POLICY", "MISS %", "BE min", "BE P99", "JCT min", "USED %", "STOPS", "LEFT"}, bound: []int{34, 7, 8, 8, 8, 7, 7, 5}, flex: 0}
		for _, p := range []struct {
			name string
			f    *sim.Figures
		}{{"unisched", c.Ours}, {edf, c.Reserved}, {"plain backfill", c.Plain}} {
			if p.f != nil {
				t.add(p.name, scaled(p.f.WeightedMiss, 100, 1), scaled(p.f.BEJCTMean, 1./60, 0), scaled(p.f.BEJCTP99, 1./60, 0), scaled(p.f.JCTMean, 1./60, 0), scaled(p.f.Utilization, 100, 0),
					fmt.Sprint(p.f.Preemptions), fmt.Sprint(p.f.Unfinished))
			}
		}
		t.write(a.out)
	}
	fmt.Fprintln(a.out)
	for _, s := range d.Assumed {
		item(a.out, "Supposed", "%s.", s)
	}
	for _, o := range d.Odd {
		item(a.out, "Left out", "%s: %d rows, the first in line %d.", o.What, o.Rows, o.First)
	}
}
