package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/diode"

	"unisched/bridge"
)

// logLines is how many lines may wait for a slow reader of stderr; what comes on top is dropped and counted, so that a full pipe never
// stops the loop.
const logLines = 4096

// droppedLines counts what newLog's readers missed; there is one log in a process.
var droppedLines atomic.Int64

// newLog writes JSON lines to w. The function returned flushes and ends it.
func newLog(w io.Writer, level string) (zerolog.Logger, func()) {
	out := diode.NewWriter(w, logLines, 0, func(missed int) {
		droppedLines.Add(int64(missed))
		fmt.Fprintf(w, `{"level":"warn","message":"log lines dropped","lines":%d}`+"\n", missed)
	})
	zerolog.TimeFieldFormat = time.RFC3339Nano
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		l = zerolog.InfoLevel
	}
	return zerolog.New(out).Level(l).With().Timestamp().Logger(), func() { out.Close() }
}

// notes passes what the loop has to say to the log. The time is the cycle's own.
func notes(log zerolog.Logger) func(time.Time, bridge.Note) {
	return func(now time.Time, n bridge.Note) {
		level, err := zerolog.ParseLevel(n.Level)
		if err != nil {
			level = zerolog.InfoLevel
		}
		e := log.WithLevel(level)
		if level < log.GetLevel() {
			return
		}
		e = e.Time("cycle", now).Str("what", n.What)
		if n.Job != 0 {
			e = e.Int64("job_id", int64(n.Job))
		}
		if n.Plan != "" {
			e = e.Str("plan_id", n.Plan)
		}
		if n.Action != "" {
			e = e.Str("action_id", n.Action).Str("kind", n.Kind).Str("outcome", string(n.Outcome))
		}
		e.Msg(n.Text)
	}
}
