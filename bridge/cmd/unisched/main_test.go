package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/events"
	"unisched/bridge/siteconfig"
	"unisched/planner"
	"unisched/planner/milp/highs"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// noon is the clock of every script.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func testApp() *app {
	return &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, now: func() time.Time { return noon }, zone: time.UTC,
		policy: func(siteconfig.Site, func() time.Time) bridge.Policy { return cannedPolicy{} },
		release: func(_ context.Context, s siteconfig.Site, now time.Time) (any, string, error) {
			if os.Getenv("RELEASE_FAILS") != "" {
				return nil, "", errors.New("journal is in use by another process")
			}
			return map[string]any{"schema_version": 1, "released": true, "jobs": []int{12}}, "released 1 job", nil
		}}
}

type cannedPolicy struct{}

func (cannedPolicy) Plan(_ context.Context, s planner.Snapshot) planner.Plan {
	p := view().LastPlan
	p.ID, p.Now = "dry", s.Now
	return p
}

func TestMain(m *testing.M) {
	highs.MaybeChild()
	testscript.Main(m, map[string]func(){
		"unisched": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(testApp().run(ctx, os.Args[1:]))
		},
	})
}

// TestScripts runs testdata/*.txtar. Two daemons answer in each: $WORK/c.sock is well and takes orders, $WORK/bad.sock is degraded and does not.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("UNISCHED_SOCKET", filepath.Join(e.WorkDir, "c.sock"))
			e.Setenv("UNISCHED_CONFIG", filepath.Join(e.WorkDir, "unisched.toml"))
			e.Setenv("UID_OF_TEST", strconv.Itoa(os.Getuid()))
			if err := os.WriteFile(filepath.Join(e.WorkDir, "unisched.toml"),
				fmt.Appendf(nil, "[daemon]\nstate_dir = %q\n", filepath.Join(e.WorkDir, "state")), 0o644); err != nil {
				return err
			}
			bad := view()
			bad.Trouble, bad.At, bad.Suspect = "slurmrestd: connection refused", noon.Add(-5*time.Minute), "nodes dropped from 9 to 2"
			bad.Standstills = []bridge.Standstill{{Partition: "gpu", Since: noon.Add(-time.Minute), Until: noon.Add(9 * time.Minute), Why: "job 9 ended as CANCELLED"}}
			if err := serve(e, "c.sock", view(), true); err != nil {
				return err
			}
			return serve(e, "bad.sock", bad, false)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"narrow": narrow,
			"touch":  touch,
		},
	})
}

func serve(e *testscript.Env, name string, v *bridge.View, operator bool) error {
	l, err := control.Listen(filepath.Join(e.WorkDir, name), 0o600, -1)
	if err != nil {
		return err
	}
	store, err := events.Open(filepath.Join(e.WorkDir, "events-of-"+name))
	if err != nil {
		return err
	}
	if err := store.Append(cannedEvents()...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- control.Server{
			View: func() *bridge.View { return v },
			Order: func(_ context.Context, o bridge.Order) (string, error) {
				if o.Job == 15 {
					return "", errors.New("job 15 is not managed")
				}
				if o.Kind == bridge.OrderStage {
					if o.Stage != bridge.Shadow && !o.Ready && !o.Force {
						return "", bridge.ErrNotReady
					}
					return fmt.Sprintf("stage %s for %q, ready %v", o.Stage, o.Partition, o.Ready), nil
				}
				return fmt.Sprintf("%s of job %d by %s: done", o.Kind, o.Job, o.By), nil
			},
			Operator: func(uint32) bool { return operator },
			Mounts: map[string]http.Handler{events.Path: store.Handler(), "/metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "unisched_slurm_up 1\n")
			})},
		}.Serve(ctx, l)
	}()
	e.Defer(func() { cancel(); <-done; store.Close() })
	return nil
}

// exits runs a command and checks its exit code: exits CODE unisched ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var code interface{ ExitCode() int }
	if errors.As(err, &code) {
		got = code.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// narrow checks that no line of a file is wider than a terminal.
func narrow(ts *testscript.TestScript, _ bool, args []string) {
	for i, line := range strings.Split(ts.ReadFile(args[0]), "\n") {
		if n := columns(line); n > width {
			ts.Fatalf("%s:%d is %d columns wide: %s", args[0], i+1, n, line)
		}
		if strings.ContainsAny(line, "\x1b\x07\r") {
			ts.Fatalf("%s:%d holds control characters: %q", args[0], i+1, line)
		}
	}
}

// touch makes a file of a given age: touch FILE AGE.
func touch(ts *testscript.TestScript, _ bool, args []string) {
	age, err := time.ParseDuration(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	ts.Check(os.WriteFile(path, nil, 0o600))
	ts.Check(os.Chtimes(path, noon.Add(-age), noon.Add(-age)))
}

// Bytes that a script file cannot carry well: they must reach the parser as they were typed.
func TestLintBytes(t *testing.T) {
	for _, tt := range []struct {
		name, arg string
		code      int
		says      string
	}{
		{"case 50: invalid UTF-8 in our part", "unisched:class=\xff\xfe", 1, "bad: byte 15"},
		{"case 50: Latin-1 in foreign text", "Universit\xe4t unisched:class=besteffort", 1, "bad: byte 9"},
		{"case 50: emoji cut mid-rune", "unisched:class=besteffort \xf0\x9f\x98", 1, "bad: byte 26"},
		{"case 50: NUL", "unisched:class=best\x00effort", 1, "bad: byte 19"},
		{"case 50: 1,024 bytes", "unisched:class=besteffort " + strings.Repeat("x", 1024-26), 0, "valid"},
		{"case 50: 1,025 bytes", "unisched:class=besteffort " + strings.Repeat("x", 1025-26), 1, "bad: byte 1024"},
		{"case 50: 2,000 bytes", "unisched:class=besteffort " + strings.Repeat("x", 2000-26), 1, "bad: byte 1024"},
		{"case 50: terminal escapes are not echoed", "unisched:class=\x1b[31m", 1, "bad: byte 15"},
	} {
		for _, stdin := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stdin %v", tt.name, stdin), func(t *testing.T) {
				var out, errs bytes.Buffer
				a := testApp()
				a.env = func(string) string { return "" }
				a.in, a.out, a.err = strings.NewReader(tt.arg), &out, &errs
				arg := tt.arg
				if stdin {
					arg = "-"
				}
				if code := a.run(t.Context(), []string{"lint", arg}); code != tt.code {
					t.Errorf("exit code %d", code)
				}
				if !strings.HasPrefix(out.String(), tt.says) || strings.ContainsAny(out.String(), "\x1b\x00") {
					t.Errorf("%q %q", out.String(), errs.String())
				}
			})
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 59*time.Second + 600*time.Millisecond: "1m00s", 61 * time.Second: "1m01s", time.Hour: "1h00m",
		3*time.Hour + 5*time.Minute: "3h05m", 51 * time.Hour: "2d03h", -90 * time.Second: "-1m30s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{{"short", 5, "short"}, {"longer", 5, "long~"}, {"日本語日本語", 5, "日本~"}, {"é", 1, "é"}} {
		if got := cut(tt.in, tt.n); got != tt.want || columns(got) > tt.n {
			t.Errorf("cut(%q, %d) = %q", tt.in, tt.n, got)
		}
	}
}

func FuzzScript(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH --comment='unisched:class=strict'\ntrain\n")
	f.Add("#SBATCH --comment \"a\\\"b\" # c\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := inScript("f", text)
		if len(s.text) > len(text) {
			t.Errorf("%q from %q", s.text, text)
		}
	})
}
