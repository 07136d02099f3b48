package slurm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// endpoint is one slurmrestd.
type endpoint struct {
	base string
	// Reads may share connections. Writes have a connection each, so that the
	// transport never has a reason to send one again.
	reads, writes *http.Client
	version       string // "" until it is discovered; guarded by Client.mu
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

var errURL = errors.New("slurm: url: want http://host:port, https://host:port or unix:/path")

func newEndpoint(address string, dial dialer, cfg *tls.Config) (*endpoint, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("slurm: url: %w", err)
	}
	base := strings.TrimRight(address, "/")
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			return nil, errURL
		}
	case "unix":
		path := u.Path
		if path == "" || path[0] != '/' {
			return nil, errURL
		}
		base = "http://localhost"
		if dial == nil {
			dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", path)
			}
		}
	default:
		return nil, errURL
	}
	transport := func(write bool) *http.Client {
		t := &http.Transport{DialContext: dial, TLSClientConfig: cfg, DisableKeepAlives: write,
			MaxIdleConnsPerHost: 2, MaxConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10}
		return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	return &endpoint{base: base, reads: transport(false), writes: transport(true)}, nil
}

// Endpoint is the address of the slurmrestd that the next call goes to.
func (c *Client) Endpoint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses[c.current]
}

// end is the endpoint in use.
func (c *Client) end() *endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ends[c.current]
}

// leave makes the next call go to another endpoint than e, unless somebody left it already.
func (c *Client) leave(e *endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ends) == 1 || c.ends[c.current] != e {
		return
	}
	c.current = (c.current + 1) % len(c.ends)
	c.left = time.Now()
}

// goHome goes back to the first endpoint when it was left long enough ago and answers again. The pause counts from the last time that any was left.
func (c *Client) goHome(ctx context.Context) {
	c.mu.Lock()
	due := c.current != 0 && time.Since(c.left) >= c.opts.BackAfter
	if due {
		c.left = time.Now() // of several calls at once one tries
	}
	c.mu.Unlock()
	if !due {
		return
	}
	first := c.ends[0]
	if c.pinged(ctx, first) != nil {
		return
	}
	c.mu.Lock()
	c.current = 0
	c.mu.Unlock()
}

// pinged is nil when an endpoint answers and its controller answers it.
func (c *Client) pinged(ctx context.Context, e *endpoint) error {
	version, err := c.versionOf(ctx, e)
	if err != nil {
		return err
	}
	a, err := c.send(ctx, e, version, c.pingCall())
	if err != nil {
		c.forget(e)
		return err
	}
	if !anyUp(readControllers(a.rest["pings"])) {
		return noController()
	}
	return nil
}

// elsewhere reports whether another endpoint may do better: this one does not answer, or has no controller behind it.
func elsewhere(err error) bool {
	var e *Error
	return errors.Is(err, ErrUnavailable) || errors.As(err, &e) && e.HTTP >= 500 && e.HTTP != http.StatusNetworkAuthenticationRequired && !errors.Is(err, ErrRefused)
}

// do sends one call to the discovered version and judges the answer. A read goes on to the other endpoints, each once; a write is sent to one, once,
// whatever becomes of it. What could not be sent at all for want of a version may look for one elsewhere.
func (c *Client) do(ctx context.Context, q call) (answer, error) {
	if !q.write {
		c.goHome(ctx)
	}
	for try := 1; ; try++ {
		e := c.end()
		version, err := c.versionOf(ctx, e)
		var a answer
		sent := err == nil
		if sent {
			a, err = c.send(ctx, e, version, q)
		}
		if errors.Is(err, ErrUnavailable) || isMissingPath(err) {
			c.forget(e)
		}
		if !elsewhere(err) || ctx.Err() != nil {
			return a, err
		}
		c.leave(e)
		if try == len(c.ends) || q.write && sent {
			return a, err
		}
		if q.again != nil {
			q.again()
		}
	}
}
