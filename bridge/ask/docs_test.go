package ask

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEveryCauseIsExplained: docs/waiting.md has a row for each code.
func TestEveryCauseIsExplained(t *testing.T) {
	doc, err := os.ReadFile("../../docs/waiting.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "cause.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Cause") {
			return true
		}
		code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if !strings.Contains(string(doc), "`"+code+"`") {
			t.Errorf("%s is not in docs/waiting.md", code)
		}
		return true
	})
	if seen < 20 {
		t.Errorf("%d causes found", seen)
	}
}
