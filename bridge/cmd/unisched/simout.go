package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"unisched/bridge/sim"
	"unisched/bridge/sim/report"
	"unisched/bridge/sim/trace"
)

// simOut writes the folder that --out names.
func (a *app) simOut(f simFlags, t trace.Trace, results []sim.Result) error {
	m := report.Manifest{Version: version, Go: runtime.Version(), Seed: f.seed, Flags: f.set, Config: f.all, Modules: map[string]string{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				m.Revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				m.Revision += " modified"
			}
		}
		for _, d := range info.Deps {
			if strings.Contains(d.Path, "highs") || strings.Contains(d.Path, "gonum") {
				m.Modules[d.Path] = d.Version
			}
		}
	}
	title := fmt.Sprintf("%s on %d × %d GPUs", filepath.Base(f.trace), f.nodes, f.perNode)
	if f.workload != "asis" {
		title += ", workload " + f.workload
	}
	r := report.Report{Title: title, Results: results, Trace: f.traceDoc(t), Manifest: m, Command: f.again()}
	return r.Write(f.out)
}

// traceDoc says which jobs were played, and what was done to them.
func (f simFlags) traceDoc(t trace.Trace) report.Trace {
	d := report.Trace{File: filepath.Base(f.trace), Format: t.Format, SHA256: t.SHA256, Rows: t.Rows, Jobs: len(t.Jobs), Odd: t.Odd}
	if n := len(t.Jobs); n > 0 {
		d.Span = t.Jobs[n-1].Submit
		if d.Span > 0 {
			d.Load = t.GPUTime() / (d.Span.Seconds() * float64(f.nodes*f.perNode))
		}
	}
	d.Steps = []string{"read as " + t.Format}
	if f.cluster != "" {
		d.Steps = append(d.Steps, "cluster "+f.cluster+" alone")
	}
	if f.from != "0" && f.from != "" || f.until != "" {
		until := f.until
		if until == "" {
			until = "the end"
		}
		d.Steps = append(d.Steps, fmt.Sprintf("submitted from %s to %s", f.from, until))
	}
	switch f.workload {
	case "asis", "":
		d.Steps = append(d.Steps, "classes and deadlines as the trace has them, else best effort")
	default:
		d.Steps = append(d.Steps, fmt.Sprintf("classes, deadlines U[1.1, 2.0] x duration and stopping criteria generated for workload %s with seed %d", f.workload, f.seed))
	}
	d.Steps = append(d.Steps, "models by hash of seed and job where the trace names none")
	if f.ablated("roundup") {
		d.Steps = append(d.Steps, "GPU counts rounded up: 3 to 4, 5 to 7 to 8")
	}
	return d
}

// again is the command line that makes the same figures: what was given, without where it came from and where it went.
func (f simFlags) again() []string {
	out := []string{"unisched", "sim"}
	for _, name := range f.names {
		if name == "out" || name == "quiet" || name == "parallel" || name == "cpuprofile" || name == "data-dir" || name == "output" {
			continue
		}
		v := f.set[name]
		if name == "trace" {
			v = filepath.Base(v)
		}
		v = strings.TrimSuffix(strings.TrimPrefix(v, "["), "]")
		if v == "true" {
			out = append(out, "--"+name)
			continue
		}
		if d, err := time.ParseDuration(v); err == nil {
			v = d.String()
		}
		out = append(out, "--"+name, v)
	}
	return append(out, "--out", "out")
}
