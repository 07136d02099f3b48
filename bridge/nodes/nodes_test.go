package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/hooks/progress"
)

var (
	at  = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	key = bytes.Repeat([]byte("k"), 32)
)

func listener(t *testing.T) *Listener {
	t.Helper()
	l, err := New(key, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func report(node, instance string, seq uint64, jobs ...progress.JobReport) progress.Report {
	return progress.Report{SchemaVersion: 1, Node: node, Instance: instance, Seq: seq, Sent: at, Jobs: jobs}
}

func job(id int64, lines ...string) progress.JobReport {
	j := progress.JobReport{Job: id, UID: 1000, Node: "n1"}
	for _, l := range lines {
		j.Lines = append(j.Lines, json.RawMessage(l))
	}
	return j
}

func body(t *testing.T, r progress.Report) []byte {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// post sends a body with a header of Authorization and returns status and answer.
func post(l *Listener, b []byte, auth string) (int, string) {
	req := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(b))
	req.Header.Set("Authorization", auth)
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func TestReportsArriveInOrder(t *testing.T) {
	l := listener(t)
	a, b := job(1, `{"ready":true}`, `{"iter":5}`), job(2, `not even JSON-like but a string`)
	b.Lines = []json.RawMessage{json.RawMessage(`"not an object"`)}
	for seq, j := range []progress.JobReport{a, b} {
		raw := body(t, report("n1", "i", uint64(seq+1), j))
		if code, text := post(l, raw, progress.Sign(key, raw, at)); code != 200 || text != "{}" {
			t.Fatalf("%d %s", code, text)
		}
	}
	if d := cmp.Diff([]progress.JobReport{a, b}, l.Drain()); d != "" {
		t.Error(d)
	}
	if again := l.Drain(); len(again) != 0 {
		t.Errorf("drained twice: %v", again)
	}
}

func TestRefusals(t *testing.T) {
	good := body(t, report("n1", "i", 1, job(1, `{"iter":5}`)))
	sign := func(b []byte) string { return progress.Sign(key, b, at) }
	other := progress.Sign(bytes.Repeat([]byte("x"), 32), good, at)
	big := append(bytes.Clone(good), bytes.Repeat([]byte(" "), progress.MaxReportBytes)...)
	badNode := []byte(strings.Replace(string(good), `"node":"n1"`, `"node":"../n1"`, 1))
	deep := []byte(strings.Repeat("[", 20000))
	for _, tt := range []struct {
		name string
		body []byte
		auth string
		code int
		says string
	}{
		{"no signature", good, "", 401, "report signature"},
		{"another key", good, other, 401, "does not match the key"},
		{"another body", append(bytes.Clone(good), ' '), sign(good), 401, "body differs"},
		{"replay of an old one", good, progress.Sign(key, good, at.Add(-2*time.Minute)), 401, "report signature time"},
		{"from the future", good, progress.Sign(key, good, at.Add(2*time.Minute)), 401, "report signature time"},
		{"oversize", big, sign(big), 413, "at most 1048576 bytes"},
		{"garbage, signed", []byte("\x00\xff{"), sign([]byte("\x00\xff{")), 400, "node report"},
		{"empty, signed", nil, sign(nil), 400, "node report"},
		{"hostile node name", badNode, sign(badNode), 400, "node"},
		{"deep nesting", deep, sign(deep), 400, "node report"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listener(t)
			code, text := post(l, tt.body, tt.auth)
			if code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("%d %s", code, text)
			}
			if q := l.Drain(); len(q) != 0 {
				t.Errorf("queued: %v", q)
			}
			if c := l.Counts(); c.Refused != 1 || c.Reports != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestOnlyPostOnePath(t *testing.T) {
	l := listener(t)
	for _, tt := range []struct {
		method, path string
		code         int
	}{{"GET", Path, 405}, {"POST", "/", 404}, {"POST", "/v1/order", 404}, {"PUT", Path, 405}} {
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.code {
			t.Errorf("%s %s: %d", tt.method, tt.path, w.Code)
		}
	}
}

func TestResync(t *testing.T) {
	l := listener(t)
	for _, tt := range []struct {
		name, node, instance string
		seq                  uint64
		want                 string
	}{
		{"a watcher that begins", "n1", "a", 1, "{}"},
		{"and goes on, after failed attempts", "n1", "a", 5, "{}"},
		{"one from before the daemon's start", "n2", "b", 7, `{"resync":true}`},
		{"asked once", "n2", "b", 8, "{}"},
		{"a watcher that restarted", "n1", "c", 1, "{}"},
		{"restarted, first report lost", "n2", "d", 2, `{"resync":true}`},
	} {
		raw := body(t, report(tt.node, tt.instance, tt.seq, job(1, `{"iter":5}`)))
		if code, text := post(l, raw, progress.Sign(key, raw, at)); code != 200 || text != tt.want {
			t.Errorf("%s: %d %s", tt.name, code, text)
		}
	}
	if n := len(l.Drain()); n != 6 {
		t.Errorf("%d reports kept: what comes with a resync counts too", n)
	}
}

func TestFullQueue(t *testing.T) {
	l := listener(t)
	jobs := make([]progress.JobReport, progress.MaxReportJobs)
	for i := range jobs {
		jobs[i] = job(int64(i + 1))
	}
	raw := body(t, report("n1", "i", 1, jobs...))
	auth := progress.Sign(key, raw, at)
	for i := range MaxQueueJobs / progress.MaxReportJobs {
		if code, text := post(l, raw, auth); code != 200 {
			t.Fatalf("report %d: %d %s", i, code, text)
		}
	}
	if code, _ := post(l, raw, auth); code != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", code)
	}
	if n := len(l.Drain()); n != MaxQueueJobs {
		t.Errorf("%d job reports queued", n)
	}
	if code, _ := post(l, raw, auth); code != 200 {
		t.Errorf("after the loop took them: %d", code)
	}
}

func TestFullQueueOfBytes(t *testing.T) {
	l := listener(t)
	l.bytes = MaxQueueBytes - 10
	raw := body(t, report("n1", "i", 1, job(1, `{"iter":5}`)))
	if code, _ := post(l, raw, progress.Sign(key, raw, at)); code != http.StatusTooManyRequests {
		t.Errorf("%d", code)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	l := listener(t)
	for i := range maxWatchers + 10 {
		l.put(report(fmt.Sprintf("n%d", i), "i", 1), 0)
	}
	if n := l.Counts().Watchers; n > maxWatchers {
		t.Errorf("%d watchers remembered", n)
	}
}

func TestShortKey(t *testing.T) {
	if _, err := New([]byte("short"), time.Now); err == nil {
		t.Error("accepted")
	}
}

// pipeListener hands in-memory connections to a server, so that its timeouts run on the bubble's clock.
type pipeListener struct{ conns chan net.Conn }

func (p *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipeListener) Close() error   { close(p.conns); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A client that dribbles its header or its body is cut off, and the server ends when told to.
func TestSlowClients(t *testing.T) {
	for name, start := range map[string]string{
		"header": "POST /v1/report HTTP/1.1\r\nHost: x\r\nX: ",
		"body":   "POST /v1/report HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := &pipeListener{make(chan net.Conn)}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				l := listener(t)
				go func() { done <- l.Serve(ctx, ln, nil) }()
				near, far := net.Pipe()
				ln.conns <- far
				began := time.Now()
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					io.WriteString(near, start)
					for {
						time.Sleep(time.Second)
						if _, err := io.WriteString(near, "y"); err != nil {
							return
						}
					}
				}()
				io.Copy(io.Discard, near) // until the server closes
				near.Close()
				<-wrote
				if d := time.Since(began); d > readTimeout+2*time.Second {
					t.Errorf("cut off after %v", d)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	ln := &pipeListener{make(chan net.Conn, 3)}
	l := &limited{Listener: ln, free: make(chan struct{}, 1)}
	_, first := net.Pipe()
	near2, second := net.Pipe()
	_, third := net.Pipe()
	ln.conns <- first
	one, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ln.conns <- second
	close(ln.conns)
	if _, err := l.Accept(); err == nil {
		t.Error("the second connection was accepted")
	}
	if _, err := near2.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the second connection is open: %v", err)
	}
	one.Close()
	one.Close() // twice counts once
	ln.conns = make(chan net.Conn, 1)
	ln.conns <- third
	if _, err := l.Accept(); err != nil {
		t.Error(err)
	}
}

func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"schema_version":1,"node":"n","instance":"i","seq":1,"jobs":[]}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := New(key, func() time.Time { return at })
		if err != nil {
			t.Fatal(err)
		}
		code, _ := post(l, b, progress.Sign(key, b, at))
		if (code == 200) != (l.Counts().Reports == 1) || code != 200 && len(l.Drain()) > 0 {
			t.Errorf("HTTP %d, %+v", code, l.Counts())
		}
	})
}
