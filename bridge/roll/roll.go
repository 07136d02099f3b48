// Package roll keeps lines in the files of one folder: appended, and bounded by the bytes of a file and by the number, the bytes and the age of all; the oldest
// file goes first. It is for history that may be lost (events, what became of jobs): nothing is synced, and a torn or damaged line costs itself alone.
//
// It knows nothing of what the lines say, and never takes a file up again, since its last line may be torn. bridge/events and bridge/account call it.
package roll

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Files are the files of a list. The fields in capitals are set before its first use; writing is for one goroutine, readers need none.
type Files struct {
	What        string // in errors
	Dir, Prefix string // a name is Prefix, what Begin is given, and ".jsonl": names must sort by age
	MaxLine     int    // longer lines are not read as one
	MaxFile     int64  // bytes after which a new file begins, and half of what is read of one
	MaxAll      int64  // bytes of all
	MaxFiles    int
	MaxAge      time.Duration // 0: no bound
	file        *os.File
	size        int64
}

// Suffix ends the names of files.
const Suffix = ".jsonl"

// Names are the names of the files, oldest first.
func (f *Files) Names() ([]string, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, f.wrap(err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), f.Prefix) && strings.HasSuffix(e.Name(), Suffix) && e.Type().IsRegular() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Full reports whether Begin is due before the next Write: no file is open, or it has reached its bound.
func (f *Files) Full() bool { return f.file == nil || f.size > f.MaxFile }

// Begin opens a new file and removes what is too much or, at now, too old; the newest file stays.
func (f *Files) Begin(name string, now time.Time) error {
	f.Close()
	file, err := os.OpenFile(filepath.Join(f.Dir, f.Prefix+name+Suffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return f.wrap(err)
	}
	f.file, f.size = file, 0
	names, err := f.Names()
	if err != nil {
		return err
	}
	bytes := int64(0)
	for k, name := range slices.Backward(names) {
		path := filepath.Join(f.Dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return f.wrap(err)
		}
		bytes += info.Size()
		kept := len(names) - k
		old := f.MaxAge > 0 && now.Sub(info.ModTime()) > f.MaxAge
		if kept > 1 && (kept > f.MaxFiles || bytes > f.MaxAll || old) {
			if err := os.Remove(path); err != nil {
				return f.wrap(err)
			}
		}
	}
	return nil
}

// Write appends whole lines. After an error the next call needs a new file.
func (f *Files) Write(lines []byte) error {
	n, err := f.file.Write(lines)
	f.size += int64(n)
	if err != nil {
		f.Close()
		return f.wrap(err)
	}
	return nil
}

// Close ends the open file, if there is one. The list may be used again.
func (f *Files) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Each hands over the lines of one file, each until the next call. One that was removed meanwhile has none.
func (f *Files) Each(name string, tell func(line []byte)) error {
	file, err := os.Open(filepath.Join(f.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return f.wrap(err)
	}
	defer file.Close()
	return f.Scan(io.LimitReader(file, 2*f.MaxFile), tell)
}

// Scan hands over the lines of r, each until the next call; of one longer than MaxLine come pieces.
func (f *Files) Scan(r io.Reader, tell func(line []byte)) error {
	in := bufio.NewReaderSize(r, f.MaxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			tell(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return f.wrap(err)
		}
	}
}

func (f *Files) wrap(err error) error { return fmt.Errorf("%s: %w", f.What, err) }
