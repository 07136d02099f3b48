// These tests read the pages for people: every link leads somewhere, and every page can be found.
package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// announced are pages that others link to before they exist.
var announced = []string{"docs/experiments.md", "docs/admission.md", "docs/safety.md", "docs/scale.md"}

// page is one Markdown file of the repository.
type page struct {
	path string // from the root, "docs/admin.md"
	text string // without code
}

var (
	fence  = regexp.MustCompile("(?ms)^```.*?^```")
	inline = regexp.MustCompile("`[^`\n]*`")
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"bin", "out", "dist", "try", "testdata"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all = append(all, page{filepath.ToSlash(strings.TrimPrefix(path, "../")), fence.ReplaceAllString(string(raw), "")})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

// links are the targets of a page that are files of this repository, from its root, each with its part after #.
func (p page) links(t *testing.T) [][2]string {
	t.Helper()
	var out [][2]string
	for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(p.text, ""), -1) {
		u, err := url.Parse(m[1])
		if err != nil {
			t.Errorf("%s: link %q: %v", p.path, m[1], err)
			continue
		}
		if u.Scheme != "" || strings.HasPrefix(m[1], "//") {
			continue
		}
		target := p.path
		if u.Path != "" {
			target = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), u.Path))
		}
		out = append(out, [2]string{target, u.Fragment})
	}
	return out
}

// anchors are the names by which the headings of a page can be linked to.
func (p page) anchors() []string {
	var out []string
	for _, m := range title.FindAllStringSubmatch(p.text, -1) {
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(m[1])))
	}
	return out
}

// TestLinks: every relative link of every page leads to a file, and to a heading where it names one.
func TestLinks(t *testing.T) {
	all := pages(t)
	seen := 0
	for _, p := range all {
		for _, l := range p.links(t) {
			seen++
			if _, err := os.Stat(filepath.Join("..", l[0])); err != nil {
				if !slices.Contains(announced, l[0]) {
					t.Errorf("%s links to %s, which is not there", p.path, l[0])
				}
				continue
			}
			if i := slices.IndexFunc(all, func(q page) bool { return q.path == l[0] }); l[1] != "" && i >= 0 && !slices.Contains(all[i].anchors(), l[1]) {
				t.Errorf("%s links to %s#%s; its headings are %v", p.path, l[0], l[1], all[i].anchors())
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d links were found", seen)
	}
}

// TestIndex: docs/README.md names every page of this folder.
func TestIndex(t *testing.T) {
	all := pages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.path == "docs/README.md" })
	if i < 0 {
		t.Fatal("there is no docs/README.md")
	}
	named := map[string]bool{}
	for _, l := range all[i].links(t) {
		named[l[0]] = true
	}
	for _, p := range all {
		if strings.HasPrefix(p.path, "docs/") && p.path != "docs/README.md" && !named[p.path] {
			t.Errorf("docs/README.md does not name %s", p.path)
		}
	}
}

// TestNamedFiles: a file or folder of the repository that a page names in code exists.
func TestNamedFiles(t *testing.T) {
	named := regexp.MustCompile("`((?:bridge|planner|estimator|slurm|hooks|contrib|etc|docs)/[A-Za-z0-9_./-]+)`")
	seen := 0
	for _, p := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(p.text, -1) {
			seen++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil && !slices.Contains(announced, m[1]) {
				t.Errorf("%s names %s, which is not there", p.path, m[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d names were found", seen)
	}
}

// TestHeadline: each figure in the README's table of measurements stands on the page that its row names.
func TestHeadline(t *testing.T) {
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## Measured\n")
	table, _, _ = strings.Cut(table, "\n## ")
	figure := regexp.MustCompile(`[+-]?\d[\d.,]*`)
	seen := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		m := link.FindStringSubmatch(row)
		if len(cells) != 5 || m == nil {
			continue
		}
		name, _, _ := strings.Cut(m[1], "#")
		for _, f := range figure.FindAllString(cells[2], -1) {
			seen++
			page, err := os.ReadFile(filepath.Join("..", name))
			if err != nil {
				t.Errorf("%s: %v", f, err)
			} else if !regexp.MustCompile(`(^|[^\d.])` + regexp.QuoteMeta(f) + `($|[^\d])`).Match(page) {
				t.Errorf("%s is not on %s", f, name)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d figures were found", seen)
	}
}
