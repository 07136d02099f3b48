package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"unisched/bridge"
)

// stepper is the loop's body, *bridge.Bridge in the daemon.
type stepper interface {
	Step(ctx context.Context, now time.Time) error
	View() *bridge.View
	Order(ctx context.Context, o bridge.Order) (string, error)
}

// stopGrace is how long a cycle in progress may go on after the daemon was told to end; then its calls are cut off.
const stopGrace = 20 * time.Second

// loop steps at the multiples of poll on the wall clock, so that cycles fall on unit boundaries. A cycle that takes longer than poll leaves
// out the instants that it missed; they never queue up.
type loop struct {
	body stepper
	poll time.Duration
	// before, when set, is called before each cycle.
	before func()
	// done is told of each finished cycle, whatever its result: the daemon is alive.
	done func(now time.Time, err error)
}

// run steps until ctx ends, and returns when no cycle is in progress.
func (l loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		l.step(ctx)
		timer.Reset(untilNext(wallClock(), l.poll))
	}
}

// wallClock is the time without its monotonic part: the loop must see a clock that was set.
func wallClock() time.Time { return time.Now().Round(0).UTC() }

func untilNext(now time.Time, poll time.Duration) time.Duration {
	return poll - time.Duration(now.UnixNano()%int64(poll))
}

// step runs one cycle. The end of ctx does not cut it off at once: a write in flight would be left unknown.
func (l loop) step(ctx context.Context) {
	inner, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cut()
		case <-inner.Done():
		}
	})
	defer stop()
	if l.before != nil {
		l.before()
	}
	now := wallClock()
	l.done(now, l.body.Step(inner, now))
}

// heartbeat tells whoever looks (unisched release --if-down) when the last cycle finished: by the file's time, and in words inside.
func heartbeat(stateDir string, log zerolog.Logger) func(time.Time, error) {
	path := filepath.Join(stateDir, "heartbeat")
	return func(began time.Time, stepErr error) {
		result := "ok"
		if stepErr != nil {
			result = stepErr.Error()
			log.Warn().Err(stepErr).Time("cycle", began).Msg("cycle failed")
		}
		text := fmt.Sprintf("pid %d\ncycle %s\nresult %.500s\n", os.Getpid(), began.Format(time.RFC3339Nano), result)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			log.Error().Err(err).Msg("heartbeat")
			return
		}
		now := time.Now()
		if err := os.Chtimes(path, now, now); err != nil {
			log.Error().Err(err).Msg("heartbeat")
		}
	}
}
