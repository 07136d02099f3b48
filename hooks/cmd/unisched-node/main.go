// Command unisched-node is the part of UniSched that runs on compute nodes: Slurm's prolog, epilog and task prolog, the
// sidecar that makes a program preemptible (run), the writer of progress lines for shell scripts (report), and the
// service that sends progress to the daemon (watch). It refuses to decide anything, to stop a job from starting, and to
// trust what a job wrote. It is one static binary of the standard library, so that it runs on any node and inside any
// container.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

const usage = `usage: unisched-node VERB [flags]

For Slurm (slurm.conf):
  prolog      make the job's directory; runs as root, never fails
  epilog      mark the job's directory as ended; runs as root, never fails
  taskprolog  make the run's directory and print what to export

For batch scripts:
  run [flags] [--] CMD...   run CMD, pass the scheduler's signal on, exit with the agreed code
  report KEY[=VALUE]...     append a progress line: iter=1200 val_acc=0.7 | ready | checkpoint iter=1200 | done=target

For systemd:
  watch --url URL --key FILE [flags]   send progress to the daemon

  version

Every verb takes -h.
`

// Exit statuses beside those of the command that run started.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 64
)

// streams and environment of one call, so that tests can stand in for the process.
type call struct {
	args   []string
	getenv func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

func (c call) warn(format string, args ...any) {
	fmt.Fprintf(c.stderr, "unisched-node: "+format+"\n", args...)
}

func main() {
	c := call{args: os.Args[1:], getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(c.dispatch())
}

func (c call) dispatch() int {
	if len(c.args) == 0 {
		fmt.Fprint(c.stderr, usage)
		return exitUsage
	}
	verb := c.args[0]
	c.args = c.args[1:]
	switch verb {
	case "prolog":
		return c.prolog()
	case "epilog":
		return c.epilog()
	case "taskprolog":
		return c.taskProlog()
	case "run":
		return c.run()
	case "report":
		return c.report()
	case "watch":
		return c.watch()
	case "version":
		fmt.Fprintln(c.stdout, "unisched-node "+version())
		return exitOK
	case "-h", "--help", "help":
		fmt.Fprint(c.stdout, usage)
		return exitOK
	}
	c.warn("no verb %q", verb)
	fmt.Fprint(c.stderr, usage)
	return exitUsage
}

// release is set by the build (-ldflags -X main.release=...).
var release string

func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
