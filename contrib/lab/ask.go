package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/bridge/control"
)

// Control is a client of the daemon's control socket.
func (l *Lab) Control() *control.Client {
	return &control.Client{Path: l.Socket, Timeout: 5 * time.Second}
}

// Jobs returns what the daemon knows of all jobs.
func (l *Lab) Jobs(ctx context.Context) ([]bridge.JobView, error) { return l.Control().Jobs(ctx) }

// Job returns what the daemon knows of one job.
func (l *Lab) Job(ctx context.Context, id int) (bridge.JobView, error) {
	return l.Control().Job(ctx, strconv.Itoa(id))
}

// Unisched runs the command line against this lab's daemon and returns what it printed on stdout and its exit code. The error is set only when it could
// not be run, or with an exit code other than 0; then it holds what the command said on stderr.
func (l *Lab) Unisched(ctx context.Context, args ...string) (string, int, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "unisched"), args...)
	cmd.Env = append(os.Environ(), "UNISCHED_CONFIG="+l.ConfigFile, "UNISCHED_SOCKET="+l.Socket)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	code := -1
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	if err != nil {
		err = fmt.Errorf("unisched %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), code, err
}

// Job is a batch job to submit. Its script is a file of the cluster (Path, with Args) or a text (Text).
type Job struct {
	Args       []string // options of sbatch
	Path       string
	ScriptArgs []string
	Text       string
}

// Submit hands a job to sbatch as one of the cluster's users and returns its id.
func (l *Lab) Submit(user string, j Job) (int, error) {
	if j.Path == "" {
		return l.Slurm.Submit(user, j.Text, j.Args...)
	}
	argv := slices.Concat([]string{"sbatch", "--parsable"}, j.Args, []string{j.Path}, j.ScriptArgs)
	out, err := l.Slurm.Exec(user, argv...)
	if err != nil {
		return 0, fmt.Errorf("submit: %w", err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";")
	n, err := strconv.Atoi(id)
	if err != nil {
		return 0, fmt.Errorf("submit: id of the job: %w", err)
	}
	return n, nil
}

// Digits is a job of the example training with a wish for UniSched ("" for a plain job). Options of sbatch that are given again win.
func Digits(wish string, args []string, training ...string) Job {
	base := []string{"--comment=" + wish, "--export=ALL,TRAIN_DIR=" + DigitsDir}
	if wish == "" {
		base[0] = "--comment="
	}
	return Job{Args: append(base, args...), Path: DigitsDir + "/digits.sbatch", ScriptArgs: training}
}

// Output is what a job of the example training has printed, of all of its runs.
func (l *Lab) Output(user string, id int) (string, error) {
	text, err := os.ReadFile(filepath.Join(l.Slurm.Root, "home", user, fmt.Sprintf("digits-%d.out", id)))
	return string(text), err
}

// Exec runs a command in the cluster as one of its users and returns its stdout.
func (l *Lab) Exec(user string, argv ...string) (string, error) { return l.Slurm.Exec(user, argv...) }

// Service does "stop", "start" or "kill9" with one of the cluster's daemons ("slurmctld", "slurmrestd", "slurmd:n1", "watch", ...).
func (l *Lab) Service(verb, name string) error {
	switch verb {
	case "stop":
		return l.Slurm.Stop(name)
	case "start":
		return l.Slurm.Start(name)
	case "kill9":
		return l.Slurm.Kill9(name)
	}
	return fmt.Errorf("lab: no such verb %q (have stop, start, kill9)", verb)
}

// Token gives the daemon a fresh token that is good for so long.
func (l *Lab) Token(lifespan time.Duration) error {
	_, err := l.Slurm.Token(lifespan)
	return err
}

// WaitFor asks cond until it says true, fails, or ctx ends. cond returns what it last saw in words, which a failure repeats together
// with the end of the daemon's log.
func (l *Lab) WaitFor(ctx context.Context, what string, cond func() (done bool, state string, err error)) error {
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		done, state, err := cond()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w%s", what, err, l.logTail())
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s: %w; last seen: %s%s", time.Since(began).Round(time.Second), what, ctx.Err(), state, l.logTail())
		case <-tick.C:
		}
	}
}

// WaitJob is WaitFor on what the daemon knows of one job. A job that it does not know yet is waited for.
func (l *Lab) WaitJob(ctx context.Context, id int, what string, cond func(bridge.JobView) bool) error {
	return l.WaitFor(ctx, fmt.Sprintf("job %d: %s", id, what), func() (bool, string, error) {
		v, err := l.Job(ctx, id)
		if err != nil {
			return false, err.Error(), nil
		}
		state := fmt.Sprintf("%s since %s (%s), Slurm says %s %s, iteration %d, blocked %q", v.Phase, v.Since.Format(time.TimeOnly), v.Why, v.SlurmState,
			v.SlurmReason, v.Iter, v.Blocked)
		return cond(v), state, nil
	})
}
