package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cell is one call of the simulator with one policy.
type cell struct {
	Group    string   `json:"group"`
	Workload string   `json:"workload"`
	Variant  string   `json:"variant"` // "full" where nothing is varied
	Policy   string   `json:"policy"`
	Trace    string   `json:"trace"` // below the data folder
	Args     []string `json:"args"`
}

// ID names the cell in files and on the command line.
func (c cell) ID() string {
	return strings.Join([]string{c.Group, c.Workload, c.Variant, c.Policy}, "/")
}

// full is the variant in which nothing is varied.
const full = "full"

// The policies. Slow ones solve a model of their own or rank every job anew in each round: they, and the CHRONUS that lets jobs run on, take part in slices of up to
// two days only.
var (
	allPolicies = []string{"unisched", "fifo", "backfill", "srtf", "srsf", "edf", "llf", "slack", "slacksrsf", "tiresias", "themis", "optimus", "tetrisched", "3sigma", "genie",
		"chronus", "chronus-sticky", "elasticflow"}
	slowPolicies  = []string{"chronus-sticky", "themis", "optimus", "tetrisched", "3sigma", "genie", "elasticflow"}
	longPolicies  = []string{"unisched", "chronus", "srsf", "edf", "slack", "slacksrsf"}
	quickPolicies = []string{"unisched", "srsf", "edf", "backfill"}
)

func fastPolicies() []string {
	return slices.DeleteFunc(slices.Clone(allPolicies), func(p string) bool { return slices.Contains(slowPolicies, p) })
}

// spec is what a set of cells has in common.
type spec struct {
	group, workload string
	trace           string
	nodes           int // 0: as many as load the cluster to about 1
	args            []string
	policies        []string
	quick           []string // further arguments of a quick run, which replace those of the same name
}

// variant is one change against the full configuration.
type variant struct {
	name string
	args []string
}

func flags(kv ...string) []string { return kv }

func chronusTrace(kind string) string { return "traces/chronus/trace_job_Philly_" + kind + ".csv" }

const (
	phillyTrace = "traces/philly/philly.csv"
	heliosTrace = "traces/helios_cluster_summary.csv"
)

// generated are the workloads of the paper.
var generated = []string{"strict", "mix1", "mix2"}

// quickHelios and quickDays cut a workload down to minutes.
var (
	quickHelios = flags("--days", "0.5")
	quickDays   = flags("--from", "6h", "--until", "8h")
)

// short are slices of a day or a few of the same traces, each where it loads its cluster to a little more than 1 and has many jobs of several GPUs that come
// at once: what a laptop does in minutes.
var short = []struct {
	group, name, trace, format, from, until string
	nodes                                   int
}{
	{"load1", "philly-4d", phillyTrace, "philly", "49d", "53d", 48},
	{"itp", "cluster01-4d", itpTrace(1), "itp", "6d", "10d", 4},
	{"itp", "cluster02-2d", itpTrace(2), "itp", "43d", "45d", 11},
	{"itp", "cluster03-2d", itpTrace(3), "itp", "42d", "44d", 17},
	{"itp", "cluster04-1d", itpTrace(4), "itp", "15d", "16d", 62},
	{"itp", "cluster05-4d", itpTrace(5), "itp", "28d", "32d", 6},
}

func itpTrace(i int) string { return fmt.Sprintf("traces/itp/cluster%02d.csv", i) }

// shortSpecs are those slices with the deadlines of a workload.
func shortSpecs(workload string) []spec {
	var out []spec
	for _, s := range short {
		args := flags("--format", s.format, "--workload", workload, "--from", s.from, "--until", s.until)
		name, quick := s.name+"-"+workload, flags("--from", s.from, "--until", s.until) // short enough but for Philly's
		if s.group == "load1" {
			quick = flags("--from", "49d", "--until", "1178h")
		}
		out = append(out, spec{s.group, name, s.trace, s.nodes, args, longPolicies, quick},
			spec{s.group, name + "-oracle", s.trace, s.nodes, append(slices.Clone(args), "--oracle"), longPolicies, quick})
	}
	return out
}

// specs are the experiments without variants: what is compared is policies.
func specs() []spec {
	var out []spec
	for _, w := range generated {
		for _, size := range []int{120, 96} {
			name := func(trace string) string { return fmt.Sprintf("%s-%s-%d", trace, w, size) }
			out = append(out,
				spec{"paper", name("philly"), phillyTrace, size, flags("--format", "philly", "--workload", w, "--from", "42d", "--until", "56d"), fastPolicies(),
					flags("--from", "42d", "--until", "1010h")},
				spec{"paper", name("helios"), heliosTrace, size, flags("--format", "helios-like", "--cluster", "Saturn", "--workload", w, "--days", "14"), fastPolicies(), quickHelios})
		}
		out = append(out, spec{"load1", "philly-" + w, phillyTrace, 0, flags("--format", "philly", "--workload", w, "--from", "42d", "--until", "56d"), fastPolicies(),
			flags("--from", "42d", "--until", "1010h")})
		for i := 1; i <= 5; i++ {
			out = append(out, spec{"itp", fmt.Sprintf("cluster%02d-%s", i, w), itpTrace(i), 0, flags("--format", "itp", "--workload", w), fastPolicies(),
				flags("--until", "3d")})
		}
	}
	out = append(append(out, shortSpecs("mix1")...), shortSpecs("mix2")...)
	for _, kind := range []string{"SLO", "MIX1", "MIX2"} {
		lower := strings.ToLower(kind)
		for _, known := range []string{"", "--oracle"} {
			name, extra := lower, flags("--format", "chronus")
			if known != "" {
				name, extra = lower+"-oracle", append(extra, known)
			}
			out = append(out,
				spec{"chronus2d", name, chronusTrace(kind), 64, append(slices.Clone(extra), "--until", "2d"), allPolicies, quickDays},
				spec{"chronus14d", name, chronusTrace(kind), 120, extra, longPolicies, quickDays})
		}
	}
	for _, kind := range []string{"MIX1", "MIX2", "SLO"} {
		out = append(out, spec{"artifact", strings.ToLower(kind), chronusTrace(kind), 64, flags("--format", "chronus", "--until", "2d", "--unit", "5m", "--slo-lease-units", "4",
			"--overhead", "chronus", "--estimates", "chronus", "--flat-placement"), []string{"chronus", "chronus-sticky"}, quickDays})
	}
	for _, until := range []string{"6h", "12h", "1d"} {
		out = append(out, spec{"speed", "mix1-" + until, chronusTrace("MIX1"), 64, flags("--format", "chronus", "--oracle", "--until", until), []string{"unisched", "srsf"}, quickDays})
	}
	return out
}

// variants are run with unisched alone, each against the full configuration of the same workload.
func variants() map[string][]variant {
	of := func(flag string, values ...string) []variant {
		var out []variant
		for _, v := range values {
			out = append(out, variant{strings.TrimPrefix(flag, "--") + "=" + v, flags(flag, v)})
		}
		return out
	}
	ablations := of("--ablate", "no-iter-estimator", "fixed-profile", "roundup", "no-topology", "no-margins", "no-second-stage", "single-candidate")
	sweeps := slices.Concat(of("--unit", "2m", "10m", "20m"), of("--slo-lease-units", "1", "4"), of("--reward-ratio", "10", "30", "300", "1000"), of("--profile-gpus", "0", "1", "4"),
		of("--solver-limit", "200ms", "1s", "5s"), of("--noise", "0", "0.1", "0.2"), of("--requeue-delay", "5s", "60s", "300s"))
	return map[string][]variant{"ablation": ablations, "sensitivity": sweeps}
}

// variedOn are the workloads on which variants are tried: deadlines as published, and generated ones, where a fifth of the jobs stop on a metric.
func variedOn() []spec {
	out := []spec{{"", "mix1-6h", chronusTrace("MIX1"), 64, flags("--format", "chronus", "--until", "6h"), nil, quickDays}}
	for _, kind := range []string{"MIX1", "MIX2"} {
		out = append(out, spec{"", strings.ToLower(kind), chronusTrace(kind), 64, flags("--format", "chronus", "--until", "2d"), nil, quickDays})
	}
	return append(out, spec{"", "helios-mix2", heliosTrace, 24, flags("--format", "helios-like", "--cluster", "Saturn", "--workload", "mix2", "--days", "4", "--load", "1.05"), nil, quickHelios})
}

// wide are traces in which most jobs have several GPUs and many of them come at once, with the ablations that have something to act on only there: the fixed
// partition for profiles, and topology, for which a job must be allowed to spread.
func wide() (out []spec) {
	for _, s := range shortSpecs("mix1") {
		if s.workload == "cluster03-2d-mix1" || s.workload == "cluster04-1d-mix1" {
			s.group = "ablation"
			out = append(out, s)
			s.workload, s.args = s.workload+"-spread", append(slices.Clone(s.args), "--spread")
			out = append(out, s)
		}
	}
	return out
}

// jobHours are bounds of what one job may reserve under deadlines, in GPU-hours; a job is charged until its last deadline, half as long again as it runs.
var jobHours = []string{"500", "600", "640", "700"}

// waitHours are bounds of how much longer best-effort jobs may wait for one deadline, all together.
var waitHours = []string{"30", "50", "100"}

// bounded are the workloads on which those bounds are tried, with the truth known.
func bounded() (out []spec) {
	for _, s := range specs() {
		if strings.HasPrefix(s.group, "chronus") && strings.HasSuffix(s.workload, "-oracle") {
			s.group, s.policies = strings.Replace(s.group, "chronus", "bounded", 1), []string{"unisched", "edf"}
			out = append(out, s)
		}
	}
	return out
}

// noises are by how much the speed of runs differs, tried with a few policies.
var noises = []string{"0", "0.05", "0.1", "0.2"}

// loads are tried on the synthetic trace, with a few policies.
var loads = []string{"0.6", "0.8", "0.9", "1.1", "1.2"}

// quickCells are those of a quick run: one workload of each kind, and of the sweeps a value each.
var quickCells = regexp.MustCompile(`^(paper/.*-mix2-96/|load1/philly-4d-mix1/|itp/cluster03-2d-mix1-oracle/|chronus2d/mix[12](-oracle)?/|ablation/helios-mix2/` +
	`|sensitivity/helios-mix2/(full|unit=10m|slo-lease-units=1|reward-ratio=300|profile-gpus=1|solver-limit=200ms|noise=0.1|requeue-delay=60s)/|load/helios-mix2/load=(0.8|1.2)/)`)

// quickNodes bounds the nodes of a quick run.
const quickNodes = 16

// cells are all cells whose id matches, in order.
func (l *lab) cells(only *regexp.Regexp) []cell {
	var out []cell
	add := func(s spec, v variant, policies []string) {
		nodes, args := s.nodes, slices.Clone(s.args)
		if l.quick {
			args = replaced(args, s.quick)
			if nodes > 0 {
				nodes = min(max(nodes/8, 8), quickNodes)
			}
			policies = slices.DeleteFunc(slices.Clone(policies), func(p string) bool { return !slices.Contains(quickPolicies, p) })
		}
		args = replaced(args, v.args)
		for _, p := range policies {
			c := cell{Group: s.group, Workload: s.workload, Variant: v.name, Policy: p, Trace: s.trace}
			if !only.MatchString(c.ID()) || !l.has(s.trace) || l.quick && !quickCells.MatchString(c.ID()) {
				continue
			}
			n := nodes
			if n == 0 {
				n = l.fitting(s.trace, args)
			}
			c.Args = append(slices.Clone(args), "--nodes", strconv.Itoa(n), "--gpus-per-node", "8", "--policy", p)
			out = append(out, c)
		}
	}
	for _, s := range specs() {
		add(s, variant{full, nil}, s.policies)
	}
	for _, group := range []string{"ablation", "sensitivity"} {
		for _, s := range variedOn() {
			s.group = group
			add(s, variant{full, nil}, []string{"unisched"})
			for _, v := range variants()[group] {
				add(s, v, []string{"unisched"})
			}
		}
	}
	for _, s := range wide() {
		add(s, variant{full, nil}, []string{"unisched"})
		for _, v := range variants()["ablation"] {
			if slices.Contains(v.args, "fixed-profile") || slices.Contains(v.args, "no-topology") {
				add(s, v, []string{"unisched"})
			}
		}
	}
	for _, s := range bounded() {
		for _, v := range jobHours {
			add(s, variant{"job-gpu-hours=" + v, flags("--job-gpu-hours", v)}, s.policies)
		}
		for _, v := range waitHours {
			add(s, variant{"wait-hours=" + v, flags("--wait-hours", v)}, s.policies)
		}
	}
	mix1, helios := variedOn()[0], variedOn()[3]
	mix1.group, helios.group = "noise", "load"
	for _, v := range noises {
		add(mix1, variant{"noise=" + v, flags("--noise", v)}, longPolicies)
	}
	add(helios, variant{"load=1.05", nil}, longPolicies)
	for _, v := range loads {
		add(helios, variant{"load=" + v, flags("--load", v)}, longPolicies)
	}
	return out
}

// replaced are arguments in which those of the same name are taken over, or added. Those of by have a value each.
func replaced(args, by []string) []string {
	out := slices.Clone(args)
	for i := 0; i+1 < len(by); i += 2 {
		if k := slices.Index(out, by[i]); k >= 0 {
			out[k+1] = by[i+1]
		} else {
			out = append(out, by[i], by[i+1])
		}
	}
	return out
}

// valueOf is the value of a flag among arguments, "" without it.
func valueOf(args []string, name string) string {
	if k := slices.Index(args, name); k >= 0 && k+1 < len(args) {
		return args[k+1]
	}
	return ""
}
