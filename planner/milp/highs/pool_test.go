package highs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner/milp"
)

// secondThought is a child that answers its first request well and the second as the mode says; each child leaves a line with its process id.
func secondThought(mode string) {
	note, err := os.OpenFile(os.Getenv(fakeNote), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if mode == "toil" {
		_, _ = fmt.Fprintln(note, os.Getpid())
		mode = "well"
		burn()
	} else {
		_, _ = note.WriteString("started\n")
	}
	signal.Ignore(syscall.SIGTERM)
	good := fakeAnswers["optimal"]
	for k := uint32(1); ; k++ {
		if _, err := readFrame(os.Stdin, requestMagic, maxRequest); err != nil {
			os.Exit(3)
		}
		good.Asked = k
		whole := encodeAnswer(good)
		if k == 1 {
			_, _ = os.Stdout.Write(whole)
			if mode == "die between" {
				os.Exit(139)
			}
			if mode == "talk out of turn" {
				_, _ = os.Stdout.Write(whole)
			}
			continue
		}
		switch mode {
		case "well":
			_, _ = os.Stdout.Write(whole)
		case "abort":
			os.Exit(134)
		case "segfault":
			_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
			os.Exit(139)
		case "hang":
			select {}
		case "truncated":
			_, _ = os.Stdout.Write(whole[:len(whole)-3])
			os.Exit(0)
		case "truncated, then hang":
			_, _ = os.Stdout.Write(whole[:len(whole)-3])
			for {
				time.Sleep(time.Hour)
			}
		case "infeasible":
			a := fakeAnswers["infeasible"]
			a.Asked = k
			_, _ = os.Stdout.Write(encodeAnswer(a))
		case "leave":
			good.Leaves = true
			_, _ = os.Stdout.Write(encodeAnswer(good))
			os.Exit(0)
		}
	}
}

// toil is what a child that toils uses of a processor before it answers.
const toil = 50 * time.Millisecond

func burn() {
	for u := (syscall.Rusage{}); time.Duration(u.Utime.Nano()+u.Stime.Nano()) < toil; {
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
	}
}

// case 40: a child that served well before may fail at any later request: what dies is asked again of a fresh one, what hangs or lies is replaced, and the third
// call is a good one in every case.
func TestChildAskedAgain(t *testing.T) {
	tests := []struct {
		mode     string
		second   error
		children int // a child that dies at its second request leaves it to the next one
	}{
		{"well", nil, 1},
		{"abort", nil, 3},
		{"segfault", nil, 3},
		{"die between", nil, 3},
		{"hang", ErrKilled, 2},
		{"truncated", nil, 3},
		{"truncated, then hang", ErrKilled, 2},
		{"infeasible", ErrInfeasible, 2},
		{"talk out of turn", ErrCrashed, 2},
		{"leave", nil, 2},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(t.TempDir(), "note")
			solve := New(Options{Exe: os.Args[0], TempDir: t.TempDir(), env: []string{fakeMarker + "=again " + tt.mode, fakeNote + "=" + note}})
			limit := 20 * time.Second // a busy host needs seconds for what takes a millisecond
			if strings.Contains(tt.mode, "hang") {
				limit = 2 * time.Second
			}
			for k, want := range []error{nil, tt.second, nil} {
				sol, err := solve(context.Background(), small(), milp.Limits{Time: limit, Gap: 1e-6})
				if !errors.Is(err, want) || (err == nil) != (want == nil) || err == nil && !slices.Equal(sol.X, []float64{1, 0.5}) {
					t.Errorf("call %d: %+v, %v; want %v", k+1, sol, err, want)
				}
			}
			text, err := os.ReadFile(note)
			if got := strings.Count(string(text), "started"); err != nil || got != tt.children {
				t.Errorf("%d children, %v; want %d", got, err, tt.children)
			}
		})
	}
}

// TestChildrenLeave: when nobody refers to a solver any more, its children see the end of their input.
func TestChildrenLeave(t *testing.T) {
	var p *proc
	func() {
		c, err := spawn(os.Args[0], t.TempDir(), []string{fakeMarker + "=again well", fakeNote + "=" + filepath.Join(t.TempDir(), "note")})
		if err != nil {
			t.Fatal(err)
		}
		p = c.proc
	}()
	for !p.gone() {
		runtime.GC()
		runtime.Gosched()
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

// TestOpenEnds: end collects the children that wait, so that their processor time is that of finished children; twice is once, and a call after it starts another.
func TestOpenEnds(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	solve, end := Open(Options{Exe: os.Args[0], TempDir: t.TempDir(), env: []string{fakeMarker + "=again toil", fakeNote + "=" + note}})
	finished := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	toiled := func() (pids []int) {
		text, err := os.ReadFile(note)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
	end() // nobody waits yet
	for k := 1; k <= 2; k++ {
		before := finished()
		if sol, err := solve(context.Background(), small(), milp.Limits{Time: time.Minute, Gap: 1e-6}); err != nil || !slices.Equal(sol.X, []float64{1, 0.5}) {
			t.Fatalf("call %d: %+v, %v", k, sol, err)
		}
		pids := toiled()
		if len(pids) != k || !alive(pids[k-1]) {
			t.Fatalf("call %d: children %v; want %d, the last one waiting", k, pids, k)
		}
		end()
		end()
		if err := syscall.Kill(pids[k-1], 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("call %d: child %d is not gone: %v", k, pids[k-1], err)
		}
		if got := finished() - before; got < toil {
			t.Errorf("call %d: %v of finished children, though one used %v", k, got, toil)
		}
	}
}

// TestFrames: what comes after a whole frame is left alone, what is not whole says so.
func TestFrames(t *testing.T) {
	whole := encodeAnswer(fakeAnswers["optimal"])
	tests := []struct {
		name string
		in   []byte
		want []byte
		ok   bool
	}{
		{"whole", whole, whole, true},
		{"whole and more", append(slices.Clone(whole), 1, 2, 3), whole, true},
		{"torn head", whole[:7], whole[:7], false},
		{"torn payload", whole[:len(whole)-1], whole[:len(whole)-1], false},
		{"nothing", nil, []byte{}, false},
		{"zeros", make([]byte, 999), make([]byte, frameHead), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := readAnswer(io.MultiReader(strings.NewReader(string(tt.in))), maxAnswer(2))
			if d := cmp.Diff(tt.want, got); d != "" || ok != tt.ok {
				t.Errorf("whole %v, (-want +got):\n%s", ok, d)
			}
		})
	}
}
