// Package examples_test runs the example jobs outside Slurm, so that what the documentation shows keeps working.
package examples_test

import (
	"bufio"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pythonWithNumpy finds an interpreter for the training example: the first python3 of the path may be one without numpy.
func pythonWithNumpy(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import numpy").Run() == nil {
			return p
		}
	}
	t.Fatal("no python3 with numpy found (apt-get install python3-numpy)")
	return ""
}

func TestDigits(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), pythonWithNumpy(t), "-m", "unittest", "discover", "-s", "digits")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// buildNode builds unisched-node the way it is shipped and returns its directory.
func buildNode(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/unisched-node", "unisched/hooks/cmd/unisched-node")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// job is a script run as Slurm would, in a directory of its own.
type job struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func start(t *testing.T, script, dir, bin string, env ...string) job {
	t.Helper()
	path, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", path)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "UNISCHED_PROGRESS="+dir+"/progress.jsonl", "SLURM_JOB_ID=7"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return job{cmd, bufio.NewReader(out)}
}

func (j job) line(t *testing.T, want string) {
	t.Helper()
	if got, err := j.out.ReadString('\n'); got != want+"\n" {
		t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

func (j job) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := j.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end returns the exit code, or minus the signal that killed the job.
func (j job) end() int {
	j.cmd.Wait() // the status tells
	ws := j.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return -int(ws.Signal())
	}
	return ws.ExitStatus()
}

func TestBashOnly(t *testing.T) {
	bin, dir := buildNode(t), t.TempDir()
	f, err := elf.Open(bin + "/unisched-node")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("unisched-node is not static")
		}
	}
	if err := os.WriteFile(dir+"/bash-only-7.state", []byte("40\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := start(t, "bash-only.sh", dir, bin, "STEPS=1000000", "STEP_SECONDS=3600")
	j.line(t, "start iter=40")
	j.signal(t, syscall.SIGUSR1)
	j.line(t, "checkpoint iter=40")
	if got := j.end(); got != 99 {
		t.Errorf("exit %d, want the agreed code", got)
	}
	j = start(t, "bash-only.sh", dir, bin, "STEPS=42", "STEP_SECONDS=0")
	j.line(t, "start iter=40")
	j.line(t, "end iter=42")
	if got := j.end(); got != 0 {
		t.Errorf("exit %d", got)
	}
	b, err := os.ReadFile(dir + "/progress.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		before, _, _ := strings.Cut(l, `,"t":`)
		kinds = append(kinds, before)
	}
	want := `{"ready":true,"iter":40 {"signal":"USR1" {"checkpoint":true,"iter":40 {"ready":true,"iter":40 ` +
		`{"iter":41,"half_life":20 {"iter":42,"half_life":21 {"done":true,"iter":42,"reason":"iters"`
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Case 29: what the two bad examples do with the signal.
func TestBadExamples(t *testing.T) {
	j := start(t, "no-trap.sh", t.TempDir(), "")
	j.line(t, "ready")
	j.signal(t, syscall.SIGUSR1)
	if got := j.end(); got != -int(syscall.SIGUSR1) {
		t.Errorf("no-trap: %d, want killed by USR1", got)
	}
	j = start(t, "ignores-signal.sh", t.TempDir(), "")
	j.line(t, "ready")
	j.signal(t, syscall.SIGUSR1)
	j.signal(t, syscall.SIGTERM)
	if got := j.end(); got != -int(syscall.SIGTERM) {
		t.Errorf("ignores-signal: %d, want killed by TERM only", got)
	}
}
