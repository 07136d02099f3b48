// Package hooks_test checks the job_submit plugin with a plain Lua interpreter and a stand-in for Slurm's job_desc.
package hooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func lua(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"lua5.1", "lua5.4", "lua5.3", "lua"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	t.Fatal("no Lua interpreter found (apt-get install lua5.1): job_submit.lua cannot be tested")
	return ""
}

func TestJobSubmit(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), lua(t), "testdata/job_submit_test.lua", "job_submit.lua").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The delay file is read at load; bad content leaves the default.
func TestJobSubmitDelayFile(t *testing.T) {
	src, err := os.ReadFile("job_submit.lua")
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{"30\n": "30", "  45": "45", "x": "180", "-1": "180", "1e9": "180", "": "180", "20.7": "20"} {
		dir := t.TempDir()
		file, script := filepath.Join(dir, "unisched-delay"), filepath.Join(dir, "job_submit.lua")
		edited := strings.Replace(string(src), "/etc/slurm/unisched-delay", file, 1)
		if os.WriteFile(file, []byte(content), 0o600) != nil || os.WriteFile(script, []byte(edited), 0o600) != nil {
			t.Fatal("cannot write the test's files")
		}
		out, err := exec.CommandContext(t.Context(), lua(t), "testdata/job_submit_test.lua", script, want).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", content, err, out)
		}
	}
}
