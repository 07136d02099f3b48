package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownGroup keeps an interrupt typed at the terminal from children that the lab ends itself.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// process is one life of the daemon.
type process struct {
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended; then err is set
	err  error
}

func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// StartDaemon starts unischedd and waits until it answers on its control socket with a first look at Slurm.
func (l *Lab) StartDaemon(ctx context.Context) error {
	if l.Alive() {
		return errors.New("lab: the daemon runs already")
	}
	log, err := os.OpenFile(l.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("lab: log of the daemon: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(l.bin, "unischedd"), "--config", l.ConfigFile)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, ownGroup
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("lab: start the daemon: %w", err)
	}
	p := &process{cmd: cmd, over: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.over)
	}()
	l.mu.Lock()
	l.daemon = p
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	return l.WaitFor(ctx, "the daemon to answer", func() (bool, string, error) {
		if !p.alive() {
			return false, "", fmt.Errorf("it has ended: %v", p.cmd.ProcessState)
		}
		v, err := l.Control().Status(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		return v.SeenAt.After(began.Add(-time.Second)), "trouble: " + v.Trouble, nil
	})
}

// Alive reports whether the daemon's process lives.
func (l *Lab) Alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.daemon.alive()
}

// StopDaemon ends the daemon in good order and waits for its end. An exit code other than 0 is an error.
func (l *Lab) StopDaemon() error {
	if err := l.endDaemon(syscall.SIGTERM); err != nil {
		return fmt.Errorf("lab: the daemon's end: %w%s", err, l.logTail())
	}
	return nil
}

// KillDaemon ends the daemon with SIGKILL, wherever it stands. A daemon that does not run is no error.
func (l *Lab) KillDaemon() error {
	err := l.endDaemon(syscall.SIGKILL)
	if _, killed := errors.AsType[*exec.ExitError](err); killed {
		return nil
	}
	return err
}

func (l *Lab) endDaemon(sig syscall.Signal) error {
	l.mu.Lock()
	p := l.daemon
	l.mu.Unlock()
	if !p.alive() {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	grace := time.NewTimer(40 * time.Second)
	defer grace.Stop()
	select {
	case <-p.over:
		return p.err
	case <-grace.C:
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("it did not end within 40 s of signal %v and was killed", sig)
	}
}

// config is the daemon's configuration. The keys in order, each once: the lab's own, then Options.Config over them.
func (l *Lab) config(port int) string {
	argv := make([]string, len(l.Slurm.Scontrol))
	for i, a := range l.Slurm.Scontrol {
		argv[i] = strconv.Quote(a)
	}
	profile := max(l.o.Unit, 3*time.Second)
	keys := map[string]string{
		"slurm.url":                 strconv.Quote(l.Slurm.RestURL),
		"slurm.token_file":          strconv.Quote(l.Slurm.TokenFile),
		"slurm.scontrol":            "[" + strings.Join(argv, ", ") + "]",
		"slurm.timeout":             `"10s"`,
		"slurm.list_timeout":        `"20s"`,
		"daemon.state_dir":          strconv.Quote(l.StateDir),
		"daemon.control_socket":     strconv.Quote(l.Socket),
		"daemon.listen":             strconv.Quote("127.0.0.1:" + strconv.Itoa(port)),
		"daemon.node_key_file":      strconv.Quote(l.keyFile()),
		"daemon.log_level":          `"debug"`,
		"bridge.stage":              strconv.Quote(l.o.Stage),
		"bridge.unit":               span(l.o.Unit),
		"bridge.poll":               span(l.o.Poll),
		"bridge.delay":              span(l.o.Delay),
		"bridge.profile_time":       span(profile),
		"bridge.checkpoint_timeout": span(max(l.o.Unit, 5*time.Second)),
		"planner.solver_limit":      span(min(time.Second, l.o.Unit/4)),
	}
	maps.Copy(keys, l.o.Config)
	var b strings.Builder
	b.WriteString("# Written by the lab.\n")
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&b, "%s = %s\n", key, keys[key])
	}
	return b.String()
}

func span(d time.Duration) string { return strconv.Quote(d.String()) }

// logTail is the end of the daemon's log, to be put behind an error.
func (l *Lab) logTail() string {
	const most = 3000
	text, err := os.ReadFile(l.LogFile)
	if err != nil || len(text) == 0 {
		return ""
	}
	if len(text) > most {
		text = text[len(text)-most:]
		if _, rest, ok := strings.Cut(string(text), "\n"); ok {
			text = []byte(rest)
		}
	}
	return "\nthe end of " + l.LogFile + ":\n" + string(text)
}
