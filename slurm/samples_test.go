package slurm

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// statusLine is what the tool that took a sample wrote behind the body.
var statusLine = regexp.MustCompile(`(?m)^HTTP \d+ .*$`)

// TestSamples reads real answers, one per file, from the folder that
// UNISCHED_SLURM_JSON names: every record must be understood in every field.
func TestSamples(t *testing.T) {
	dir := os.Getenv("UNISCHED_SLURM_JSON")
	if dir == "" {
		t.Skip("UNISCHED_SLURM_JSON names no folder of real answers")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	records := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			body := statusLine.ReplaceAll(data, nil)
			if bytes.HasPrefix(body, []byte("{\n  \"account\"")) {
				body = append(append([]byte(`{"jobs":[`), body...), []byte(`]}`)...) // one bare job
			}
			for list, read := range map[string]func(raw) (string, []string, bool){
				"jobs":         func(d raw) (string, []string, bool) { j, ok := readJob(d); return j.ID.String(), j.Odd, ok },
				"nodes":        func(d raw) (string, []string, bool) { n, ok := readNode(d); return n.Name, n.Odd, ok && n.Usable },
				"partitions":   func(d raw) (string, []string, bool) { p, ok := readPartition(d); return p.Name, p.Odd, ok && p.Up },
				"reservations": func(d raw) (string, []string, bool) { v, ok := readReservation(d); return v.Name, v.Odd, ok },
			} {
				a, err := readAnswer(bytes.NewReader(body), list, func(d raw) {
					records++
					if name, odd, ok := read(d); !ok || len(odd) > 0 {
						t.Errorf("%s %s: odd %v, %v", list, name, odd, ok)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				failed := strings.Contains(filepath.Base(file), "denied") || strings.Contains(filepath.Base(file), "nojob")
				if failed && len(a.problems)+len(readStatus(a.rest["status"])) == 0 {
					t.Error("the error was not seen")
				}
			}
		})
	}
	if records == 0 {
		t.Error("no record was read")
	}
}
