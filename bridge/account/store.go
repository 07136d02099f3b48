package account

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/bridge/roll"
	"unisched/slurm"
)

// Folder is where the entries are, below state_dir.
const Folder = "ended"

// Bounds.
const (
	maxLine      = 256 << 10
	maxFileBytes = 4 << 20
	maxAllBytes  = 64 << 20
	maxFiles     = 512
	maxAge       = 400 * 24 * time.Hour
	// MaxEntries bounds what one question may return; the newest are kept.
	MaxEntries = 200_000
)

// filesOf are the files of a folder of entries.
func filesOf(dir string) *roll.Files {
	return &roll.Files{What: "ended jobs", Dir: dir, Prefix: "ended-", MaxLine: maxLine, MaxFile: maxFileBytes, MaxAll: maxAllBytes, MaxFiles: maxFiles, MaxAge: maxAge}
}

// key names a job: ids are used again.
type key struct {
	job       slurm.JobID
	submitted int64
}

func (e Entry) key() key { return key{e.Job, e.Submitted.Unix()} }

// Store appends entries. It is for one goroutine; readers need none.
type Store struct {
	files *roll.Files
	seen  map[key]int64 // end of what is written
}

// Open takes up the entries in dir, which is made if it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ended jobs: %w", err)
	}
	s := &Store{files: filesOf(dir), seen: map[key]int64{}}
	err := each(dir, func(e Entry) { s.seen[e.key()] = e.Ended.Unix() })
	return s, err
}

// Keep writes down the jobs of a view that have ended and are not known yet, or ended otherwise than is written: one that was put back into the queue ends
// twice, and the last time counts.
func (s *Store) Keep(v *bridge.View) error {
	if v == nil {
		return nil
	}
	var buf []byte
	var fresh []Entry
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if !j.Phase.Ended() || j.Ended.IsZero() {
			continue
		}
		if end, ok := s.seen[key{j.ID, j.Submitted.Unix()}]; ok && end == j.Ended.Unix() {
			continue
		}
		e, ok := Of(j)
		if !ok {
			continue
		}
		line, err := json.Marshal(e)
		if err == nil && len(line) >= maxLine { // what is long is not what is counted
			e.Events, e.Forecasts, e.Returns, e.Stays = nil, nil, nil, tail(e.Stays, 1)
			line, err = json.Marshal(e)
		}
		if err != nil || len(line) >= maxLine {
			continue
		}
		buf, fresh = append(append(buf, line...), '\n'), append(fresh, e)
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := s.write(buf, v.At); err != nil {
		return err
	}
	for _, e := range fresh {
		s.seen[e.key()] = e.Ended.Unix()
	}
	if len(s.seen) > 2*MaxEntries { // whoever is written twice for that is read once
		clear(s.seen)
	}
	return nil
}

func (s *Store) write(buf []byte, now time.Time) error {
	if s.files.Full() {
		if err := s.files.Begin(now.UTC().Format("20060102T150405.000000Z"), now); err != nil {
			return err
		}
	}
	return s.files.Write(buf)
}

// Close ends the store. It may be used again.
func (s *Store) Close() error { return s.files.Close() }

// Read gives the jobs that ended at or after since, by their end. A folder that does not exist is an error that wraps fs.ErrNotExist.
func Read(dir string, since time.Time) ([]Entry, error) {
	at := map[key]int{}
	var out []Entry
	err := each(dir, func(e Entry) {
		if i, ok := at[e.key()]; ok {
			out[i] = e
			return
		}
		at[e.key()] = len(out)
		out = append(out, e)
	})
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(e Entry) bool { return e.Ended.Before(since) })
	Sort(out)
	return tail(out, MaxEntries), nil
}

// each hands over all entries; lines that are torn or damaged are passed over.
func each(dir string, tell func(Entry)) error {
	files := filesOf(dir)
	names, err := files.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := files.Each(name, entries(tell)); err != nil {
			return err
		}
	}
	return nil
}

// Scan reads entries, one a line.
func Scan(r io.Reader, tell func(Entry)) error { return filesOf("").Scan(r, entries(tell)) }

// entries hands on the lines that are entries.
func entries(tell func(Entry)) func(line []byte) {
	return func(line []byte) {
		var e Entry
		if json.Unmarshal(line, &e) == nil && e.Job > 0 && e.Phase.Ended() && !e.Ended.IsZero() && !e.Ended.Before(e.Submitted) {
			tell(e)
		}
	}
}
