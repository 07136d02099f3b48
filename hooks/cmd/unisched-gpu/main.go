// Command unisched-gpu writes one line of JSON about a node's GPUs every few seconds: utilisation, memory, what lowers their clocks, memory errors, MIG
// slices. It is the child of `unisched-node watch`, and the one part of the node that is not static: it loads the vendor's library (NVML) when it runs. Where
// that cannot be loaded it asks nvidia-smi; where there is none either it says "unavailable" and why. Built without cgo it is static and asks nvidia-smi only: that is
// unisched-gpu-smi, for nodes with an old glibc. It refuses to change anything of a device, needs no
// rights beyond reading, and a value that a device does not give is "unavailable", never 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"unisched/hooks/gpu"
)

// release is set by the build (-ldflags -X main.release=...).
var release string

const (
	exitOK    = 0
	exitError = 1
	exitUsage = 64
)

// smiTimeout bounds one call of nvidia-smi, which hangs on some broken devices.
const smiTimeout = 10 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fl := flag.NewFlagSet("unisched-gpu", flag.ContinueOnError)
	fl.SetOutput(stderr)
	interval := fl.Duration("interval", 15*time.Second, "time between looks")
	once := fl.Bool("once", false, "look once")
	library := fl.String("library", "", "`path` of libnvidia-ml.so.1 (default: where the system finds it); \"none\" does not use it")
	smi := fl.String("nvidia-smi", "nvidia-smi", "`command` to ask where the library cannot be loaded; \"none\" does not")
	version := fl.Bool("version", false, "print the version")
	if err := fl.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if *version {
		fmt.Fprintln(stdout, "unisched-gpu "+versionText())
		return exitOK
	}
	if fl.NArg() > 0 || *interval < time.Second {
		fmt.Fprintln(stderr, "unisched-gpu: want no arguments and an interval of a second or more")
		return exitUsage
	}
	s := sampler{now: time.Now}
	if *library != "none" {
		s.driver = newDriver(*library)
	}
	if *smi != "none" {
		s.smi = func(ctx context.Context) ([]byte, error) { return callSMI(ctx, *smi) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := s.loop(ctx, *interval, *once, stdout); err != nil {
		fmt.Fprintf(stderr, "unisched-gpu: %v\n", err)
		return exitError
	}
	return exitOK
}

func versionText() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// sampler looks at the GPUs by the best way there is. Either may be nil.
type sampler struct {
	driver *driver
	smi    func(context.Context) ([]byte, error)
	now    func() time.Time
}

// loop writes a line at each look until ctx ends or nobody reads any more.
func (s *sampler) loop(ctx context.Context, interval time.Duration, once bool, out io.Writer) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		line, err := s.look(ctx).Line()
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if once {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look makes one report. It never fails: what cannot be had is said.
func (s *sampler) look(ctx context.Context) gpu.Report {
	r := gpu.Report{SchemaVersion: gpu.SchemaVersion, Time: s.now().UTC(), Source: gpu.Nobody}
	var why []string
	if s.driver != nil {
		gpus, err := s.driver.look()
		if err == nil {
			r.Source, r.GPUs = gpu.NVML, gpus
			return r
		}
		why = append(why, err.Error())
	}
	if s.smi != nil {
		out, err := s.smi(ctx)
		if err == nil {
			r.GPUs, err = gpu.ParseSMI(out)
		}
		if err == nil || len(r.GPUs) > 0 {
			r.Source = gpu.SMI
			if err != nil {
				why = append(why, err.Error())
			}
		} else {
			why = append(why, err.Error())
		}
	}
	r.Why = gpu.Plain(strings.Join(why, "; "))
	return r
}

// callSMI runs nvidia-smi with a bound on its time and its words.
func callSMI(ctx context.Context, command string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, gpu.SMIArgs()...)
	cmd.WaitDelay = time.Second
	out := &bounded{left: gpu.MaxBytes}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil && len(out.b) == 0 {
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	return out.b, nil
}

// bounded keeps the first bytes.
type bounded struct {
	b    []byte
	left int
}

func (w *bounded) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.b, w.left = append(w.b, p[:n]...), w.left-n
	return len(p), nil
}
