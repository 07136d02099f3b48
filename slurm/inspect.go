package slurm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// What follows is read when somebody looks at a cluster as a whole (`unisched check`), never by the loop.

// Surface is what a slurmrestd offers.
type Surface struct {
	// Versions are the REST versions it serves, "v0.0.42", in rising order.
	Versions []string
	// Requeue says that jobs can be requeued over REST, Conf that the configuration can be read.
	Requeue, Conf bool
}

// Surface reads the server's own description of its paths.
func (c *Client) Surface(ctx context.Context) (Surface, error) {
	q := call{op: "get openapi", method: "GET", root: "/openapi/v3", timeout: c.opts.Timeouts.One}
	a, err := c.send(ctx, c.end(), "", q)
	if err != nil {
		return Surface{}, err
	}
	var paths map[string]raw
	if json.Unmarshal(a.rest["paths"], &paths) != nil {
		return Surface{}, &Error{Kind: ErrBadAnswer, Op: q.op, HTTP: 200, Msg: "no paths"}
	}
	var s Surface
	for path := range paths {
		part := strings.Split(strings.Trim(path, "/"), "/")
		if len(part) < 3 || part[0] != "slurm" || !versionForm.MatchString(part[1]) {
			continue
		}
		if !slices.Contains(s.Versions, part[1]) {
			s.Versions = append(s.Versions, part[1])
		}
		switch strings.Join(part[2:], "/") {
		case "jobs/requeue":
			s.Requeue = true
		case "conf":
			s.Conf = true
		}
	}
	slices.SortFunc(s.Versions, func(a, b string) int { return versionNumber(a) - versionNumber(b) })
	return s, nil
}

// Clock is the controller's time when it answered, in whole seconds.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	q := call{op: "get diag", method: "GET", path: "/diag/", timeout: c.opts.Timeouts.One}
	a, err := c.do(ctx, q)
	if err != nil {
		return time.Time{}, err
	}
	r := &record{}
	at := r.instant("req_time", dig(a.rest["statistics"], "req_time"))
	if at.IsZero() {
		return at, &Error{Kind: ErrBadAnswer, Op: q.op, HTTP: 200, Msg: "no req_time"}
	}
	return at, nil
}

// Rights is what accounting says of a user. Level is "Administrator", "Operator" or "None"; Known is false for a user
// that accounting has never heard of.
type Rights struct {
	Known bool
	Level string
}

// Rights asks slurmdbd, through slurmrestd, for a user's admin level.
func (c *Client) Rights(ctx context.Context, user string) (Rights, error) {
	var r Rights
	q := call{op: "get user", root: "/slurmdb", path: "/user/" + url.PathEscape(user), list: "users", timeout: c.opts.Timeouts.One,
		method: "GET", each: func(data raw) {
			rec := &record{}
			if rec.text("", dig(data, "name")) != user {
				return
			}
			r.Known, r.Level = true, "None"
			for _, level := range rec.list("", dig(data, "administrator_level")) {
				r.Level = level
			}
		}}
	_, err := c.do(ctx, q)
	return r, err
}

// QOS is what accounting says of a QOS. GPUsPerJob is its cap, -1 when it has none.
type QOS struct {
	Known      bool
	GPUsPerJob int64
}

// QOS asks slurmdbd, through slurmrestd, for a QOS.
func (c *Client) QOS(ctx context.Context, name string) (QOS, error) {
	out := QOS{GPUsPerJob: -1}
	q := call{op: "get qos", root: "/slurmdb", path: "/qos/" + url.PathEscape(name), list: "qos", timeout: c.opts.Timeouts.One,
		method: "GET", each: func(data raw) {
			rec := &record{}
			if rec.text("", dig(data, "name")) != name {
				return
			}
			out.Known = true
			var caps []raw
			_ = json.Unmarshal(dig(data, "limits", "max", "tres", "per", "job"), &caps)
			for _, t := range caps[:min(len(caps), maxItems)] {
				if rec.text("", dig(t, "type")) == "gres" && rec.text("", dig(t, "name")) == "gpu" {
					out.GPUsPerJob = rec.integer("", dig(t, "count"))
				}
			}
		}}
	_, err := c.do(ctx, q)
	return out, err
}

// Slurmd is the daemon of one node.
type Slurmd struct {
	Node, Version string
	GRES, Used    string // as configured and as in use, in Slurm's notation
}

// Slurmds lists the daemons of all nodes, by node.
func (c *Client) Slurmds(ctx context.Context) ([]Slurmd, error) {
	var out []Slurmd
	again := func() { out = nil }
	q := call{op: "get nodes", method: "GET", path: "/nodes/", list: "nodes", timeout: c.opts.Timeouts.List, again: again, each: func(data raw) {
		r := &record{}
		out = append(out, Slurmd{Node: r.text("", dig(data, "name")), Version: r.text("", dig(data, "version")),
			GRES: r.text("", dig(data, "gres")), Used: r.text("", dig(data, "gres_used"))})
	}}
	if _, err := c.do(ctx, q); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Slurmd) int { return strings.Compare(a.Node, b.Node) })
	return out, nil
}

// Token is what a token says of itself. Nothing in it is verified: only slurmctld has the key.
type Token struct {
	User            string
	Issued, Expires time.Time // zero: not said
}

// ErrOpaque says that a token does not show who it is for and how long it is good.
var ErrOpaque = errors.New("token cannot be read")

// ReadToken reads a token file as every call does, and what the token says of itself.
func ReadToken(path string) (Token, error) {
	text, err := readToken(path)
	if err != nil {
		return Token{}, err
	}
	part := strings.Split(text, ".")
	if len(part) != 3 {
		return Token{}, fmt.Errorf("%w: it has %d parts, a JWT has 3", ErrOpaque, len(part))
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part[1], "="))
	if err != nil {
		return Token{}, fmt.Errorf("%w: its second part is not base64url", ErrOpaque)
	}
	var claims struct {
		Sun, Username string
		Iat, Exp      json.Number
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Token{}, fmt.Errorf("%w: its claims are not what Slurm writes", ErrOpaque)
	}
	t := Token{User: claims.Sun}
	if t.User == "" {
		t.User = claims.Username
	}
	r := &record{}
	t.Issued, t.Expires = r.instant("", raw(claims.Iat)), r.instant("", raw(claims.Exp))
	return t, nil
}
