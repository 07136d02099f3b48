package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The tree below the base directory belongs in part to users, who may put links, pipes and devices where files are
// expected, and swap them at any moment. So every step goes through an open directory and never follows a link.

var errKind = errors.New("not the expected kind of file")

// openDir opens the directory name inside parent.
func openDir(parent *os.File, name string) (*os.File, error) {
	return openAt(parent, name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
}

// openRegular opens the regular file name inside parent for reading. O_NONBLOCK keeps a pipe from stopping us.
func openRegular(parent *os.File, name string) (*os.File, *syscall.Stat_t, error) {
	f, err := openAt(parent, name, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := stat(f)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errKind}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

func openAt(parent *os.File, name string, flags int, mode uint32) (*os.File, error) {
	path := filepath.Join(parent.Name(), name)
	for {
		fd, err := syscall.Openat(int(parent.Fd()), name, flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, mode)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// makeDir makes the directory name inside parent unless it is there, and opens it. The mode is what it has when new.
func makeDir(parent *os.File, name string, mode uint32) (*os.File, error) {
	err := syscall.Mkdirat(int(parent.Fd()), name, mode)
	if err != nil && err != syscall.EEXIST {
		return nil, &fs.PathError{Op: "mkdir", Path: filepath.Join(parent.Name(), name), Err: err}
	}
	d, openErr := openDir(parent, name)
	if openErr != nil {
		return nil, openErr
	}
	if err == nil { // the umask may have taken bits away
		if err := d.Chmod(fs.FileMode(mode)); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

func stat(f *os.File) (*syscall.Stat_t, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return &st, nil
}
