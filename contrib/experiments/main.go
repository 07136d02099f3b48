// Command experiments repeats every experiment of the documentation: the workloads of the UniSched paper, other traces at a load of about 1, ablations and
// sensitivities, each against the policies that make sense for it. It is a list of cells, one call of `unisched sim` each; a cell writes its answer once
// and is left out when that is there for the same program, arguments and trace, so that whatever was interrupted goes on where it stood.
//
// It computes nothing itself: cells are the simulator's, and what is merged is what they wrote. People and CI call it (make experiments); with --slurm the
// cells become a job array on any cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

const usage = `experiments [flags] [list | run | cell ID... | merge]

  run     run the cells that are missing, then merge (the default); --slurm writes a job array instead
  list    the cells, and which of them are done
  cell    run these cells alone (what a task of the array does)
  merge   results.csv, results.md and index.html from what is there

Flags:
`

// options are what the command was told.
type options struct {
	bin, data, out, only string
	quick, slurm, submit bool
	stale                bool
	parallel             int
	limit                time.Duration
	sbatch               string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "experiments:", err)
		}
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, errs io.Writer) error {
	var o options
	f := flag.NewFlagSet("experiments", flag.ContinueOnError)
	f.SetOutput(errs)
	f.Usage = func() { fmt.Fprint(errs, usage); f.PrintDefaults() }
	data := os.Getenv("UNISCHED_DATA")
	if data == "" {
		data = filepath.Join("..", "shared", "data")
	}
	f.StringVar(&o.bin, "bin", filepath.Join("bin", "unisched"), "the simulator")
	f.StringVar(&o.data, "data", data, "folder of traces")
	f.StringVar(&o.out, "out", filepath.Join("out", "experiments"), "folder of results")
	f.StringVar(&o.only, "only", "", "only cells whose id matches this regular expression")
	f.BoolVar(&o.quick, "quick", false, "small cuts of every experiment, in minutes: to see that all works, not to be quoted")
	f.BoolVar(&o.stale, "stale", false, "accept answers of another build of the simulator")
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "cells at the same time")
	f.DurationVar(&o.limit, "limit", 6*time.Hour, "time of one cell at most")
	f.BoolVar(&o.slurm, "slurm", false, "write a job array for the missing cells instead of running them")
	f.BoolVar(&o.submit, "submit", false, "with --slurm: hand it to sbatch as well")
	f.StringVar(&o.sbatch, "sbatch", "", "with --slurm: further #SBATCH options, separated by spaces")
	if err := f.Parse(args); err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	lab, err := open(o)
	if err != nil {
		return err
	}
	cells := lab.cells(only)
	if len(cells) == 0 {
		return errors.New("no cell is left: see --only, and --data for the folder of traces")
	}
	switch verb := f.Arg(0); {
	case verb == "list":
		return lab.list(out, cells)
	case verb == "cell":
		return lab.named(ctx, errs, cells, f.Args()[1:])
	case verb == "merge":
		return lab.merge(out, cells)
	case verb != "" && verb != "run":
		f.Usage()
		return fmt.Errorf("no such thing to do: %q", verb)
	case o.slurm:
		return lab.array(ctx, out, cells)
	}
	ran := lab.run(ctx, errs, cells)
	return errors.Join(ran, lab.merge(out, cells))
}
