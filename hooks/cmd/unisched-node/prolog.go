package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"unisched/hooks/progress"
)

// Layout below the base directory:
//
//	<base>/                        root, 0711
//	  <node>/                      root, 0711: several slurmd of one host share a base
//	    <job id>/                  the job's user, 0700: made by prolog
//	      run-<restart count>/     the job's user, 0700: made by taskprolog
//	        progress.jsonl         written by the job
//	    <job id>.ended             root: made by epilog, removed by the next prolog of the same job
const (
	defaultBase  = "/var/lib/unisched/jobs"
	progressName = "progress.jsonl"
	endedSuffix  = ".ended"
	runPrefix    = "run-"
	asideInfix   = ".of-" // <job id>.of-<uid>-<inode>: what an earlier job of the same id left

	hookTimeout = 5 * time.Second // Slurm drains the node when a prolog hangs
)

// hook runs one of Slurm's hooks. Whatever happens the job must start as it would without us (a failed prolog drains the
// node and holds the job), so problems go to stderr, which slurmd logs, and the exit status is 0.
func (c call) hook(name string, do func(base string) error) int {
	fl := flag.NewFlagSet(name, flag.ContinueOnError)
	fl.SetOutput(c.stderr)
	base := fl.String("base", c.base(), "directory of the jobs' directories (default $UNISCHED_BASE)")
	if err := fl.Parse(c.args); err != nil {
		return exitOK
	}
	done := make(chan error, 1)
	go func() { done <- do(*base) }()
	select {
	case err := <-done:
		if err != nil {
			c.warn("%s: %v", name, err)
		}
	case <-time.After(hookTimeout):
		c.warn("%s: gave up after %s", name, hookTimeout)
	}
	return exitOK
}

func (c call) base() string {
	if b := c.getenv("UNISCHED_BASE"); b != "" {
		return b
	}
	return defaultBase
}

// node returns the name under which slurmd knows this node.
func (c call) node() (string, error) {
	n := c.getenv("SLURMD_NODENAME")
	if n == "" {
		h, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("node name: %w", err)
		}
		n, _, _ = strings.Cut(h, ".")
	}
	if !progress.ValidNode(n) {
		return "", fmt.Errorf("node name %.64q is not usable", n)
	}
	return n, nil
}

// number reads a decimal environment variable. Only digits pass: the value becomes a path element.
func (c call) number(name string) (int64, error) {
	s := c.getenv(name)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%s=%.32q is not a number", name, s)
	}
	return n, nil
}

// prolog makes the job's directory, owned by its user. Only root can write into the directory above it, so there is
// nobody to race with but other prologs.
func (c call) prolog() int {
	return c.hook("prolog", func(base string) error {
		job, err := c.number("SLURM_JOB_ID")
		if err != nil {
			return err
		}
		uid, err := c.number("SLURM_JOB_UID")
		if err != nil {
			return err
		}
		node, err := c.node()
		if err != nil {
			return err
		}
		nodeDir, err := openNode(base, node)
		if err != nil {
			return err
		}
		defer nodeDir.Close()
		name := strconv.FormatInt(job, 10)
		if err := os.Remove(filepath.Join(nodeDir.Name(), name+endedSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return makeJobDir(nodeDir, name, int(uid))
	})
}

func openNode(base, node string) (*os.File, error) {
	b, err := os.Open(base)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(base, 0o711); err != nil {
			return nil, err
		}
		if err := os.Chmod(base, 0o711); err != nil { // users pass through it, whatever the umask was
			return nil, err
		}
		b, err = os.Open(base)
	}
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return makeDir(b, node, 0o711)
}

func makeJobDir(nodeDir *os.File, name string, uid int) error {
	d, err := makeDir(nodeDir, name, 0o700)
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := stat(d)
	if err != nil {
		return err
	}
	switch int(st.Uid) {
	case uid:
		return nil
	case os.Geteuid(): // just made, or left by a prolog that was cut off here
		return d.Chown(uid, -1)
	}
	// Slurm gives an id away twice when its controller lost the first job in a crash. What the other user left is not
	// the new job's to read: put it aside for the sweep and start afresh.
	aside := name + asideInfix + strconv.Itoa(int(st.Uid)) + "-" + strconv.FormatUint(st.Ino, 10)
	if err := syscall.Renameat(int(nodeDir.Fd()), name, int(nodeDir.Fd()), aside); err != nil {
		return fmt.Errorf("put aside the directory of user %d: %w", st.Uid, err)
	}
	d2, err := makeDir(nodeDir, name, 0o700)
	if err != nil {
		return err
	}
	defer d2.Close()
	return d2.Chown(uid, -1)
}

// epilog marks the job as ended on this node and removes nothing: it also runs at each requeue, when the watcher may
// not have read the last lines yet, and the next run of the job may be about to use the same directory. The watcher
// sweeps directories that stayed marked and unwritten for long enough. The marker lies beside the job's directory, where
// users cannot write.
func (c call) epilog() int {
	return c.hook("epilog", func(base string) error {
		job, err := c.number("SLURM_JOB_ID")
		if err != nil {
			return err
		}
		node, err := c.node()
		if err != nil {
			return err
		}
		nodeDir, err := os.OpenFile(filepath.Join(base, node), syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer nodeDir.Close()
		jobDir, err := openDir(nodeDir, strconv.FormatInt(job, 10))
		if err != nil {
			return err // no prolog ran: nothing to mark
		}
		jobDir.Close()
		f, err := openAt(nodeDir, strconv.FormatInt(job, 10)+endedSuffix, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(time.Now().UTC().Format(time.RFC3339) + "\n") // writing also renews the marker's time
		return err
	})
}

// taskProlog runs as the job's user before each task; slurmstepd puts what it prints into the task's environment.
// Without the job's directory (no prolog, or it failed) it prints nothing, and the job runs without progress lines.
func (c call) taskProlog() int {
	return c.hook("taskprolog", func(base string) error {
		job, err := c.number("SLURM_JOB_ID")
		if err != nil {
			return err
		}
		restart := int64(0) // Slurm sets the variable from the first requeue on
		if c.getenv("SLURM_RESTART_COUNT") != "" {
			if restart, err = c.number("SLURM_RESTART_COUNT"); err != nil {
				return err
			}
		}
		node, err := c.node()
		if err != nil {
			return err
		}
		if strings.ContainsAny(base, "\n\r") || !filepath.IsAbs(base) {
			return fmt.Errorf("base %.64q is not an absolute path", base)
		}
		jobPath := filepath.Join(base, node, strconv.FormatInt(job, 10))
		jobDir, err := os.OpenFile(jobPath, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer jobDir.Close()
		st, err := stat(jobDir)
		if err != nil {
			return err
		}
		if int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d", jobPath, st.Uid)
		}
		runDir, err := makeDir(jobDir, runPrefix+strconv.FormatInt(restart, 10), 0o700)
		if err != nil {
			return err
		}
		defer runDir.Close()
		fmt.Fprintf(c.stdout, "export UNISCHED_PROGRESS=%s\nexport UNISCHED_RUN=%d.%d\n", filepath.Join(runDir.Name(), progressName), job, restart)
		return nil
	})
}
