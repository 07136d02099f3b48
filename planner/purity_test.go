package planner_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// impure is the one package of the planner that may touch the world.
const impure = "milp/highs"

// forbiddenImports are packages (and everything below them) that reach the world, or know of Slurm.
var forbiddenImports = []string{"os", "net", "syscall", "log", "io/fs", "path/filepath", "os/exec", "plugin", "unsafe", "C", "math/rand", "crypto/rand",
	"github.com/rs/zerolog", "unisched/slurm", "unisched/bridge", "unisched/hooks", "unisched/planner/milp/highs"}

// allowedRand are the names of math/rand/v2 that do not touch the global source.
var allowedRand = map[string]bool{"New": true, "NewPCG": true, "Rand": true, "Source": true, "PCG": true}

// forbiddenTime are the names of package time that read the clock or wait.
var forbiddenTime = map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true,
	"NewTimer": true, "NewTicker": true, "LoadLocation": true, "Local": true}

// TestPurePackages: planner and estimator take values and return values; no clock, files, network, goroutines or global randomness.
func TestPurePackages(t *testing.T) {
	files := 0
	for _, root := range []string{".", "../estimator"} {
		if _, err := os.Stat(root); os.IsNotExist(err) {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (filepath.ToSlash(path) == impure || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			for _, s := range impurities(t, path, string(src)) {
				t.Error(s)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 10 {
		t.Errorf("only %d files looked at", files)
	}
}

// TestImpuritiesAreSeen keeps the test above from passing blindly.
func TestImpuritiesAreSeen(t *testing.T) {
	src := `package p
import ("os"; "time"; clock "time"; "math/rand/v2"; "unisched/slurm/x")
func f() { go g(); _ = time.Now(); clock.Sleep(1); _ = rand.IntN(3); _ = rand.New(rand.NewPCG(1, 2)); _ = time.Second; _ = os.Args }`
	var got []string
	for _, s := range impurities(t, "p.go", src) {
		_, what, _ := strings.Cut(s, ": ")
		got = append(got, what)
	}
	want := []string{"imports os", "imports unisched/slurm/x", "starts a goroutine", "uses time.Now", "uses time.Sleep", "uses math/rand/v2.IntN"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func impurities(t *testing.T, path, src string) []string {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	bad := func(n ast.Node, what string) { out = append(out, fset.Position(n.Pos()).String()+": "+what) }
	names := map[string]string{}
	for _, im := range f.Imports {
		p, _ := strconv.Unquote(im.Path.Value)
		for _, no := range forbiddenImports {
			if p == no || strings.HasPrefix(p, no+"/") && p != "math/rand/v2" {
				bad(im, "imports "+p)
			}
		}
		name := strings.TrimSuffix(p, "/v2")
		name = name[strings.LastIndex(name, "/")+1:]
		if im.Name != nil {
			name = im.Name.Name
		}
		names[name] = p
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad(n, "starts a goroutine")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch p := names[x.Name]; {
			case p == "time" && forbiddenTime[n.Sel.Name], p == "math/rand/v2" && !allowedRand[n.Sel.Name]:
				bad(n, "uses "+p+"."+n.Sel.Name)
			}
		}
		return true
	})
	return out
}
