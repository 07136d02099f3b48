// Command demo shows the whole thing on one machine: a real Slurm, the daemon, and real training jobs of two users that compete for twelve GPUs. It
// prints a table and a chart of what happened, compares with what plain Slurm would have made of the same jobs, and ends with exit code 0 only if
// every promise was kept (verdict.go lists them).
//
// It decides nothing about jobs: it submits them as their users would and watches. `make demo` builds what it needs and runs it.
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
	"time"

	"unisched/contrib/lab"
)

// unit is the best-effort lease of the demo; profileTime and the like follow from it in the lab.
const unit = 20 * time.Second

// allowance is how long the jobs may take together before the demo gives up on them.
const allowance = 8 * time.Minute

type flags struct {
	slurm, bin, out, dir string
	keep                 bool
}

func main() {
	var f flags
	flag.StringVar(&f.slurm, "slurm", "24.11", "Slurm `version`: 24.11 or 26.05")
	flag.StringVar(&f.bin, "bin", "", "`folder` of unischedd, unisched and unisched-node (default: bin/ of this repository)")
	flag.StringVar(&f.out, "out", "out", "`folder` for demo.svg and demo.json")
	flag.StringVar(&f.dir, "dir", "", "`folder` of the cluster and the daemon, absent or empty (default: a new one in /tmp)")
	flag.BoolVar(&f.keep, "keep", false, "leave cluster and daemon running at the end, to look around")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; try -h\n", flag.Arg(0))
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the demo at once
	if err := run(ctx, f); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// run brings everything up, plays the scenario, reports, and takes everything down again, whatever happened.
func run(ctx context.Context, f flags) (err error) {
	p := newProgress(os.Stderr)
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	p.say("starting Slurm %s with 3 nodes of 4 GPUs, and unischedd with a unit of %v", f.slurm, unit)
	l, err := lab.Up(ctx, lab.Options{Slurm: f.slurm, BinDir: f.bin, Dir: f.dir, Unit: unit, Log: p})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, takeDown(p, l, f.keep, err != nil && ctx.Err() == nil)) }()
	playing, cancel := context.WithTimeoutCause(ctx, allowance, fmt.Errorf("the jobs were not done after %v", allowance))
	defer cancel()
	s := newScenario(l, p)
	if err := s.play(playing); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return fmt.Errorf("%w%s", err, s.where())
	}
	r, err := collect(ctx, l, s)
	if err != nil {
		return err
	}
	p.clear()
	r.print(os.Stdout)
	if err := r.write(f.out); err != nil {
		return err
	}
	fmt.Printf("\nThe chart as a picture: %s\n", filepath.Join(f.out, "demo.svg"))
	return r.judge(os.Stdout)
}

// takeDown ends the lab. After a failure its logs stay, and with --keep all of it.
func takeDown(p *progress, l *lab.Lab, keep, failed bool) error {
	switch {
	case keep:
		p.say("left running (--keep). Look around:\n  bin/unisched --config %s jobs\n  contrib/testcluster/cluster exec --dir %s -- squeue\n"+
			"End it: contrib/testcluster/cluster down --dir %[2]s, and kill unischedd", l.ConfigFile, l.Slurm.Dir)
		return nil
	case failed:
		err := l.DownKeepLogs()
		p.say("the logs are in %s: unischedd.log is the daemon's, kept/ has Slurm's and the jobs' outputs", l.Dir)
		return err
	}
	p.say("taking everything down")
	return l.Down()
}
