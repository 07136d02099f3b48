// Package nodes is the daemon's listener for the reports of the node watchers: HTTP POST /v1/report, signed bodies, a bounded queue that
// the loop empties once a cycle.
//
// It refuses to interpret a line: the bridge parses and judges them, by job, uid and node. It keeps nothing on disk: a watcher that the
// listener does not know is asked to send its runs again from their beginning, which receivers must take without harm. Everything that
// arrives is hostile until its signature is checked, and bounded after that.
package nodes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"unisched/hooks/progress"
)

// Path is the only path of the listener.
const Path = "/v1/report"

// Bounds of the queue and of the connections.
const (
	MaxQueueBytes = 64 << 20 // bodies waiting for the loop
	MaxQueueJobs  = 1 << 16  // job reports waiting for the loop
	maxWatchers   = 1 << 14  // watcher instances remembered; beyond it all are forgotten, and resent once
	maxBodies     = 64       // bodies being read or checked at once, 1 MiB each
	maxConns      = 8192

	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 15 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 8 << 10
)

// Listener takes reports. Make one with [New].
type Listener struct {
	key    []byte
	now    func() time.Time
	bodies chan struct{}

	mu       sync.Mutex
	queue    []progress.JobReport
	bytes    int
	watchers map[string]heard // by node, since the start
	counts   Counts
}

// Counts sums up what arrived since the start.
type Counts struct {
	Reports  int64 `json:"reports"`
	Refused  int64 `json:"refused"` // bad signature or form
	Full     int64 `json:"full"`    // turned away for want of room
	Resyncs  int64 `json:"resyncs"`
	Watchers int   `json:"watchers"`
}

// New makes a listener that checks signatures with key (at least [progress.MinKeyBytes]). now is the clock against which they expire.
func New(key []byte, now func() time.Time) (*Listener, error) {
	if _, err := progress.ParseKey(key); err != nil {
		return nil, err
	}
	return &Listener{key: key, now: now, bodies: make(chan struct{}, maxBodies), watchers: map[string]heard{}}, nil
}

// Drain hands over what arrived since the last call, oldest first. It is the bridge's Reports.
func (l *Listener) Drain() []progress.JobReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue, l.bytes = nil, 0
	return q
}

// Counts returns the sums so far.
func (l *Listener) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Watchers = len(l.watchers)
	return c
}

// Serve answers on ln, over TLS when cfg is not nil, until ctx ends. It closes ln.
func (l *Listener) Serve(ctx context.Context, ln net.Listener, cfg *tls.Config) error {
	ln = &limited{Listener: ln, free: make(chan struct{}, maxConns)}
	if cfg != nil {
		ln = tls.NewListener(ln, cfg)
	}
	srv := &http.Server{
		Handler: l.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(ln)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("node listener: %w", err)
}

// Handler answers the reports.
func (l *Listener) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, l.take)
	return mux
}

func (l *Listener) take(w http.ResponseWriter, r *http.Request) {
	select {
	case l.bodies <- struct{}{}:
		defer func() { <-l.bodies }()
	default:
		l.full(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, progress.MaxReportBytes))
	if err != nil {
		if _, big := errors.AsType[*http.MaxBytesError](err); big {
			l.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a report has at most %d bytes", progress.MaxReportBytes))
			return
		}
		l.refuse(w, http.StatusRequestTimeout, "the body ended early")
		return
	}
	if err := progress.Verify(l.key, body, r.Header.Get("Authorization"), l.now()); err != nil {
		l.refuse(w, http.StatusUnauthorized, err.Error())
		return
	}
	report, err := progress.DecodeReport(body)
	if err != nil {
		l.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	resync, ok := l.put(report, len(body))
	if !ok {
		l.full(w)
		return
	}
	answer, err := json.Marshal(progress.Reply{Resync: resync})
	if err != nil {
		panic(err) // one boolean always encodes
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(answer)
}

// put queues a report, all of it or nothing. resync says that the watcher is one that this process has not heard before and that what it
// sends is not its beginning. Sequence numbers rise with every attempt, also a failed one, so a gap means nothing.
func (l *Listener) put(r progress.Report, size int) (resync, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+size > MaxQueueBytes || len(l.queue)+len(r.Jobs) > MaxQueueJobs {
		return false, false
	}
	l.bytes += size
	l.queue = append(l.queue, r.Jobs...)
	l.counts.Reports++
	if l.watchers[r.Node].instance != r.Instance {
		resync = r.Seq > 1
		if len(l.watchers) >= maxWatchers {
			clear(l.watchers)
		}
	}
	now := l.now()
	h := heard{instance: r.Instance, version: r.Version, at: now, ahead: r.Sent.Sub(now), gpus: l.watchers[r.Node].gpus, gpusAt: l.watchers[r.Node].gpusAt}
	if r.GPUs != nil {
		h.gpus, h.gpusAt = r.GPUs, now
	}
	l.watchers[r.Node] = h
	if resync {
		l.counts.Resyncs++
	}
	return resync, true
}

func (l *Listener) full(w http.ResponseWriter) {
	l.mu.Lock()
	l.counts.Full++
	l.mu.Unlock()
	w.Header().Set("Retry-After", "5")
	answer(w, http.StatusTooManyRequests, "the queue is full: send it again later")
}

func (l *Listener) refuse(w http.ResponseWriter, status int, text string) {
	l.mu.Lock()
	l.counts.Refused++
	l.mu.Unlock()
	answer(w, status, text)
}

func answer(w http.ResponseWriter, status int, text string) {
	b, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		panic(err) // strings always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // whoever is turned away shall not keep a connection
	w.WriteHeader(status)
	w.Write(b)
}

// limited bounds the open connections: one beyond the bound is closed at once, so that Accept never stops.
type limited struct {
	net.Listener
	free chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &limitedConn{Conn: c, done: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			c.Close()
		}
	}
}

type limitedConn struct {
	net.Conn
	done func()
}

func (c *limitedConn) Close() error {
	c.done()
	return c.Conn.Close()
}
