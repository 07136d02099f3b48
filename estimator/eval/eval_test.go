package eval

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// open reads tables below $UNISCHED_DATA, or skips the test.
func open(t *testing.T, patterns ...string) []File {
	t.Helper()
	dir := os.Getenv("UNISCHED_DATA")
	if dir == "" {
		t.Skip("UNISCHED_DATA is not set")
	}
	var out []File
	for _, p := range patterns {
		names, _ := filepath.Glob(filepath.Join(dir, p))
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, File{strings.TrimSuffix(filepath.Base(n), ".csv"), bytes.NewReader(b)})
		}
	}
	if len(out) == 0 {
		t.Skip("no table in ", dir)
	}
	return out
}

func show(t *testing.T, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(string(b))
}

// plot writes a chart into $UNISCHED_PLOTS, when that is set.
func plot(t *testing.T, name string, b Bars) {
	t.Helper()
	dir := os.Getenv("UNISCHED_PLOTS")
	if dir == "" {
		return
	}
	var buf bytes.Buffer
	if err := b.SVG(&buf); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "estimator-"+name+".svg"), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The bounds of these tests are the goals that the estimator must keep on public measurements.

func TestEvalSpeedPollux(t *testing.T) {
	rep, err := Speed(open(t, "throughput/pollux/*.csv"), SpeedOptions{Format: "pollux"})
	if err != nil {
		t.Fatal(err)
	}
	show(t, rep)
	plot(t, "speed-pollux", rep.PlotErrors())
	if rep.Mean > 0.07 || rep.P95 > 0.25 || rep.Mean >= rep.PaperRule.Mean {
		t.Errorf("mean error %.3f, p95 %.3f; the paper's rule %.3f", rep.Mean, rep.P95, rep.PaperRule.Mean)
	}
	for _, m := range rep.ByModel {
		if m.Mean > 0.07 {
			t.Errorf("%s: mean error %.3f", m.Model, m.Mean)
		}
	}
}

func TestEvalSpeedIterationTimes(t *testing.T) {
	rep, err := Speed(open(t, "throughput/v100_ib_iteration_times.csv"), SpeedOptions{Format: "iteration-times"})
	if err != nil {
		t.Fatal(err)
	}
	show(t, rep)
	if rep.Mean > 0.03 {
		t.Errorf("mean error %.3f", rep.Mean)
	}
}
