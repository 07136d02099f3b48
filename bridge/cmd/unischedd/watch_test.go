package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/events"
	"unisched/bridge/notify"
	"unisched/bridge/siteconfig"
	"unisched/planner"
	"unisched/planner/milp"
	"unisched/slurm"
)

// case 55: a solver of 60 s does not keep the watchdog of 30 s from its pings; a loop that is truly stuck does, also one that is stuck while it
// believes that the solver runs.
func TestWatchdogFollowsTheSolver(t *testing.T) {
	const period, poll = 30 * time.Second, 10 * time.Second
	solve := func(d time.Duration) milp.Solver {
		return func(ctx context.Context, _ *milp.Model, _ milp.Limits) (milp.Solution, error) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return milp.Solution{}, nil
		}
	}
	for _, tt := range []struct {
		name  string
		cycle func(ctx context.Context, p *pulse)
		// bite is when the pings stop for a period at the latest; 0: never within an hour.
		bite time.Duration
	}{
		{"a solver of 60 s", func(ctx context.Context, p *pulse) {
			p.solver(solve(time.Minute))(ctx, nil, milp.Limits{Time: time.Minute})
		}, 0},
		{"five of them in a row, and slow requests between", func(ctx context.Context, p *pulse) {
			for range 5 {
				p.solver(solve(time.Minute))(ctx, nil, milp.Limits{Time: time.Minute})
				end := p.work(95 * time.Second)
				time.Sleep(90 * time.Second)
				end()
			}
		}, 0},
		{"short cycles", func(context.Context, *pulse) { time.Sleep(time.Second) }, 0},
		{"a true deadlock", func(ctx context.Context, _ *pulse) { <-ctx.Done() }, 2 * time.Minute},
		{"a deadlock after the solver", func(ctx context.Context, p *pulse) {
			p.solver(solve(time.Minute))(ctx, nil, milp.Limits{Time: time.Minute})
			<-ctx.Done()
		}, 3 * time.Minute},
		{"a solver that never ends although its limit was 60 s", func(ctx context.Context, p *pulse) {
			p.solver(solve(24*time.Hour))(ctx, nil, milp.Limits{Time: time.Minute})
		}, 5 * time.Minute},
		{"one cycle of requests without end", func(ctx context.Context, p *pulse) {
			for ctx.Err() == nil {
				end := p.work(30 * time.Second)
				time.Sleep(20 * time.Second)
				end()
			}
		}, longestCycle + 2*time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				p := newPulse(time.Now, period, poll)
				start, last := time.Now(), time.Now()
				bitten := time.Duration(0) // when systemd would have killed us
				var group sync.WaitGroup
				group.Go(func() {
					watchdog(ctx, period, p.alive, func() {
						if d := time.Since(last); d > period && bitten == 0 {
							bitten = last.Sub(start) + period
						}
						last = time.Now()
					}, zerolog.Nop())
				})
				group.Go(func() {
					for ctx.Err() == nil {
						tt.cycle(ctx, p)
						p.finished()
						time.Sleep(poll)
					}
				})
				time.Sleep(time.Hour)
				over := time.Now()
				stop()
				group.Wait()
				if over.Sub(last) > period && bitten == 0 {
					bitten = last.Sub(start) + period
				}
				if (bitten == 0) != (tt.bite == 0) || bitten > tt.bite {
					t.Errorf("killed after %v, want at most %v (0: never)", bitten, tt.bite)
				}
			})
		})
	}
}

// manager is a service manager's end of the notification socket.
func manager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.sock")
	conn := manager(t, path)
	receive := func() string {
		t.Helper()
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	for _, tt := range []struct {
		usec, pid string
		want      time.Duration
	}{{"30000000", "77", 30 * time.Second}, {"30000000", "78", 0}, {"30000000", "", 30 * time.Second}, {"", "", 0}, {"-1", "", 0}, {"x", "", 0}} {
		t.Setenv("NOTIFY_SOCKET", path)
		t.Setenv("WATCHDOG_USEC", tt.usec)
		t.Setenv("WATCHDOG_PID", tt.pid)
		s, err := openSystemd(77)
		if err != nil || s.period() != tt.want {
			t.Fatalf("%+v: %v, %v", tt, s, err)
		}
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
			if v, ok := os.LookupEnv(name); ok {
				t.Errorf("children would see %s=%s", name, v)
			}
		}
		s.tell("READY=1")
		s.say("one\ntwo")
		s.say("one\ntwo") // not again
		s.tell("WATCHDOG=1")
		if d := cmp.Diff([]string{"READY=1", "STATUS=one two", "WATCHDOG=1"}, []string{receive(), receive(), receive()}); d != "" {
			t.Error(d)
		}
		s.close()
	}
	var nobody *systemd
	nobody.tell("READY=1")
	nobody.say("x")
	nobody.close()
	t.Setenv("NOTIFY_SOCKET", "relative")
	if _, err := openSystemd(1); err == nil {
		t.Error("a relative socket was taken")
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	if _, err := openSystemd(1); err == nil {
		t.Error("a missing socket was taken")
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// field is a field of the first line whose message begins so, "" when there is none yet.
func (l *lines) field(message, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && strings.HasPrefix(fmt.Sprint(m["message"]), message) {
			return fmt.Sprint(m[name])
		}
	}
	return ""
}

// The whole daemon tells the service manager that it is ready, how it is and that it lives, and answers Prometheus and `unisched events`.
func TestDaemonTells(t *testing.T) {
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer rest.Close()
	path := filepath.Join(t.TempDir(), "n.sock")
	conn := manager(t, path)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "3000000")
	s := site(t, rest.URL)
	s.Metrics.Listen = "127.0.0.1:0"
	s.Slurm.TokenFile = filepath.Join(t.TempDir(), "token")
	// {"exp":4102444800}
	if err := os.WriteFile(s.Slurm.TokenFile, []byte("eyJ9.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, s, zerolog.New(log), false) }()

	told := map[string]bool{}
	buf := make([]byte, 4096)
	for !told["READY=1"] || !told["WATCHDOG=1"] || !told["STATUS=stage shadow, 0 of 0 GPUs held by 0 jobs: look at Slurm"] { // the test's own timeout bounds this
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		text := string(buf[:n])
		if strings.HasPrefix(text, "STATUS=") {
			text, _, _ = strings.Cut(text, ": slurm")
		}
		told[text] = true
	}
	client := control.Client{Path: s.Daemon.ControlSocket}
	onSocket, err := client.Raw(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + log.field("metrics for Prometheus", "address") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	onTCP, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(onSocket), string(onTCP)} {
		for _, want := range []string{"\nunisched_slurm_up 0\n", "\nunisched_leader 1\n", `unisched_stage{stage="shadow"} 1`, "unisched_cycle_failures_total ", `unisched_rest_requests_total{code="503"} `, "unisched_process_resident_memory_bytes "} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q among the metrics", want)
			}
		}
		if strings.Contains(text, "unisched_token_seconds_left NaN") || strings.Contains(text, "\nunisched_cycles_total 0\n") {
			t.Error("token or cycles are not counted")
		}
	}
	if resp, err := http.Get("http://" + log.field("metrics for Prometheus", "address") + control.PathJobs); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("TCP answers more than metrics: %v, %v", resp, err)
	}
	raw, err := client.Raw(ctx, events.Path+"?since=0&wait=20")
	var doc events.Document
	if err := errors.Join(err, json.Unmarshal(raw, &doc)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(doc.Events, func(e events.Event) bool { return e.What == "slurm-unreachable" && e.Level == "warn" }) {
		t.Errorf("events: %+v", doc.Events)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for !told["STOPPING=1"] {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		told[string(buf[:n])] = true
	}
}

// What the loop says and shows reaches metrics, events and notices, each once.
func TestWatch(t *testing.T) {
	s := site(t, "http://127.0.0.1:1")
	dir := t.TempDir()
	s.Notify = notify.Config{Command: []string{"/bin/sh", "-c", `cat >> "$0"; echo >> "$0"`, filepath.Join(dir, "told")}, On: siteconfig.Defaults().Notify.On,
		Timeout: 20 * time.Second, Repeat: time.Hour, PerHour: 10}
	w := newWatch(s, zerolog.Nop(), nil)
	defer w.close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.sender.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	at := wallClock()
	v := &bridge.View{Cycle: 1, At: at, Stage: bridge.StageStrict, Standstills: []bridge.Standstill{{Partition: "gpu", Why: "nobody comes back"}},
		Jobs: []bridge.JobView{{ID: 12, Ref: "12", Class: planner.Strict, Phase: bridge.Waiting, Tiers: []planner.Tier{{At: at.Add(time.Hour)}},
			Events: []bridge.Event{{N: 1, At: at, What: "admitted"}}}}}
	w.view = func() *bridge.View { return v }
	w.journal = func() int64 { return 7 }
	w.note(at, bridge.Note{Level: "info", What: "action", Job: 12, Action: "a-1", Kind: "hold", Outcome: bridge.Done, Text: "hold"})
	w.done(at, nil)
	next := *v
	next.Cycle, next.At, next.Jobs = 2, at.Add(time.Second), slices.Clone(v.Jobs)
	next.Jobs[0].Laxity = -time.Minute
	v = &next
	w.done(at.Add(time.Second), nil)
	w.done(at.Add(2*time.Second), nil)

	a, err := w.store.Find(events.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range a.Events {
		got = append(got, fmt.Sprintf("%d %s %s %d %s", e.Seq, e.Level, e.What, e.Job, e.Action))
	}
	if d := cmp.Diff([]string{"1 info action 12 a-1", "2 info admitted 12 ", "3 warn deadline-at-risk 12 "}, got); d != "" {
		t.Error(d)
	}
	rec := httptest.NewRecorder()
	w.met.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`unisched_actions_total{kind="hold",outcome="done"} 1`, "unisched_cycles_total 3", "unisched_journal_bytes 7", `unisched_deadlines_at_risk{class="strict"} 1`, "unisched_preemption_stopped_partitions 1"} {
		if !strings.Contains(rec.Body.String(), want+"\n") {
			t.Errorf("no %q", want)
		}
	}
	want := []string{"preemption-stopped", "deadline-at-risk"}
	var kinds []string
	for len(kinds) < len(want) && ctx.Err() == nil { // the test's own timeout bounds this
		kinds = nil
		raw, _ := os.ReadFile(filepath.Join(dir, "told"))
		for line := range strings.Lines(string(raw)) {
			var n notify.Notice
			if json.Unmarshal([]byte(line), &n) == nil && n.Kind != "" {
				kinds = append(kinds, string(n.Kind))
			}
		}
	}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Error(d)
	}
}

// Requests count by kind, and as work while they last.
func TestRequestHook(t *testing.T) {
	s := site(t, "http://127.0.0.1:1")
	w := newWatch(s, zerolog.Nop(), nil)
	defer w.close()
	o := s.Slurm.Options()
	o.Begin = w.request
	c, err := slurm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.State(t.Context(), time.Now()); err == nil {
		t.Error("a dead port answered")
	}
	rec := httptest.NewRecorder()
	w.met.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`unisched_rest_requests_total{code="none"} 1`, `unisched_rest_seconds_count{kind="ping"} 1`} {
		if !strings.Contains(rec.Body.String(), want+"\n") {
			t.Errorf("no %q", want)
		}
	}
	if len(w.pulse.within) != 0 {
		t.Errorf("%d requests never ended", len(w.pulse.within))
	}
}
