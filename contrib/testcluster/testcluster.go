// Package testcluster starts a real Slurm on this host for a test and takes it down again. It is a thin layer over the
// `cluster` script beside it, which does all the work and can be used by hand; nothing here knows what UniSched is. It
// refuses to skip in silence: without root, or when the cluster fails to start, the test fails, unless the environment
// says UNISCHED_NO_CLUSTER=1. End-to-end tests call it; product code must not.
package testcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Options says what cluster to start. The zero value is Slurm 24.11 with 3 nodes of 4 GPUs.
type Options struct {
	Slurm       string // "24.11" or "26.05"
	Nodes       int
	GPUsPerNode int
	Unit        time.Duration // handed on in Cluster.UnitSeconds; whole seconds
	DaemonURL   string        // where the node watcher reports to; needs NodeKey
	NodeKey     string        // path of the key with which the watcher signs
	Dir         string        // folder of the cluster, absent or empty; default: a new one in /tmp
	Keep        bool          // leave the cluster up after the test, to look at
}

// Cluster is a running Slurm. Its fields are those of the script's cluster.json; paths are paths of this host.
type Cluster struct {
	Name        string         `json:"name"`
	Slurm       string         `json:"slurm"` // full version, "24.11.5"
	Dir         string         `json:"dir"`
	Root        string         `json:"root"`        // everything runs below this folder
	RestURL     string         `json:"rest_url"`    // slurmrestd with tokens
	RestSocket  string         `json:"rest_socket"` // slurmrestd that acts as user unisched; root may connect
	TokenFile   string         `json:"token_file"`  // token of user unisched, an Operator
	JobsDir     string         `json:"jobs_dir"`    // where node hooks keep the jobs' directories
	Nodes       []string       `json:"nodes"`
	GPUsPerNode int            `json:"gpus_per_node"`
	UnitSeconds int            `json:"unit_seconds"`
	Users       []string       `json:"users"`
	Ports       map[string]int `json:"ports"`    // by service
	Scontrol    []string       `json:"scontrol"` // argument vector that runs scontrol as user unisched
}

// limit bounds every command but the first start, which may have to bootstrap a Debian.
const (
	limit          = 2 * time.Minute
	bootstrapLimit = 20 * time.Minute
)

// Start brings up a cluster and registers its end with t. It needs root and a Debian mirror in the host's apt sources
// for the very first start, which takes a minute or two; later ones take about two seconds.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if os.Getenv("UNISCHED_NO_CLUSTER") == "1" {
		t.Skip("UNISCHED_NO_CLUSTER=1: no Slurm cluster for this test")
	}
	dir := o.Dir
	if dir == "" {
		made, err := os.MkdirTemp("/tmp", "unisched-cluster-") // short: a Unix socket's path must fit in 107 bytes
		if err != nil {
			t.Fatalf("folder of the cluster: %v", err)
		}
		dir = made
	}
	if !o.Keep {
		t.Cleanup(func() {
			if _, err := run(limit, "", "down", "--dir", dir); err != nil {
				t.Errorf("take down the cluster: %v", err)
			}
			_ = os.Remove(dir) // still there, and empty, when `up` refused to start
		})
	}
	if _, err := run(bootstrapLimit, "", upArgs(dir, o)...); err != nil {
		t.Fatalf("start a Slurm cluster (UNISCHED_NO_CLUSTER=1 skips): %v", err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Open describes the cluster that runs in a folder.
func Open(dir string) (*Cluster, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("cluster description: %w", err)
	}
	c := new(Cluster)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("cluster description: %w", err)
	}
	return c, nil
}

func upArgs(dir string, o Options) []string {
	args := []string{"up", "--dir", dir}
	add := func(name, value string, given bool) {
		if given {
			args = append(args, name, value)
		}
	}
	add("--slurm", o.Slurm, o.Slurm != "")
	add("--nodes", strconv.Itoa(o.Nodes), o.Nodes != 0)
	add("--gpus", strconv.Itoa(o.GPUsPerNode), o.GPUsPerNode != 0)
	add("--unit", strconv.Itoa(int(o.Unit/time.Second)), o.Unit != 0)
	add("--daemon-url", o.DaemonURL, o.DaemonURL != "")
	add("--node-key", o.NodeKey, o.NodeKey != "")
	return args
}

// Exec runs a command in the cluster as one of its users, in the user's home with a clean environment, and returns what
// it printed. The error holds what it said on stderr.
func (c *Cluster) Exec(user string, cmd ...string) (string, error) {
	return c.exec(user, "", cmd...)
}

func (c *Cluster) exec(user, stdin string, cmd ...string) (string, error) {
	args := append([]string{"exec", "--dir", c.Dir, "--user", user, "--"}, cmd...)
	return run(limit, stdin, args...)
}

// Submit hands a batch script to sbatch with the given options and returns the job's id. A script without an
// interpreter line runs in bash.
func (c *Cluster) Submit(user, script string, args ...string) (jobID int, err error) {
	if !strings.HasPrefix(script, "#!") {
		script = "#!/bin/bash\n" + script
	}
	out, err := c.exec(user, script, append([]string{"sbatch", "--parsable"}, args...)...)
	if err != nil {
		return 0, fmt.Errorf("submit: %w", err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // "17", or "17;cluster"
	jobID, err = strconv.Atoi(id)
	if err != nil {
		return 0, fmt.Errorf("submit: id of the job: %w", err)
	}
	return jobID, nil
}

// Stop ends a daemon, such as "slurmctld", "slurmrestd", "slurmrestd:local", "slurmdbd" or "slurmd:n2", and waits for
// its end. Running jobs go on.
func (c *Cluster) Stop(service string) error { return c.service("stop", service) }

// Start starts a daemon that was stopped or killed, and waits until it answers; a slurmd is not waited for.
func (c *Cluster) Start(service string) error { return c.service("start", service) }

// Kill9 ends a daemon without a chance to save anything. Slurmctld loses what is younger than about 5 s.
func (c *Cluster) Kill9(service string) error { return c.service("kill9", service) }

func (c *Cluster) service(verb, service string) error {
	_, err := run(limit, "", verb, service, "--dir", c.Dir)
	return err
}

// Token puts a fresh token of user unisched into TokenFile and returns it. A reader of the file sees the old one or the
// new one.
func (c *Cluster) Token(lifespan time.Duration) (string, error) {
	return c.UserToken("unisched", lifespan)
}

// UserToken returns a fresh token of any user, at least a second long.
func (c *Cluster) UserToken(user string, lifespan time.Duration) (string, error) {
	seconds := strconv.Itoa(max(1, int(lifespan/time.Second)))
	out, err := run(limit, "", "token", "--dir", c.Dir, "--user", user, "--lifespan", seconds)
	return strings.TrimSpace(out), err
}

// run calls the script and returns its stdout.
func run(limit time.Duration, stdin string, args ...string) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("source folder unknown: build tests without -trimpath")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(file), "cluster"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that the script can clean up
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("cluster %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
