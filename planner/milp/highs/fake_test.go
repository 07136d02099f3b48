package highs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner/milp"
)

// The test binary is the solver child as well, and with fakeMarker set a child that misbehaves on purpose.
const (
	fakeMarker = "UNISCHED_FAKE_SOLVER"
	fakeNote   = "UNISCHED_FAKE_NOTE" // a file for the child to leave a process id in
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMarker); mode != "" {
		fakeChild(mode)
	}
	MaybeChild()
	os.Exit(m.Run())
}

// small is: maximise 3 x0 + 2 x1, x0 in {0, 1}, 0 <= x1 <= 1, x0 + x1 <= 1.5. Its optimum is (1, 0.5), worth 4.
func small() *milp.Model {
	m := &milp.Model{}
	m.AddCol(3, 0, 1, true)
	m.AddCol(2, 0, 1, false)
	m.AddRow(math.Inf(-1), 1.5, []int32{0, 1}, []float64{1, 1})
	return m
}

const incumbents = "Objective 2\n# Columns -1\nC1 1 1\nObjective 3\n# Columns -1\nC0 1 0\nObjective 4\n# Columns -2\nC0 1 0\n"

var fakeAnswers = map[string]answer{
	"optimal":            {Status: milp.Optimal, X: []float64{1, 0.5}, Bound: 4},
	"nearly integer":     {Status: milp.Optimal, X: []float64{0.9999994, 0.5}, Bound: 4},
	"nearly zero":        {Status: milp.Optimal, X: []float64{-1e-9, 1 + 1e-9}, Bound: 2},
	"fraction":           {Status: milp.Optimal, X: []float64{0.9, 0.5}, Bound: 4},
	"row violated":       {Status: milp.Optimal, X: []float64{1, 1}, Bound: 5},
	"NaN":                {Status: milp.Optimal, X: []float64{math.NaN(), 0}, Bound: 4},
	"too short":          {Status: milp.Optimal, X: []float64{1}, Bound: 4},
	"too long":           {Status: milp.Optimal, X: []float64{1, 0.5, 0}, Bound: 4},
	"no values":          {Status: milp.Optimal, X: []float64{}, Bound: 4},
	"bound below":        {Status: milp.Optimal, X: []float64{1, 0.5}, Bound: 3},
	"bound NaN":          {Status: milp.Optimal, X: []float64{1, 0.5}, Bound: math.NaN()},
	"optimal by far":     {Status: milp.Optimal, X: []float64{0, 1}, Bound: 4},
	"infeasible":         {Status: milp.Infeasible, Bound: math.NaN()},
	"optimal, no vector": {Status: milp.Optimal, Bound: 4},
}

func fakeChild(mode string) {
	if then, ok := strings.CutPrefix(mode, "again "); ok {
		secondThought(then)
	}
	signal.Ignore(syscall.SIGTERM)
	mode, withIncumbents := strings.CutSuffix(mode, " with incumbents")
	if withIncumbents {
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil { // its files are emptied before it is asked
			panic(err)
		}
		if err := os.WriteFile(incumbentFile, []byte(incumbents), 0o600); err != nil {
			panic(err)
		}
	}
	fake := func(name string) []byte {
		a := fakeAnswers[name]
		a.Asked = 1
		return encodeAnswer(a)
	}
	whole := fake("optimal")
	switch mode {
	case "hang":
		for {
			time.Sleep(time.Hour)
		}
	case "answer, then hang":
		_, _ = os.Stdout.Write(whole)
		for {
			time.Sleep(time.Hour)
		}
	case "abort", "segfault":
		os.Exit(map[string]int{"abort": 134, "segfault": 139}[mode])
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "empty":
	case "truncated":
		_, _ = os.Stdout.Write(whole[:len(whole)-3])
	case "damaged":
		whole[len(whole)-3]++
		_, _ = os.Stdout.Write(whole)
	case "flood":
		for {
			if _, err := os.Stdout.Write(make([]byte, 1<<16)); err != nil {
				os.Exit(1)
			}
		}
	case "orphan": // something else of the group holds the pipes
		c := exec.Command(os.Args[0])
		c.Env, c.Stdin, c.Stdout, c.Stderr = []string{fakeMarker + "=hang"}, os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Getenv(fakeNote), []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
			panic(err)
		}
	default:
		_, _ = os.Stdout.Write(fake(mode))
	}
	os.Exit(0)
}

// solveFake solves the small model with a misbehaving child and checks that nothing is left behind.
func solveFake(t *testing.T, mode string, env ...string) (milp.Solution, error) {
	t.Helper()
	temp := t.TempDir()
	o := Options{Exe: os.Args[0], TempDir: temp, env: append(env, fakeMarker+"="+mode)}
	sol, err := New(o)(context.Background(), small(), milp.Limits{Time: 400 * time.Millisecond, Gap: 1e-6})
	if left, readErr := os.ReadDir(temp); readErr != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v %v", left, readErr)
	}
	return sol, err
}

func TestFakeChild(t *testing.T) {
	good, half := []float64{1, 0.5}, []float64{0, 1}
	inf := math.Inf(1)
	tests := []struct {
		mode string
		want milp.Solution // Wall and Note left out
		err  error
	}{
		{"optimal", milp.Solution{Status: milp.Optimal, X: good, Objective: 4, Bound: 4}, nil},
		{"case 40: hang", milp.Solution{Status: milp.TimeLimit, Bound: inf}, ErrKilled},
		{"case 40: hang with incumbents", milp.Solution{Status: milp.TimeLimit, X: []float64{1, 0}, Objective: 3, Bound: inf, Incumbent: true}, nil},
		{"case 40: answer, then hang", milp.Solution{Status: milp.Optimal, X: good, Objective: 4, Bound: 4}, nil},
		{"abort", milp.Solution{Bound: inf}, ErrCrashed},
		{"abort with incumbents", milp.Solution{X: []float64{1, 0}, Objective: 3, Bound: inf, Incumbent: true}, nil},
		{"segfault", milp.Solution{Bound: inf}, ErrCrashed},
		{"killed", milp.Solution{Bound: inf}, ErrCrashed},
		{"case 41: empty", milp.Solution{Bound: inf}, ErrCrashed},
		{"truncated", milp.Solution{Bound: inf}, ErrCrashed},
		{"truncated with incumbents", milp.Solution{X: []float64{1, 0}, Objective: 3, Bound: inf, Incumbent: true}, nil},
		{"damaged", milp.Solution{Bound: inf}, ErrCrashed},
		{"flood", milp.Solution{Bound: inf}, ErrCrashed},
		{"case 41: nearly integer", milp.Solution{Status: milp.Optimal, X: good, Objective: 4, Bound: 4}, nil},
		{"case 41: nearly zero", milp.Solution{Status: milp.Optimal, X: half, Objective: 2, Bound: 2}, nil},
		{"case 41: fraction", milp.Solution{Bound: inf}, ErrInvalid},
		{"case 41: row violated", milp.Solution{Bound: inf}, ErrInvalid},
		{"case 41: row violated with incumbents", milp.Solution{X: []float64{1, 0}, Objective: 3, Bound: inf, Incumbent: true}, nil},
		{"case 41: NaN", milp.Solution{Bound: inf}, ErrInvalid},
		{"case 41: too short", milp.Solution{Bound: inf}, ErrInvalid},
		{"case 41: too long", milp.Solution{Bound: inf}, ErrInvalid},
		{"case 41: no values", milp.Solution{Bound: inf}, ErrInvalid},
		{"case 41: optimal, no vector", milp.Solution{Bound: inf}, ErrNoSolution},
		{"case 41: bound below", milp.Solution{X: good, Objective: 4, Bound: inf}, nil},
		{"case 41: bound NaN", milp.Solution{X: good, Objective: 4, Bound: inf}, nil},
		{"case 41: optimal by far", milp.Solution{X: half, Objective: 2, Bound: 4}, nil},
		{"case 41: infeasible", milp.Solution{Status: milp.Infeasible, Bound: inf}, ErrInfeasible},
		{"case 41: infeasible with incumbents", milp.Solution{X: []float64{1, 0}, Objective: 3, Bound: inf, Incumbent: true}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			mode := tt.mode[strings.Index(tt.mode, ": ")+1:]
			sol, err := solveFake(t, strings.TrimSpace(mode))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if (sol.Note == "") != (tt.want.Status == milp.Optimal) {
				t.Errorf("note %q with status %v", sol.Note, sol.Status)
			}
			sol.Wall, sol.Note = 0, ""
			if d := cmp.Diff(tt.want, sol); d != "" {
				t.Errorf("solution (-want +got):\n%s", d)
			}
		})
	}
}

// case 40: a grandchild that holds the pipes open neither delays the answer nor survives it.
func TestOrphanHoldsPipes(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	_, err := solveFake(t, "orphan", fakeNote+"="+note)
	if !errors.Is(err, ErrCrashed) {
		t.Errorf("error %v, want %v", err, ErrCrashed)
	}
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for alive(pid) { // it was killed before the solver returned; the kernel may need a moment
		runtime.Gosched()
	}
}

// alive says whether a process runs; one that waits for its parent to collect it does not.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestNoChild(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var bad milp.Model
	bad.AddCol(1, 0, math.NaN(), false)
	tests := []struct {
		name string
		ctx  context.Context
		o    Options
		m    *milp.Model
		err  error
	}{
		{"no such executable", context.Background(), Options{Exe: "/nonexistent/solver"}, small(), ErrCrashed},
		{"cancelled before", ctx, Options{Exe: os.Args[0]}, small(), ErrKilled},
		{"malformed model", context.Background(), Options{Exe: os.Args[0]}, &bad, milp.ErrModel},
		{"no columns", context.Background(), Options{Exe: "/nonexistent/solver"}, &milp.Model{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sol, err := New(tt.o)(tt.ctx, tt.m, milp.Limits{})
			if !errors.Is(err, tt.err) || (sol.X != nil) != (tt.err == nil) {
				t.Errorf("solution %v, error %v, want %v", sol, err, tt.err)
			}
		})
	}
}
