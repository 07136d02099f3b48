package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/bridge/sim"
	"unisched/bridge/sim/report"
)

// titles are the groups as people read them.
var titles = map[string][2]string{
	"paper": {"The paper's workloads", "Generated deadlines on raw Philly (two weeks of it) and on a synthetic trace like Helios, each on 120 and on 96 nodes of 8 GPUs."},
	"load1": {"Philly at a load of about 1", "The same two weeks on as many nodes as they fill."},
	"itp": {"ITP", "Five clusters of Microsoft ITP with generated deadlines, on as many nodes as load each to about 1. Jobs wider than that count as unfinished " +
		"(and missed) under every policy."},
	"artifact": {"CHRONUS as its artifact", "Its own assumptions: leases of 20 minutes, durations as it guesses them, its costs, no topology. Its published figures: MIX1 12.1 % and 301 min, " +
		"MIX2 9.75 % and 313 min, SLO 25.9 %."},
	"speed":       {"Speed", "The first hours of MIX1 on 64 nodes. speed.svg shows processor time against jobs, with the two days on 64 nodes and the two weeks on 120."},
	"chronus2d":   {"CHRONUS traces, first two days on 64 nodes", "Deadlines as published with the CHRONUS artifact. All policies, the slow ones too."},
	"chronus14d":  {"CHRONUS traces, two weeks on 120 nodes", "The policies that matter; expensive ones took part in the two days only."},
	"ablation":    {"Ablations", "unisched with a part left out, against the full one. It does not hurt where neither weighted miss (by 0.1 points) nor best-effort JCT (by 1 %) gets worse."},
	"sensitivity": {"Sensitivities", "unisched with one setting changed, against its defaults."},
	"load":        {"Load", "The synthetic trace at several loads."},
	"noise":       {"Noise", "Runs whose speeds differ by more or less."},
}

// groups in the order in which they are shown.
var groups = []string{"paper", "chronus2d", "chronus14d", "artifact", "load1", "itp", "load", "noise", "ablation", "sensitivity", "speed"}

// swept reports a group in which several policies are compared at each value of something: a table for each.
func swept(group string) bool { return group == "load" || group == "noise" }

// figure is one answer in a table.
type figure struct {
	cell  cell
	f     sim.Figures
	nodes int
	load  float64
	build string
	cost  cost
}

// merge writes results.csv, results.md and index.html from the answers that are there.
func (l *lab) merge(out io.Writer, cells []cell) error {
	var all []figure
	cut := map[string][]answer{} // by group and workload
	builds := map[string]bool{}
	for _, c := range cells {
		a, ok := l.answered(c)
		switch {
		case ok && a.Cut > 0:
			cut[c.Group+"/"+c.Workload] = append(cut[c.Group+"/"+c.Workload], a)
		case ok:
			n, _ := strconv.Atoi(valueOf(c.Args, "--nodes"))
			all = append(all, figure{c, a.Result.Policies[0], n, a.Result.Trace.Load, a.Build, a.Cost})
			builds[a.Build] = true
		}
	}
	if err := l.writeCSV(all); err != nil {
		return err
	}
	s := l.summary(all, cut, len(cells), len(builds))
	var md strings.Builder
	fmt.Fprintf(&md, "# %s\n\n%s\n", s.Title, s.Lead)
	for _, sec := range s.Sections {
		fmt.Fprintf(&md, "\n%s %s\n\n", strings.Repeat("#", 2+sec.Level), sec.Title)
		if sec.Note != "" {
			fmt.Fprintf(&md, "%s\n\n", sec.Note)
		}
		if sec.Table != nil {
			md.WriteString(sec.Table.Markdown())
		}
	}
	if err := l.drawSpeed(all); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.out, "results.md"), []byte(md.String()), 0o666); err != nil {
		return err
	}
	page, err := s.HTML()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.out, "index.html"), page, 0o666); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d cells merged: %s\n", len(all), len(cells), filepath.Join(l.out, "results.{csv,md}, index.html"))
	return nil
}

func (l *lab) writeCSV(all []figure) error {
	file, err := os.Create(filepath.Join(l.out, "results.csv"))
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	_ = w.Write(append([]string{"group", "workload", "variant", "policy", "nodes", "load", "arguments", "simulator_sha256", "process_wall_s", "process_cpu_s", "process_max_rss_mb"}, report.Columns()...))
	for _, x := range all {
		_ = w.Write(append([]string{x.cell.Group, x.cell.Workload, x.cell.Variant, x.cell.Policy, strconv.Itoa(x.nodes), fmt.Sprintf("%.3f", x.load),
			strings.Join(x.cell.Args, " "), x.build, fmt.Sprintf("%.1f", x.cost.Wall), fmt.Sprintf("%.1f", x.cost.CPU), fmt.Sprintf("%.0f", x.cost.RSS)}, report.Row(x.f)...))
	}
	w.Flush()
	if err := w.Error(); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// summary makes a section for each group and a table for each workload.
func (l *lab) summary(all []figure, cut map[string][]answer, cells, builds int) report.Summary {
	s := report.Summary{Title: "UniSched: experiments"}
	s.Lead = fmt.Sprintf("%d of %d cells are there.", len(all), cells)
	if l.quick {
		s.Lead += " These are quick cuts, to see that all works: nothing here is to be quoted."
	}
	if builds > 1 {
		s.Lead += fmt.Sprintf(" They come from %d different builds of the simulator.", builds)
	}
	for _, g := range groups {
		if !slices.ContainsFunc(all, func(x figure) bool { return x.cell.Group == g }) {
			continue
		}
		s.Sections = append(s.Sections, report.Section{Title: titles[g][0], Note: titles[g][1]})
		var names []string
		by := map[string][]figure{}
		for _, x := range all {
			name := x.cell.Workload
			if swept(g) {
				name += ", " + x.cell.Variant
			}
			if x.cell.Group != g {
				continue
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			by[name] = append(by[name], x)
		}
		for _, n := range names {
			sec := workload(n, by[n])
			for _, a := range cut[g+"/"+n] {
				sec.Note += fmt.Sprintf(" %s had not ended after %s (%.0f s of processor time).", a.Cell.Policy, time.Duration(a.Cut*1e9), a.Cost.CPU)
			}
			s.Sections = append(s.Sections, sec)
		}
	}
	return s
}

// workload is the table of one workload: policies, or variants of ours.
func workload(name string, list []figure) report.Section {
	base := max(slices.IndexFunc(list, func(x figure) bool {
		return x.cell.Policy == "unisched" && (x.cell.Variant == full || len(list) > 0 && swept(x.cell.Group))
	}), 0)
	first := list[base]
	sec := report.Section{Level: 1, Title: name, Note: fmt.Sprintf("%d jobs on %d × 8 GPUs, load %.2f.", first.f.Jobs, first.nodes, first.load)}
	varied := first.cell.Group == "ablation" || first.cell.Group == "sensitivity"
	head := "Policy"
	if varied {
		head = "Variant"
	}
	t := &report.Table{Head: []string{head, "Weighted miss", "ratio", "BE JCT", "ratio", "BE p99", "Preemptions", "Longest profiling wait",
		"Solver p50", "Solver max", "Checkpoints, GPU-h", "Resumes, GPU-h", "Unfinished", "Wall", "CPU", "MB"}}
	if first.cell.Group == "ablation" {
		t.Head = append(t.Head, "Verdict")
	}
	order := append([]figure{first}, append(slices.Clone(list[:base]), list[base+1:]...)...)
	for i, x := range order {
		label := x.cell.Policy
		if varied {
			label = x.cell.Variant
		}
		row := report.Line{Ours: i == 0, Cells: []report.Cell{{Text: label}}}
		for _, m := range []struct {
			of   func(sim.Figures) *float64
			text func(*float64) string
		}{{func(f sim.Figures) *float64 { return f.WeightedMiss }, report.Percent}, {func(f sim.Figures) *float64 { return f.BEJCTMean }, report.Span}} {
			ratio := report.Cell{}
			if i > 0 {
				ratio.Text, ratio.Below, _ = report.Ratio(m.of(x.f), m.of(first.f))
			}
			row.Cells = append(row.Cells, report.Cell{Text: m.text(m.of(x.f))}, ratio)
		}
		for _, text := range []string{report.Span(x.f.BEJCTP99), strconv.Itoa(x.f.Preemptions), report.Span(x.f.ProfileWait), report.Millis(x.f.SolverP50), report.Millis(x.f.SolverMax),
			report.Hours(x.f.SavingGPU), report.Hours(x.f.LoadingGPU), strconv.Itoa(x.f.Unfinished), fmt.Sprintf("%.0f s", x.cost.Wall), fmt.Sprintf("%.0f s", x.cost.CPU),
			fmt.Sprintf("%.0f", x.cost.RSS)} {
			row.Cells = append(row.Cells, report.Cell{Text: text})
		}
		if first.cell.Group == "ablation" {
			row.Cells = append(row.Cells, report.Cell{Text: verdict(i, x.f, first.f)})
		}
		t.Rows = append(t.Rows, row)
	}
	sec.Table = t
	return sec
}

// verdict says whether leaving a part out hurts.
func verdict(i int, f, full sim.Figures) string {
	if i == 0 {
		return ""
	}
	worse := func(a, b *float64, by float64) bool { return a != nil && b != nil && *a-*b > by }
	miss := worse(f.WeightedMiss, full.WeightedMiss, 0.001)
	slow := full.BEJCTMean != nil && worse(f.BEJCTMean, full.BEJCTMean, math.Max(0.01**full.BEJCTMean, 1))
	switch {
	case miss && slow:
		return "hurts both"
	case miss:
		return "costs deadlines"
	case slow:
		return "costs best effort"
	}
	return "does not hurt"
}
