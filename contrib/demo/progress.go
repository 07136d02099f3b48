package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress writes what happens, a line each. On a terminal a status line below it is rewritten in place; elsewhere a status comes every 15 s.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	shown    bool // a status line is on the screen
	last     time.Time
	part     []byte // of a line that Write has not seen the end of
}

const statusEvery = 15 * time.Second

func newProgress(f *os.File) *progress {
	info, err := f.Stat()
	return &progress{w: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// status shows a line in place of the last one.
func (p *progress) status(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal {
		if time.Since(p.last) >= statusEvery {
			p.last = time.Now()
			fmt.Fprintln(p.w, line)
		}
		return
	}
	p.wipe()
	if len(line) > 79 {
		line = line[:79]
	}
	fmt.Fprint(p.w, line)
	p.shown = true
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *progress) wipe() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// Write passes on the lines of others, such as the cluster's script.
func (p *progress) Write(b []byte) (int, error) {
	p.part = append(p.part, b...)
	for {
		line, rest, ok := bytes.Cut(p.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		p.say("%s", line)
		p.part = rest
	}
}
