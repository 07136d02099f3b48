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

func TestEvalSpeedPollux(t *testing.T) {
	rep, err := Speed(open(t, "throughput/pollux/*.csv"), SpeedOptions{Format: "pollux"})
	if err != nil {
		t.Fatal(err)
	}
	show(t, rep)
}

func TestEvalSpeedIterationTimes(t *testing.T) {
	rep, err := Speed(open(t, "throughput/v100_ib_iteration_times.csv"), SpeedOptions{Format: "iteration-times"})
	if err != nil {
		t.Fatal(err)
	}
	show(t, rep)
}
