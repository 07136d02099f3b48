package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"unisched/bridge/sim"
	"unisched/bridge/sim/report"
	"unisched/bridge/sim/trace"
)

// lab is where cells are run: the program, the traces, the folder of answers.
type lab struct {
	options
	build  string            // SHA-256 of the simulator
	sums   map[string]string // of traces, by path
	traces map[string]trace.Trace
}

// answer is the file of a cell.
type answer struct {
	Schema int    `json:"schema_version"`
	Key    string `json:"key"` // of the inputs
	Build  string `json:"simulator_sha256"`
	Cell   cell   `json:"cell"`
	Cost   cost   `json:"cost"`
	Result result `json:"result"`
	// Cut is the time limit, in seconds, that ended the cell before it had an answer; 0: it has one.
	Cut float64 `json:"cut_s,omitempty"`
}

// cost is what a cell took. Wall time says as much about the machine's other work; processor time hardly does, but the solver process that is alive in the
// end is never waited for and so not in it.
type cost struct {
	Wall float64 `json:"wall_s"`
	CPU  float64 `json:"cpu_s"`
	RSS  float64 `json:"max_rss_mb"` // of the largest process
}

func costOf(p *os.ProcessState, wall time.Duration) cost {
	c := cost{Wall: wall.Seconds()}
	if p == nil {
		return c
	}
	c.CPU = (p.UserTime() + p.SystemTime()).Seconds()
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		c.RSS = float64(u.Maxrss) / 1024 // Linux counts in KiB
	}
	return c
}

// result is what the simulator says, as far as it is needed here.
type result struct {
	Policies []sim.Figures `json:"policies"`
	Trace    report.Trace  `json:"trace"`
}

func open(o options) (*lab, error) {
	l := &lab{options: o, sums: map[string]string{}, traces: map[string]trace.Trace{}}
	for _, p := range []*string{&l.bin, &l.data, &l.out} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	var err error
	if l.build, err = sumOf(l.bin); err != nil {
		return nil, fmt.Errorf("the simulator: %w (make build, or name it with --bin)", err)
	}
	return l, os.MkdirAll(filepath.Join(l.out, "cells"), 0o777)
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// has reports whether a trace is there: a machine may have some of them only.
func (l *lab) has(name string) bool {
	if _, ok := l.sums[name]; !ok {
		l.sums[name], _ = sumOf(filepath.Join(l.data, name))
	}
	return l.sums[name] != ""
}

// fitting is the number of nodes that a trace loads to about 1. Jobs wider than the cluster count for nothing, since no policy can run them: near the number
// that all jobs together would fill, the one whose load is closest to 1.
func (l *lab) fitting(name string, args []string) int {
	t, err := l.slice(name, args)
	if err != nil || len(t.Jobs) == 0 {
		return 8
	}
	span := max(t.Jobs[len(t.Jobs)-1].Submit.Seconds(), 3600)
	load := func(n int) float64 {
		sum := 0.0
		for _, j := range t.Jobs {
			if j.GPUs <= 8*n {
				sum += j.Duration.Seconds() * float64(j.GPUs)
			}
		}
		return sum / (span * float64(8*n))
	}
	all := int(math.Ceil(t.GPUTime() / (span * 8)))
	best := max(all, 1)
	for n := best; n >= max(all/2, 1); n-- {
		if math.Abs(load(n)-1) < math.Abs(load(best)-1) {
			best = n
		}
	}
	return best
}

// slice reads the part of a trace that the arguments name.
func (l *lab) slice(name string, args []string) (trace.Trace, error) {
	key := name + " " + valueOf(args, "--from") + " " + valueOf(args, "--until")
	if t, ok := l.traces[key]; ok {
		return t, nil
	}
	f, err := os.Open(filepath.Join(l.data, name))
	if err != nil {
		return trace.Trace{}, err
	}
	defer f.Close()
	t, err := trace.Read(f, valueOf(args, "--format"), trace.Options{Seed: 1})
	if err == nil {
		t = t.Between(days(valueOf(args, "--from")), days(valueOf(args, "--until")))
		l.traces[key] = t
	}
	return t, err
}

// days reads a span as the cells write it: 2d or 36h.
func days(s string) time.Duration {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		v, _ := strconv.ParseFloat(n, 64)
		return time.Duration(v * 24 * float64(time.Hour))
	}
	d, _ := time.ParseDuration(s)
	return d
}

// key sums up what an answer depends on.
func (l *lab) key(c cell, build string) string {
	h := sha256.New()
	for _, s := range append([]string{build, l.sums[c.Trace]}, c.Args...) {
		fmt.Fprintf(h, "%q ", s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (l *lab) file(c cell) string {
	return filepath.Join(l.out, "cells", strings.NewReplacer("/", "_", "=", "-").Replace(c.ID())+".json")
}

// answered reads a cell's answer when it is there for the same inputs: figures, or that this limit was not enough.
func (l *lab) answered(c cell) (answer, bool) {
	var a answer
	raw, err := os.ReadFile(l.file(c))
	if err != nil || json.Unmarshal(raw, &a) != nil || len(a.Result.Policies) != 1 && a.Cut == 0 {
		return answer{}, false
	}
	build := l.build
	if l.stale {
		build = a.Build
	}
	return a, a.Key == l.key(c, build)
}

// missing are the cells to be run: one that was cut short is tried again when it may take longer now.
func (l *lab) missing(cells []cell) []cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { a, ok := l.answered(c); return ok && !(a.Cut > 0 && a.Cut < l.limit.Seconds()) })
}

func (l *lab) list(out io.Writer, cells []cell) error {
	for _, c := range cells {
		mark := "x"
		if len(l.missing([]cell{c})) > 0 {
			mark = " "
		}
		fmt.Fprintf(out, "[%s] %-60s %s\n", mark, c.ID(), strings.Join(c.Args, " "))
	}
	fmt.Fprintf(out, "%d cells, %d to be run\n", len(cells), len(l.missing(cells)))
	return nil
}

// named runs cells by id, whatever is there already.
func (l *lab) named(ctx context.Context, errs io.Writer, cells []cell, ids []string) error {
	if len(ids) == 0 {
		return errors.New("cell: which?")
	}
	var fault error
	for _, id := range ids {
		i := slices.IndexFunc(cells, func(c cell) bool { return c.ID() == id })
		if i < 0 {
			fault = errors.Join(fault, fmt.Errorf("no cell %q", id))
			continue
		}
		if len(l.missing(cells[i:i+1])) == 0 {
			fmt.Fprintln(errs, id, "is there")
			continue
		}
		fault = errors.Join(fault, l.one(ctx, cells[i]))
	}
	return fault
}

// run runs what is missing, some at a time. One that fails is named in the end and costs the others nothing.
func (l *lab) run(ctx context.Context, errs io.Writer, cells []cell) error {
	todo := l.missing(cells)
	fmt.Fprintf(errs, "%d cells, %d to be run, %d at a time\n", len(cells), len(todo), max(l.parallel, 1))
	var mu sync.Mutex
	var faults []error
	began, ended := time.Now(), 0
	work := make(chan cell)
	var wg sync.WaitGroup
	for range max(l.parallel, 1) {
		wg.Go(func() {
			for c := range work {
				at := time.Now()
				err := l.one(ctx, c)
				mu.Lock()
				ended++
				state := time.Since(at).Round(time.Second).String()
				if err != nil {
					faults = append(faults, err)
					state = "FAILED"
				}
				left := time.Duration(float64(time.Since(began)) / float64(ended) * float64(len(todo)-ended)).Round(time.Second)
				fmt.Fprintf(errs, "[%d/%d] %s: %s, about %v left\n", ended, len(todo), c.ID(), state, left)
				mu.Unlock()
			}
		})
	}
	for _, c := range todo {
		if ctx.Err() != nil {
			break
		}
		work <- c
	}
	close(work)
	wg.Wait()
	return errors.Join(append(faults, ctx.Err())...)
}

// one runs a cell and writes its answer.
func (l *lab) one(ctx context.Context, c cell) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	args := append([]string{"sim", "--trace", filepath.Join(l.data, c.Trace), "--data-dir", l.data, "--parallel", "1", "--quiet", "-o", "json"}, c.Args...)
	cmd := exec.CommandContext(ctx, l.bin, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	err := cmd.Run()
	a := answer{Schema: 1, Key: l.key(c, l.build), Build: l.build, Cell: c, Cost: costOf(cmd.ProcessState, time.Since(began))}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &a.Result)
	}
	if err == nil && len(a.Result.Policies) != 1 {
		err = errors.New("no figures")
	}
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		a.Cut, a.Result, err = l.limit.Seconds(), result{}, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w: %s", c.ID(), err, strings.TrimSpace(errs.String()))
	}
	return l.keep(a)
}

// keep writes an answer, whole or not at all.
func (l *lab) keep(a answer) error {
	c := a.Cell
	raw, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", c.ID(), err)
	}
	name := l.file(c)
	if err := os.WriteFile(name+".tmp", append(raw, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}
