// Package report turns the results of a simulation into a folder that people and scripts read: CSV tables, SVG pictures, one HTML page that needs nothing
// else, and a manifest that says how to make it all again.
//
// It refuses to decide what is good: every ratio is shown, those in favour of a rival marked as such. It reads no trace, no clock and no network, and
// writes only below the folder named; the command line calls it, and the experiments share its page.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
)

// Report is what a folder is made from.
type Report struct {
	Title    string
	Results  []sim.Result
	Trace    Trace
	Manifest Manifest
	// Command is the command line that makes it again, word by word.
	Command []string
}

// Trace says which jobs were played.
type Trace struct {
	File   string        `json:"file"` // without its folder
	Format string        `json:"format"`
	SHA256 string        `json:"sha256"`
	Rows   int           `json:"rows"`
	Jobs   int           `json:"jobs"`
	Odd    []trace.Odd   `json:"odd_rows"`
	Span   time.Duration `json:"span_ns"` // from the first submission to the last
	Load   float64       `json:"load"`    // GPU time asked for over what the cluster offers in the span
	// Steps are what was done to the rows, in order.
	Steps []string `json:"transformation"`
}

// Manifest says how the files of a folder came about, enough to make them again.
type Manifest struct {
	Schema  int    `json:"schema_version"`
	Version string `json:"version"`
	// Revision is the commit, with "modified" when the tree was not clean.
	Revision string            `json:"revision"`
	Go       string            `json:"go"`
	Modules  map[string]string `json:"modules"` // version by module, of those that figures depend on
	Seed     uint64            `json:"seed"`
	Trace    Trace             `json:"trace"`
	Flags    map[string]string `json:"flags"`         // given
	Config   map[string]string `json:"configuration"` // of every flag, given or not
	Hashes   map[string]string `json:"action_log_sha256"`
	Command  []string          `json:"command"`
}

// figures is the document of figures.json, the same as the command's own output.
type figures struct {
	Schema   int           `json:"schema_version"`
	Policies []sim.Figures `json:"policies"`
	Trace    Trace         `json:"trace"`
}

// Write makes the folder: index.html, figures.json, manifest.json, policies.csv, jobs.csv, busy.csv, tenants.csv and plots/*.svg.
func (r Report) Write(dir string) error {
	if len(r.Results) == 0 {
		return fmt.Errorf("report: no results")
	}
	if err := os.MkdirAll(filepath.Join(dir, "plots"), 0o777); err != nil {
		return fmt.Errorf("report folder: %w", err)
	}
	r.Manifest.Schema, r.Manifest.Trace, r.Manifest.Command, r.Manifest.Hashes = 1, r.Trace, r.Command, map[string]string{}
	doc := figures{Schema: 1, Trace: r.Trace}
	for _, x := range r.Results {
		r.Manifest.Hashes[x.Name] = x.Hash
		doc.Policies = append(doc.Policies, x.Figures)
	}
	for name, v := range map[string]any{"figures.json": doc, "manifest.json": r.Manifest} {
		b, err := json.MarshalIndent(v, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), append(b, '\n'), 0o666)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, rows := range map[string]func(func(...string)){"policies.csv": r.policyRows, "jobs.csv": r.jobRows, "busy.csv": r.busyRows, "tenants.csv": r.tenantRows} {
		if err := writeCSV(filepath.Join(dir, name), rows); err != nil {
			return err
		}
	}
	old, _ := filepath.Glob(filepath.Join(dir, "plots", "gantt-*.svg")) // of other policies, from a run before
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	plots := r.plots()
	for _, p := range plots {
		if err := os.WriteFile(filepath.Join(dir, "plots", p.Name+".svg"), []byte(standalone(p.svg)), 0o666); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	page, err := r.page(plots)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), page, 0o666); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// base is the index of the policy that the others are compared with: ours, or the first.
func (r Report) base() int {
	return max(slices.IndexFunc(r.Results, func(x sim.Result) bool { return x.Name == "unisched" }), 0)
}

// maxShown bounds the policies in pictures with a line for each.
const maxShown = 7

// shown are the policies in pictures with a line for each, by index: the base, then the best rivals in either headline figure, then others as given.
func (r Report) shown() []int {
	out := []int{r.base()}
	add := func(i int) {
		if len(out) < maxShown && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	var order [2][]int
	for k, of := range []func(sim.Figures) *float64{weightedMiss, beJCT} {
		for i := range r.Results {
			if of(r.Results[i].Figures) != nil {
				order[k] = append(order[k], i)
			}
		}
		slices.SortStableFunc(order[k], func(a, b int) int { return compare(of(r.Results[a].Figures), of(r.Results[b].Figures)) })
	}
	for k := range 3 {
		for _, o := range order {
			if k < len(o) {
				add(o[k])
			}
		}
	}
	for i := range r.Results {
		add(i)
	}
	return out
}

func weightedMiss(f sim.Figures) *float64 { return f.WeightedMiss }
func beJCT(f sim.Figures) *float64        { return f.BEJCTMean }

func compare(a, b *float64) int {
	switch {
	case *a < *b:
		return -1
	case *a > *b:
		return 1
	}
	return 0
}
