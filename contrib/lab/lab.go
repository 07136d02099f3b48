// Package lab is a real Slurm on this host with the daemon beside it: what `make demo` and the end-to-end tests run on. It starts and stops things,
// submits jobs as ordinary users, asks Slurm and the daemon what they see, and takes everything down again.
//
// It builds nothing, judges nothing, and knows none of the daemon's insides: it talks to it through its configuration file, its signals, its control
// socket and its command line, as a site would. Product code must not import it.
package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"unisched/contrib/testcluster"
)

// Options says what lab to bring up. The zero value is Slurm 24.11 with 3 nodes of 4 GPUs, everything acted on, a 20-second unit and a poll per second.
type Options struct {
	Slurm string // "24.11" or "26.05"
	Nodes int
	GPUs  int // per node
	// Unit, Poll and Delay are the daemon's; Delay is also the one that the submit plugin gives to new jobs.
	Unit, Poll, Delay time.Duration
	Stage             string // default "strict": all jobs
	// BinDir holds unischedd, unisched and unisched-node, and lies in the repository whose hooks are installed. Default: bin/ of this one.
	BinDir string
	// Dir is the folder of the lab, absent or empty; default: a new one in /tmp. Its path must be short, since it holds Unix sockets.
	Dir string
	// Log hears what is being done, a line each; nil: nobody.
	Log io.Writer
	// Config holds further settings of unisched.toml, which win over the lab's own: a TOML value by dotted key
	// ("bridge.checkpoint_timeout": `"5s"`).
	Config map[string]string
	// NoDaemon leaves the daemon to a later StartDaemon.
	NoDaemon bool
}

// Lab is a cluster and a daemon. Its methods may be called from several goroutines, except those that start and stop things.
type Lab struct {
	Dir string
	// Slurm is the cluster itself, for what the lab's own methods do not offer.
	Slurm *testcluster.Cluster
	Unit  time.Duration
	// ConfigFile is the daemon's unisched.toml, LogFile its log, Socket its control socket, StateDir its journal.
	ConfigFile, LogFile, Socket, StateDir string

	o      Options
	bin    string
	script string

	mu     sync.Mutex
	daemon *process // the newest one, nil before the first
}

// DigitsDir is where jobs find the example training.
const DigitsDir = "/shared/digits"

// bootstrapLimit bounds the first start, which may have to build a Debian; a later one takes seconds.
const bootstrapLimit = 20 * time.Minute

// Up brings a lab up and starts the daemon. When it fails, nothing is left running; the logs stay in the lab's folder, and the error holds their end.
func Up(ctx context.Context, o Options) (l *Lab, err error) {
	l, err = prepare(o)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	defer func() {
		if err != nil {
			if down := l.takeDown(ctx.Err() != nil); down != nil { // who interrupts wants no logs
				err = errors.Join(err, down)
			}
			l = nil
		}
	}()
	port, err := freePort()
	if err != nil {
		return l, fmt.Errorf("lab: %w", err)
	}
	if err := l.startCluster(ctx, port); err != nil {
		return l, fmt.Errorf("lab: %w", err)
	}
	if err := l.furnish(); err != nil {
		return l, fmt.Errorf("lab: %w", err)
	}
	if err := os.WriteFile(l.ConfigFile, []byte(l.config(port)), 0o600); err != nil {
		return l, fmt.Errorf("lab: %w", err)
	}
	if l.o.NoDaemon {
		return l, nil
	}
	return l, l.StartDaemon(ctx)
}

// prepare fills in the defaults and makes the folder.
func prepare(o Options) (*Lab, error) {
	for _, d := range []struct {
		at *int
		or int
	}{{&o.Nodes, 3}, {&o.GPUs, 4}} {
		if *d.at == 0 {
			*d.at = d.or
		}
	}
	for _, d := range []struct {
		at *time.Duration
		or time.Duration
	}{{&o.Unit, 20 * time.Second}, {&o.Poll, time.Second}, {&o.Delay, time.Minute}} {
		if *d.at == 0 {
			*d.at = d.or
		}
	}
	if o.Slurm == "" {
		o.Slurm = "24.11"
	}
	if o.Stage == "" {
		o.Stage = "strict"
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	repo, err := repository()
	if err != nil {
		return nil, err
	}
	if o.BinDir == "" {
		o.BinDir = filepath.Join(repo, "bin")
	}
	if o.BinDir, err = filepath.Abs(o.BinDir); err != nil {
		return nil, err
	}
	for _, name := range []string{"unischedd", "unisched", "unisched-node"} {
		if _, err := os.Stat(filepath.Join(o.BinDir, name)); err != nil {
			return nil, fmt.Errorf("%w (make build makes it)", err)
		}
	}
	if o.Dir == "" {
		o.Dir, err = os.MkdirTemp("/tmp", "unisched-lab-")
	} else if o.Dir, err = filepath.Abs(o.Dir); err == nil {
		err = os.MkdirAll(o.Dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(o.Dir, 0o755); err != nil {
		return nil, err
	}
	return &Lab{
		Dir: o.Dir, Unit: o.Unit, o: o, bin: o.BinDir, script: filepath.Join(repo, "contrib", "testcluster", "cluster"),
		ConfigFile: filepath.Join(o.Dir, "unisched.toml"), LogFile: filepath.Join(o.Dir, "unischedd.log"),
		Socket: filepath.Join(o.Dir, "control.sock"), StateDir: filepath.Join(o.Dir, "state"),
	}, nil
}

func (l *Lab) clusterDir() string { return filepath.Join(l.Dir, "cluster") }
func (l *Lab) keyFile() string    { return filepath.Join(l.Dir, "node.key") }

func (l *Lab) startCluster(ctx context.Context, port int) error {
	key := make([]byte, 48)
	rand.Read(key)
	if err := os.WriteFile(l.keyFile(), []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootstrapLimit)
	defer cancel()
	err := l.cluster(ctx, "up", "--slurm", l.o.Slurm, "--nodes", strconv.Itoa(l.o.Nodes), "--gpus", strconv.Itoa(l.o.GPUs),
		"--unit", strconv.Itoa(int(max(l.o.Unit/time.Second, 1))), "--repo", filepath.Dir(l.bin),
		"--daemon-url", "http://127.0.0.1:"+strconv.Itoa(port), "--node-key", l.keyFile())
	if err != nil {
		return err
	}
	l.Slurm, err = testcluster.Open(l.clusterDir())
	return err
}

// furnish puts the example training and the submit plugin's delay in place.
func (l *Lab) furnish() error {
	repo := filepath.Dir(l.bin)
	to := filepath.Join(l.Slurm.Root, DigitsDir)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"train.py", "digits.sbatch"} {
		text, err := os.ReadFile(filepath.Join(repo, "contrib", "examples", "digits", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o755); err != nil {
			return err
		}
	}
	etc := filepath.Join(l.Slurm.Root, "etc", "slurm")
	seconds := strconv.Itoa(int(l.o.Delay / time.Second))
	if err := os.WriteFile(filepath.Join(etc, "unisched-delay"), []byte(seconds+"\n"), 0o644); err != nil {
		return err
	}
	// slurmctld reads the plugin again, and with it the delay, when the plugin is newer than the last reading.
	newer := time.Now().Add(time.Second)
	return os.Chtimes(filepath.Join(etc, "job_submit.lua"), newer, newer)
}

// Down stops the daemon, takes the cluster down and removes the lab's folder. It may be called again, and on a lab that is half down.
func (l *Lab) Down() error { return l.takeDown(true) }

// DownKeepLogs is Down, but leaves what there is to read in the folder: logs, configuration and journal.
func (l *Lab) DownKeepLogs() error { return l.takeDown(false) }

func (l *Lab) takeDown(remove bool) error {
	errs := []error{l.KillDaemon()}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := os.Stat(l.clusterDir()); err == nil {
		if !remove {
			l.saveLogs()
		}
		if err := l.cluster(ctx, "down"); err != nil {
			errs = append(errs, fmt.Errorf("take down the cluster: %w", err))
		}
	}
	if remove && errors.Join(errs...) == nil {
		errs = append(errs, os.RemoveAll(l.Dir))
	}
	return errors.Join(errs...)
}

// saveLogs copies Slurm's logs and the jobs' outputs out of the cluster, which is about to go. A file that cannot be copied is left out.
func (l *Lab) saveLogs() {
	for _, pattern := range []string{"log/*", "root/var/log/slurm/*", "root/home/*/*.out"} {
		files, _ := filepath.Glob(filepath.Join(l.clusterDir(), pattern))
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			to := filepath.Join(l.Dir, "kept", filepath.Base(filepath.Dir(f)))
			if os.MkdirAll(to, 0o755) == nil {
				_ = os.WriteFile(filepath.Join(to, filepath.Base(f)), text, 0o644)
			}
		}
	}
}

// cluster calls the script with the lab's cluster. What it says goes to Log, and to the error when it fails.
func (l *Lab) cluster(ctx context.Context, verb string, args ...string) error {
	cmd := exec.CommandContext(ctx, l.script, append([]string{verb, "--dir", l.clusterDir()}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that the script can clean up
	cmd.WaitDelay = 30 * time.Second
	cmd.SysProcAttr = ownGroup
	var said bytes.Buffer
	cmd.Stdout = io.Discard
	cmd.Stderr = io.MultiWriter(&said, l.o.Log)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster %s: %w: %s", verb, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// repository is the folder of this source tree.
func repository() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("source folder unknown: build without -trimpath")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file))), nil
}

// freePort finds a TCP port that is free now. Somebody else may take it before the daemon does, which then says so.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
