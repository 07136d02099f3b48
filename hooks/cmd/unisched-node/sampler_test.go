package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"unisched/hooks/gpu"
)

// child is a sampler of which a test writes the lines.
type child struct {
	io.WriteCloser
	ctx context.Context
}

// children makes a sampler whose children are handed to the test as they start.
func children(warn func(string, ...any)) (*sampler, chan child) {
	made := make(chan child, 100)
	s := newSampler("", warn)
	s.start = func(ctx context.Context) (io.ReadCloser, func() error, error) {
		r, w := io.Pipe()
		context.AfterFunc(ctx, func() { w.Close() }) // a killed child closes its end
		made <- child{w, ctx}
		return r, func() error { return errors.New("exit status 1") }, nil
	}
	return s, made
}

func line(t *testing.T, used float64) string {
	t.Helper()
	b, err := gpu.Report{SchemaVersion: 1, Source: gpu.NVML, GPUs: []gpu.Sample{{Slice: -1, Health: gpu.Well, MIG: "off", MemoryUsed: gpu.Of(used)}}}.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A child that dies, writes nonsense or falls silent is started again, after a pause that doubles until one of them writes a good line.
func TestSamplerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		s, made := children(func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		start := time.Now()
		var starts []time.Duration
		for range 11 {
			c := <-made
			starts = append(starts, time.Since(start).Round(time.Second))
			c.Close() // dies at once
		}
		if got := fmt.Sprint(starts); got != "[0s 1s 3s 7s 15s 31s 1m3s 2m7s 4m15s 8m31s 13m31s]" {
			t.Error(got)
		}
		c := <-made
		io.WriteString(c, line(t, 1))
		synctest.Wait()
		if r := s.take(); r == nil || r.GPUs[0].MemoryUsed != gpu.Of(1) || s.take() != nil {
			t.Errorf("%+v", r)
		}
		// It falls silent.
		before := time.Now()
		<-c.ctx.Done()
		if d := time.Since(before); d != samplerSilent {
			t.Errorf("killed after %v", d)
		}
		c = <-made
		if d := time.Since(before); d != samplerSilent+samplerFirst {
			t.Errorf("the next one after %v", d)
		}
		io.WriteString(c, "nonsense\n")
		c = <-made
		go io.WriteString(c, strings.Repeat("x", gpu.MaxBytes+1)) // a line without an end
		c = <-made
		io.WriteString(c, line(t, 2))
		io.WriteString(c, line(t, 3))
		synctest.Wait()
		r := s.take()
		if r == nil || r.GPUs[0].MemoryUsed != gpu.Of(3) {
			t.Errorf("%+v", r)
		}
		s.putBack(r)
		if s.take() == nil {
			t.Error("put back in vain")
		}
		stop()
		<-ended
		if len(said) == 0 || len(said) > 5 {
			t.Errorf("%q", said)
		}
	})
}

// GPU figures go out with the next report, in one of their own when no job says anything, and come again when the daemon was away.
func TestWatchSendsGPUs(t *testing.T) {
	n := newNode(t)
	n.w.gpus = newSampler("", nil)
	hello := func(at time.Time) int {
		before := len(n.reports)
		n.w.tell(n.w.hello(t.Context(), at))
		return len(n.reports) - before
	}
	n.w.sent = t0
	if hello(t0) != 0 {
		t.Error("a report without news")
	}
	r, err := gpu.Parse([]byte(strings.TrimSpace(line(t, 5))))
	if err != nil {
		t.Fatal(err)
	}
	n.w.gpus.putBack(&r)
	n.answer = func() (bool, error) { return false, errors.New("away") }
	if hello(t0) != 0 {
		t.Error("delivered")
	}
	n.answer = nil
	if hello(t0) != 1 || n.reports[0].GPUs == nil || n.reports[0].GPUs.GPUs[0].MemoryUsed != gpu.Of(5) || len(n.reports[0].Jobs) != 0 {
		t.Errorf("%+v", n.reports)
	}
	if hello(t0) != 0 {
		t.Error("sent twice")
	}
}

// The program is run with a small environment, and what it says before it dies is told.
func TestStartSampler(t *testing.T) {
	script := filepath.Join(t.TempDir(), samplerName)
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho '"+strings.TrimSpace(line(t, 7))+"'\necho \"no driver, key ${SECRET:-unset}\" >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET", "known")
	s := newSampler(script, nil)
	good, err := s.once(t.Context())
	if r := s.take(); !good || r == nil || err == nil || !strings.Contains(err.Error(), "no driver, key unset") {
		t.Errorf("%v, %+v, %v", good, r, err)
	}
	if _, err := newSampler("/nonexistent", nil).once(t.Context()); err == nil {
		t.Error("started")
	}
	if got := findSampler(); got != "" && filepath.Base(got) != samplerName {
		t.Error(got)
	}
}

// Where the dynamic program cannot start, the static one beside it takes its place.
func TestSamplerFallsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), samplerName)
	good := strings.TrimSpace(line(t, 7))
	for name, text := range map[string]string{
		path:                "echo \"/lib64/libc.so.6: version GLIBC_2.34 not found\" >&2\nexit 1\n",
		path + staticSuffix: "echo '" + good + "'\nread -r never\n",
	} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	said := make(chan string, 10)
	s := newSampler(path, func(f string, a ...any) { said <- fmt.Sprintf(f, a...) })
	s.first = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx) }()
	for s.take() == nil { // the test's own time limit bounds it
		runtime.Gosched()
	}
	stop()
	<-ended
	if text := <-said; !strings.Contains(text, "GLIBC_2.34") {
		t.Error(text)
	}
	alone := newSampler(filepath.Join(t.TempDir(), samplerName), func(string, ...any) {})
	if alone.next != nil {
		t.Error("there is no second program, and it would be tried")
	}
}
