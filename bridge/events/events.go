// Package events keeps what has happened, for people to read: a numbered list of short records, appended to files that are rotated, and held in memory
// as far as somebody may be following.
//
// It is no journal: nothing is decided from it, it is not synced, and a full disk costs history, never a cycle. It refuses to grow: the bytes of a
// record, of a file, the number of files and what one question may return are bounded. The daemon's loop appends; the control socket asks.
package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"unisched/bridge"
	"unisched/bridge/roll"
	"unisched/slurm"
)

// Event is one thing that happened. Seq rises without gaps while the daemon runs, and goes on after a restart.
type Event struct {
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
	Level string    `json:"level"` // debug, info, warn, error
	What  string    `json:"what"`  // a stable word
	// Job and Run name the run it is about; Job 0 is the daemon itself.
	Job slurm.JobID `json:"job_id,omitempty"`
	Run int         `json:"run,omitempty"`
	// Plan and Action are the ids of the plan and of the journal's action that it belongs to; Kind and Outcome say what was done, and what came of it.
	Plan    string         `json:"plan_id,omitempty"`
	Action  string         `json:"action_id,omitempty"`
	Kind    string         `json:"kind,omitempty"`
	Outcome bridge.Outcome `json:"outcome,omitempty"`
	Text    string         `json:"text,omitempty"`
}

// Bounds.
const (
	maxText      = 1 << 10
	maxLine      = 8 << 10
	maxFileBytes = 4 << 20
	maxAllBytes  = 32 << 20
	maxFiles     = 256 // a restart begins a new one
	maxRecent    = 4096
	// MaxLimit bounds the events of one answer.
	MaxLimit = 1000
)

// Store is the list. Make one with Open. Append is for one goroutine, the others may be called from any.
type Store struct {
	files *roll.Files

	mu     sync.Mutex
	next   int64
	recent []Event
	fresh  chan struct{} // closed when something is appended
	scans  chan struct{} // bounds the questions that read files
}

// Open takes up the list in dir, which is made if it is missing. Files that cannot be read any more cost history alone.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	s := &Store{files: filesOf(dir), next: 1, fresh: make(chan struct{}), scans: make(chan struct{}, 2)}
	names, err := s.files.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(names) {
		var found []Event
		if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(name, prefix), roll.Suffix), 10, 62); err == nil {
			s.next = max(s.next, n)
		}
		err := scan(s.files, name, nil, func(e Event) {
			s.next = max(s.next, e.Seq+1)
			found = append(found, e)
		})
		if err != nil {
			return nil, err
		}
		if s.recent = append(found, s.recent...); len(s.recent) >= maxRecent {
			break
		}
	}
	s.recent = slices.Delete(s.recent, 0, max(len(s.recent)-maxRecent, 0))
	return s, s.begin()
}

const prefix = "events-"

// filesOf are the files of a list: a file is named by the first number that it may hold.
func filesOf(dir string) *roll.Files {
	return &roll.Files{What: "events", Dir: dir, Prefix: prefix, MaxLine: maxLine, MaxFile: maxFileBytes, MaxAll: maxAllBytes, MaxFiles: maxFiles}
}

func (s *Store) begin() error { return s.files.Begin(fmt.Sprintf("%019d", s.next), time.Time{}) }

// Append numbers the events and keeps them. After an error they are still in memory, and the next call tries a new file.
func (s *Store) Append(list ...Event) error {
	if len(list) == 0 {
		return nil
	}
	s.mu.Lock()
	var buf []byte
	for _, e := range list {
		e.Seq = s.next
		s.next++
		e.Text = e.Text[:min(len(e.Text), maxText)]
		s.recent = append(s.recent, e)
		if line, err := json.Marshal(e); err == nil && len(line) < maxLine {
			buf = append(append(buf, line...), '\n')
		}
	}
	s.recent = slices.Delete(s.recent, 0, max(len(s.recent)-maxRecent, 0))
	close(s.fresh)
	s.fresh = make(chan struct{})
	s.mu.Unlock()

	if s.files.Full() {
		if err := s.begin(); err != nil {
			return err
		}
	}
	return s.files.Write(buf)
}

// Close ends the list.
func (s *Store) Close() error { return s.files.Close() }

// Query picks events. Job 0: of all. Since is the last number that the asker knows: only later ones are given, oldest first; 0 means the newest Limit.
type Query struct {
	Job   slurm.JobID
	Since int64
	Limit int // 0: MaxLimit
}

// Answer is what a question found. Next is the Since of the question that goes on from there.
type Answer struct {
	Events []Event
	Next   int64
}

// Find answers from memory where it reaches, else from the files.
func (s *Store) Find(q Query) (Answer, error) {
	if q.Limit <= 0 || q.Limit > MaxLimit {
		q.Limit = MaxLimit
	}
	s.mu.Lock()
	recent := slices.Clone(s.recent)
	last := s.next - 1
	s.mu.Unlock()
	found := q.pick(recent)
	if len(found) < q.Limit && len(recent) > 0 && recent[0].Seq > q.Since+1 { // older ones may matter
		older, err := s.search(q, recent[0].Seq)
		if err != nil {
			return Answer{}, err
		}
		found = append(older, found...)
	}
	switch {
	case q.Since == 0 && len(found) > q.Limit:
		found = found[len(found)-q.Limit:]
	case len(found) > q.Limit:
		found = found[:q.Limit]
		last = found[q.Limit-1].Seq
	}
	return Answer{Events: found, Next: max(last, q.Since)}, nil
}

// Wait answers like Find, as soon as there is something to answer or ctx ends. Since must be a number from an answer before.
func (s *Store) Wait(ctx context.Context, q Query) (Answer, error) {
	for {
		s.mu.Lock()
		fresh := s.fresh
		s.mu.Unlock()
		a, err := s.Find(q)
		if err != nil || len(a.Events) > 0 {
			return a, err
		}
		q.Since = a.Next
		select {
		case <-fresh:
		case <-ctx.Done():
			return a, nil
		}
	}
}

func (q Query) pick(list []Event) []Event {
	var out []Event
	for _, e := range list {
		if e.Seq > q.Since && (q.Job == 0 || e.Job == q.Job) {
			out = append(out, e)
		}
	}
	return out
}

// search reads the files for events before the number before.
func (s *Store) search(q Query, before int64) ([]Event, error) {
	s.scans <- struct{}{}
	defer func() { <-s.scans }()
	names, err := s.files.Names()
	if err != nil {
		return nil, err
	}
	var must []byte
	if q.Job != 0 {
		must = fmt.Appendf(nil, `"job_id":%d`, q.Job)
	}
	var out []Event
	for _, name := range names {
		err := scan(s.files, name, must, func(e Event) {
			if e.Seq < before && e.Seq > q.Since && (q.Job == 0 || e.Job == q.Job) {
				if out = append(out, e); q.Since == 0 && len(out) >= 2*q.Limit { // only the newest matter
					out = append(out[:0], out[q.Limit:]...)
				}
			}
		})
		if err != nil {
			return nil, err
		}
		if q.Since > 0 && len(out) >= q.Limit {
			break
		}
	}
	return out, nil
}

// scan hands over the events of one file whose line holds must; lines that are torn or damaged are passed over.
func scan(files *roll.Files, name string, must []byte, each func(Event)) error {
	return files.Each(name, func(line []byte) {
		var e Event
		if (must == nil || bytes.Contains(line, must)) && json.Unmarshal(line, &e) == nil && e.Seq > 0 {
			each(e)
		}
	})
}
