package metrics

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const rulesDir = "../../etc/prometheus"

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	metricName = regexp.MustCompile(`\bunisched_[a-z_]+`)
	alertName  = regexp.MustCompile(`(?m)alert: (\w+)$`)
	testSeries = regexp.MustCompile(`series: '(unisched_[^']+)'`)
	family     = regexp.MustCompile(`(?m)^# TYPE (unisched_\w+) `)
)

// exposition is all that a fresh daemon exports.
func exposition(t *testing.T) (text string, names map[string]bool) {
	t.Helper()
	w := httptest.NewRecorder()
	New(time.Now, "test").Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	names = map[string]bool{}
	for _, n := range metricName.FindAllString(w.Body.String(), -1) {
		names[n] = true
	}
	return w.Body.String(), names
}

// TestRulesUseWhatIsExported: rules and their tests are about series that exist, with these very labels; every alert has a test that fires it and one
// that does not.
func TestRulesUseWhatIsExported(t *testing.T) {
	text, names := exposition(t)
	rules, tests := readFile(t, rulesDir+"/unisched.rules.yml"), readFile(t, rulesDir+"/unisched.rules.test.yml")
	for _, n := range metricName.FindAllString(rules, -1) {
		if !names[n] {
			t.Errorf("the rules use %s, which is not exported", n)
		}
	}
	for _, m := range testSeries.FindAllStringSubmatch(tests, -1) {
		if series := m[1]; !strings.Contains(text, "\n"+series+" ") {
			t.Errorf("the tests feed %s, which is not exported", series)
		}
	}
	alerts := alertName.FindAllStringSubmatch(rules, -1)
	if len(alerts) < 10 {
		t.Fatalf("%d alerts", len(alerts))
	}
	docs := readFile(t, "../../docs/metrics.md")
	for _, a := range alerts {
		fires := regexp.MustCompile(`alertname: ` + a[1] + `\n\s+exp_alerts:\n`).MatchString(tests)
		quiet := strings.Contains(tests, "alertname: "+a[1]+", exp_alerts: []")
		if !fires || !quiet || !strings.Contains(docs, "### "+a[1]+"\n") || !strings.Contains(docs, "\n| "+a[1]+" | ") {
			t.Errorf("%s: seen to fire %v, seen quiet %v, or docs/metrics.md lacks what to do, or why its threshold is where it is", a[1], fires, quiet)
		}
	}
}

// TestDocs: docs/metrics.md explains every metric and no other.
func TestDocs(t *testing.T) {
	text, names := exposition(t)
	docs := readFile(t, "../../docs/metrics.md")
	for _, n := range metricName.FindAllString(docs, -1) {
		if !names[n] && n != "unisched_process_" {
			t.Errorf("docs/metrics.md speaks of %s, which is not exported", n)
		}
	}
	for _, f := range family.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(f[1], "unisched_process_") && !strings.Contains(docs, "`"+f[1]+"`") {
			t.Errorf("docs/metrics.md does not explain %s", f[1])
		}
	}
}

// TestAlerts runs the rules' own tests.
func TestAlerts(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		cache := os.Getenv("UNISCHED_CACHE")
		if cache == "" {
			home, _ := os.UserHomeDir()
			cache = filepath.Join(home, ".cache/unisched")
		}
		if tool, err = exec.LookPath(filepath.Join(cache, "promtool/promtool")); err != nil {
			t.Skip("promtool is not here: the alert rules were not run; contrib/ci/promtool fetches it")
		}
	}
	cmd := exec.Command(tool, "test", "rules", "unisched.rules.test.yml")
	cmd.Dir = rulesDir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
