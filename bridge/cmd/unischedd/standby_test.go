package main

import (
	"context"
	"errors"
	"fmt"
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
)

// Two daemons of one cluster: one works, the other stands by, asks Slurm nothing, takes no orders and says who works. When the first one ends, the other takes over
// within a minute; and a daemon whose journal was taken over in its lifetime writes no more.
func TestStandby(t *testing.T) {
	asked := map[string]*atomic.Int64{"first": {}, "second": {}}
	rest := func(name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked[name].Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	first := site(t, rest("first"))
	second := site(t, rest("second"))
	second.Daemon.StateDir = first.Daemon.StateDir
	run := func(s func() error) (ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- s() }()
		return ended
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := func(path, what string, done func(bridge.View) bool) bridge.View {
		t.Helper()
		client := control.Client{Path: path}
		for ctx.Err() == nil {
			if v, err := client.Status(ctx); err == nil && done(v) {
				return v
			}
		}
		t.Fatalf("a minute is over, and not: %s", what)
		return bridge.View{}
	}

	one, stopOne := context.WithCancel(ctx)
	endedOne := run(func() error { return serve(one, first, zerolog.Nop(), false) })
	until(first.Daemon.ControlSocket, "the first one works", func(v bridge.View) bool { return v.Cycle > 1 })
	two, stopTwo := context.WithCancel(ctx)
	endedTwo := run(func() error { return serve(two, second, zerolog.Nop(), false) })
	v := until(second.Daemon.ControlSocket, "the second one stands by", func(v bridge.View) bool { return v.Standby != "" })
	if want := fmt.Sprintf("process %d on ", os.Getpid()); !strings.Contains(v.Standby, want) || v.Cycle != 0 {
		t.Errorf("%q does not name %q, or cycle %d is not 0", v.Standby, want, v.Cycle)
	}
	if _, err := (control.Client{Path: second.Daemon.ControlSocket}).Order(ctx, bridge.Order{Kind: bridge.OrderPause}); err == nil || !strings.Contains(err.Error(), "standing by") {
		t.Errorf("an order to the one that stands by: %v", err)
	}
	if n := asked["second"].Load(); n != 0 {
		t.Errorf("the one that stands by asked Slurm %d times", n)
	}

	stopOne()
	if err := <-endedOne; err != nil {
		t.Error(err)
	}
	until(second.Daemon.ControlSocket, "the second one has taken over", func(v bridge.View) bool { return v.Cycle > 1 && v.Standby == "" })

	// A third process takes the journal away, as happens when the lock of a host that is cut off runs out.
	var j *journal.Journal
	var found journal.Opened
	err := journal.ErrLocked
	for errors.Is(err, journal.ErrLocked) && ctx.Err() == nil { // the one at work makes a lock that was removed again, and may be quicker
		if err = os.Remove(filepath.Join(second.Daemon.StateDir, "lock")); err == nil || errors.Is(err, os.ErrNotExist) {
			j, found, err = journal.Open(second.Daemon.StateDir)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Compact(found.Latest); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-endedTwo:
		if !errors.Is(err, journal.ErrLocked) {
			t.Errorf("the one whose journal was taken ended with %v", err)
		}
	case <-ctx.Done():
		t.Error("the one whose journal was taken goes on")
	}
	stopTwo()
}
