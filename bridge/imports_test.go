package bridge

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// walls says which packages of the module a folder's product code may import; the longest folder that fits decides. Imports from outside the
// module are checked for hooks alone, which must build on any node with the standard library only.
var walls = map[string][]string{
	"planner":             {"planner"},
	"planner/milp/highs":  {"planner"},
	"estimator":           {"planner", "estimator"},
	"slurm":               {"slurm"},
	"slurm/slurmsim":      {"slurm", "hooks/progress"},
	"hooks":               {"hooks"},
	"bridge":              {"bridge", "slurm", "planner", "estimator", "hooks/progress"},
	"contrib/testcluster": {"contrib/testcluster"},
	"contrib":             {"contrib", "bridge", "slurm", "planner", "estimator", "hooks"},
}

// TestImportsKeepToTheWalls reads the imports of every product file: dependencies point inward, and nothing of the product leans on contrib.
func TestImportsKeepToTheWalls(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "try") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		allowed, ok := wallOf(folder)
		if !ok {
			t.Errorf("%s: folder %s has no entry in walls", path, folder)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			inside, ours := strings.CutPrefix(name, "unisched/")
			switch {
			case ours && !within(inside, allowed):
				t.Errorf("%s imports %s", path, name)
			case !ours && strings.HasPrefix(folder, "hooks") && strings.Contains(name, "."):
				t.Errorf("%s imports %s: hooks are standard library only", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were looked at", files)
	}
}

func wallOf(folder string) ([]string, bool) {
	for f := folder; f != "."; f = filepath.ToSlash(filepath.Dir(f)) {
		if w, ok := walls[f]; ok {
			return w, true
		}
	}
	return nil, false
}

func within(pkg string, folders []string) bool {
	for _, f := range folders {
		if pkg == f || strings.HasPrefix(pkg, f+"/") {
			return true
		}
	}
	return false
}
