package slurmtest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Net is a network in memory with one server a host, for tests in virtual time. Make one with [NewNet] and Close it before the bubble ends.
type Net struct {
	mu     sync.Mutex
	hosts  map[string]*host
	dialed []string
	group  sync.WaitGroup
}

type host struct {
	conns chan net.Conn
	done  chan struct{}
	down  bool
	srv   *http.Server
}

// NewNet starts a server for each host.
func NewNet(hosts map[string]http.Handler) *Net {
	n := &Net{hosts: map[string]*host{}}
	for name, handler := range hosts {
		h := &host{conns: make(chan net.Conn), done: make(chan struct{}), srv: &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}}
		n.hosts[name] = h
		n.group.Go(func() { h.srv.Serve(h) })
	}
	return n
}

// Accept, Close and Addr make a host a net.Listener.
func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (h *host) Close() error {
	select {
	case <-h.done:
	default:
		close(h.done)
	}
	return nil
}

// Addr is nobody's.
func (h *host) Addr() net.Addr { return &net.TCPAddr{} }

// SetDown makes a host refuse connections, and cuts nothing that is open.
func (n *Net) SetDown(name string, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name].down = down
}

// Dial is what a client's Dial wants to be.
func (n *Net) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	h := n.hosts[name]
	n.dialed = append(n.dialed, name)
	refused := h == nil || h.down
	n.mu.Unlock()
	if refused {
		return nil, fmt.Errorf("dial %s: connection refused", name)
	}
	ours, theirs := net.Pipe()
	select {
	case h.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends all servers and their connections.
func (n *Net) Close() {
	for _, h := range n.hosts {
		h.srv.Close()
		h.Close()
	}
	n.group.Wait()
}
