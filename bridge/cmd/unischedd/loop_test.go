package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"unisched/bridge"
)

// body is a stepper whose cycles take the given times, the last one for ever after.
type body struct {
	took  []time.Duration
	steps []time.Time
	ends  []error // of the context of each step, when it ended
	err   error
}

func (b *body) Step(ctx context.Context, now time.Time) error {
	b.steps = append(b.steps, now)
	d := b.took[min(len(b.steps), len(b.took))-1]
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	b.ends = append(b.ends, ctx.Err())
	return b.err
}
func (b *body) View() *bridge.View {
	return &bridge.View{Schema: bridge.ViewSchema, Cycle: int64(len(b.steps))}
}
func (b *body) Order(context.Context, bridge.Order) (string, error) { return "", nil }

// seconds since start of each step.
func (b *body) seconds(start time.Time) []float64 {
	var s []float64
	for _, t := range b.steps {
		s = append(s, t.Sub(start).Seconds())
	}
	return s
}

// A slow cycle leaves out the instants that it missed: they never queue up, and the next one is on the grid again.
func TestSlowCyclesDoNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := wallClock() // a bubble starts on a whole second
		b := &body{took: []time.Duration{time.Second, 35 * time.Second, time.Second, 10 * time.Second, time.Second}}
		ctx, cancel := context.WithTimeout(t.Context(), 85*time.Second)
		defer cancel()
		loop{body: b, poll: 10 * time.Second, done: func(time.Time, error) {}}.run(ctx)
		// at 10 s a cycle of 35 s; one of exactly a poll is followed by the next instant but one
		if d := cmp.Diff([]float64{0, 10, 50, 60, 80}, b.seconds(start)); d != "" {
			t.Error(d)
		}
	})
}

// The end of the daemon does not cut off a cycle, unless it takes longer than the grace.
func TestStopDuringACycle(t *testing.T) {
	for _, tt := range []struct {
		name        string
		takes, ends time.Duration
		cut         error
	}{
		{"finishes", 15 * time.Second, 15 * time.Second, nil},
		{"is cut off", time.Hour, 1*time.Second + stopGrace, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				b := &body{took: []time.Duration{tt.takes}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				finished := 0
				loop{body: b, poll: time.Second, done: func(time.Time, error) { finished++ }}.run(ctx)
				if got := time.Since(start); got != tt.ends || finished != 1 || len(b.steps) != 1 {
					t.Errorf("ended after %v, %d cycles finished", got, finished)
				}
				if !errors.Is(b.ends[0], tt.cut) {
					t.Errorf("the cycle's context: %v", b.ends[0])
				}
			})
		})
	}
}

// A loop that was told to end before it began does nothing.
func TestStopBeforeTheFirstCycle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &body{took: []time.Duration{0}}
	loop{body: b, poll: time.Second, done: func(time.Time, error) {}}.run(ctx)
	if len(b.steps) != 0 {
		t.Error("a cycle ran")
	}
}

func TestHeartbeat(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "heartbeat")
	beat := heartbeat(dir, zerolog.Nop())
	old := time.Unix(1000, 0)
	beat(old, errors.New("look at Slurm: refused"))
	got, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(got), "result look at Slurm: refused") {
		t.Errorf("%q, %v", got, err)
	}
	// The file's time is that of the end of the cycle, also when an older file is there.
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	beat(old, nil)
	if fi, err := os.Stat(path); err != nil || !fi.ModTime().After(old.Add(time.Hour)) {
		t.Errorf("%v, %v", fi.ModTime(), err)
	}
}

// One note is one JSON line, whatever it holds; what lies below the level is left out.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	log, end := newLog(&b, "info")
	say := notes(log)
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	say(at, bridge.Note{Level: "debug", What: "hidden"})
	say(at, bridge.Note{Level: "warn", What: "refused", Job: 12, Plan: "p1", Action: "20261201T120000.000-1", Kind: "hold", Outcome: bridge.Refused, Text: "quote \" and \x1b[31m\n"})
	end()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 1 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	want := map[string]any{"level": "warn", "cycle": "2026-12-01T12:00:00Z", "what": "refused", "job_id": 12.0, "plan_id": "p1",
		"action_id": "20261201T120000.000-1", "kind": "hold", "outcome": "refused", "message": "quote \" and \x1b[31m\n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// blocked never takes a byte.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) { <-b; return len(p), nil }

// A reader of stderr that stopped reading must not stop the loop.
func TestLogNeverBlocks(t *testing.T) {
	b := make(blocked)
	log, end := newLog(b, "info")
	for range 3 * logLines {
		log.Info().Msg("x")
	}
	close(b)
	end()
}
