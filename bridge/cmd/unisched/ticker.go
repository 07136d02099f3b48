package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// ticker shows how far long work is: on a terminal one line that is written over every second, elsewhere (a log, a batch job's output) a line every half
// minute. It is not safe for use by several goroutines at once.
type ticker struct {
	w        io.Writer
	now      func() time.Time
	quiet    bool
	terminal bool
	shown    time.Time
	open     bool // the terminal's line is not ended
}

func (a *app) newTicker(quiet bool) *ticker {
	return &ticker{w: a.err, now: a.now, quiet: quiet, terminal: isTerminal(a.err), shown: a.now()}
}

// say shows the line if it is time to.
func (t *ticker) say(format string, args ...any) {
	every := 30 * time.Second
	if t.terminal {
		every = time.Second
	}
	now := t.now()
	if t.quiet || now.Sub(t.shown) < every {
		return
	}
	t.shown = now
	if !t.terminal {
		fmt.Fprintf(t.w, format+"\n", args...)
		return
	}
	fmt.Fprintf(t.w, "\r"+format+"    ", args...)
	t.open = true
}

// end leaves the line as it is.
func (t *ticker) end() {
	if t.open {
		fmt.Fprintln(t.w)
		t.open = false
	}
}

// isTerminal reports whether somebody may be looking.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
