// Package crashdisk is a disk in memory that can lose power: it knows what was written and what was made durable, and forgets the difference in a
// crash.
//
// It has the names and shapes of the part of package os that the bridge's journal uses, so that the crash sweep can build the journal, unchanged, on it
// (go build -overlay swaps the import). It refuses to be a file system: there are no soft links, no permissions, no mapped memory. Tests of the sweep are its
// only callers.
//
// The model, which is that of POSIX and of ext4 and xfs: the bytes of a file are durable when the file was synced; a name (made, replaced or removed) is
// durable when its directory was synced. Until then a crash may keep or lose them. An append that was not synced may be cut at any byte. A disk may also be full or broken for a while ([Disk.Fail]).
package crashdisk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// The flags of OpenFile are those of package os.
const (
	O_CREATE = os.O_CREATE
	O_RDWR   = os.O_RDWR
	O_APPEND = os.O_APPEND
	O_TRUNC  = os.O_TRUNC
)

// Effect is one change that is about to be made, or was just made.
type Effect struct {
	Op   string // "create", "write", "sign", "truncate", "sync", "rename", "link", "remove" or "sync-dir"
	Name string
	Data []byte // of a write
}

// Disk is one disk, at a path of its own.
type Disk struct {
	Root string
	// Before and After are called around every effect. They may panic to end the process that made it; Crash must follow.
	Before, After func(Effect)
	// Fail, when set, is asked before every effect whether it fails. A write that fails leaves half of its bytes.
	Fail func(Effect) error

	now     map[string]*inode
	durable map[string]*inode
	open    []*File
}

// inode is a file's content. The first synced bytes of data survive a crash, unless old holds what will be there instead.
type inode struct {
	data   []byte
	synced int
	old    []byte
	locks  map[*File]int
}

var (
	disks  = map[string]*Disk{}
	guard  sync.Mutex
	serial int
)

// New makes an empty disk.
func New() *Disk {
	guard.Lock()
	defer guard.Unlock()
	serial++
	d := &Disk{Root: filepath.Join("/crashdisk", string(rune('a'+serial%26)), itoa(serial)), now: map[string]*inode{}, durable: map[string]*inode{}}
	disks[d.Root] = d
	return d
}

// Close forgets the disk.
func (d *Disk) Close() {
	guard.Lock()
	defer guard.Unlock()
	delete(disks, d.Root)
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// of finds the disk of a path.
func of(path string) *Disk {
	guard.Lock()
	defer guard.Unlock()
	for root := path; len(root) > 1; root = filepath.Dir(root) {
		if d := disks[root]; d != nil {
			return d
		}
	}
	return nil
}

func (d *Disk) do(e Effect, change func()) error {
	if d.Before != nil {
		d.Before(e)
	}
	if d.Fail != nil {
		if err := d.Fail(e); err != nil {
			return err
		}
	}
	change()
	if d.After != nil {
		d.After(e)
	}
	return nil
}

// Unsynced is the number of bytes of all files that a crash may lose, and whether a name may be lost.
func (d *Disk) Unsynced() (bytes int, names bool) {
	for name, n := range d.now {
		bytes += len(n.data) - n.synced
		names = names || d.durable[name] != n
	}
	for name := range d.durable {
		names = names || d.now[name] == nil
	}
	return bytes, names
}

// Crash ends every process on the disk. Of the bytes of each file that were not synced the first keep survive (below 0: all of them); names that
// were not synced survive when names says so.
func (d *Disk) Crash(keep int, names bool) {
	for _, f := range d.open {
		f.closed = true
	}
	d.open = nil
	if !names {
		d.now = map[string]*inode{}
		for name, n := range d.durable {
			d.now[name] = n
		}
	}
	d.durable = map[string]*inode{}
	for name, n := range d.now {
		switch {
		case keep < 0:
		case n.old != nil:
			n.data = n.old
		default:
			n.data = n.data[:min(n.synced+keep, len(n.data))]
		}
		n.old, n.locks, n.synced = nil, nil, len(n.data)
		d.durable[name] = n
	}
}

// Put makes a durable file.
func (d *Disk) Put(name string, data []byte) {
	d.now[name] = &inode{data: data, synced: len(data)}
	d.durable[name] = d.now[name]
}

// Data is what a file holds now.
func (d *Disk) Data(name string) []byte {
	if n := d.now[name]; n != nil {
		return n.data
	}
	return nil
}

// File is an open file or directory.
type File struct {
	d      *Disk
	name   string
	n      *inode // nil: a directory
	at     int
	append bool
	closed bool
}

// Info is what Stat knows.
type Info struct{ n *inode }

// Size is the length of the file.
func (i *Info) Size() int64 { return int64(len(i.n.data)) }

// SameFile is os.SameFile.
func SameFile(a, b *Info) bool { return a.n == b.n }

// Hostname is a name.
func Hostname() (string, error) { return "sweep", nil }

// Getpid is a number.
func Getpid() int { return 1 }

// MkdirAll does nothing: a directory is there when a file is.
func MkdirAll(string, fs.FileMode) error { return nil }

// Open opens a directory, or a file for reading.
func Open(name string) (*File, error) {
	d := of(name)
	if d == nil {
		return nil, fs.ErrNotExist
	}
	if n := d.now[name]; n != nil {
		return d.opened(&File{d: d, name: name, n: n}), nil
	}
	for other := range d.now {
		if strings.HasPrefix(other, name+"/") {
			return d.opened(&File{d: d, name: name}), nil
		}
	}
	return nil, fs.ErrNotExist
}

func (d *Disk) opened(f *File) *File {
	d.open = append(d.open, f)
	return f
}

// OpenFile is os.OpenFile.
func OpenFile(name string, flag int, _ fs.FileMode) (*File, error) {
	d := of(name)
	if d == nil {
		return nil, fs.ErrNotExist
	}
	n := d.now[name]
	if n == nil && flag&O_CREATE == 0 {
		return nil, fs.ErrNotExist
	}
	if n == nil {
		n = &inode{}
		if err := d.do(Effect{Op: "create", Name: name}, func() { d.now[name] = n }); err != nil {
			return nil, err
		}
	}
	f := d.opened(&File{d: d, name: name, n: n, append: flag&O_APPEND != 0})
	if flag&O_TRUNC != 0 && len(n.data) > 0 {
		if err := f.Truncate(0); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Stat is os.Stat.
func Stat(name string) (*Info, error) {
	d := of(name)
	if d == nil || d.now[name] == nil {
		return nil, fs.ErrNotExist
	}
	return &Info{d.now[name]}, nil
}

// Link is os.Link.
func Link(from, to string) error {
	d := of(from)
	switch {
	case d == nil || d.now[from] == nil:
		return fs.ErrNotExist
	case d.now[to] != nil:
		return fs.ErrExist
	}
	return d.do(Effect{Op: "link", Name: to}, func() { d.now[to] = d.now[from] })
}

// Rename is os.Rename.
func Rename(from, to string) error {
	d := of(from)
	if d == nil || d.now[from] == nil {
		return fs.ErrNotExist
	}
	return d.do(Effect{Op: "rename", Name: to}, func() {
		d.now[to] = d.now[from]
		delete(d.now, from)
	})
}

// Remove is os.Remove.
func Remove(name string) error {
	d := of(name)
	if d == nil || d.now[name] == nil {
		return fs.ErrNotExist
	}
	return d.do(Effect{Op: "remove", Name: name}, func() { delete(d.now, name) })
}

// Flock is syscall.Flock with LOCK_NB.
func Flock(f *File, how int) error {
	if f.closed {
		return fs.ErrClosed
	}
	exclusive := how&syscall.LOCK_EX != 0
	for other, held := range f.n.locks {
		if other != f && !other.closed && (exclusive || held&syscall.LOCK_EX != 0) {
			return syscall.EWOULDBLOCK
		}
	}
	if f.n.locks == nil {
		f.n.locks = map[*File]int{}
	}
	f.n.locks[f] = how
	return nil
}

// Stat is that of the open file, whatever its name is by now.
func (f *File) Stat() (*Info, error) {
	if f.closed || f.n == nil {
		return nil, fs.ErrClosed
	}
	return &Info{f.n}, nil
}

// Seek goes to a place from the start.
func (f *File) Seek(to int64, whence int) (int64, error) {
	if whence != io.SeekStart {
		return 0, errors.ErrUnsupported
	}
	f.at = int(to)
	return to, nil
}

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	if f.at >= len(f.n.data) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[f.at:])
	f.at += n
	return n, nil
}

// Write appends: the journal never does anything else.
func (f *File) Write(b []byte) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	if !f.append {
		return 0, errors.ErrUnsupported
	}
	if err := f.d.do(Effect{Op: "write", Name: f.name, Data: b}, func() { f.n.data = append(f.n.data, b...) }); err != nil {
		f.n.data = append(f.n.data, b[:len(b)/2]...)
		return len(b) / 2, err
	}
	return len(b), nil
}

// WriteAt writes a small file as a whole: the lock is signed that way. It is durable at once, since nobody relies on it.
func (f *File) WriteAt(b []byte, at int64) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	if at != 0 {
		return 0, errors.ErrUnsupported
	}
	err := f.d.do(Effect{Op: "sign", Name: f.name}, func() {
		f.n.data = append([]byte(nil), b...)
		f.n.synced, f.n.old = len(b), nil
	})
	return len(b), err
}

// Truncate is os.File.Truncate.
func (f *File) Truncate(size int64) error {
	if f.closed {
		return fs.ErrClosed
	}
	return f.d.do(Effect{Op: "truncate", Name: f.name}, func() {
		n := f.n
		if int(size) < n.synced {
			n.old = append([]byte(nil), n.data[:n.synced]...)
			n.synced = int(size)
		}
		n.data = n.data[:size:size]
	})
}

// Sync makes the file durable; of a directory, the names in it.
func (f *File) Sync() error {
	if f.closed {
		return fs.ErrClosed
	}
	if f.n != nil {
		return f.d.do(Effect{Op: "sync", Name: f.name}, func() { f.n.synced, f.n.old = len(f.n.data), nil })
	}
	return f.d.do(Effect{Op: "sync-dir", Name: f.name}, func() {
		f.d.durable = map[string]*inode{}
		for name, n := range f.d.now {
			f.d.durable[name] = n
		}
	})
}

// Fd is no descriptor.
func (f *File) Fd() uintptr { return 0 }

// Close gives up the lock.
func (f *File) Close() error {
	f.closed = true
	if f.n != nil {
		delete(f.n.locks, f)
	}
	return nil
}
