package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Case 29: batch scripts that trap, that replace their shell, and that do nothing about the signal.
func TestRun(t *testing.T) {
	// Each script prints "up" when a signal may come; $P is the progress file, $F the checkpoint file.
	const (
		trap = `trap 'echo ck > "$F"; exit 0' USR1; echo up; while :; do :; done`
	)
	for _, c := range []struct {
		name, flags, script string
		signal              syscall.Signal // 0: none
		code                int
		lines               []string
	}{
		{"ends by itself", "", "exit 0", 0, 0, nil},
		{"fails by itself", "", "exit 3", 0, 3, nil},
		{"killed by itself", "", "kill -9 $$", 0, 137, nil},
		{"agreed code by itself", "", "exit 99", 0, 99, nil},
		{"trap and exit 0, without proof", "", trap, syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
		{"trap with proof", "--checkpoint-file $F", `echo '{"iter":41}' >> "$P"; ` + trap, syscall.SIGUSR1, 99,
			[]string{`{"iter":41}`, `{"signal":"USR1"}`, `{"checkpoint":true,"iter":41,"bytes":3}`}},
		{"trap with proof, nothing counted", "--checkpoint-file $F", trap, syscall.SIGUSR1, 99,
			[]string{`{"signal":"USR1"}`, `{"checkpoint":true,"bytes":3}`}},
		{"the file did not change", "--checkpoint-file $F", `echo old > "$F"; trap 'exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
		{"case 34: an empty file is no checkpoint", "--checkpoint-file $F", `trap ': > "$F"; exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
		{"case 34: the good file was truncated", "--checkpoint-file $F", `echo old > "$F"; trap ': > "$F"; exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
		{"case 34: leftovers in a directory are none", "--checkpoint-file $F", `mkdir "$F"; trap 'echo x > "$F/step-9.pt.tmp"; echo x > "$F/.step"; : > "$F/step-9.pt"; exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
		{"case 34: a file in a directory is one", "--checkpoint-file $F", `mkdir "$F"; trap 'echo x > "$F/step-9.pt.tmp"; mv "$F/step-9.pt.tmp" "$F/step-9.pt"; exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`, `{"checkpoint":true,"bytes":2}`}},
		{"case 34: so is a directory in one", "--checkpoint-file $F", `mkdir "$F"; trap 'mkdir "$F/step-9"; exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`, `{"checkpoint":true}`}},
		{"the command wrote its own line", "--checkpoint-file $F",
			`trap 'echo ck > "$F"; echo "{\"checkpoint\":true,\"iter\":7}" >> "$P"; exit 99' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`, `{"checkpoint":true,"iter":7}`}},
		{"done after the signal is not requeued", "", `trap 'echo "{\"done\":true}" >> "$P"; exit 0' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 0, []string{`{"signal":"USR1"}`, `{"done":true}`}},
		{"fails after the signal", "--checkpoint-file $F", `trap 'echo ck > "$F"; exit 5' USR1; echo up; while :; do :; done`,
			syscall.SIGUSR1, 5, []string{`{"signal":"USR1"}`}},
		{"no trap", "", `echo up; exec cat "$HANG"`, syscall.SIGUSR1, 138, []string{`{"signal":"USR1"}`}},
		{"another code", "--exit 85", trap, syscall.SIGUSR1, 85, []string{`{"signal":"USR1"}`}},
		{"the command learns the code", "--exit 85", `exit $UNISCHED_EXIT`, 0, 85, nil},
		{"another signal", "--signal B:SIGUSR2+77", strings.ReplaceAll(trap, "USR1", "USR2"), syscall.SIGUSR2, 77, []string{`{"signal":"USR2"}`}},
		{"TERM", "", strings.ReplaceAll(trap, "USR1", "TERM"), syscall.SIGTERM, 99, []string{`{"signal":"TERM"}`}},
		{"TERM that asks for nothing", "--signal USR2", `trap 'exit 7' TERM; echo up; for ((i = 0; i < 300; i++)); do sleep 0.1; done`, syscall.SIGTERM, 7, nil},
		{"a signal that asks for nothing", "", `trap 'exit 0' HUP; echo up; while :; do :; done`, syscall.SIGHUP, 0, nil},
		{"the group hears it", "", `trap 'wait; exit 0' USR1; (trap 'echo ck > "$F"; exit 0' USR1; echo up; while :; do :; done) & wait`,
			syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
		{"only the child hears it", "--forward child", trap, syscall.SIGUSR1, 99, []string{`{"signal":"USR1"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRunTest(t)
			flags := strings.Fields(strings.ReplaceAll(c.flags, "$F", r.file))
			code := r.start(t, append(append([]string{"run"}, flags...), "--", "bash", "-c", c.script), c.signal, nil)
			if got := r.lines(t); code != c.code || strings.Join(got, "\n") != strings.Join(c.lines, "\n") {
				t.Errorf("got %d and\n%s\nwant %d and\n%s", code, strings.Join(got, "\n"), c.code, strings.Join(c.lines, "\n"))
			}
		})
	}
}

// A command that ignores the signal goes on. Its end with 0 is an answer when it comes soon, else it has finished.
func TestRunIgnoring(t *testing.T) {
	for grace, want := range map[string]int{"1h": 99, "1ns": 0} {
		r := newRunTest(t)
		script := `trap '' USR1; echo up; read -r x < "$HANG"`
		code := r.start(t, []string{"run", "--grace", grace, "--", "bash", "-c", script}, syscall.SIGUSR1, func() {
			r.await(t, `"signal":"USR1"`)
			hang, err := os.OpenFile(r.hang, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			hang.WriteString("go\n")
			hang.Close()
		})
		if code != want {
			t.Errorf("grace %s: got %d, want %d", grace, code, want)
		}
	}
}

func TestRunReadyAfter(t *testing.T) {
	r := newRunTest(t)
	code := r.start(t, []string{"run", "--ready-after", "1ms", "--", "bash", "-c", `until grep -qs ready "$P"; do :; done`}, 0, nil)
	if got := r.lines(t); code != 0 || len(got) != 1 || got[0] != `{"ready":true}` {
		t.Errorf("got %d %v", code, got)
	}
}

func TestRunWithoutService(t *testing.T) {
	cmd := command(t, nil, "run", "true")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	for want, args := range map[int][]string{127: {"run", "/no/such/command"}, 126: {"run", "/dev/null"}, exitUsage: {"run", "--signal", "KILL", "true"}} {
		cmd := command(t, nil, args...)
		if cmd.Run(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%v: got %d, want %d", args, cmd.ProcessState.ExitCode(), want)
		}
	}
}

type runTest struct{ progress, file, hang string }

func newRunTest(t *testing.T) runTest {
	dir := t.TempDir()
	r := runTest{progress: filepath.Join(dir, "p"), file: filepath.Join(dir, "ck"), hang: filepath.Join(dir, "hang")}
	if err := syscall.Mkfifo(r.hang, 0o600); err != nil { // opening it for reading blocks until somebody writes
		t.Fatal(err)
	}
	return r
}

// start runs the sidecar, sends it the signal once the script is up, calls then, and returns its exit code.
func (r runTest) start(t *testing.T, args []string, sig syscall.Signal, then func()) int {
	t.Helper()
	cmd := command(t, []string{"UNISCHED_PROGRESS=" + r.progress, "P=" + r.progress, "F=" + r.file, "HANG=" + r.hang}, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if sig != 0 {
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if then != nil {
		then()
	}
	cmd.Wait() // the status is looked at below
	return cmd.ProcessState.ExitCode()
}

func (r runTest) lines(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(r.progress)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(timeMember.ReplaceAllString(string(b), "")), "\n")
}

// await reads the progress file until it holds text; the test's own deadline bounds it.
func (r runTest) await(t *testing.T, text string) {
	t.Helper()
	for t.Context().Err() == nil {
		if b, _ := os.ReadFile(r.progress); strings.Contains(string(b), text) {
			return
		}
	}
}
