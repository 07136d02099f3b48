package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"unisched/hooks/progress"
)

// report appends one progress line. A mistake in the arguments is an error of the script's author and exits 64; a full
// disk or a missing directory is not worth a training, so those are told and exit 0.
func (c call) report() int {
	if len(c.args) == 1 && (c.args[0] == "-h" || c.args[0] == "--help") {
		fmt.Fprint(c.stdout, usage)
		return exitOK
	}
	l, err := lineOf(c.args)
	if err != nil {
		c.warn("report: %v", err)
		return exitUsage
	}
	l.Time = time.Now()
	if err := c.append(l); err != nil {
		c.warn("report: %v", err)
	}
	return exitOK
}

// append writes a line to the run's progress file. It does nothing when there is none, or when this is not the first
// task of a step: all ranks of a data-parallel job may run the same command.
func (c call) append(l progress.Line) error {
	path, rank := c.getenv("UNISCHED_PROGRESS"), c.getenv("SLURM_PROCID")
	if path == "" || (rank != "" && rank != "0") {
		return nil
	}
	b, err := l.JSON()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n')) // one write, so that lines of several writers never mix
	return errors.Join(err, f.Close())
}

// lineOf builds a line from words such as "iter=1200", "val_acc=0.71", "ready", "checkpoint", "done=target".
func lineOf(args []string) (progress.Line, error) {
	l := progress.Line{Kind: progress.Progress}
	if len(args) == 0 {
		return l, errors.New("nothing to report: want for example iter=1200 val_acc=0.7")
	}
	seen := map[string]bool{}
	for _, a := range args {
		k, v, hasValue := strings.Cut(a, "=")
		if seen[k] {
			return l, fmt.Errorf("%s twice", k)
		}
		seen[k] = true
		if err := setWord(&l, k, v, hasValue); err != nil {
			return l, fmt.Errorf("%s: %w", a, err)
		}
	}
	sort.Slice(l.Metrics, func(i, j int) bool { return l.Metrics[i].Name < l.Metrics[j].Name })
	if _, err := l.JSON(); err != nil {
		return l, err
	}
	return l, nil
}

func setWord(l *progress.Line, k, v string, hasValue bool) error {
	kinds := map[string]progress.Kind{"ready": progress.Ready, "checkpoint": progress.Checkpoint, "done": progress.Done, "signal": progress.Signal}
	if kind, ok := kinds[k]; ok {
		switch {
		case l.Kind != progress.Progress:
			return fmt.Errorf("already a line of kind %s", l.Kind)
		case hasValue && kind == progress.Done:
			l.Reason = v
		case hasValue && kind == progress.Signal:
			l.Signal = strings.TrimPrefix(v, "SIG")
		case hasValue && v != "true":
			return errors.New("takes no value")
		}
		l.Kind = kind
		return nil
	}
	if k == "resumed" && (!hasValue || v == "true") {
		l.Resumed = true
		return nil
	}
	ints := map[string]*int64{"iter": &l.Iter, "grad_bytes": &l.GradBytes, "batch": &l.Batch, "bytes": &l.Bytes}
	if to, ok := ints[k]; ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 || n > progress.MaxIter {
			return errors.New("want a whole number")
		}
		*to = n
		l.HasIter = l.HasIter || k == "iter"
		return nil
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return errors.New("want a number")
	}
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0): // a diverged loss is no mistake of the script: the rest of the line counts
	case k == "epoch":
		l.Epoch, l.HasEpoch = f, true
	case k == "seconds":
		l.Seconds = f
	default:
		l.Metrics = append(l.Metrics, progress.Metric{Name: k, Value: f})
	}
	return nil
}
