package report

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/slurm"
)

func at(v float64) *float64 { return &v }

// result is a small run by hand.
func result(name string, miss, jct *float64) sim.Result {
	r := sim.Result{Unit: 5 * time.Minute, GPUs: 8}
	r.Figures = sim.Figures{Name: name, Jobs: 40, WeightedMiss: miss, BEJCTMean: jct, BEJCTP99: jct, JCTMean: at(3600), Utilization: at(0.5), Hash: "h-" + name}
	for i := range 40 {
		o := sim.Outcome{ID: fmt.Sprint(i), User: "<b>ann</b>", Class: planner.BestEffort, GPUs: 1, Submit: time.Duration(i) * time.Minute, Begin: time.Duration(i+2) * time.Minute,
			End: time.Duration(i*i+30) * time.Minute, Tier: -1, Held: 60}
		if i%2 == 0 {
			o.Class, o.Due = planner.Strict, time.Hour
		}
		if i == 7 {
			o.Begin, o.End = -1, -1
		}
		r.Outcomes = append(r.Outcomes, o)
		r.Stays = append(r.Stays, sim.Stay{Job: i, From: o.Begin, To: o.Begin + time.Hour, Where: []slurm.NodeGPUs{{Node: fmt.Sprintf("n%d", i%12), Count: 1}}, Profile: i == 3})
	}
	for i := range 100 {
		r.Busy, r.Waiting, r.Wanted, r.Holes = append(r.Busy, float64(i%8)), append(r.Waiting, 2), append(r.Wanted, 4), append(r.Holes, 0.5)
	}
	r.Tenants = sim.Tenants(r.Outcomes)
	return r
}

func hostile() Report {
	return Report{
		Title:   "</title><script>x</script>",
		Results: []sim.Result{result("srsf", at(0.02), at(7200)), result("unisched", at(0.04), at(3600)), result("fifo", at(0.08), at(3600))},
		Trace:   Trace{File: "a<b>.csv", Format: "chronus", SHA256: "00ff", Rows: 41, Jobs: 40, Odd: []trace.Odd{{What: "no GPUs", Rows: 1, First: 3}}, Steps: []string{"read"}},
		Manifest: Manifest{Version: "v1", Revision: "abc", Go: "go1", Config: map[string]string{"seed": "1", "policy": "[srsf,unisched]"},
			Flags: map[string]string{"seed": "1"}},
		Command: []string{"unisched", "sim", "--trace", "it's a file"},
	}
}

// TestWrite: every file is there and can be read back; the page needs nothing from outside and shows every ratio.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := hostile().Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var m Manifest
	if err := json.Unmarshal([]byte(read("manifest.json")), &m); err != nil || m.Hashes["srsf"] != "h-srsf" || m.Trace.SHA256 != "00ff" || m.Schema != 1 {
		t.Errorf("%v %+v", err, m)
	}
	for name, rows := range map[string]int{"policies.csv": 4, "jobs.csv": 121, "busy.csv": 301, "tenants.csv": 4} {
		if got, err := csv.NewReader(strings.NewReader(read(name))).ReadAll(); err != nil || len(got) != rows {
			t.Errorf("%s: %d rows, want %d (%v)", name, len(got), rows, err)
		}
	}
	plots, err := filepath.Glob(filepath.Join(dir, "plots", "*.svg"))
	if err != nil || len(plots) < 8 {
		t.Errorf("plots %v", plots)
	}
	for _, p := range plots {
		text := read(filepath.Join("plots", filepath.Base(p)))
		dec := xml.NewDecoder(strings.NewReader(text))
		for err = nil; err == nil; {
			_, err = dec.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", p, err)
		}
		if bad := regexp.MustCompile(`#0[0-9A-F]{5}`).FindString(strings.Replace(text, colours, "", 1)); bad != "" {
			t.Errorf("%s: colour %s was not named", p, bad)
		}
	}
	page := read("index.html")
	if bad := regexp.MustCompile(`(?i)<script|<link|<img|src=|@import|url\(|href=|<b>`).FindString(page); bad != "" && bad != "<b>" {
		t.Errorf("the page holds %q", bad)
	}
	if strings.Contains(page, "<b>ann") || strings.Contains(page, "a<b>.csv") {
		t.Error("text of others is not escaped")
	}
	for _, want := range []string{`<td class="below">0.50×</td>`, `2.00×`, "prefers-color-scheme:dark", "width=device-width", `it&#39;\&#39;&#39;s a file`, "00ff"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestWriteLittle: a single policy, nobody with a deadline, nothing that ran.
func TestWriteLittle(t *testing.T) {
	empty := sim.Result{Unit: time.Minute, GPUs: 1, Figures: sim.Figures{Name: "fifo"}}
	if err := (Report{Results: []sim.Result{empty}}).Write(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := (Report{}).Write(t.TempDir()); err == nil {
		t.Error("no results, and a report")
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		name        string
		rival, base *float64
		text        string
		below, ok   bool
	}{
		{"the base is better", at(3), at(2), "1.50×", false, true},
		{"the rival is better", at(1), at(2), "0.50×", true, true},
		{"a hair below is no draw", at(0.99999), at(1), "0.9999×", true, true},
		{"a draw", at(1), at(1), "1.00×", false, true},
		{"both none", at(0), at(0), "1.00×", false, true},
		{"the base has none", at(1), at(0), "∞", false, true},
		{"the rival has none", at(0), at(1), "0.00×", true, true},
		{"no such jobs", nil, at(1), "–", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, below, ok := Ratio(c.rival, c.base)
			if d := cmp.Diff([]any{c.text, c.below, c.ok}, []any{text, below, ok}); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestHeadline: the base comes first, and what is behind is counted.
func TestHeadline(t *testing.T) {
	r := hostile()
	table, won, total := Headline(r.figures(), r.base())
	if table.Rows[0].Cells[0].Text != "unisched" || won != 7 || total != 8 {
		t.Errorf("%s first, %d of %d", table.Rows[0].Cells[0].Text, won, total)
	}
}

// TestRowMatchesColumns: a row has a field for every column.
func TestRowMatchesColumns(t *testing.T) {
	cols, row := Columns(), Row(sim.Figures{Name: "x", WeightedMiss: at(0.25), Accounts: sim.Accounts{Solver: sim.Account{Misses: 3}}})
	got := map[string]string{}
	for i, c := range cols {
		got[c] = row[i]
	}
	if len(cols) != len(row) || got["name"] != "x" || got["weighted_miss"] != "0.25" || got["soft_miss"] != "" || got["accounts.solver_degradation.misses"] != "3" {
		t.Errorf("%d columns, %d fields: %v", len(cols), len(row), got)
	}
}

// TestLanes: GPUs of a node are lanes, and a lane is held once at a time.
func TestLanes(t *testing.T) {
	stay := func(job int, from, to time.Duration, n int) sim.Stay {
		return sim.Stay{Job: job, From: from, To: to, Where: []slurm.NodeGPUs{{Node: "n1", Count: n}, {Node: "far", Count: 9}}}
	}
	list, width := lanes(sim.Result{Stays: []sim.Stay{stay(1, time.Hour, 2*time.Hour, 1), stay(0, 0, time.Hour, 2), stay(2, time.Hour, 3*time.Hour, 1)}}, []string{"n1"}, 0, 2*time.Hour)
	want := []held{{0, 0, 0, time.Hour, otherColour}, {0, 1, 0, time.Hour, otherColour}, {0, 0, time.Hour, 2 * time.Hour, otherColour}, {0, 1, time.Hour, 2 * time.Hour, otherColour}}
	if d := cmp.Diff(want, list, cmp.AllowUnexported(held{})); d != "" || width != 2 {
		t.Error(width, d)
	}
}
