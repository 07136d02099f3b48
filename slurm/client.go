package slurm

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Versions are the REST versions that this package speaks, best first.
var Versions = []string{"v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42"}

// Timeouts bound one call each, from the dial to the last byte.
type Timeouts struct {
	Ping  time.Duration // default 10 s
	One   time.Duration // one record, the state poll, small lists; default 30 s
	List  time.Duration // all jobs; default 90 s
	Write time.Duration // default 30 s
}

// Options say where slurmrestd is and how to speak to it.
type Options struct {
	// URL is "http://host:port", "https://host:port" or "unix:/path".
	URL string
	// Others are further addresses of the same cluster, tried in this order when one fails. The first that answers is kept; BackAfter later, 5 minutes
	// by default, the client goes back to URL if that answers again.
	Others    []string
	BackAfter time.Duration
	// TokenFile holds the JWT, alone or as "SLURM_JWT=...". It is read anew for
	// every call, because a timer replaces it. "" sends no token, which is how
	// a unix socket with local authentication wants it.
	TokenFile string
	// User is sent as X-SLURM-USER-NAME when not empty.
	User string
	// Version pins the REST version, "v0.0.42"; "" discovers it.
	Version  string
	Timeouts Timeouts
	// MaxBody bounds the bytes of one answer; default 1 GiB.
	MaxBody int64
	// TLS is used for https; nil is the system's.
	TLS *tls.Config
	// Scontrol is the fallback; its zero value means there is none.
	Scontrol Scontrol
	// Begin, when set, is told of each request before it is sent, and the
	// function it returns of the HTTP status when the answer has been read, 0
	// without one. Both may be called from many goroutines. Clocks are theirs.
	Begin func(RequestKind) (end func(status int))
	// Dial replaces the network, for tests and in-process servers.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client speaks to one slurmrestd at a time, with one request in flight. It is safe for concurrent use: calls wait for each other. It keeps no state of
// the cluster, and never repeats a write.
type Client struct {
	opts      Options
	addresses []string
	ends      []*endpoint
	turn      chan struct{} // holds the one request in flight

	mu      sync.Mutex
	current int       // the endpoint in use
	left    time.Time // when one was left last
}

var versionForm = regexp.MustCompile(`^v0\.0\.[0-9]{1,3}$`)

// New checks the options; it does not touch the network.
func New(o Options) (*Client, error) {
	if o.Version != "" && !versionForm.MatchString(o.Version) {
		return nil, fmt.Errorf("slurm: version: want v0.0.NN")
	}
	setDefault(&o.Timeouts.Ping, 10*time.Second)
	setDefault(&o.Timeouts.One, 30*time.Second)
	setDefault(&o.Timeouts.List, 90*time.Second)
	setDefault(&o.Timeouts.Write, 30*time.Second)
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 30
	}
	if o.BackAfter <= 0 {
		o.BackAfter = 5 * time.Minute
	}
	c := &Client{opts: o, addresses: append([]string{o.URL}, o.Others...), turn: make(chan struct{}, 1)}
	for _, address := range c.addresses {
		e, err := newEndpoint(address, o.Dial, o.TLS)
		if err != nil {
			return nil, err
		}
		e.version = o.Version
		c.ends = append(c.ends, e)
	}
	return c, nil
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

// Close lets go of idle connections.
func (c *Client) Close() {
	for _, e := range c.ends {
		e.reads.CloseIdleConnections()
		e.writes.CloseIdleConnections()
	}
}

// call is one request below /slurm/VERSION.
type call struct {
	op      string
	root    string // in place of /slurm; without a version, the whole path
	method  string
	path    string // "/jobs"
	query   url.Values
	body    any // JSON, nil for none
	write   bool
	timeout time.Duration
	list    string // the member that is streamed
	each    func(raw)
	again   func() // forgets what each took, before the call is repeated elsewhere
}

// isMissingPath says that the server does not know the path: it was replaced
// by one of another version.
func isMissingPath(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.HTTP == 404 && e.Code == 0
}

// RequestKind says what a request asks of the server. The set is closed.
type RequestKind string

// The kinds differ in how long a request may take.
const (
	KindPing  RequestKind = "ping"
	KindList  RequestKind = "list" // of all jobs
	KindRead  RequestKind = "read"
	KindWrite RequestKind = "write"
)

// RequestKinds are all of them.
var RequestKinds = []RequestKind{KindPing, KindList, KindRead, KindWrite}

func (q call) kind() RequestKind {
	switch {
	case q.write:
		return KindWrite
	case q.op == "ping":
		return KindPing
	case q.op == "get jobs":
		return KindList
	}
	return KindRead
}

func (c *Client) send(ctx context.Context, e *endpoint, version string, q call) (answer, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return answer{}, lost(q, false, 0, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := c.request(ctx, e.base, version, q)
	if err != nil {
		return answer{}, err
	}
	client := e.reads
	if q.write {
		client = e.writes
	}
	status := 0
	if c.opts.Begin != nil {
		end := c.opts.Begin(q.kind())
		defer func() { end(status) }()
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, lost(q, connected.Load(), 0, err)
	}
	defer resp.Body.Close()
	status = resp.StatusCode
	return c.receive(q, resp)
}

// lost is a call without a whole answer. What was never sent did not happen.
func lost(q call, sent bool, status int, err error) error {
	e := &Error{Kind: ErrUnavailable, Op: q.op, HTTP: status, Msg: oneLine(err.Error()), Err: err, lost: true}
	if q.write && sent {
		e.Kind = ErrUnknownOutcome
	}
	return e
}

func (c *Client) request(ctx context.Context, base, version string, q call) (*http.Request, error) {
	var body io.Reader
	if q.body != nil {
		data, err := json.Marshal(q.body)
		if err != nil {
			return nil, &Error{Kind: ErrInvalid, Op: q.op, Msg: err.Error(), Err: err}
		}
		body = bytes.NewReader(data)
	}
	root := q.root
	if root == "" {
		root = "/slurm"
	}
	if version != "" {
		root += "/" + version
	}
	target := base + root + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, body)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Op: q.op, Msg: err.Error(), Err: err}
	}
	req.GetBody = nil // nothing may be sent twice
	req.Header.Set("Accept", "application/json")
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.User != "" {
		req.Header.Set("X-SLURM-USER-NAME", c.opts.User)
	}
	if c.opts.TokenFile != "" {
		token, err := readToken(c.opts.TokenFile)
		if err != nil {
			return nil, &Error{Kind: ErrUnauthorised, Op: q.op, Msg: oneLine(err.Error()), Err: err}
		}
		req.Header.Set("X-SLURM-USER-TOKEN", token)
	}
	return req, nil
}

const maxToken = 16 << 10

// readToken reads the file anew; it never shows the token in an error.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimPrefix(strings.TrimSpace(string(data)), "SLURM_JWT=")
	switch {
	case token == "":
		return "", fmt.Errorf("token file %s is empty", path)
	case len(data) > maxToken:
		return "", fmt.Errorf("token file %s is larger than %d bytes", path, maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("token file %s does not hold one token", path)
	}
	return token, nil
}

// errTooBig is the end of a body that passes MaxBody.
var errTooBig = errors.New("answer is larger than the limit")

type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooBig
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

// receive reads and judges an answer. The status comes first: a refused token
// has a body that looks like an empty cluster.
func (c *Client) receive(q call, resp *http.Response) (answer, error) {
	good := resp.StatusCode >= 200 && resp.StatusCode < 300
	limit := c.opts.MaxBody
	list, each := q.list, q.each
	if !good {
		limit, list = min(limit, 1<<20), ""
	}
	var head snippet
	a, err := readAnswer(io.TeeReader(&limited{resp.Body, limit}, &head), list, each)
	if err != nil && good {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, errTooBig) || !isNetwork(err) {
			return a, c.garbled(q, resp.StatusCode, err)
		}
		return a, lost(q, true, resp.StatusCode, err)
	}
	if q.write {
		a.problems = append(a.problems, readStatus(a.rest["status"])...)
	}
	if code, kind := judge(q.write, resp.StatusCode, a.problems, head.String()); kind != nil {
		text := ""
		if err != nil {
			text = head.String()
		}
		return a, &Error{Kind: kind, Op: q.op, HTTP: resp.StatusCode, Code: code, Msg: summary(a.problems, text), After: retryAfter(resp)}
	}
	if q.list != "" && !a.listed {
		return a, &Error{Kind: ErrBadAnswer, Op: q.op, HTTP: resp.StatusCode, Msg: "no list of " + q.list}
	}
	return a, nil
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 5 * time.Minute

// retryAfter is how long the server asks to be left alone, 0 when it does not say so in seconds.
func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(min(n, 3600))*time.Second, maxRetryAfter)
}

func (c *Client) garbled(q call, status int, err error) error {
	kind := ErrBadAnswer
	if q.write {
		kind = ErrUnknownOutcome
	}
	return &Error{Kind: kind, Op: q.op, HTTP: status, Msg: oneLine(err.Error()), Err: err}
}

func isNetwork(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// snippet keeps the first bytes of a body, for errors that are no JSON.
type snippet struct{ b []byte }

func (s *snippet) Write(p []byte) (int, error) {
	if room := 512 - len(s.b); room > 0 {
		s.b = append(s.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (s *snippet) String() string { return string(s.b) }
