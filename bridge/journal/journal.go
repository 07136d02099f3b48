// Package journal keeps the bridge's memory on disk: an append-only file of checksummed lines, made durable with fsync before the
// caller acts on it, owned by one process at a time.
//
// It knows nothing of jobs: an [Entry] is a kind, a key and JSON. It refuses to guess: a torn last line (power lost while it was written) is cut off,
// damage anywhere else moves the whole file aside and reports [Opened.Damaged], so that the caller takes the entries that could still be read with
// a grain of salt and does nothing disruptive at first. A file begins with a header, so that one that was cut off to nothing is not taken for one that never held anything. The bridge's daemon and `unisched release` (while the daemon is dead) are its only writers.
package journal

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrLocked means that another process owns the journal.
var ErrLocked = errors.New("journal is in use by another process")

// maxLine bounds one entry; a record with all its samples is far smaller.
const maxLine = 4 << 20

const fileName = "journal"

// The first line of a file says what it is, and that nothing before the second is missing. Its entry has no key: those who wrote journals before there were headers read
// it as a line of the audit trail.
const (
	kindHeader = "journal"
	format     = `{"format":1}`
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one line. The last entry of a kind and key is the one that holds. Append takes it with Data, or with a Value that is turned into Data before
// Append returns, so that the caller may go on changing it; entries that are read back have Data alone.
type Entry struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key,omitempty"`
	At    time.Time       `json:"at"`
	Data  json.RawMessage `json:"data,omitempty"` // null deletes the key
	Value any             `json:"-"`
}

// Encoded is the entry with its Value turned into Data.
func (e Entry) Encoded() (Entry, error) {
	if e.Value == nil {
		return e, nil
	}
	data, err := json.Marshal(e.Value)
	if err != nil {
		return e, fmt.Errorf("journal %s %s: %w", e.Kind, e.Key, err)
	}
	e.Data, e.Value = data, nil
	return e, nil
}

// Journal is an open, locked journal. It is not safe for concurrent use.
type Journal struct {
	dir  string
	file *os.File
	lock *os.File
	id   string // of this opening, written into the lock; "" where that failed (a full disk)
	size int64
	bad  error // a failed write: the tail is unknown, nothing more may be appended
}

// Opened says what Open found.
type Opened struct {
	// Latest holds the last entry of each kind and key, in the order in which the keys first appeared.
	Latest []Entry
	// TornBytes were cut off the end.
	TornBytes int64
	// Damaged is the path to which a damaged file was moved, or "".
	Damaged string
	// Why says what is wrong with a damaged file, "" when nothing is.
	Why string
}

// Open locks the journal in dir (made if missing, mode 0700) and reads it. It returns ErrLocked when another process holds it.
func Open(dir string) (*Journal, Opened, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Opened{}, fmt.Errorf("journal directory: %w", err)
	}
	lock, id, err := takeLock(dir, newID())
	if err != nil {
		return nil, Opened{}, err
	}
	j := &Journal{dir: dir, lock: lock, id: id}
	opened, err := j.load()
	if err != nil {
		j.Close()
		return nil, Opened{}, err
	}
	return j, opened, nil
}

func (j *Journal) path() string { return filepath.Join(j.dir, fileName) }

// load reads the file, cuts a torn tail and leaves the file open for appending.
func (j *Journal) load() (Opened, error) {
	f, err := os.OpenFile(j.path(), os.O_RDWR|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // the first start: the file appears whole, with its header
		return Opened{}, j.Compact(nil)
	}
	if err != nil {
		return Opened{}, fmt.Errorf("journal: %w", err)
	}
	j.file = f
	c, err := scan(f)
	if err != nil {
		return Opened{}, fmt.Errorf("journal: %w", err)
	}
	o := Opened{Latest: latest(c.entries), Why: c.damage()}
	if o.Why != "" {
		if o.Damaged, err = j.setAside(); err != nil {
			return o, err
		}
		return o, j.Compact(o.Latest) // what could be read is better than nothing: it says which jobs are held by us
	}
	if o.TornBytes = c.total - c.good; o.TornBytes > 0 {
		if err := f.Truncate(c.good); err != nil {
			return o, fmt.Errorf("journal tail: %w", err)
		}
		if err := f.Sync(); err != nil {
			return o, fmt.Errorf("journal tail: %w", err)
		}
	}
	j.size = c.good
	if err := syncDir(j.dir); err != nil || c.headed() {
		return o, err
	}
	// Written before there were headers. A disk that is full now does not keep the daemon from what it has read: the header comes with the next compaction.
	_ = j.Compact(o.Latest)
	return o, nil
}

// setAside keeps a damaged file for people to look at, under another name as well: it stays in its place until what could be read of it is there.
func (j *Journal) setAside() (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.damaged.%d", j.path(), n)
		switch err := os.Link(j.path(), to); {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil: // a file system without second names
			if err := os.Rename(j.path(), to); err != nil {
				return "", fmt.Errorf("damaged journal: %w", err)
			}
		}
		return to, nil
	}
}

// content is what a file holds.
type content struct {
	entries     []Entry
	good, total int64 // length of the part before the first line that does not check out, and of the file
	broken      bool  // more than a torn tail is wrong: a bad line with anything after it
}

// headed reports whether the file begins with the header.
func (c content) headed() bool { return len(c.entries) > 0 && c.entries[0].Kind == kindHeader }

// damage says what is wrong with the file, "" when nothing but a torn tail is. A file is never made without a line in it, so one in which none can be read has lost what it held.
func (c content) damage() string {
	switch {
	case c.total == 0:
		return "it is empty: what it held is lost, which jobs are held and what to put back among it"
	case len(c.entries) == 0:
		return "no line of it can be read"
	case c.broken:
		return "some of its lines cannot be read"
	}
	return ""
}

// scan reads every entry that checks out.
func scan(f *os.File) (content, error) {
	info, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	c := content{total: info.Size()}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return content{}, err
	}
	r := bufio.NewReaderSize(f, int(min(c.total+1, maxLine)))
	for read := int64(0); ; {
		line, readErr := r.ReadSlice('\n')
		read += int64(len(line))
		switch {
		case readErr == bufio.ErrBufferFull:
			c.broken = true // no line is that long: what follows is looked at again from its next line
			continue
		case readErr == io.EOF: // a line without its end is a torn tail
			return c, nil
		case readErr != nil:
			return content{}, readErr
		}
		e, ok := decode(line)
		switch {
		case ok && c.good+int64(len(line)) == read:
			c.good = read
		case ok || read < c.total || !looksLikeEntry(line):
			c.broken = true // a whole line that does not check out can only be the last one of a torn write
		}
		if ok {
			c.entries = append(c.entries, e)
		}
	}
}

func looksLikeEntry(line []byte) bool {
	if len(line) < 10 || line[8] != ' ' || line[9] != '{' {
		return false
	}
	_, err := strconv.ParseUint(string(line[:8]), 16, 32)
	return err == nil
}

func decode(line []byte) (Entry, bool) {
	if !looksLikeEntry(line) {
		return Entry{}, false
	}
	sum, _ := strconv.ParseUint(string(line[:8]), 16, 32)
	body := bytes.TrimSuffix(line[9:], []byte{'\n'})
	if crc32.Checksum(body, castagnoli) != uint32(sum) {
		return Entry{}, false
	}
	var e Entry
	return e, json.Unmarshal(body, &e) == nil
}

func encode(e Entry) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(body)+10 > maxLine {
		return nil, fmt.Errorf("entry %s %s has %d bytes, more than %d", e.Kind, e.Key, len(body), maxLine)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(body, castagnoli), body), nil
}

// latest keeps the last entry of each kind and key; entries without a key (an audit trail) are not state and are dropped.
func latest(entries []Entry) []Entry {
	type id struct{ kind, key string }
	at := map[id]int{}
	var out []Entry
	for _, e := range entries {
		if e.Key == "" {
			continue
		}
		k := id{e.Kind, e.Key}
		if i, ok := at[k]; ok {
			out[i] = e
			continue
		}
		at[k] = len(out)
		out = append(out, e)
	}
	kept := out[:0]
	for _, e := range out {
		if len(e.Data) > 0 && string(e.Data) != "null" {
			kept = append(kept, e)
		}
	}
	return kept
}

// there reports an error when the file that is open is not the one in the directory any more: somebody has removed or replaced it, and what is
// written to it nobody would ever read.
func (j *Journal) there() error {
	mine, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if theirs, err := os.Stat(j.path()); err != nil {
		return fmt.Errorf("journal was removed: %w", err)
	} else if !os.SameFile(mine, theirs) {
		return fmt.Errorf("journal %s was replaced", j.path())
	}
	return nil
}

// keepLock makes sure that the lock that is held is the one in the directory, which is made again when it was removed. It returns ErrLocked when
// another process has taken the place.
func (j *Journal) keepLock() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return fmt.Errorf("journal directory: %w", err)
	}
	lock, id, err := takeLock(j.dir, newID())
	switch {
	case errors.Is(err, ErrLocked):
		if j.locked() {
			return nil
		}
		return err
	case err != nil:
		return err
	}
	j.lock.Close()
	j.lock, j.id = lock, id
	return nil
}

const lockName = "lock"

// Held returns ErrLocked when another process has the journal by now: the lock of a host that was cut off may have run out. A lock that was
// removed is made again.
func (j *Journal) Held() error {
	if j.locked() {
		return nil
	}
	return j.keepLock()
}

// locked says that the lock in the directory is the one that we hold, and that nobody has signed it since.
func (j *Journal) locked() bool {
	mine, err := j.lock.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(filepath.Join(j.dir, lockName))
	return err == nil && os.SameFile(mine, theirs) && strings.Contains(Owner(j.dir), j.id)
}

// takeLock locks the directory and signs the lock. The id returned is "" when it could not be signed.
func takeLock(dir, id string) (*os.File, string, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("journal lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, "", fmt.Errorf("%s: %w", dir, ErrLocked)
		}
		return nil, "", fmt.Errorf("journal lock: %w", err)
	}
	if !sign(lock, id) {
		id = ""
	}
	return lock, id, nil
}

// newID tells one opening from another.
func newID() string {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// sign writes into the lock who holds it. That is for people: the lock itself is the kernel's.
func sign(lock *os.File, id string) bool {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	text := fmt.Sprintf("instance %s, process %d on %s\n", id, os.Getpid(), host)
	if lock.Truncate(0) != nil {
		return false
	}
	_, err = lock.WriteAt([]byte(text), 0)
	return err == nil
}

// Owner says in words who holds the lock in dir, or held it last.
func Owner(dir string) string {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return "another instance"
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 512))
	line, _, _ := strings.Cut(string(b), "\n")
	if err != nil || strings.TrimSpace(line) == "" {
		return "another instance"
	}
	return line
}

// Append writes the entries and returns when they are on disk. After an error nothing more can be appended until [Journal.Compact] has written
// the whole state anew: what the tail holds is then unknown.
func (j *Journal) Append(entries ...Entry) error {
	if j.bad != nil {
		return j.bad
	}
	if len(entries) == 0 {
		return nil
	}
	if err := j.there(); err != nil {
		j.bad = err
		return err
	}
	return j.write(entries)
}

func (j *Journal) write(entries []Entry) error {
	var buf []byte
	for _, e := range entries {
		e, err := e.Encoded()
		if err != nil {
			return err
		}
		line, err := encode(e)
		if err != nil {
			return fmt.Errorf("journal entry: %w", err)
		}
		buf = append(buf, line...)
	}
	if _, err := j.file.Write(buf); err != nil {
		j.bad = fmt.Errorf("journal write: %w", err)
		return j.bad
	}
	if err := j.file.Sync(); err != nil {
		j.bad = fmt.Errorf("journal sync: %w", err)
		return j.bad
	}
	j.size += int64(len(buf))
	return nil
}

// Size is the length of the file in bytes: callers compact when it has grown.
func (j *Journal) Size() int64 { return j.size }

// Compact replaces the whole file with the given entries, atomically. It also mends a journal that could not be written or that was removed.
func (j *Journal) Compact(entries []Entry) error {
	if err := j.keepLock(); err != nil {
		return err
	}
	tmp := j.path() + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("journal compaction: %w", err)
	}
	next := &Journal{dir: j.dir, file: f, lock: j.lock, id: j.id}
	if err := next.write(slices.Concat([]Entry{{Kind: kindHeader, Data: json.RawMessage(format)}}, entries)); err != nil {
		f.Close()
		os.Remove(tmp) // a full disk needs the room
		return fmt.Errorf("journal compaction: %w", err)
	}
	if err := os.Rename(tmp, j.path()); err != nil {
		f.Close()
		return fmt.Errorf("journal compaction: %w", err)
	}
	if err := syncDir(j.dir); err != nil {
		f.Close()
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.size, j.bad = f, next.size, nil
	return nil
}

// Close gives up the lock.
func (j *Journal) Close() error {
	var errs []error
	if j.file != nil {
		errs = append(errs, j.file.Close())
	}
	errs = append(errs, j.lock.Close())
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("journal directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("journal directory: %w", err)
	}
	return nil
}
