package hooks_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What runs on compute nodes is the standard library and nothing else, so that it stays one static binary; the GPU
// sampler, which needs the vendor's library, is the one exception.
func TestStandardLibraryOnly(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "unisched-gpu") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			first, _, _ := strings.Cut(name, "/")
			if err != nil || name == "C" || (first == "unisched" && !strings.HasPrefix(name, "unisched/hooks/")) || strings.Contains(first, ".") {
				t.Errorf("%s imports %s", path, name)
			}
			seen++
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d imports seen, %v", seen, err)
	}
}
