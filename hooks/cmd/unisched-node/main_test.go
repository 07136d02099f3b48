package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary stands in for the command: started with this variable set, it is unisched-node.
const mainEnv = "UNISCHED_NODE_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) == "1" {
		os.Unsetenv(mainEnv)
		main()
		return
	}
	for _, v := range os.Environ() { // the tests' own environment may be a job's
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "UNISCHED_") || strings.HasPrefix(name, "SLURM") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// command starts this binary as unisched-node.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(append(os.Environ(), mainEnv+"=1"), env...)
	return cmd
}

// invoke runs one verb in this process.
func invoke(env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	c := call{args: args, getenv: func(k string) string { return env[k] }, stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code = c.dispatch()
	return code, out.String(), errs.String()
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func mustSymlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func setTimes(t *testing.T, at time.Time, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.Chtimes(p, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files to other users")
	}
}

func TestDispatch(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{nil, exitUsage, ""},
		{[]string{"nonsense"}, exitUsage, ""},
		{[]string{"help"}, exitOK, usage},
		{[]string{"version"}, exitOK, "unisched-node " + version() + "\n"},
		{[]string{"run"}, exitUsage, ""},
		{[]string{"watch", "--url", "ftp://x"}, exitUsage, ""},
		{[]string{"watch", "--url", "http://x", "--node", "../x"}, exitUsage, ""},
	} {
		if code, out, _ := invoke(nil, c.args...); code != c.code || out != c.out {
			t.Errorf("%v: got %d %q", c.args, code, out)
		}
	}
}
