package highs

import (
	"bytes"
	"errors"
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

// Main is the child: it reads requests from standard input, one after the other, solves each and writes the answer to standard output. It never
// returns, but exits: 0 after an answer that says so, 3 when the parent went away, 2 otherwise.
func Main() {
	requests := make(chan []byte)
	go func() { // standard input ends when the parent does
		for {
			payload, err := readFrame(os.Stdin, requestMagic, maxRequest)
			switch {
			case errors.Is(err, io.EOF):
				os.Exit(3)
			case err != nil:
				fail("request", err)
			}
			requests <- payload
		}
	}()
	runtime.LockOSThread() // niceness belongs to the thread that solves
	first, err := dataBytes()
	if err != nil {
		fail("limits", err)
	}
	for begun, garbage := false, 0; ; begun = true {
		q, err := decodeRequest(<-requests)
		if err != nil {
			fail("request", err)
		}
		// Should the parent be stopped, nobody kills us.
		watchdog := time.AfterFunc(4*q.Time+10*time.Second, func() { os.Exit(3) })
		used, err := restrict(q, begun)
		if err != nil {
			fail("limits", err)
		}
		a := solve(q)
		a.Asked, a.Leaves = q.Asked, used > first+maxGrowth
		if _, err := os.Stdout.Write(encodeAnswer(a)); err != nil {
			fail("answer", err)
		}
		if a.Leaves {
			os.Exit(0)
		}
		watchdog.Stop()
		if garbage += len(q.Model.Index) + q.Model.Cols(); garbage > maxGarbage {
			runtime.GC() // the solver's memory is freed by finalizers, and the collector does not know of it
			garbage = 0
		}
	}
}

// A child that holds so much more data than at its start leaves after its answer, so that memory is bounded whatever the solver keeps.
const maxGrowth = 192 << 20

// maxGarbage is the number of coefficients and columns of models solved after which their memory is freed.
const maxGarbage = 100_000

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "solver child: %s: %v\n", what, err)
	os.Exit(2)
}

// restrict limits this process before it solves: data memory (what is there already plus the allowance; address
// space would count the reservations of the Go runtime), file sizes, no core dumps, and the kernel is told to take
// the solver first when memory runs out.
//
// Before later requests (again) only the data limit is set anew. It returns the data in use.
func restrict(q request, again bool) (used uint64, err error) {
	if used, err = dataBytes(); err != nil {
		return 0, err
	}
	allowed := used + uint64(q.MemoryMB)<<20
	if again {
		return used, limit(syscall.RLIMIT_DATA, allowed)
	}
	for _, l := range []struct {
		resource int
		value    uint64
	}{
		{syscall.RLIMIT_DATA, allowed},
		{syscall.RLIMIT_FSIZE, maxRemains},
		{syscall.RLIMIT_CORE, 0},
	} {
		if err := limit(l.resource, l.value); err != nil {
			return 0, err
		}
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0) // a courtesy: some sandboxes forbid it
	if q.Nice != 0 {
		cur, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // the system call answers 20 - niceness
		if err != nil {
			return 0, fmt.Errorf("niceness: %w", err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-cur+q.Nice); err != nil {
			return 0, fmt.Errorf("niceness: %w", err)
		}
	}
	return used, nil
}

// limit sets a soft limit, as far as the hard one allows.
func limit(resource int, value uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return fmt.Errorf("limit %d: %w", resource, err)
	}
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(value, now.Max), Max: now.Max}); err != nil {
		return fmt.Errorf("limit %d: %w", resource, err)
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
