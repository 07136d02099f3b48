package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"unisched/bridge/metrics"
)

// TestFiles: what lies here is what boards.go says, and JSON.
func TestFiles(t *testing.T) {
	for _, b := range boards() {
		want, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(b.file())
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what boards.go says (%v): go run ./contrib/dashboards", b.file(), err)
		}
		if !json.Valid(got) {
			t.Errorf("%s is no JSON", b.file())
		}
	}
}

// TestLayout: no panel lies on another or beyond the edge.
func TestLayout(t *testing.T) {
	for _, b := range boards() {
		raw, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
			}
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range doc.Panels {
			if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %q has id %d and ends at %d", b.id, p.Title, p.ID, p.GridPos.X+p.GridPos.W)
			}
			ids[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other := taken[at]; other != "" {
						t.Fatalf("%s: %q lies on %q", b.id, p.Title, other)
					}
					taken[at] = p.Title
				}
			}
		}
	}
}

var metric = regexp.MustCompile(`\bunisched_[a-z_]+`)

// TestMetricsExist: every expression uses metrics that the daemon exports, and parses.
func TestMetricsExist(t *testing.T) {
	w := httptest.NewRecorder()
	metrics.New(time.Now, "test").Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	exported := map[string]bool{}
	for _, name := range metric.FindAllString(w.Body.String(), -1) {
		exported[name] = true
	}
	rules := &strings.Builder{}
	fmt.Fprintln(rules, "groups: [{name: x, rules: [")
	n := 0
	for _, b := range boards() {
		for _, r := range b.rows {
			for _, p := range r.panels {
				if len(p.queries) == 0 {
					t.Errorf("%s: panel %q shows nothing", b.id, p.title)
				}
				for _, q := range p.queries {
					for _, name := range metric.FindAllString(q.expr, -1) {
						if !exported[name] {
							t.Errorf("%s: %q uses %s, which is not exported", b.id, p.title, name)
						}
					}
					expr, err := json.Marshal(strings.ReplaceAll(q.expr, "$__rate_interval", "2m"))
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(rules, "{record: 'x:%d', expr: %s},\n", n, expr)
					n++
				}
			}
		}
	}
	fmt.Fprintln(rules, "]}]")
	tool := promtool()
	if tool == "" {
		t.Skip("promtool is not here: the expressions were not parsed; contrib/ci/promtool fetches it")
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, []byte(rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "check", "rules", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d rules found", n)) {
		t.Errorf("%v: %s", err, out)
	}
}

// promtool is the tool on the PATH or in the cache, "" when there is none.
func promtool() string {
	if tool, err := exec.LookPath("promtool"); err == nil {
		return tool
	}
	cache := os.Getenv("UNISCHED_CACHE")
	if cache == "" {
		home, _ := os.UserHomeDir()
		cache = filepath.Join(home, ".cache/unisched")
	}
	if tool, err := exec.LookPath(filepath.Join(cache, "promtool/promtool")); err == nil {
		return tool
	}
	return ""
}
