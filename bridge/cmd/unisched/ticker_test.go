package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTicker: a log gets a line now and then, a terminal one that is written over, and whoever asked for quiet nothing.
func TestTicker(t *testing.T) {
	for _, c := range []struct {
		name            string
		quiet, terminal bool
		want            string
	}{
		{"log", false, false, "at 30\nat 60\n"},
		{"terminal", false, true, "\rat 20    \rat 30    \rat 60    \n"},
		{"quiet", true, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Unix(0, 0)
			x := &ticker{w: &out, now: func() time.Time { return now }, quiet: c.quiet, terminal: c.terminal, shown: now}
			for _, s := range []int{0, 20, 30, 60} {
				now = time.Unix(int64(s), 0)
				x.say("at %d", s)
			}
			x.end()
			x.end()
			if d := cmp.Diff(c.want, out.String()); d != "" {
				t.Error(d)
			}
		})
	}
}
