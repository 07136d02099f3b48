// Command fidelity measures how well the simulator foretells a real cluster: it plays the two loads of the UniSched paper's prototype (section 6), cut and
// scaled in time, on a real Slurm of 16 nodes of 4 fake GPUs with the real daemon, and again with the very loop of the daemon on slurmsim, from the
// same configuration file and the same submissions, and compares what became of the jobs.
//
// It decides nothing and tunes nothing: the figures of slurmsim's Slurm are constants (virtual.go) that were measured with `-mode records`.
// `make fidelity` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"unisched/planner/milp/highs"
)

type flags struct {
	mode, out, bin, slurm string
	load                  load
	runs                  int
}

func main() {
	highs.MaybeChild()
	f := flags{}
	flag.StringVar(&f.mode, "mode", "both", "real: the cluster only; sim: slurmsim against the records of an earlier run; both; records: the latencies in the records")
	flag.StringVar(&f.out, "out", "out/fidelity", "`folder` of the records and figures")
	flag.StringVar(&f.bin, "bin", "bin", "`folder` of unischedd, unisched and unisched-node")
	flag.StringVar(&f.slurm, "slurm", "24.11", "Slurm `version`")
	flag.IntVar(&f.load.Jobs, "load", 360, "the paper's `number` of jobs over eight hours: 360 or 720")
	flag.Float64Var(&f.load.Share, "share", 0.25, "`share` of the eight hours that is played, with as many jobs less")
	flag.Float64Var(&f.load.Scale, "scale", 15, "how many `times` faster than the paper's time goes")
	flag.Uint64Var(&f.load.Seed, "seed", 1, "`seed` of the jobs")
	flag.IntVar(&f.runs, "runs", 5, "`number` of simulations, each with a luck of its own where Slurm has one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "fidelity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags) error {
	if f.load.Share <= 0 || f.load.Share > 1 || f.load.Scale < 1 || f.load.Scale > 60 || f.load.Jobs < 1 || f.load.Jobs > 10000 || f.runs < 1 {
		return errors.New("want a share within 0..1, a scale within 1..60, a sane number of jobs, and a simulation at least")
	}
	f.out = filepath.Join(f.out, fmt.Sprintf("%d-%d", f.load.Jobs, f.load.Seed))
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	if f.mode == "real" || f.mode == "both" {
		if err := playReal(ctx, f); err != nil {
			return fmt.Errorf("real cluster: %w", err)
		}
	}
	real, err := readRecord(filepath.Join(f.out, "real.json"))
	if err != nil || f.mode == "real" {
		return err
	}
	if f.mode == "records" {
		return latencies(os.Stdout, f.out, real)
	}
	var sims []record
	for i := range f.runs {
		virtual, err := playVirtual(ctx, f, real, uint64(i+1))
		if err != nil {
			return fmt.Errorf("slurmsim: %w", err)
		}
		if err := writeRecord(filepath.Join(f.out, fmt.Sprintf("sim-%d.json", i+1)), virtual); err != nil {
			return err
		}
		sims = append(sims, virtual)
	}
	return compare(os.Stdout, real, sims)
}
