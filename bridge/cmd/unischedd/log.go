package main

import (
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/diode"

	"unisched/bridge"
)

// logLines is how many lines may wait for a slow reader of stderr; what comes on top is dropped and counted, so that a full pipe never
// stops the loop.
const logLines = 4096

// newLog writes JSON lines to w. The function returned flushes and ends it.
func newLog(w io.Writer, level string) (zerolog.Logger, func()) {
	out := diode.NewWriter(w, logLines, 0, func(missed int) {
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
			e = e.Int64("job", int64(n.Job))
		}
		if n.Plan != "" {
			e = e.Str("plan", n.Plan)
		}
		e.Msg(n.Text)
	}
}
