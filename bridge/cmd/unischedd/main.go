// Command unischedd is the daemon: it runs the loop of package bridge against one Slurm cluster, and answers on the control socket and the
// node listener beside it.
//
// It owns the only ticker and the only wall clock. It decides nothing: configuration comes from a file, memory from the journal, everything
// else from the packages that it wires together. On TERM it finishes the cycle in progress and leaves things as they are: jobs that wait
// are delayed by begin times that end by themselves.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"unisched/bridge/siteconfig"
	"unisched/planner/milp/highs"
)

// version is set by the build (-ldflags -X main.version=...).
var version = "dev"

func main() {
	highs.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(realMain(ctx, os.Args[1:], os.Stderr))
}

// realMain returns the exit code: 0 after a clean end, 1 after an error, 64 for wrong usage.
func realMain(ctx context.Context, args []string, stderr io.Writer) int {
	fs := flag.NewFlagSet("unischedd", flag.ContinueOnError)
	fs.SetOutput(stderr)
	config := fs.String("config", siteconfig.DefaultPath, "configuration `file`")
	once := fs.Bool("once", false, "run one cycle and end; no socket is opened")
	show := fs.Bool("version", false, "print the version and end")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 64
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "unischedd: unexpected argument %q; try --help\n", fs.Arg(0))
		return 64
	}
	if *show {
		fmt.Println("unischedd", version)
		return 0
	}
	site, _, err := siteconfig.Load(*config)
	if err != nil {
		fmt.Fprintf(stderr, "unischedd: the configuration cannot be used:\n%v\nAll faults at once: unisched config validate %s\n", err, *config)
		return 1
	}
	log, closeLog := newLog(stderr, site.Daemon.LogLevel)
	defer closeLog()
	if err := serve(ctx, site, log, *once); err != nil {
		log.Error().Err(err).Msg("unischedd ends")
		return 1
	}
	return 0
}
