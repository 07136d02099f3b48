package highs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childMarker is the environment variable that tells an executable to be the solver child.
const childMarker = "UNISCHED_SOLVER_CHILD"

// process is a child to be started.
type process struct {
	exe, dir  string
	env       []string
	deadline  time.Duration
	input     []byte
	maxOutput int
}

// fate is what became of a child. It has always been waited for.
type fate struct {
	startErr error
	killed   bool   // by us: hard deadline or context
	how      string // how it ended, with the end of its stderr, for people
	output   []byte // at most process.maxOutput
}

// run starts the child in a process group of its own, hands it the input and waits until it ends, the deadline passes
// or ctx is done; then the whole group is killed with SIGKILL. It returns at most pipeSlack later, even when
// something the child started keeps the pipes open.
//
// The child's standard input stays open while it runs: its end tells the child that nobody waits any more, so a
// killed parent leaves no solver behind.
func run(ctx context.Context, p process) fate {
	ctx, cancel := context.WithTimeout(ctx, p.deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.exe)
	cmd.Dir = p.dir
	// Nothing of our environment is the solver's business; a locale could change how it writes numbers. A child
	// built with the race detector would spend a second of its limit on leaving.
	cmd.Env = append([]string{
		childMarker + "=1", "LC_ALL=C", "PATH=/usr/bin:/bin", "TMPDIR=" + p.dir, "GORACE=atexit_sleep_ms=0",
	}, p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeSlack
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	out := &capped{max: p.maxOutput}
	diag := &capped{max: 2048, drop: true}
	cmd.Stdout, cmd.Stderr = out, diag
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fate{startErr: err}
	}
	if err := cmd.Start(); err != nil {
		return fate{startErr: err}
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = stdin.Write(p.input) // a child that does not read is judged by its answer
	}()
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = killGroup(cmd.Process.Pid) // whoever held the pipes is of the group, so its id is still in use
	}
	<-written // Wait has closed the pipe
	return fate{killed: ctx.Err() != nil, how: describe(ctx, cmd.ProcessState, err, diag.buf), output: out.buf}
}

// killGroup ends every process of the child's group.
func killGroup(pid int) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func describe(ctx context.Context, state *os.ProcessState, err error, diag []byte) string {
	how := "no process"
	if state != nil {
		how = state.String()
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		how = "hard deadline passed, " + how
	case ctx.Err() != nil:
		how = "cancelled, " + how
	case errors.Is(err, errTooMuch), errors.Is(err, exec.ErrWaitDelay):
		how += fmt.Sprintf(" (%v)", err)
	}
	if len(diag) > 0 {
		how += fmt.Sprintf(", stderr %q", diag)
	}
	return how
}

var errTooMuch = errors.New("more output than an answer can have")

// capped keeps the first max bytes written to it. Beyond, it fails, or with drop forgets the rest.
type capped struct {
	buf  []byte
	max  int
	drop bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := min(len(p), c.max-len(c.buf))
	c.buf = append(c.buf, p[:room]...)
	if room < len(p) && !c.drop {
		return room, errTooMuch
	}
	return len(p), nil
}
