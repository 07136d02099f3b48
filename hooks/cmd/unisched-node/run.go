package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"unisched/hooks/progress"
)

const runUsage = `usage: unisched-node run [flags] [--] CMD [ARG]...

Starts CMD in a process group of its own, passes the scheduler's signal on to it (--forward), and when CMD then ends with status 0
or the agreed code, exits with the agreed code, upon which Slurm requeues the job. A CMD that ends by itself keeps its
status (128+n when a signal killed it). Works without a node service: then it writes no progress lines.
`

// signals that a site may choose for "checkpoint now", by the name that the job comment uses.
var signalsByName = map[string]syscall.Signal{
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP,
	"QUIT": syscall.SIGQUIT, "CONT": syscall.SIGCONT, "URG": syscall.SIGURG, "WINCH": syscall.SIGWINCH, "ALRM": syscall.SIGALRM,
}

type sidecar struct {
	call
	signals    map[os.Signal]string // what asks for a checkpoint
	exit       int
	proof      string // --checkpoint-file
	forward    string // group, child or tree
	readyAfter time.Duration
	grace      time.Duration // how long after the signal an exit with 0 is an answer to it without proof

	begun time.Time // when the signal came
	start int64     // size of the progress file when CMD started: lines before it are of an earlier start
	asked string    // name of the signal that came, "" before
	mark  int64     // size of the progress file when it came
	was   fileState // state of the proof file when it came
	now   func() time.Time
}

func (c call) run() int {
	s := sidecar{call: c, now: time.Now}
	argv, code := s.flags()
	if argv == nil {
		return code
	}
	return s.supervise(argv)
}

func (s *sidecar) flags() (argv []string, code int) {
	fl := flag.NewFlagSet("run", flag.ContinueOnError)
	fl.SetOutput(s.stderr)
	fl.Usage = func() { fmt.Fprint(s.stderr, runUsage); fl.PrintDefaults() }
	names := fl.String("signal", envOr(s.getenv, "UNISCHED_SIGNAL", "USR1,USR2,TERM"), "`names` of the signals that ask for a checkpoint")
	exit := fl.Int("exit", 0, "`code` to exit with after a checkpoint (default $UNISCHED_EXIT, else 99)")
	fl.StringVar(&s.proof, "checkpoint-file", "", "`file` or directory whose change proves that CMD saved a checkpoint")
	forward := fl.String("forward", "group", "pass the signal to the group of CMD, to the child alone, or to the tree of all its descendants, for launchers that\nstart workers in sessions of their own (`group`|child|tree)")
	fl.DurationVar(&s.readyAfter, "ready-after", 0, "write the ready line this long after the start, if CMD did not (0: never)")
	fl.DurationVar(&s.grace, "grace", 10*time.Minute, "an exit with 0 later than this after the signal means that CMD has finished, unless a checkpoint was saved")
	if err := fl.Parse(s.args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, exitOK
		}
		return nil, exitUsage
	}
	s.signals = map[os.Signal]string{}
	for _, n := range strings.Split(*names, ",") {
		n, plus, hasPlus := strings.Cut(strings.TrimPrefix(strings.TrimSpace(n), "B:"), "+")
		n = strings.TrimPrefix(n, "SIG")
		sig, ok := signalsByName[n]
		if !ok {
			s.warn("run: signal %q is not known", n)
			return nil, exitUsage
		}
		s.signals[sig] = n
		if hasPlus && *exit == 0 {
			*exit, _ = strconv.Atoi(plus)
		}
	}
	if *exit == 0 {
		*exit, _ = strconv.Atoi(envOr(s.getenv, "UNISCHED_EXIT", "99"))
	}
	if *exit < 1 || *exit > 255 || (*forward != "group" && *forward != "child" && *forward != "tree") || fl.NArg() == 0 {
		s.warn("run: want a command, --exit 1 to 255 and --forward group, child or tree; for example: unisched-node run --signal USR1 -- python3 train.py")
		return nil, exitUsage
	}
	s.exit, s.forward = *exit, *forward
	return fl.Args(), exitOK
}

func envOr(getenv func(string) string, name, def string) string {
	if v := getenv(name); v != "" {
		return v
	}
	return def
}

// supervise starts the command and waits for it. One goroutine waits for the process; everything else happens here.
func (s *sidecar) supervise(argv []string) int {
	sigs := make(chan os.Signal, 16)
	// First of all: from here on a signal does not end us. What is no wish for a checkpoint is passed on too: CMD is not in the terminal's process group,
	// and if TERM ended us alone, CMD would outlive its job step, where Slurm tracks processes by their parents, and meet the next start of the job.
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM)
	for sig := range s.signals {
		signal.Notify(sigs, sig)
	}
	defer signal.Stop(sigs)
	s.start = s.progressSize()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.stdin, s.stdout, s.stderr
	cmd.Env = append(os.Environ(), "UNISCHED_EXIT="+strconv.Itoa(s.exit)) // a helper inside CMD agrees on the code
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.warn("run: %v", err)
		if errors.Is(err, fs.ErrPermission) {
			return 126
		}
		return 127
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var ready <-chan time.Time
	if s.readyAfter > 0 {
		t := time.NewTimer(s.readyAfter)
		defer t.Stop()
		ready = t.C
	}
	for {
		select {
		case sig := <-sigs:
			s.pass(sig, cmd.Process.Pid)
		case <-ready:
			if !s.wrote(s.start, progress.Ready) {
				s.tell(progress.Line{Kind: progress.Ready})
			}
		case <-ended:
			return s.status(cmd.ProcessState)
		}
	}
}

// pass forwards a signal and, when it is one that asks for a checkpoint, remembers how things stood before it.
func (s *sidecar) pass(sig os.Signal, pid int) {
	if name, ok := s.signals[sig]; ok {
		if s.asked == "" {
			s.asked, s.begun, s.mark, s.was = name, s.now(), s.progressSize(), stateOf(s.proof)
		}
		s.tell(progress.Line{Kind: progress.Signal, Signal: name})
	}
	to := []int{pid}
	switch s.forward {
	case "group":
		to[0] = -pid
	case "tree":
		to = tree("/proc", pid)
	}
	for _, pid := range to {
		if err := syscall.Kill(pid, sig.(syscall.Signal)); err != nil && err != syscall.ESRCH {
			s.warn("run: pass on %v: %v", sig, err)
		}
	}
}

// status decides with what to exit. After a signal, the agreed code means that a checkpoint was saved. So does 0 when
// there is proof or the end came soon after the signal; but a job that is done must not be requeued, for it would
// run again.
func (s *sidecar) status(p *os.ProcessState) int {
	code := p.ExitCode()
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	if s.asked == "" || (code != 0 && code != s.exit) {
		return code
	}
	if s.wrote(s.start, progress.Done) {
		return code
	}
	told, now := s.wrote(s.mark, progress.Checkpoint), stateOf(s.proof)
	saved := now != s.was && now != (fileState{})
	if saved && !told {
		iter, known := s.lastIter()
		s.tell(progress.Line{Kind: progress.Checkpoint, Iter: iter, HasIter: known, Bytes: now.size})
	}
	if code == 0 && !told && !saved && s.now().Sub(s.begun) > s.grace {
		return code
	}
	return s.exit
}

func (s *sidecar) tell(l progress.Line) {
	l.Time = s.now()
	if err := s.append(l); err != nil {
		s.warn("run: %v", err)
	}
}

// fileState tells two states of the proof apart; the zero value means that there is none.
type fileState struct {
	mtime time.Time
	size  int64
	inode uint64
}

// maxEntries bounds how much of a directory is looked at.
const maxEntries = 10000

// stateOf is the state of a checkpoint file, or of the newest checkpoint in a directory. An empty file is none, and neither is what a program that was killed leaves of one
// that it was writing.
func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return fileState{}
	}
	if !info.IsDir() {
		return stateOfFile(info)
	}
	dir, err := os.Open(path)
	if err != nil {
		return fileState{}
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(maxEntries)
	var newest fileState
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil && !leftover(e.Name()) {
			if st := stateOfFile(info); st != (fileState{}) && st.mtime.After(newest.mtime) {
				newest = st
			}
		}
	}
	return newest
}

func stateOfFile(info fs.FileInfo) fileState {
	st := fileState{mtime: info.ModTime(), inode: info.Sys().(*syscall.Stat_t).Ino}
	if info.Mode().IsRegular() {
		if st.size = info.Size(); st.size == 0 {
			return fileState{}
		}
	}
	return st
}

// leftover says that a name is of something half written.
func leftover(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, ".") || strings.Contains(name, ".tmp") || strings.HasSuffix(name, "tmp") || strings.HasSuffix(name, ".part") || strings.HasSuffix(name, "~")
}

func (s *sidecar) progressSize() int64 {
	info, err := os.Stat(s.getenv("UNISCHED_PROGRESS"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// tailBytes bounds what is read back of the progress file; it holds hundreds of lines.
const tailBytes = 256 << 10

// lines returns the good lines at or after offset from, of at most the last tailBytes of the progress file.
func (s *sidecar) lines(from int64) []progress.Line {
	f, err := os.OpenFile(s.getenv("UNISCHED_PROGRESS"), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	from = max(from, info.Size()-tailBytes)
	buf, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return nil
	}
	var out []progress.Line
	for _, b := range bytes.Split(buf, []byte("\n")) {
		if l, err := progress.Parse(b); err == nil {
			out = append(out, l)
		}
	}
	return out
}

func (s *sidecar) wrote(from int64, k progress.Kind) bool {
	for _, l := range s.lines(from) {
		if l.Kind == k {
			return true
		}
	}
	return false
}

func (s *sidecar) lastIter() (iter int64, known bool) {
	for _, l := range s.lines(s.start) {
		if l.HasIter && l.Iter >= iter {
			iter, known = l.Iter, true
		}
	}
	return iter, known
}
