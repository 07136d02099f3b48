package bridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wall says which packages of the module a folder's product code may import, and why; the longest folder that fits decides.
type wall struct {
	folder string
	may    []string
	why    string
}

// walls is also a table of docs/architecture.md (TestArchitecturePage).
var walls = []wall{
	{"planner", []string{"planner"}, "pure: values in, values out; no clock, file, network or goroutine, which `planner/purity_test.go` reads from the source"},
	{"planner/milp/highs", []string{"planner"}, "and the HiGHS binding: the one impure room, the solver as a child process that can be killed"},
	{"estimator", []string{"planner", "estimator"}, "pure as well"},
	{"slurm", []string{"slurm"}, "knows nothing of plans"},
	{"slurm/slurmsim", []string{"slurm", "hooks/progress"}, "Slurm in virtual time, with the same calls and refusals; its jobs report as real ones do"},
	{"hooks", []string{"hooks"}, "runs on any node and inside any container: the standard library and nothing else, but for the GPU sampler, which needs the vendor's library"},
	{"bridge", []string{"bridge", "slurm", "planner", "estimator", "hooks/progress", "hooks/gpu"}, "joins them"},
	{"contrib/testcluster", []string{"contrib/testcluster"}, "a real Slurm, for whoever wants one"},
	{"contrib", []string{"contrib", "bridge", "slurm", "planner", "estimator", "hooks"}, "nothing of the product leans on it"},
}

// product is one package of the module, without its tests.
type product struct {
	folder  string // "bridge/journal"
	imports map[string][]string
	docs    []string // package comments: there should be one
}

// products reads all packages in the order of their folders.
func products(t *testing.T) []*product {
	t.Helper()
	var all []*product
	byFolder := map[string]*product{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "try") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		p := byFolder[folder]
		if p == nil {
			p = &product{folder: folder, imports: map[string][]string{}}
			byFolder[folder] = p
			all = append(all, p)
		}
		if doc := text(file.Doc); doc != "" {
			p.docs = append(p.docs, doc)
		}
		for _, imp := range file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			p.imports[path] = append(p.imports[path], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Fatalf("only %d packages were found", len(all))
	}
	slices.SortFunc(all, func(a, b *product) int { return strings.Compare(a.folder, b.folder) })
	return all
}

// text is a package comment without build constraints and the like.
func text(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	return strings.TrimSpace(doc.Text())
}

// TestImportsKeepToTheWalls reads the imports of every product file: dependencies point inward, nothing of the product leans on contrib, and what runs on
// nodes is the standard library.
func TestImportsKeepToTheWalls(t *testing.T) {
	for _, p := range products(t) {
		w, ok := wallOf(p.folder)
		if !ok {
			t.Errorf("folder %s has no entry in walls", p.folder)
			continue
		}
		for path, names := range p.imports {
			for _, name := range names {
				inside, ours := strings.CutPrefix(name, "unisched/")
				switch {
				case ours && !within(inside, w.may):
					t.Errorf("%s imports %s", path, name)
				case !ours && w.folder == "hooks" && strings.Contains(name, ".") && p.folder != "hooks/cmd/unisched-gpu":
					t.Errorf("%s imports %s: hooks are standard library only", path, name)
				}
			}
		}
	}
}

func wallOf(folder string) (wall, bool) {
	for f := folder; f != "."; f = filepath.ToSlash(filepath.Dir(f)) {
		if i := slices.IndexFunc(walls, func(w wall) bool { return w.folder == f }); i >= 0 {
			return walls[i], true
		}
	}
	return wall{}, false
}

func within(pkg string, folders []string) bool {
	for _, f := range folders {
		if pkg == f || strings.HasPrefix(pkg, f+"/") {
			return true
		}
	}
	return false
}

// TestPackagesOpenWithAParagraph: each package says once what it is, in more than a few words.
func TestPackagesOpenWithAParagraph(t *testing.T) {
	for _, p := range products(t) {
		name := "Package " + p.folder[strings.LastIndex(p.folder, "/")+1:] + " "
		if len(p.docs) != 1 {
			t.Errorf("%s has %d package comments, want one", p.folder, len(p.docs))
			continue
		}
		doc := p.docs[0]
		if command := strings.Replace(name, "Package", "Command", 1); !strings.HasPrefix(doc, name) && !strings.HasPrefix(doc, command) {
			t.Errorf("%s: its comment begins with %.40q", p.folder, doc)
		}
		if len(doc) < 80 || !strings.Contains(doc, ".") {
			t.Errorf("%s: %q is no paragraph: say what it holds, what it refuses to do, and who calls it", p.folder, doc)
		}
	}
}
