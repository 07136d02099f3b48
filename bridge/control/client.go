package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/planner"
)

// Errors that the Client returns, wrapped.
var (
	// ErrDown says that no daemon answers on the socket.
	ErrDown = errors.New("unischedd does not answer")
	// ErrDenied says that the socket may not be opened by this user.
	ErrDenied = errors.New("permission denied on the control socket")
)

// Refusal is an answer of the daemon that is not 2xx. It unwraps to the sentinel of its status where there is one.
type Refusal struct {
	Status int
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// Unwrap gives [ErrNoJob] for 404.
func (r *Refusal) Unwrap() error {
	if r.Status == http.StatusNotFound {
		return ErrNoJob
	}
	return nil
}

const maxAnswerBytes = 256 << 20

// Client asks the daemon on the control socket at Path.
type Client struct {
	Path string
	// Timeout bounds one question; 0 means 15 s. An order has the daemon's own bound.
	Timeout time.Duration
}

// Status returns the last view without jobs and plan.
func (c Client) Status(ctx context.Context) (bridge.View, error) {
	return fetch[bridge.View](ctx, c, PathStatus)
}

// Jobs returns all jobs that the daemon knows.
func (c Client) Jobs(ctx context.Context) ([]bridge.JobView, error) {
	d, err := fetch[Jobs](ctx, c, PathJobs)
	return d.Jobs, err
}

// Job returns one job by what Slurm prints (12, 12_3).
func (c Client) Job(ctx context.Context, ref string) (bridge.JobView, error) {
	if err := CheckRef(ref); err != nil {
		return bridge.JobView{}, err
	}
	d, err := fetch[Job](ctx, c, PathJob+url.PathEscape(ref))
	return d.Job, err
}

// Plan returns the newest plan.
func (c Client) Plan(ctx context.Context) (planner.Plan, error) {
	return fetch[planner.Plan](ctx, c, PathPlan)
}

// Snapshot returns what the newest plan was made from.
func (c Client) Snapshot(ctx context.Context) (planner.Snapshot, error) {
	return fetch[planner.Snapshot](ctx, c, PathSnapshot)
}

// Order gives an order and waits for the cycle that carries it out.
func (c Client) Order(ctx context.Context, o bridge.Order) (Result, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Result{}, fmt.Errorf("order: %w", err)
	}
	raw, err := c.do(ctx, http.MethodPost, PathOrder, body, orderTimeout+5*time.Second)
	if err != nil {
		return Result{}, err
	}
	var r Result
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("answer to the order: %w", err)
	}
	return r, nil
}

// WhatIf asks what would become of a job, and returns the answer (ask.Answer) as the daemon wrote it.
func (c Client) WhatIf(ctx context.Context, q ask.Question) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	return c.do(ctx, http.MethodPost, PathWhatIf, body, whatIfTimeout+10*time.Second)
}

// Raw returns a document as the daemon wrote it, with members that this program does not know.
func (c Client) Raw(ctx context.Context, path string) ([]byte, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 15 * time.Second
	}
	return c.do(ctx, http.MethodGet, path, nil, timeout)
}

func fetch[T any](ctx context.Context, c Client, path string) (T, error) {
	var doc T
	raw, err := c.Raw(ctx, path)
	if err != nil {
		return doc, err
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return doc, fmt.Errorf("answer of the daemon to %s: %w", path, err)
	}
	return doc, nil
}

func (c Client) do(ctx context.Context, method, path string, body []byte, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tr := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", c.Path)
		},
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://unischedd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("control request: %w", err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, c.explain(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, c.explain(err)
	}
	if len(raw) > maxAnswerBytes {
		return nil, fmt.Errorf("answer of the daemon is larger than %d bytes", maxAnswerBytes)
	}
	if resp.StatusCode/100 != 2 {
		var p Problem
		if json.Unmarshal(raw, &p) != nil || p.Error == "" {
			p.Error = fmt.Sprintf("the daemon answered %s", resp.Status)
		}
		return nil, &Refusal{resp.StatusCode, p.Error}
	}
	return raw, nil
}

// explain tells "not allowed" and "given up by the caller" from everything else that can go wrong before an answer is read: the connection was not made, was
// closed or stayed mute, and so nobody answers.
func (c Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w %s", ErrDenied, c.Path)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("control socket %s: %w", c.Path, err)
	}
	return fmt.Errorf("%w on %s: %w", ErrDown, c.Path, err)
}
