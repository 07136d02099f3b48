package slurm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	meta     = `"meta":{"slurm":{"release":"26.05.5","cluster":"fake"}}`
	lists    = `"last_update":{"set":true,"infinite":false,"number":1795964676},` + meta + `,"errors":[],"warnings":[]`
	noAnswer = `"last_update":{"set":true,"infinite":false,"number":0},` + meta
)

func problem(code int, text string) string {
	return fmt.Sprintf(`"errors":[{"description":"it failed","error_number":%d,"error":%q,"source":"x"}]`, code, text)
}

// reply is one canned answer.
type reply struct {
	status int
	body   string
}

// server answers by method and path below /slurm/VERSION; paths that are not
// listed are 404 as slurmrestd writes it. It records what it was sent.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	replies map[string]reply
	log     []string
	tokens  []string
}

func newServer(t *testing.T, replies map[string]reply) *server {
	s := &server{replies: map[string]reply{"GET /slurm/v0.0.42/ping/": {200, `{"pings":[{"pinged":"UP"}],` + meta + `,"errors":[]}`}}}
	for k, v := range replies {
		s.replies[k] = v
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		key := r.Method + " " + r.URL.Path
		line := r.Method + " " + r.URL.RequestURI()
		if len(body) > 0 {
			line += " " + string(body)
		}
		s.log = append(s.log, line)
		s.tokens = append(s.tokens, r.Header.Get("X-SLURM-USER-TOKEN"))
		a, ok := s.replies[key]
		if !ok {
			w.WriteHeader(404)
			io.WriteString(w, "Unable find requested URL")
			return
		}
		if a.status >= 300 && a.status < 400 {
			w.Header().Set("Location", "/slurm/v0.0.42/elsewhere")
		}
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

func (s *server) set(key string, a reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies[key] = a
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func pinned(t *testing.T, s *server) *Client {
	return newClient(t, Options{URL: s.URL, Version: "v0.0.42"})
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{}, {URL: "ftp://x"}, {URL: "http://"}, {URL: "http://a:b@h:1"}, {URL: "http://h:1/slurm"}, {URL: "http://h:1?x=1"},
		{URL: "unix:"}, {URL: "unix:rel"}, {URL: "http://h:1", Version: "0.0.42"}, {URL: "http://h:1", Version: "v0.0.42/../x"}, {URL: "http://h\x00"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestVersionDiscovery(t *testing.T) {
	s := newServer(t, nil)
	c := newClient(t, Options{URL: s.URL})
	want := Pong{API: "v0.0.42", Release: "26.05.5", Cluster: "fake", Controllers: []Controller{{Up: true}}}
	got, err := c.Ping(t.Context())
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Fatalf("%v\n%s", err, d)
	}
	if d := cmp.Diff([]string{"GET /slurm/v0.0.45/ping/", "GET /slurm/v0.0.44/ping/", "GET /slurm/v0.0.43/ping/", "GET /slurm/v0.0.42/ping/", "GET /slurm/v0.0.42/ping/"}, s.sent()); d != "" {
		t.Error(d)
	}
	// The server is replaced by a newer one: the next failure looks again.
	s.set("GET /slurm/v0.0.45/ping/", reply{200, `{"pings":[{"pinged":"UP"}],` + meta + `}`})
	delete(s.replies, "GET /slurm/v0.0.42/ping/")
	if _, err = c.Ping(t.Context()); !errors.Is(err, ErrBadAnswer) {
		t.Errorf("the old version: %v", err)
	}
	if got, err = c.Ping(t.Context()); err != nil || got.API != "v0.0.45" {
		t.Errorf("the new version: %+v, %v", got, err)
	}
}

func TestVersionUnknown(t *testing.T) {
	s := newServer(t, nil)
	delete(s.replies, "GET /slurm/v0.0.42/ping/")
	if _, err := allJobs(t, newClient(t, Options{URL: s.URL})); !errors.Is(err, ErrBadAnswer) {
		t.Error(err)
	}
}

func allJobs(t *testing.T, c *Client) ([]Job, error) {
	jobs, _, err := c.jobs(t.Context(), tally{}, time.Time{})
	return jobs, err
}

func TestPingDown(t *testing.T) {
	s := newServer(t, map[string]reply{"GET /slurm/v0.0.42/ping/": {200, `{"pings":[{"pinged":"DOWN","responding":false}],` + meta + `,"errors":[]}`}})
	if _, err := pinned(t, s).Ping(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestState(t *testing.T) {
	odd := strings.Replace(strings.Replace(runningJob, `"job_id": 6`, `"job_id": 4`, 1), `"nice": -3`, `"nice": {}`, 1)
	s := newServer(t, map[string]reply{
		"GET /slurm/v0.0.42/jobs/":         {200, `{"jobs":[` + runningJob + `,` + odd + `,"strange",{"job_id":null}],` + lists + `}`},
		"GET /slurm/v0.0.42/nodes/":        {200, `{"nodes":[` + strings.Replace(idleNode, `"n1"`, `"n2"`, 1) + `,` + idleNode + `],` + lists + `}`},
		"GET /slurm/v0.0.42/partitions/":   {200, `{"partitions":[{"name":"gpu"}],` + lists + `}`},
		"GET /slurm/v0.0.42/reservations/": {200, `{"reservations":[],` + lists + `}`},
	})
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	got, err := pinned(t, s).State(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := State{At: now, SlurmTime: time.Unix(1795964676, 0).UTC(), Release: "26.05.5", API: "v0.0.42", Cluster: "fake",
		Jobs:  []Job{running(func(j *Job) { j.ID, j.Nice, j.Odd = 4, 0, []string{"nice"} }), running(func(*Job) {})},
		Nodes: []Node{idle(func(*Node) {}), idle(func(n *Node) { n.Name = "n2" })}, Partitions: []Partition{{Name: "gpu"}},
		Odd: []OddCount{{"job", 2}, {"job.nice", 1}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// case 10: one id in several records is one job, the newest.
func TestDoubleRecords(t *testing.T) {
	old := strings.Replace(strings.Replace(runningJob, `["RUNNING"]`, `["PREEMPTED"]`, 1), `"submit_time": {"set":true,"infinite":false,"number":1795964673}`, `"submit_time": 5`, 1)
	for _, body := range []string{old + `,` + runningJob, runningJob + `,` + old} {
		s := newServer(t, map[string]reply{"GET /slurm/v0.0.42/jobs/": {200, `{"jobs":[` + body + `],` + lists + `}`}})
		got, err := allJobs(t, pinned(t, s))
		if err != nil || len(got) != 1 || got[0].State != StateRunning {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		kind  error
		code  int
	}{
		{"case 6: error number 0 in an answer 200", reply{200, `{"nodes":[],` + lists[:strings.Index(lists, `"errors"`)] + problem(0, "") + `}`}, ErrBadAnswer, 0},
		{"case 6: error beside records", reply{200, `{"nodes":[` + idleNode + `],` + problem(0, "") + `}`}, ErrBadAnswer, 0},
		{"case 6: errors of another shape", reply{200, `{"nodes":[],"errors":"no"}`}, ErrBadAnswer, 0},
		{"case 6: no list", reply{200, `{"errors":[]}`}, ErrBadAnswer, 0},
		{"case 6: list is null", reply{200, `{"nodes":null,"errors":[]}`}, ErrBadAnswer, 0},
		{"case 6: list is an object", reply{200, `{"nodes":{},"errors":[]}`}, ErrBadAnswer, 0},
		{"case 6: empty and without time", reply{200, `{"nodes":[],` + noAnswer + `,"errors":[]}`}, ErrBadAnswer, 0},
		{"bad token, body like an empty cluster", reply{511, `{"nodes":[],"errors":[],` + meta + `}`}, ErrUnauthorised, 0},
		{"expired token", reply{511, `{"nodes":[],` + problem(1007, "Protocol authentication error") + `}`}, ErrUnauthorised, 1007},
		{"no token", reply{401, `Authentication failure`}, ErrUnauthorised, 0},
		{"case 48: 429", reply{429, `slow down`}, ErrRateLimited, 0},
		{"case 48: 503", reply{503, ``}, ErrRateLimited, 0},
		{"case 48: words", reply{500, `{` + problem(-1, "Rate limit exceeded") + `}`}, ErrRateLimited, -1},
		{"controller down", reply{502, `{"nodes":[],` + noAnswer + `,` + problem(1800, "Unable to contact slurm controller (connect failure)") + `}`}, ErrUnavailable, 1800},
		{"controller down, one job", reply{500, `{"nodes":[],` + problem(-1, "Unspecified error") + `}`}, ErrUnavailable, -1},
		{"controller down in an answer 200", reply{200, `{"nodes":[],` + problem(1800, "x") + `}`}, ErrUnavailable, 1800},
		{"403 with the system's number", reply{403, `{` + problem(1, "Operation not permitted") + `}`}, ErrUnavailable, 1},
		{"unknown id", reply{404, `{"nodes":[],` + problem(2017, "Invalid job id specified") + `}`}, ErrNotFound, 2017},
		{"redirect", reply{302, ``}, ErrBadAnswer, 0},
		{"not JSON", reply{200, `<html>`}, ErrBadAnswer, 0},
		{"cut", reply{200, `{"nodes":[{"name":"n1"`}, ErrUnavailable, 0},
		{"too deep", reply{200, `{"nodes":[` + strings.Repeat("[", 20000)}, ErrBadAnswer, 0},
		{"too big", reply{200, `{"nodes":["` + strings.Repeat("a", 100_000) + `"],` + lists + `}`}, ErrBadAnswer, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, map[string]reply{"GET /slurm/v0.0.42/nodes/": tt.reply})
			c := newClient(t, Options{URL: s.URL, Version: "v0.0.42", MaxBody: 50_000})
			nodes, err := c.Nodes(t.Context())
			var e *Error
			if !errors.As(err, &e) || e.Kind != tt.kind || e.Code != tt.code || nodes != nil {
				t.Fatalf("%v, %v, want %v", nodes, err, tt.kind)
			}
			if errors.Is(err, ErrUnknownOutcome) || len(s.sent()) != 1 {
				t.Errorf("%v, sent %v", err, s.sent())
			}
		})
	}
}

// pieces is a body that is made while it is read.
type pieces struct {
	make func(n int) string // "" is the end
	n    int
	rest string
	sent int // bytes that were read
}

func (r *pieces) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.rest = r.make(r.n); r.rest == "" {
			return 0, io.EOF
		}
		r.n++
	}
	n := copy(p, r.rest)
	r.rest, r.sent = r.rest[n:], r.sent+n
	return n, nil
}

// cases 5 and 48: of a list of 100,000 jobs no more is held than the record in hand and a buffer, and numbers beyond 31 bits lose none of them.
func TestBigListIsStreamed(t *testing.T) {
	const jobs = 100_000
	body := &pieces{make: func(n int) string {
		switch {
		case n == 0:
			return `{"jobs":[`
		case n <= jobs:
			return strings.Repeat(",", min(n-1, 1)) + fmt.Sprintf(`{"job_id":%d,"priority":4294901758,"user_id":3000000000,"comment":"%0200d"}`, n, n)
		case n == jobs+1:
			return `],` + lists + `}`
		}
		return ""
	}}
	handed, ahead := 0, 0
	a, err := readAnswer(body, "jobs", func(d raw) {
		if j, ok := readJob(d); !ok || j.Priority != 4294901758 || j.UID != 3000000000 {
			t.Fatalf("%+v", j)
		}
		handed += len(d) + 1
		ahead = max(ahead, body.sent-handed)
	})
	if err != nil || a.count != jobs {
		t.Fatal(a.count, err)
	}
	if ahead > 64<<10 {
		t.Errorf("%d bytes were read ahead", ahead)
	}
}

func TestNotModified(t *testing.T) {
	s := newServer(t, map[string]reply{"GET /slurm/v0.0.42/jobs/": {200, `{"jobs":[],` + noAnswer + `,"errors":[]}`}})
	c, since := pinned(t, s), time.Unix(1795964676, 0).UTC()
	jobs, at, modified, err := c.JobsSince(t.Context(), since)
	if len(jobs) != 0 || !at.Equal(since) || modified || err != nil {
		t.Errorf("%v %v %v %v", jobs, at, modified, err)
	}
	s.set("GET /slurm/v0.0.42/jobs/", reply{200, `{"jobs":[` + runningJob + `],` + lists + `}`})
	jobs, _, modified, err = c.JobsSince(t.Context(), since)
	if len(jobs) != 1 || !modified || err != nil {
		t.Errorf("%v %v %v", jobs, modified, err)
	}
	if want := "GET /slurm/v0.0.42/jobs/?update_time=1795964676"; s.sent()[0] != want {
		t.Error(s.sent()[0])
	}
}

func TestOneJob(t *testing.T) {
	other := strings.Replace(runningJob, `"job_id": 6`, `"job_id": 7`, 1)
	s := newServer(t, map[string]reply{"GET /slurm/v0.0.42/job/6": {200, `{"jobs":[` + other + `,` + runningJob + `],` + lists + `}`}, "GET /slurm/v0.0.42/job/8": {200, `{"jobs":[` + other + `],` + lists + `}`}})
	c := pinned(t, s)
	got, err := c.Job(t.Context(), 6)
	if d := cmp.Diff(running(func(*Job) {}), got); d != "" || err != nil {
		t.Error(err, d)
	}
	if _, err := c.Job(t.Context(), 8); !errors.Is(err, ErrBadAnswer) {
		t.Errorf("another job's record: %v", err)
	}
	if _, err := c.Job(t.Context(), 0); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// case 7: the token is read anew for each call.
func TestTokenFile(t *testing.T) {
	s := newServer(t, map[string]reply{"GET /slurm/v0.0.42/nodes/": {200, `{"nodes":[],` + lists + `}`}})
	file := filepath.Join(t.TempDir(), "token")
	c := newClient(t, Options{URL: s.URL, Version: "v0.0.42", TokenFile: file, User: "bridge"})
	for _, content := range []string{"", "  \n", "a b", "a\nb", strings.Repeat("x", maxToken+1), "caf\u00e9"} {
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Nodes(t.Context()); !errors.Is(err, ErrUnauthorised) || content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("%.20q: %v", content, err)
		}
	}
	for _, content := range []string{"first\n", "SLURM_JWT=second\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Nodes(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]string{"first", "second"}, s.tokens); d != "" {
		t.Error(d)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"nodes":[`+idleNode+`],`+lists+`}`)
	})}
	go srv.Serve(l)
	defer srv.Close()
	nodes, err := newClient(t, Options{URL: "unix:" + path, Version: "v0.0.42"}).Nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Errorf("%v, %v", nodes, err)
	}
	_, err = newClient(t, Options{URL: "unix:" + path + "x", Version: "v0.0.42"}).Nodes(t.Context())
	if !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

// pipe is a network of one server function per connection.
func pipe(serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs)
		}()
		return ours, nil
	}
}

// case 8: whatever way the server hangs, the call ends at its timeout.
func TestHangingServer(t *testing.T) {
	swallow := func(c net.Conn) { io.Copy(io.Discard, c) }
	head := func(rest string) func(net.Conn) {
		return func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\n"+rest)
			io.Copy(io.Discard, c)
		}
	}
	for _, tt := range []struct {
		name  string
		serve func(net.Conn)
	}{
		{"accepts and never answers", swallow},
		{"stalls in the header", head("Content-Type: application/json\r\n")},
		{"stalls before the body", head("Content-Length: 1000\r\n\r\n")},
		{"stalls in the list", head("Content-Length: 1000\r\n\r\n{\"nodes\":[{\"name\":\"n1\"},")},
	} {
		t.Run("case 8: "+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Options{URL: "http://slurm:1", Version: "v0.0.42", Dial: pipe(tt.serve), Timeouts: Timeouts{One: 7 * time.Second, Write: 5 * time.Second}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				start := time.Now()
				_, err = c.Nodes(t.Context())
				if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 7*time.Second {
					t.Errorf("read: %v after %v", err, time.Since(start))
				}
				start = time.Now()
				err = c.Update(t.Context(), JobID(5).Ref(), Update{Hold: Some(true)})
				if !errors.Is(err, ErrUnknownOutcome) || time.Since(start) != 5*time.Second {
					t.Errorf("write: %v after %v", err, time.Since(start))
				}
			})
		})
	}
}

func TestWriteIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := 0
		c, err := New(Options{URL: "http://slurm:1", Version: "v0.0.45", Dial: pipe(func(c net.Conn) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			mu.Lock()
			seen++
			mu.Unlock() // and the connection is dropped without an answer
		})})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ref := JobID(5).Ref()
		for name, call := range map[string]func() error{
			"update":  func() error { return c.Update(t.Context(), ref, Update{Hold: Some(true)}) },
			"signal":  func() error { return c.Signal(t.Context(), ref, Signal{Name: USR1}) },
			"requeue": func() error { return c.Requeue(t.Context(), ref) },
		} {
			seen = 0
			if err := call(); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrUnavailable) || seen != 1 {
				t.Errorf("%s: %v, sent %d times", name, err, seen)
			}
		}
	})
}

func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{`{"jobs":[{"job_id":1}],` + lists + `}`, `{"jobs":null}`, `{"errors":[{"error_number":{}}]}`, `{"meta":[],"last_update":{"number":"x"}}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		a, err := readAnswer(strings.NewReader(string(data)), "jobs", func(d raw) {
			n++
			readJob(d)
		})
		if a.count != n || err == nil && n > 0 && !a.listed || len(a.rest) > 16 || len(a.problems) > maxProblems {
			t.Fatalf("%+v, %d records, %v", a, n, err)
		}
		// Of what is JSON the general decoder sees the same list.
		var want map[string]json.RawMessage
		if bytes.Count(data, []byte(`"jobs"`)) == 1 && !bytes.ContainsRune(data, '\\') && json.Unmarshal(data, &want) == nil && want["jobs"] != nil {
			var list []json.RawMessage
			if bad := json.Unmarshal(want["jobs"], &list); (bad == nil) != (err == nil) || bad == nil && len(list) != n {
				t.Fatalf("%d records, %v; want %d, %v", n, err, len(list), bad)
			}
		}
		readStatus(a.rest["status"])
	})
}
