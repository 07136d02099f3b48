package bridge

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updatePage = flag.Bool("update-architecture", false, "rewrite the tables of docs/architecture.md")

// TestArchitecturePage: the folder map and the walls of docs/architecture.md are those of the code, since they are written from it.
func TestArchitecturePage(t *testing.T) {
	const path = "../docs/architecture.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, part := range []struct{ name, text string }{{"map", folderMap(t)}, {"walls", wallTable()}, {"phases", phaseDiagram()}} {
		page, err = replaced(page, part.name, part.text)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if *updatePage {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(page, string(raw)); d != "" {
		t.Errorf("run: go test ./bridge -run ArchitecturePage -update-architecture\n%s", d)
	}
}

// replaced puts text between the marks of a part of the page.
func replaced(page, name, text string) (string, error) {
	from, to := "<!-- "+name+": written by a test -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(page, from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		return page, fmt.Errorf("the marks of %q are missing", name)
	}
	return before + from + text + to + after, nil
}

// folderMap lists every package with the first sentence of its comment.
func folderMap(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| package | what it is |\n|---|---|\n")
	for _, p := range products(t) {
		if len(p.docs) == 0 {
			continue // TestPackagesOpenWithAParagraph complains
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.folder, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(firstSentence(p.docs[0])))
	}
	return b.String() + "\n"
}

var (
	sentenceEnd = regexp.MustCompile(`[^.]\.( [A-Z]|$)`)
	docLink     = regexp.MustCompile(`\[([A-Z][A-Za-z.]*)\]`)
)

// firstSentence is that of a package comment without "Package NAME", its list of details left out when it is long.
func firstSentence(doc string) string {
	words := strings.SplitN(strings.Join(strings.Fields(doc), " "), " ", 3)
	s := docLink.ReplaceAllString(words[len(words)-1], "$1")
	if at := sentenceEnd.FindStringIndex(s); at != nil {
		s = s[:at[0]+1]
	}
	if short, _, ok := strings.Cut(s, ": "); ok && len(s) > 160 && len(short) > 30 {
		s = short
	}
	return strings.TrimPrefix(s, "is ")
}

func wallTable() string {
	var b strings.Builder
	b.WriteString("\n| below | may import | why |\n|---|---|---|\n")
	for _, w := range walls {
		fmt.Fprintf(&b, "| `%s/` | `%s` | %s |\n", w.folder, strings.Join(w.may, "`, `"), w.why)
	}
	return b.String() + "\n"
}

// phaseDiagram draws the table of legal changes.
func phaseDiagram() string {
	var b strings.Builder
	b.WriteString("\n```mermaid\nstateDiagram-v2\n    [*] --> unmanaged\n    [*] --> admitted\n")
	for _, from := range Phases() {
		for _, to := range Steps[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", from, to)
		}
	}
	return b.String() + "```\n\n"
}
