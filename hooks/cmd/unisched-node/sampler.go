package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"unisched/hooks/gpu"
)

// Bounds on the GPU sampler, a child that loads the vendor's library and may crash or hang with it.
const (
	samplerName    = "unisched-gpu"
	samplerFirst   = time.Second     // before it is started again
	samplerMost    = 5 * time.Minute // the pause doubles up to this, and is short again after a line
	samplerSilent  = 2 * time.Minute // without a line it is killed
	staticSuffix   = "-smi"          // of the program that needs no glibc, and knows less
	samplerMessage = 512             // bytes kept of what it writes to stderr
)

// sampler keeps the newest report of the child. It never stops the watcher: without a child there simply is no report.
type sampler struct {
	start func(ctx context.Context) (lines io.ReadCloser, wait func() error, err error)
	next  func() // another program than that one; nil: there is none
	warn  func(format string, args ...any)
	first time.Duration
	most  time.Duration
	still time.Duration

	mu     sync.Mutex
	newest *gpu.Report // not handed out yet
}

// findSampler is the program beside our own, "" when there is none.
func findSampler() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), samplerName)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

func newSampler(path string, warn func(string, ...any)) *sampler {
	paths, at := []string{path}, 0
	s := &sampler{start: func(ctx context.Context) (io.ReadCloser, func() error, error) { return startSampler(ctx, paths[at]) }, warn: warn,
		first: samplerFirst, most: samplerMost, still: samplerSilent}
	if info, err := os.Stat(path + staticSuffix); err == nil && info.Mode().IsRegular() {
		paths = append(paths, path+staticSuffix)
		s.next = func() { at = (at + 1) % len(paths) }
	}
	return s
}

// startSampler starts the child with a small environment. It ends when its reader is gone or ctx is over.
func startSampler(ctx context.Context, path string) (io.ReadCloser, func() error, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	said := &head{left: samplerMessage}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return out, func() error {
		err := cmd.Wait()
		if text := gpu.Plain(string(said.b)); text != "" {
			return fmt.Errorf("%w: %s", cmpError(err), text)
		}
		return err
	}, nil
}

func cmpError(err error) error {
	if err == nil {
		return errors.New("ended")
	}
	return err
}

// head keeps the first bytes of what is written to it.
type head struct {
	b    []byte
	left int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	h.b, h.left = append(h.b, p[:n]...), h.left-n
	return len(p), nil
}

// run keeps a child running until ctx ends.
func (s *sampler) run(ctx context.Context) {
	pause, told := s.first, ""
	for ctx.Err() == nil {
		good, err := s.once(ctx)
		if good {
			pause, told = s.first, ""
		} else if s.next != nil { // where its glibc is too old the first one never says a word
			s.next()
		}
		if text := fmt.Sprint(err); ctx.Err() == nil && text != told { // once for each kind of trouble
			told = text
			s.warn("watch: %s: %v; tried again in %v and later", samplerName, err, pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, s.most)
	}
}

// once runs one child to its end. good says that it wrote a line that could be read.
func (s *sampler) once(ctx context.Context) (good bool, err error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	out, wait, err := s.start(ctx)
	if err != nil {
		return false, err
	}
	dog := time.AfterFunc(s.still, kill)
	defer dog.Stop()
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 4096), gpu.MaxBytes)
	for lines.Scan() {
		r, e := gpu.Parse(bytes.TrimSpace(lines.Bytes()))
		if e != nil {
			err = e
			break // a child that writes nonsense is no use
		}
		good = true
		dog.Reset(s.still)
		s.mu.Lock()
		s.newest = &r
		s.mu.Unlock()
	}
	if err == nil {
		err = lines.Err()
	}
	kill()
	out.Close()
	if e := wait(); err == nil {
		err = e
	}
	if err == nil {
		err = errors.New("ended")
	}
	return good, err
}

// take hands out the newest report, once; nil when there is no new one. A report that could not be delivered is put back unless a newer one came.
func (s *sampler) take() *gpu.Report {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.newest
	s.newest = nil
	return r
}

func (s *sampler) putBack(r *gpu.Report) {
	if s == nil || r == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		s.newest = r
	}
}
