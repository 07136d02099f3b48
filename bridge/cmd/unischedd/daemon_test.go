package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/journal"
	"unisched/bridge/siteconfig"
	"unisched/planner/milp/highs"
	"unisched/slurm/slurmtest"
)

func TestMain(m *testing.M) {
	highs.MaybeChild()
	slurmtest.MaybeServe()
	os.Exit(m.Run())
}

// site is a configuration in a folder of its own.
func site(t *testing.T, url string) siteconfig.Site {
	t.Helper()
	dir := t.TempDir()
	s := siteconfig.Defaults()
	s.Slurm.URL, s.Slurm.TokenFile, s.Slurm.Scontrol = url, "", nil
	s.Daemon.StateDir, s.Daemon.ControlSocket = filepath.Join(dir, "state"), filepath.Join(dir, "c.sock")
	s.Bridge.Poll = 100 * time.Millisecond
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// The whole daemon against a slurmrestd that answers 503 only: it keeps ticking, says so on its socket, and ends cleanly.
func TestDaemonWithoutSlurm(t *testing.T) {
	var asked atomic.Int64
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer rest.Close()
	s := site(t, rest.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, s, zerolog.Nop(), false) }()

	client := control.Client{Path: s.Daemon.ControlSocket}
	var v bridge.View
	for ctx.Err() == nil && v.Cycle < 2 { // the test's own timeout bounds this
		v, _ = client.Status(ctx)
	}
	if !strings.Contains(v.Trouble, "503") || asked.Load() < 1 { // it is left alone for a while
		t.Errorf("trouble %q, slurmrestd asked %d times", v.Trouble, asked.Load())
	}
	// A cycle by hand is refused meanwhile: by the journal, before it touches anything.
	if err := serve(ctx, s, zerolog.Nop(), true); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("second daemon: %v", err)
	}
	if text, err := client.Order(ctx, bridge.Order{Kind: bridge.OrderPause}); os.Getuid() == 0 && (err != nil || !text.OK) {
		t.Errorf("pause: %v, %v", text, err)
	}
	if fi, err := os.Stat(filepath.Join(s.Daemon.StateDir, "heartbeat")); err != nil || time.Since(fi.ModTime()) > time.Minute {
		t.Errorf("heartbeat: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := client.Status(t.Context()); !errors.Is(err, control.ErrDown) {
		t.Errorf("after the end: %v", err)
	}
	if j, _, err := journal.Open(s.Daemon.StateDir); err != nil {
		t.Errorf("journal after the end: %v", err)
	} else {
		j.Close()
	}
}

// --once runs one cycle and leaves a heartbeat, also when Slurm is away.
func TestOnce(t *testing.T) {
	s := site(t, "http://127.0.0.1:1")
	if err := serve(t.Context(), s, zerolog.Nop(), true); err == nil || !strings.Contains(err.Error(), "look at Slurm") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Daemon.StateDir, "heartbeat")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Daemon.ControlSocket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a socket was opened: %v", err)
	}
}

// A state folder that is everybody's takes orders from everybody.
func TestStateFolderOfEverybody(t *testing.T) {
	s := site(t, "http://127.0.0.1:1")
	if err := os.Mkdir(s.Daemon.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Daemon.StateDir, 0o777); err != nil { // whatever the umask
		t.Fatal(err)
	}
	if err := serve(t.Context(), s, zerolog.Nop(), true); err == nil || !strings.Contains(err.Error(), "written by anybody") {
		t.Errorf("%v", err)
	}
}

func TestNodeKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	d := siteconfig.Daemon{NodeKeyFile: path}
	if _, err := newListener(d); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for _, tt := range []struct {
		bytes int
		mode  os.FileMode
		says  string
	}{{31, 0o600, "node key"}, {32, 0o604, "chmod o="}, {32, 0o640, ""}, {32, 0o600, ""}} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("k"), tt.bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, err := newListener(d)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d bytes, mode %o: %v", tt.bytes, tt.mode, err)
		}
	}
}

func TestRealMain(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.toml")
	if err := os.WriteFile(bad, []byte("[bridge]\nuint = \"5m\"\nstage = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--bogus"}, 64, "bogus"},
		{[]string{"extra"}, 64, `unexpected argument "extra"`},
		{[]string{"--config", filepath.Join(t.TempDir(), "none")}, 1, "no such file"},
		{[]string{"--config", bad}, 1, fmt.Sprintf("%s:2: bridge.uint: unknown key; did you mean bridge.unit?\n%s:3: bridge.stage", bad, bad)},
		{[]string{"--help"}, 0, "-once"},
	} {
		var stderr bytes.Buffer
		if code := realMain(t.Context(), tt.args, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.says) {
			t.Errorf("%v: exit code %d, %s", tt.args, code, stderr.String())
		}
	}
}

// An address of the page that somebody has already is said at once, and everything that was open is closed.
func TestPageAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := site(t, "http://127.0.0.1:1")
	s.Web.Listen = l.Addr().String()
	if err := serve(t.Context(), s, zerolog.Nop(), false); err == nil || !strings.Contains(err.Error(), "web.listen") {
		t.Errorf("%v", err)
	}
	if _, err := (control.Client{Path: s.Daemon.ControlSocket}).Status(t.Context()); !errors.Is(err, control.ErrDown) {
		t.Errorf("the control socket: %v", err)
	}
}
