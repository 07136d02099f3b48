package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"

	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
)

// simManifest says how the files of a folder came about, enough to make them again.
type simManifest struct {
	Schema   int               `json:"schema_version"`
	Version  string            `json:"version"`
	Revision string            `json:"revision"`
	Go       string            `json:"go"`
	Trace    simTraceDoc       `json:"trace"`
	Workload string            `json:"workload"`
	Flags    map[string]string `json:"flags"`
	Hashes   map[string]string `json:"action_log_sha256"`
}

// simOut writes a folder: figures.json, jobs.csv and busy.csv with a row per policy and job or unit, manifest.json.
func (a *app) simOut(f simFlags, t trace.Trace, doc simDoc, results []sim.Result) error {
	if err := os.MkdirAll(f.out, 0o777); err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	m := simManifest{Schema: 1, Version: version, Go: runtime.Version(), Trace: doc.Trace, Workload: f.workload, Flags: f.set, Hashes: map[string]string{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
				m.Revision += s.Value + " "
			}
		}
	}
	for _, r := range results {
		m.Hashes[r.Name] = r.Hash
	}
	for name, v := range map[string]any{"figures.json": doc, "manifest.json": m} {
		b, err := json.MarshalIndent(v, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(f.out, name), append(b, '\n'), 0o666)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := writeCSV(filepath.Join(f.out, "jobs.csv"), jobRows(results)); err != nil {
		return err
	}
	return writeCSV(filepath.Join(f.out, "busy.csv"), busyRows(results))
}

func writeCSV(name string, rows func(add func(...string))) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	rows(func(fields ...string) { _ = w.Write(fields) })
	w.Flush()
	if err := w.Error(); err != nil {
		file.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return file.Close()
}

func seconds(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func jobRows(results []sim.Result) func(func(...string)) {
	return func(add func(...string)) {
		add("policy", "job", "user", "account", "class", "gpus", "submit_s", "duration_s", "begin_s", "end_s", "miss", "tier_met", "preemptions", "held_gpu_s")
		for _, r := range results {
			for _, o := range r.Outcomes {
				begin, end := "", ""
				if o.Begin >= 0 {
					begin = seconds(o.Begin.Seconds())
				}
				if o.End >= 0 {
					end = seconds(o.End.Seconds())
				}
				add(r.Name, o.ID, o.User, o.Account, string(o.Class), strconv.Itoa(o.GPUs), seconds(o.Submit.Seconds()), seconds(o.Duration.Seconds()), begin, end,
					strconv.FormatFloat(o.Miss, 'g', 6, 64), strconv.Itoa(o.Tier), strconv.Itoa(o.Preemptions), seconds(o.Held))
			}
		}
	}
}

func busyRows(results []sim.Result) func(func(...string)) {
	return func(add func(...string)) {
		add("policy", "from_s", "gpus_held")
		for _, r := range results {
			for i, v := range r.Busy {
				add(r.Name, seconds(float64(i)*r.Unit.Seconds()), seconds(v))
			}
		}
	}
}
