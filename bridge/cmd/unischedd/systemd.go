package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// systemd is the way to the service manager that started us: datagrams on the socket that it names in the environment. A nil one tells nobody.
type systemd struct {
	conn *net.UnixConn
	// watchdog is within which time a ping must follow the last one; 0: nobody watches.
	watchdog time.Duration
	status   string // as told last
}

// openSystemd reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment: children must not speak for us. It returns nil
// without an error when nobody wants to know.
func openSystemd(pid int) (*systemd, error) {
	socket, usec, whose := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(name)
	}
	if socket == "" {
		return nil, nil
	}
	if socket[0] != '/' && socket[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET %q is neither a path nor abstract", socket)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	s := &systemd{conn: conn}
	if n, err := strconv.ParseInt(usec, 10, 64); err == nil && n > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		s.watchdog = time.Duration(n) * time.Microsecond
	}
	return s, nil
}

// tell sends one message. A service manager that is busy loses it: nothing here may wait.
func (s *systemd) tell(lines ...string) {
	if s == nil {
		return
	}
	s.conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	s.conn.Write([]byte(strings.Join(lines, "\n")))
}

// say shows a line in `systemctl status`, when it is another one than before. It is for the loop's goroutine.
func (s *systemd) say(text string) {
	if s == nil || s.status == text {
		return
	}
	s.status = text
	s.tell("STATUS=" + strings.ReplaceAll(text, "\n", " "))
}

func (s *systemd) period() time.Duration {
	if s == nil {
		return 0
	}
	return s.watchdog
}

func (s *systemd) close() {
	if s != nil {
		s.conn.Close()
	}
}

// watchdog pings, three times within each period, as long as alive says so, until ctx ends.
func watchdog(ctx context.Context, period time.Duration, alive func() bool, ping func(), log zerolog.Logger) {
	if period <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(period / 3)
	defer tick.Stop()
	silent := false
	for {
		if alive() {
			ping()
			silent = false
		} else if !silent {
			silent = true
			log.Error().Msg("the loop makes no progress: the watchdog is not pinged any more")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
