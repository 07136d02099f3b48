package account

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
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

const prefix, suffix = "ended-", ".jsonl"

// key names a job: ids are used again.
type key struct {
	job       slurm.JobID
	submitted int64
}

func (e Entry) key() key { return key{e.Job, e.Submitted.Unix()} }

// Store appends entries. It is for one goroutine; readers need none.
type Store struct {
	dir  string
	file *os.File
	size int64
	seen map[key]int64 // end of what is written
}

// Open takes up the entries in dir, which is made if it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ended jobs: %w", err)
	}
	s := &Store{dir: dir, seen: map[key]int64{}}
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
	if s.file == nil || s.size > maxFileBytes {
		if err := s.begin(now); err != nil {
			return err
		}
	}
	n, err := s.file.Write(buf)
	s.size += int64(n)
	if err != nil {
		s.Close()
		return fmt.Errorf("ended jobs: %w", err)
	}
	return nil
}

// begin opens a new file, named by the time, and removes what is too old or too much. No file is taken up again: its last line may be torn.
func (s *Store) begin(now time.Time) error {
	s.Close()
	f, err := os.OpenFile(filepath.Join(s.dir, prefix+now.UTC().Format("20060102T150405.000000Z")+suffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("ended jobs: %w", err)
	}
	s.file, s.size = f, 0
	names, err := files(s.dir)
	if err != nil {
		return err
	}
	bytes := int64(0)
	for k, name := range slices.Backward(names) {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			return fmt.Errorf("ended jobs: %w", err)
		}
		bytes += info.Size()
		kept := len(names) - k
		if kept > 1 && (kept > maxFiles || bytes > maxAllBytes || now.Sub(info.ModTime()) > maxAge) {
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				return fmt.Errorf("ended jobs: %w", err)
			}
		}
	}
	return nil
}

// Close ends the store. It may be used again.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

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

// files are those of the folder, oldest first.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("ended jobs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// each hands over all entries; lines that are torn or damaged are passed over.
func each(dir string, tell func(Entry)) error {
	names, err := files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) { // rotated away meanwhile
			continue
		}
		if err != nil {
			return fmt.Errorf("ended jobs: %w", err)
		}
		err = Scan(io.LimitReader(f, 2*maxFileBytes), tell)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Scan reads entries, one a line.
func Scan(r io.Reader, tell func(Entry)) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		var e Entry
		if len(line) > 0 && json.Unmarshal(line, &e) == nil && e.Job > 0 && e.Phase.Ended() && !e.Ended.IsZero() && !e.Ended.Before(e.Submitted) {
			tell(e)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("ended jobs: %w", err)
		}
	}
}
