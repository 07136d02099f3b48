package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxTasks is what slurm.conf's MaxArraySize allows by default, less one.
const maxTasks = 1000

// array writes OUT/array.sbatch, a job array over the cells that are missing: each task runs a few lines of OUT/cells.list, so that a task that is lost, or
// killed by its time limit, costs its own cells only. Nothing but the folder has to be shared between the nodes.
func (l *lab) array(ctx context.Context, out io.Writer, cells []cell) error {
	todo := l.missing(cells)
	if len(todo) == 0 {
		fmt.Fprintln(out, "every cell is there: experiments merge")
		return nil
	}
	self, err := l.keepSelf()
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, c := range todo {
		list.WriteString(c.ID() + "\n")
	}
	if err := os.MkdirAll(filepath.Join(l.out, "log"), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.out, "cells.list"), []byte(list.String()), 0o666); err != nil {
		return err
	}
	script := filepath.Join(l.out, "array.sbatch")
	if err := os.WriteFile(script, []byte(l.script(self, len(todo))), 0o777); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d cells in %s\nwhen it has ended: %s\n", len(todo), script, strings.Join(l.words(self, "merge"), " "))
	if !l.submit {
		fmt.Fprintln(out, "submit it: sbatch", quoted(script))
		return nil
	}
	cmd := exec.CommandContext(ctx, "sbatch", script)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

// keepSelf copies this program and the simulator into the folder: `go run` forgets its own, and a build in between would change the other.
func (l *lab) keepSelf() (string, error) {
	me, err := os.Executable()
	if err != nil {
		return "", err
	}
	self := filepath.Join(l.out, "experiments")
	for from, to := range map[string]string{me: self, l.bin: filepath.Join(l.out, "unisched")} {
		raw, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if from == to {
			continue
		}
		_ = os.Remove(to) // a running one cannot be written to
		if err := os.WriteFile(to, raw, 0o777); err != nil {
			return "", err
		}
	}
	return self, nil
}

// words is the command line of this program with the same cells.
func (l *lab) words(self, verb string) []string {
	w := []string{quoted(self), "--bin", quoted(filepath.Join(l.out, "unisched")), "--data", quoted(l.data), "--out", quoted(l.out), "--limit", l.limit.String()}
	if l.quick {
		w = append(w, "--quick")
	}
	if l.stale {
		w = append(w, "--stale")
	}
	if l.only != "" {
		w = append(w, "--only", quoted(l.only))
	}
	return append(w, verb)
}

func (l *lab) script(self string, n int) string {
	per := (n + maxTasks - 1) / maxTasks
	tasks := (n + per - 1) / per
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("#!/bin/bash")
	line("#SBATCH --job-name=unisched-experiments")
	line("#SBATCH --array=0-%d%%%d", tasks-1, 64)
	line("#SBATCH --ntasks=1 --cpus-per-task=1 --mem=2G --time=%d", int(l.limit.Minutes())*per+10)
	line("#SBATCH --output=%s", strings.ReplaceAll(filepath.Join(l.out, "log", "%A_%a.txt"), " ", `\ `))
	for _, o := range strings.Fields(l.sbatch) {
		line("#SBATCH %s", o)
	}
	line("# %d cells, %d in each task. A cell that is there for the same inputs is left out, so this may be submitted again.", n, per)
	line("set -uo pipefail")
	line("from=$((SLURM_ARRAY_TASK_ID * %d + 1))", per)
	line("bad=0")
	line(`while IFS= read -r id; do`)
	line(`  %s "$id" || bad=1`, strings.Join(l.words(self, "cell"), " "))
	line(`done < <(sed -n "${from},$((from + %d))p" %s)`, per-1, quoted(filepath.Join(l.out, "cells.list")))
	line("exit $bad")
	return b.String()
}

// quoted is a word that a shell reads back as it is.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
