package highs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// MaybeChild becomes the solver child, and never returns, when the process was started as one; else it does
// nothing. Every main function and TestMain whose process calls a solver of New calls it before anything else.
func MaybeChild() {
	if os.Getenv(childMarker) == "1" {
		Main()
	}
}

// Main is the child: it reads a request from standard input, solves it and writes the answer to standard output. It
// always exits: 0 with a whole answer, 3 when the parent went away, 2 otherwise.
func Main() {
	payload, err := readFrame(os.Stdin, requestMagic, maxRequest)
	if err != nil {
		fail("request", err)
	}
	q, err := decodeRequest(payload)
	if err != nil {
		fail("request", err)
	}
	go func() { // standard input ends when the parent does
		_, _ = io.Copy(io.Discard, os.Stdin)
		abandon()
	}()
	// Should the parent be stopped, nobody kills us.
	time.AfterFunc(4*q.Time+10*time.Second, abandon)
	runtime.LockOSThread() // niceness belongs to the thread that solves
	if err := restrict(q); err != nil {
		fail("limits", err)
	}
	if _, err := os.Stdout.Write(encodeAnswer(solve(q))); err != nil {
		fail("answer", err)
	}
	os.Exit(0)
}

// abandon ends a child for which nobody waits any more, and removes the folder that its parent made for it.
func abandon() {
	dir, err := os.Getwd()
	_ = os.Remove(incumbentFile)
	_ = os.Remove(logFile)
	if err == nil {
		_ = os.Remove(dir) // only ever an empty folder
	}
	os.Exit(3)
}

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "solver child: %s: %v\n", what, err)
	os.Exit(2)
}

// restrict limits this process before it solves: data memory (what is there already plus the allowance; address
// space would count the reservations of the Go runtime), file sizes, no core dumps, and the kernel is told to take
// the solver first when memory runs out.
func restrict(q request) error {
	used, err := dataBytes()
	if err != nil {
		return err
	}
	for _, l := range []struct {
		resource int
		value    uint64
	}{
		{syscall.RLIMIT_DATA, used + uint64(q.MemoryMB)<<20},
		{syscall.RLIMIT_FSIZE, maxRemains},
		{syscall.RLIMIT_CORE, 0},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("limit %d: %w", l.resource, err)
		}
		v := min(l.value, now.Max)
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: v, Max: v}); err != nil {
			return fmt.Errorf("limit %d: %w", l.resource, err)
		}
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0) // a courtesy: some sandboxes forbid it
	if q.Nice != 0 {
		cur, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // the system call answers 20 - niceness
		if err != nil {
			return fmt.Errorf("niceness: %w", err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-cur+q.Nice); err != nil {
			return fmt.Errorf("niceness: %w", err)
		}
	}
	return nil
}

// dataBytes returns the private writable memory of this process, which is what RLIMIT_DATA counts.
func dataBytes() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(text, []byte("\nVmData:"))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, fmt.Errorf("no VmData in /proc/self/status")
	}
	kb, err := strconv.ParseUint(string(fields[0]), 10, 48)
	return kb << 10, err
}
