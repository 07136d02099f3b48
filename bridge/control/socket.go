package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrInUse says that another process answers on the socket.
var ErrInUse = errors.New("somebody answers on the control socket")

// Bounds of the connections, so that one user's hanging clients cost nobody else their answer.
const (
	maxPerUID = 16
	maxConns  = 256
)

// Listen makes the socket file with the given mode and group (gid < 0: the process's own). The file is made under another name and
// renamed, so that it is never seen with wider rights than asked for.
func Listen(path string, mode fs.FileMode, gid int) (*net.UnixListener, error) {
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("%w %s: is another unischedd running?", ErrInUse, path)
	} else if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		// Neither dead nor missing: not a socket, busy, or not ours. Leave it alone.
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("control socket %s: the file there is not a socket", path)
	}
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(fresh, mode.Perm())
	if err == nil && gid >= 0 {
		err = os.Chown(fresh, -1, gid)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		l.Close()
		os.Remove(fresh)
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

// peerListener learns the uid of whoever connects, and turns away who holds too many connections.
type peerListener struct {
	net.Listener
	mu    sync.Mutex
	byUID map[uint32]int
	total int
}

func newPeerListener(l net.Listener) *peerListener {
	return &peerListener{Listener: l, byUID: map[uint32]int{}}
}

// peerConn is a connection whose other end is known.
type peerConn struct {
	net.Conn
	uid  uint32
	once sync.Once
	done func()
}

func (c *peerConn) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err != nil || !l.take(uid) {
			c.Close()
			continue
		}
		return &peerConn{Conn: c, uid: uid, done: func() { l.give(uid) }}, nil
	}
}

// take counts a connection; root is not limited, so that an operator always gets through.
func (l *peerListener) take(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if uid != 0 && (l.byUID[uid] >= maxPerUID || l.total >= maxConns) {
		return false
	}
	l.byUID[uid]++
	l.total++
	return true
}

func (l *peerListener) give(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.byUID[uid]--; l.byUID[uid] == 0 {
		delete(l.byUID, uid)
	}
}

// peerUID asks the kernel who connected (SO_PEERCRED).
func peerUID(c net.Conn) (uint32, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return cred.Uid, nil
}
