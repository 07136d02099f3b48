package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"unisched/hooks/progress"
)

// Bounds on what one run may make the watcher read and send.
const (
	chunkBytes = 256 << 10 // read of one file for one report
	batchBytes = 256 << 10 // of one run's lines in one report, so that several runs fit
)

var errOwner = errors.New("not owned by the job's user")

// position is how far a progress file has been delivered. The file itself is the spool: while the daemon is away the
// position stays, and the same lines are read again later.
type position struct {
	dev, ino uint64
	offset   int64
	skipping bool // inside a line too long to be one: its rest is passed over
}

// batch is what one read of a progress file gives: canonical lines, the count of those left out, and the position to
// keep once they are delivered.
type batch struct {
	lines   []json.RawMessage
	dropped int
	skipped int64 // bytes that nobody looked at
	next    position
	more    bool // the file holds more
}

func (b batch) empty() bool { return len(b.lines) == 0 && b.dropped == 0 && b.skipped == 0 }

// budget is what one read may cost: bytes read line by line, and bytes skimmed.
type budget struct{ read, skim int64 }

// take reads the next lines of a run's progress file after pos, as far as may lets it. Lines without a time get stamp, unless it is zero.
func take(runDir *os.File, uid uint32, pos position, stamp time.Time, may budget) (batch, error) {
	f, st, err := openRegular(runDir, progressName)
	if err != nil {
		return batch{next: pos}, err
	}
	defer f.Close()
	if st.Uid != uid {
		return batch{next: pos}, errOwner
	}
	if uint64(st.Dev) != pos.dev || st.Ino != pos.ino || st.Size < pos.offset { // new, replaced or truncated
		pos = position{dev: uint64(st.Dev), ino: st.Ino}
	}
	unread := st.Size - pos.offset
	if unread > floodBytes {
		if may.skim < min(unread, skimBytes) {
			return batch{next: pos, more: true}, nil
		}
		return skim(f, pos, st.Size, stamp)
	}
	want := min(unread, chunkBytes)
	if want > may.read {
		return batch{next: pos, more: true}, nil // later
	}
	buf, err := io.ReadAll(io.NewSectionReader(f, pos.offset, want))
	if err != nil {
		return batch{next: pos}, err
	}
	return split(buf, pos, int64(len(buf)) < unread, false, stamp), nil
}

// parsed is one good line on its way: its canonical form and whether thinning may drop it.
type parsed struct {
	raw   json.RawMessage
	plain bool
}

// split cuts buf, which begins at pos, into lines. A last line without its newline stays for the next read, unless the
// buffer is a full one and holds nothing else.
func split(buf []byte, pos position, more, flood bool, stamp time.Time) batch {
	b := batch{next: pos, more: more}
	var lines []parsed
	size := 0
	for {
		end := bytes.IndexByte(buf, '\n')
		if end < 0 {
			break
		}
		if !flood && (len(lines) == progress.MaxJobLines || size > batchBytes-progress.MaxLineBytes) {
			b.more = true
			break
		}
		line := buf[:end]
		buf = buf[end+1:]
		b.next.offset += int64(end + 1)
		if b.next.skipping { // the end of a line that was counted already
			b.next.skipping = false
			continue
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p, ok := good(line, stamp)
		if !ok {
			b.dropped++
			continue
		}
		lines = append(lines, p)
		size += len(p.raw)
	}
	if len(buf) > progress.MaxLineBytes && bytes.IndexByte(buf, '\n') < 0 {
		if !b.next.skipping {
			b.dropped++
		}
		b.next.offset += int64(len(buf))
		b.next.skipping = true
	}
	var thinned int
	b.lines, thinned = thin(lines)
	b.dropped += thinned
	return b
}

// thin keeps at most MaxJobLines and batchBytes: what is not a plain iteration first (the newest of those if there are
// too many), then the newest plain ones, in the order written.
func thin(good []parsed) (out []json.RawMessage, dropped int) {
	keep := make([]bool, len(good))
	room, bytesLeft := progress.MaxJobLines, batchBytes
	out = []json.RawMessage{} // an empty list, not null, on the wire
	for _, plain := range []bool{false, true} {
		for i := len(good) - 1; i >= 0 && room > 0; i-- {
			if good[i].plain == plain && len(good[i].raw) <= bytesLeft {
				keep[i] = true
				room--
				bytesLeft -= len(good[i].raw)
			}
		}
	}
	for i, g := range good {
		if keep[i] {
			out = append(out, g.raw)
		}
	}
	return out, len(good) - len(out)
}
