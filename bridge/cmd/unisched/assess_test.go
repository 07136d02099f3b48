package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"unisched/bridge/assess"
)

// The whole command on a trace for each verdict; the one that is worth it is simulated, solver and all, the others need no figures.
func TestAssess(t *testing.T) {
	for _, tt := range []struct {
		trace, nodes string
		code         int
		against      string
		more         []string
	}{
		{"worth", "4", exitOK, "", []string{"--jobs", "16", "--solver-limit", "20ms", "--longest", "3h"}},
		{"pools", "4", exitRisk, assess.SeparatePools, []string{"--no-sim"}},
		{"gangs", "4", exitRisk, assess.FixedGangs, []string{"--no-sim"}},
		{"fewlong", "2", exitRisk, assess.FewLong, []string{"--no-sim"}},
	} {
		t.Run(tt.trace, func(t *testing.T) {
			var out, errs bytes.Buffer
			a := testApp()
			a.env = func(string) string { return "" }
			a.out, a.err = &out, &errs
			args := append([]string{"assess", "--sacct", "../../assess/testdata/" + tt.trace + ".sacct", "--nodes", tt.nodes, "--quiet", "-o", "json"}, tt.more...)
			if code := a.run(t.Context(), args); code != tt.code {
				t.Errorf("exit code %d: %s", code, errs.String())
			}
			var doc assessDoc
			if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			if c := doc.Compared; tt.against == "" && (c.Ours == nil || c.Plain == nil || c.Reserved == nil || doc.Reserved < 1 || c.Ours.Unfinished > 0 || c.Ours.SolverMisses > 0) {
				t.Errorf("%+v", doc.Compared)
			}
			if doc.Verdict.Worth != (tt.against == "") || tt.against != "" && !slices.ContainsFunc(doc.Verdict.Reasons, func(r assess.Reason) bool { return r.Code == tt.against && !r.For }) {
				t.Errorf("%+v", doc.Verdict)
			}
			t.Logf("%s %+v", doc.Verdict.Text, doc.Verdict.Reasons)
		})
	}
}
