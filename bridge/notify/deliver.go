package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// permanent is a failure that another try would not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

func again(err error) bool {
	_, is := errors.AsType[permanent](err)
	return !is
}

// maxOutput is what is kept of a command's output or a webhook's answer, for the log.
const maxOutput = 512

// run starts the command: without a shell, in a group of its own that is killed when the time is over, with the notice on its standard input and its
// fields in the environment.
func (s *Sender) run(ctx context.Context, n Notice, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.cfg.Command[0], s.cfg.Command[1:]...)
	var out capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(body, '\n')), &out, &out
	cmd.Env = environment(n)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild may hold the pipes
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("notify.command did not end within %v", s.cfg.Timeout)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return permanent{fmt.Errorf("notify.command: %w", err)}
	}
	return fmt.Errorf("notify.command: %w: %s", err, oneLine(out.String()))
}

// environment is all that the command sees of ours: nothing of the daemon's own environment, which may hold secrets.
func environment(n Notice) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	add := func(name, value string) {
		if value != "" {
			env = append(env, "UNISCHED_"+name+"="+strings.ReplaceAll(value, "\x00", "?"))
		}
	}
	add("KIND", string(n.Kind))
	add("AT", n.At.UTC().Format(time.RFC3339))
	add("CLUSTER", n.Cluster)
	add("TEXT", n.Text)
	if n.Job == 0 {
		return env
	}
	add("JOB_ID", n.Job.String())
	add("JOB", n.Ref)
	add("RUN", strconv.Itoa(n.Run))
	add("JOB_NAME", n.Name)
	add("JOB_USER", n.User)
	add("JOB_ACCOUNT", n.Account)
	add("CLASS", n.Class)
	if !n.Deadline.IsZero() {
		add("DEADLINE", n.Deadline.UTC().Format(time.RFC3339))
	}
	if !n.Finish.IsZero() {
		add("EXPECTED_FINISH", n.Finish.UTC().Format(time.RFC3339))
	}
	return env
}

// client follows no redirect: a notice goes where the site says, and its token to nobody else.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends the notice to the webhook. Errors never hold the URL: its path may be a secret.
func (s *Sender) post(ctx context.Context, _ Notice, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Webhook, bytes.NewReader(body))
	if err != nil {
		return permanent{errors.New("notify.webhook is no URL")}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "unischedd")
	if s.cfg.TokenFile != "" {
		token, err := readToken(s.cfg.TokenFile)
		if err != nil {
			return permanent{fmt.Errorf("notify.webhook_token_file: %w", err)}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("notify.webhook did not answer within %v", s.cfg.Timeout)
		}
		return fmt.Errorf("notify.webhook: %w", errors.Unwrap(err)) // without the *url.Error, which shows the URL
	}
	defer resp.Body.Close()
	var out capped
	io.Copy(&out, io.LimitReader(resp.Body, maxOutput))
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("notify.webhook answered HTTP %d: %s", resp.StatusCode, oneLine(out.String()))
	}
	return permanent{fmt.Errorf("notify.webhook answered HTTP %d: %s", resp.StatusCode, oneLine(out.String()))}
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("it does not hold one token")
	}
	return token, nil
}

// capped keeps the first bytes and swallows the rest, so that a chatty command never blocks.
type capped struct{ b []byte }

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - len(c.b); room > 0 {
		c.b = append(c.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (c *capped) String() string { return strings.TrimSpace(string(c.b)) }
