package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"unisched/hooks/progress"
)

// A job may write more than anybody wants to read. So each run has a budget of bytes that are read line by line; what is too much for it is skimmed, which
// is about a hundred times cheaper: only lines that may say something else than an iteration are looked at. What lies too far back even for that is
// skipped. The newest lines are always read, what was left out is counted, and the report and the log say so.
const (
	rateBytes  = 128 << 10 // read of one run a second, in the long run
	burstBytes = 1 << 20   // what it may save up
	floodBytes = 4 << 20   // unread bytes beyond which a run is skimmed
	freshBytes = 128 << 10 // its newest part, which is not skimmed but read
	skimBytes  = 32 << 20  // skimmed of one run in one round; beyond that bytes are skipped
	skimRound  = 64 << 20  // skimmed of all runs in one round; the others wait for the next
	skimLines  = 2000      // parsed of one run in one round while it is skimmed
)

// allowance is what a run may still have read.
type allowance struct {
	bytes  int64
	filled time.Time
}

// fill adds what the time since the last call is worth.
func (a *allowance) fill(now time.Time) {
	switch d := now.Sub(a.filled); {
	case a.filled.IsZero() || d > time.Minute:
		a.bytes = burstBytes
	case d > 0:
		a.bytes = min(a.bytes+int64(d.Seconds()*rateBytes), burstBytes)
	}
	a.filled = now
}

// marks are what lines other than plain iterations hold.
var marks = [][]byte{[]byte(`"checkpoint"`), []byte(`"ready"`), []byte(`"done"`), []byte(`"signal"`)}

// skim passes over the file from pos up to its newest part. It keeps the newest lines that are no plain iterations, counts the others, and skips what is
// more than skimBytes back.
func skim(f *os.File, pos position, size int64, stamp time.Time) (batch, error) {
	b := batch{next: pos, more: true}
	end := size - freshBytes
	if far := end - skimBytes; far > pos.offset {
		b.skipped = far - pos.offset
		b.next.offset, b.next.skipping = far, true
	}
	var good []parsed
	buf := make([]byte, chunkBytes+progress.MaxLineBytes)
	looked := 0
	for b.next.offset < end {
		n, err := f.ReadAt(buf, b.next.offset)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return b, err
		}
		last := bytes.LastIndexByte(buf[:n], '\n')
		if last < 0 { // a line too long to be one
			if !b.next.skipping {
				b.dropped++
			}
			b.next.offset, b.next.skipping = b.next.offset+int64(n), true
			continue
		}
		whole := buf[:last+1]
		b.next.offset += int64(len(whole))
		if b.next.skipping { // the rest of a line whose beginning was passed over
			whole = whole[bytes.IndexByte(whole, '\n')+1:]
			b.next.skipping = false
		}
		kept, tried := pick(whole, stamp, skimLines-looked)
		looked += tried
		good = append(good, kept...)
		good = good[max(0, len(good)-progress.MaxJobLines):]
		b.dropped += bytes.Count(whole, []byte{'\n'})
	}
	b.lines, _ = thin(good)
	b.dropped -= len(b.lines)
	return b, nil
}

// pick parses the lines that hold a mark, at most so many, and returns those that are not plain, in the order written.
func pick(whole []byte, stamp time.Time, most int) (out []parsed, tried int) {
	rest := whole
	for tried < most {
		at := firstMark(rest)
		if at < 0 {
			break
		}
		begin := bytes.LastIndexByte(rest[:at], '\n') + 1
		end := at + bytes.IndexByte(rest[at:], '\n') // whole ends with one
		tried++
		if p, ok := good(rest[begin:end], stamp); ok && !p.plain {
			out = append(out, p)
		}
		rest = rest[end+1:]
	}
	return out, tried
}

func firstMark(b []byte) int {
	first := -1
	for _, m := range marks {
		window := b
		if first >= 0 {
			window = b[:min(len(b), first+len(m))]
		}
		if i := bytes.Index(window, m); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}

// good parses one line into its canonical form.
func good(line []byte, stamp time.Time) (parsed, bool) {
	l, err := progress.Parse(line)
	if err != nil {
		return parsed{}, false
	}
	if l.Time.IsZero() {
		l.Time = stamp
	}
	raw, err := l.JSON()
	return parsed{raw, l.Kind == progress.Progress}, err == nil
}
