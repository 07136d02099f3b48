package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// BenchmarkWatchFlood is the cost of one round, of which there is one every two seconds, while a job appends 64 MiB of good lines between two rounds.
func BenchmarkWatchFlood(b *testing.B) {
	base := b.TempDir()
	run := base + "/n1/7/run-0"
	if err := os.MkdirAll(run, 0o700); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, `{"iter":%d,"loss":0.25,"t":1764435600}`+"\n", i)
	}
	f, err := os.OpenFile(run+"/progress.jsonl", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	sent := 0
	w := newWatcher(base, "host", time.Hour, func(_ context.Context, body []byte) (bool, error) { sent += len(body); return false, nil }, func(string, ...any) {})
	cpu := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var used time.Duration
	now := t0
	for i := range b.N {
		if i%3 == 0 { // the disk is not what is measured
			f.Truncate(0)
		}
		for range 64 {
			if _, err := f.WriteString(text.String()); err != nil {
				b.Fatal(err)
			}
		}
		before := cpu()
		if err := w.round(b.Context(), now); err != nil {
			b.Fatal(err)
		}
		used += cpu() - before
		now = now.Add(2 * time.Second)
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/round")
	b.ReportMetric(100*used.Seconds()/float64(b.N)/2, "%core")
	b.ReportMetric(float64(sent)/float64(b.N), "sent-B/round")
}

// A flooded file: checkpoints and the like are found wherever they can be reached, the newest lines are read, the rest is counted, lines and bytes alike.
func TestFlood(t *testing.T) {
	plain := `{"iter":1,"loss":0.25,"t":5}` + "\n"
	fill := func(mib int) string { return strings.Repeat(plain, mib<<20/len(plain)) }
	for _, tt := range []struct {
		name    string
		text    string
		want    []string // lines that are no plain iterations
		skipped bool
	}{
		{"within reach", `{"ready":true,"t":5}` + "\n" + fill(6) + `{"checkpoint":true,"iter":7,"t":5}` + "\n" + fill(4) + `{"signal":"USR1","t":5}` + "\n",
			[]string{`{"ready":true,"t":5.000000}`, `{"checkpoint":true,"iter":7,"t":5.000000}`, `{"signal":"USR1","t":5.000000}`}, false},
		{"too far back", `{"ready":true,"t":5}` + "\n" + fill(36) + `{"checkpoint":true,"iter":7,"t":5}` + "\n", []string{`{"checkpoint":true,"iter":7,"t":5.000000}`}, true},
		{"one line without an end", strings.Repeat("x", 9<<20), nil, false},
		{"marks in plain lines", strings.Repeat(`{"iter":3,"done":0,"t":5}`+"\n", 6<<20/26) + fill(1), nil, false},
		{"a mark in a line that is none", strings.Repeat(`"checkpoint"`, 1000) + "\n" + fill(5) + `{"done":true,"t":5}` + "\n", []string{`{"done":true,"t":5.000000}`}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.write("n1/7/run-0", tt.text)
			var got []string
			var lines, dropped int
			var skipped int64
			now := t0
			for range 8 {
				n.round(now)
				now = now.Add(2 * time.Second)
			}
			for _, r := range n.reports {
				for _, j := range r.Jobs {
					lines, dropped, skipped = lines+len(j.Lines), dropped+j.Dropped, skipped+j.Skipped
					for _, l := range j.Lines {
						if !strings.HasPrefix(string(l), `{"iter"`) {
							got = append(got, string(l))
						}
					}
				}
			}
			tl := n.w.runs[runKey{"n1", 7, 0}]
			if d := cmp.Diff(tt.want, got); d != "" || tl.pos.offset != int64(len(tt.text)) || (skipped > 0) != tt.skipped {
				t.Errorf("at %d of %d, %d bytes skipped\n%s", tl.pos.offset, len(tt.text), skipped, d)
			}
			if total := strings.Count(tt.text[skipped:], "\n"); skipped == 0 && lines+dropped != total && total > 0 {
				t.Errorf("%d lines and %d dropped of %d", lines, dropped, total)
			}
			if len(n.warned) != 1 || !strings.Contains(n.warned[0], "floods") {
				t.Errorf("said %q", n.warned)
			}
		})
	}
}

// Many flooding jobs share what a round may skim, in turn; a quiet job is heard in each round.
func TestManyFloods(t *testing.T) {
	n := newNode(t)
	text := strings.Repeat(`{"iter":1,"t":5}`+"\n", 12<<20/17)
	for j := 1; j <= 8; j++ {
		n.write(fmt.Sprintf("n1/%d/run-0", j), text)
	}
	now := t0
	for i := range 4 {
		n.write("n1/99/run-0", fmt.Sprintf(`{"iter":%d,"t":5}`+"\n", i))
		if got := strings.Join(n.round(now), "\n"); !strings.Contains(got, fmt.Sprintf(`n1/99.0 -0 {"iter":%d}`, i)) {
			t.Errorf("round %d: the quiet job was not heard", i)
		}
		now = now.Add(2 * time.Second)
	}
	for j := 1; j <= 8; j++ {
		if tl := n.w.runs[runKey{"n1", int64(j), 0}]; tl.pos.offset != int64(len(text)) {
			t.Errorf("job %d: at %d of %d", j, tl.pos.offset, len(text))
		}
	}
}

// A job that writes a little too much for ever is held to the rate, and loses nothing while its backlog is no flood.
func TestRate(t *testing.T) {
	n := newNode(t)
	line := `{"iter":1,"t":5}` + strings.Repeat(" ", 1000) + "\n"
	lines := 2 << 20 / len(line)
	n.write("n1/7/run-0", strings.Repeat(line, lines))
	read := func() int64 { return n.w.runs[runKey{"n1", 7, 0}].pos.offset }
	n.round(t0)
	if got := read(); got > burstBytes || got < burstBytes-chunkBytes {
		t.Errorf("first round: %d bytes", got)
	}
	before := read()
	n.round(t0.Add(2 * time.Second))
	if got := read() - before; got > 2*rateBytes || got == 0 {
		t.Errorf("second round: %d bytes", got)
	}
	for i := range 8 {
		n.round(t0.Add(time.Duration(4+2*i) * time.Second))
	}
	total := 0
	for _, r := range n.reports {
		for _, j := range r.Jobs {
			total += len(j.Lines)
			if j.Dropped+int(j.Skipped) > 0 {
				t.Errorf("%d dropped", j.Dropped)
			}
		}
	}
	if total != lines {
		t.Errorf("%d lines of %d", total, lines)
	}
}

// The file is read with the rights of the job's user and no others.
func TestReadsAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	n := newNode(t)
	n.write("n1/7/run-0", `{"iter":1,"t":5}`+"\n")
	for _, p := range []string{"n1/7", "n1/7/run-0", "n1/7/run-0/progress.jsonl"} {
		if err := os.Chown(n.path(p), 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	file := n.path("n1/7/run-0/progress.jsonl")
	if err := os.Chmod(file, 0); err != nil { // root could read it
		t.Fatal(err)
	}
	n.want(t0)
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	n.want(t0, `n1/7.0 -0 {"iter":1}`)
	if err := os.WriteFile(n.path("root"), nil, 0o600); err != nil { // and the rights came back
		t.Fatal(err)
	}
}
