package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFieldBugs: docs/field-bugs.md and the tests know the same numbers, and each test that the page names is there.
func TestFieldBugs(t *testing.T) {
	raw, err := os.ReadFile("field-bugs.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(string(raw), -1) {
		n, _ := strconv.Atoi(m[1])
		if listed[n] {
			t.Errorf("%d stands there twice", n)
		}
		listed[n] = true
	}
	tests, known := map[string]bool{}, map[int]bool{}
	test := regexp.MustCompile(`(?m)^(?:func|    def) ([Tt]est\w+)\(`)
	// In words, as test_case_34 or as TestCase35; not a case of a switch, which begins its line.
	number := regexp.MustCompile(`(?i)[^\s].*?\b(?:test_?)?cases?[ _]?([0-9]+(?:(?:, | and |-)[0-9]+)*)`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "bin" || d.Name() == "docs"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(filepath.Base(path), "test_") && !strings.HasSuffix(path, ".txtar"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range test.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		for line := range strings.Lines(string(text)) {
			for _, m := range number.FindAllStringSubmatch(line, -1) {
				for _, s := range regexp.MustCompile(`[0-9]+`).FindAllString(m[1], -1) {
					n, _ := strconv.Atoi(s)
					if known[n] = true; !listed[n] {
						t.Errorf("%s speaks of case %d, which docs/field-bugs.md does not list: %s", path, n, strings.TrimSpace(line))
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range listed {
		if !known[n] {
			t.Errorf("no test names case %d", n)
		}
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(raw), -1) {
		if !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	if len(listed) < 40 {
		t.Errorf("%d numbers", len(listed))
	}
}
