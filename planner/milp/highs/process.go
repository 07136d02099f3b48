package highs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childMarker is the environment variable that tells an executable to be the solver child.
const childMarker = "UNISCHED_SOLVER_CHILD"

// child is a running solver process that is asked one thing at a time.
type child struct {
	in *os.File // nobody else holds it: a child that is dropped unasked sees the end of its input and leaves
	*proc
	asked uint32 // requests so far; each answer names the one it belongs to
}

// proc is what is left of a child without its input. Its waiter may hold it.
type proc struct {
	cmd  *exec.Cmd
	out  *os.File
	left [2]*os.File // incumbents and log, files without a name, see spawn
	diag *capped
	done chan struct{} // closed when the process has been waited for
	err  error         // of the wait; read after done
}

// fate is what became of a request.
type fate struct {
	startErr error
	killed   bool   // by us: hard deadline or context
	how      string // how it ended, with the end of the child's stderr, for people
	asked    uint32
	output   []byte // one frame, or what there was of it
}

// spawn starts a child in a process group of its own. The two files that HiGHS writes as it goes are made here and lose their names at once: the
// child finds them below /proc/self/fd, and nothing is left of them whoever dies first.
//
// The child's standard input stays open while it is of use: its end tells the child that nobody will ask any more, so a killed parent leaves no
// solver behind.
func spawn(exe, tempDir string, env []string) (*child, error) {
	p := &proc{done: make(chan struct{}), diag: &capped{max: 2048}}
	var ends []*os.File
	undo := func(err error) (*child, error) {
		for _, f := range ends {
			f.Close()
		}
		return nil, err
	}
	for i := range p.left {
		f, err := os.CreateTemp(tempDir, "unisched-solve-")
		if err != nil {
			return undo(err)
		}
		ends, p.left[i] = append(ends, f), f
		if err := os.Remove(f.Name()); err != nil {
			return undo(err)
		}
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return undo(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		ends = append(ends, theirIn, in)
		return undo(err)
	}
	ends = append(ends, theirIn, in, out, theirOut)
	cmd := exec.Command(exe)
	cmd.Dir = "/"
	// Nothing of our environment is the solver's business; a locale could change how it writes numbers. A child
	// built with the race detector would spend a second of its limit on leaving.
	cmd.Env = append([]string{childMarker + "=1", "LC_ALL=C", "PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeSlack
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = theirIn, theirOut, p.diag, p.left[:]
	if err := cmd.Start(); err != nil {
		return undo(err)
	}
	theirIn.Close()
	theirOut.Close()
	p.cmd, p.out = cmd, out
	go p.wait()
	return &child{in: in, proc: p}, nil
}

// wait collects the process when it ends. Whatever of its group it left behind ends as well, and a read that such a process would hold up.
func (p *proc) wait() {
	p.err = p.cmd.Wait()
	_ = killGroup(p.cmd.Process.Pid) // at once, so that the number cannot be another group's yet
	close(p.done)
	_ = p.out.SetReadDeadline(time.Now().Add(pipeSlack))
}

// gone says whether the process has ended.
func (p *proc) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ask hands the child a request and reads one frame of at most limit bytes, until the deadline or until ctx is done. A child that did not answer in time
// or not with a whole frame has been retired when it returns.
func (c *child) ask(ctx context.Context, deadline time.Time, input []byte, limit int) fate {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c.asked++
	f := fate{asked: c.asked}
	for _, file := range c.left {
		if err := file.Truncate(0); err != nil {
			c.retire()
			return fate{startErr: err}
		}
	}
	_, _ = c.out.SetReadDeadline(time.Time{}), c.in.SetWriteDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_, _ = c.out.SetReadDeadline(past), c.in.SetWriteDeadline(past)
	})()
	if c.gone() { // its waiter may have come too early to be heard
		_ = c.out.SetReadDeadline(time.Now().Add(pipeSlack))
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = c.in.Write(input) // a child that does not read is judged by its answer
	}()
	var whole bool
	f.output, whole = readAnswer(c.out, limit)
	if !whole || ctx.Err() != nil {
		f.killed = ctx.Err() != nil
		if !f.killed { // it ended by itself, or says what nobody understands
			select {
			case <-c.done:
			case <-time.After(pipeSlack):
			}
		}
		c.retire()
		f.how = describe(ctx, c.cmd.ProcessState, c.err, c.diag.buf)
	}
	if whole {
		_ = c.in.SetWriteDeadline(time.Now().Add(pipeSlack)) // whoever answers has read it all
	}
	<-written
	return f
}

// readAnswer reads one frame, or what there is of it.
func readAnswer(r io.Reader, limit int) (frame []byte, whole bool) {
	head := make([]byte, frameHead)
	n, err := io.ReadFull(r, head)
	if err != nil {
		return head[:n], false
	}
	size, ok := frameSize(head, answerMagic, uint64(max(0, limit-frameHead)))
	if !ok {
		return head, false
	}
	frame = make([]byte, frameHead+int(size))
	copy(frame, head)
	n, err = io.ReadFull(r, frame[frameHead:])
	return frame[:frameHead+n], err == nil
}

// retire ends the child, with all of its group, and waits for it. Nothing may be asked of it any more; its files can still be read. Twice is once.
func (c *child) retire() {
	if !c.gone() {
		_ = killGroup(c.cmd.Process.Pid)
	}
	<-c.done
	c.in.Close()
	c.out.Close()
}

// discard retires the child for good, files and all.
func (c *child) discard() {
	c.retire()
	for _, f := range c.left {
		f.Close()
	}
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
	case errors.Is(err, exec.ErrWaitDelay):
		how += fmt.Sprintf(" (%v)", err)
	}
	if len(diag) > 0 {
		how += fmt.Sprintf(", stderr %q", diag)
	}
	return how
}

// capped keeps the first max bytes written to it and forgets the rest.
type capped struct {
	buf []byte
	max int
}

func (c *capped) Write(p []byte) (int, error) {
	c.buf = append(c.buf, p[:min(len(p), c.max-len(c.buf))]...)
	return len(p), nil
}
