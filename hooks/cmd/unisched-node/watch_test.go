package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/hooks/progress"
)

var t0 = time.Unix(1764435600, 0)

const testKey = "0123456789abcdef0123456789abcdef"

// node is a watcher over a temporary tree, and the daemon it reports to.
type node struct {
	t       *testing.T
	base    string
	w       *watcher
	reports []progress.Report
	answer  func() (resync bool, err error) // nil: take it
	warned  []string
}

func newNode(t *testing.T) *node {
	n := &node{t: t, base: t.TempDir()}
	n.w = newWatcher(n.base, "host", 24*time.Hour, n.receive, func(f string, a ...any) { n.warned = append(n.warned, fmt.Sprintf(f, a...)) })
	return n
}

func (n *node) receive(_ context.Context, body []byte) (bool, error) {
	r, err := progress.DecodeReport(body)
	if err != nil {
		n.t.Errorf("the daemon would refuse the report: %v", err)
	}
	if n.answer != nil {
		if resync, err := n.answer(); err != nil || resync {
			if err == nil {
				n.reports = append(n.reports, r)
			}
			return resync, err
		}
	}
	n.reports = append(n.reports, r)
	return false, nil
}

func (n *node) path(rest string) string { return n.base + "/" + rest }

// write appends to a run's progress file, as the job does.
func (n *node) write(run, text string) {
	n.t.Helper()
	path := n.path(run + "/progress.jsonl")
	if err := os.MkdirAll(n.path(run), 0o700); err != nil {
		n.t.Fatal(err)
	}
	appendTo(n.t, path, text)
}

// round runs one round and returns what arrived, one string per job report.
func (n *node) round(at time.Time) []string {
	n.t.Helper()
	before := len(n.reports)
	n.w.tell(n.w.round(n.t.Context(), at))
	var out []string
	for _, r := range n.reports[before:] {
		for _, j := range r.Jobs {
			lines := timeMember.ReplaceAllString(strings.Join(texts(j.Lines), " "), "")
			out = append(out, fmt.Sprintf("%s/%d.%d -%d %s", j.Node, j.Job, j.Restart, j.Dropped, lines))
		}
	}
	return out
}

func (n *node) want(at time.Time, want ...string) {
	n.t.Helper()
	if d := cmp.Diff(want, n.round(at)); d != "" {
		n.t.Error(d)
	}
}

func TestWatchSendsWhatIsNew(t *testing.T) {
	n := newNode(t)
	n.want(t0)
	n.write("n1/7/run-0", `{"ready":true}`+"\n"+`{"iter":`)
	n.write("n2/12/run-1", "kaboom\n"+`{"iter":5,"loss":NaN}`+"\n")
	n.want(t0, `n1/7.0 -0 {"ready":true}`, `n2/12.1 -1 {"iter":5}`)
	n.want(t0)
	n.write("n1/7/run-0", `1}`+"\n")
	n.want(t0, `n1/7.0 -0 {"iter":1}`)
	n.write("n1/7/run-1", `{"ready":true,"iter":1,"resumed":true}`+"\n") // requeued
	n.want(t0, `n1/7.1 -0 {"ready":true,"iter":1,"resumed":true}`)
	if err := os.RemoveAll(n.path("n1/7")); err != nil {
		t.Fatal(err)
	}
	n.want(t0)
	if len(n.w.runs) != 1 {
		t.Errorf("%d runs are remembered, want 1", len(n.w.runs))
	}
	for i, r := range n.reports {
		if r.Seq != uint64(i+1) || r.Node != "host" || r.Instance != n.w.instance || r.SchemaVersion != 1 {
			t.Errorf("report %d: %+v", i, r)
		}
	}
}

func TestWatchStampsOnlyLiveLines(t *testing.T) {
	n := newNode(t)
	n.write("n1/7/run-0", `{"iter":1}`+"\n")
	n.round(t0)
	n.write("n1/7/run-0", `{"iter":2}`+"\n")
	n.round(t0.Add(2 * time.Second))
	got := []string{string(n.reports[0].Jobs[0].Lines[0]), string(n.reports[1].Jobs[0].Lines[0])}
	if d := cmp.Diff([]string{`{"iter":1}`, `{"iter":2,"t":1764435602.000000}`}, got); d != "" {
		t.Error(d) // when line 1 was written nobody knows
	}
}

func TestWatchLosesNothingWhileTheDaemonIsAway(t *testing.T) {
	n := newNode(t)
	away := errors.New("connection refused")
	n.answer = func() (bool, error) { return false, away }
	for i := range 3000 {
		n.write("n1/7/run-0", fmt.Sprintf(`{"iter":%d,"t":5}`+"\n", i))
		if i%1000 == 0 {
			n.want(t0)
		}
	}
	n.answer = nil
	var lines []string
	for range 3 {
		n.round(t0)
	}
	for _, r := range n.reports {
		for _, j := range r.Jobs {
			lines = append(lines, texts(j.Lines)...)
		}
	}
	if len(lines) != 3000 || lines[0] != `{"iter":0,"t":5.000000}` || lines[2999] != `{"iter":2999,"t":5.000000}` {
		t.Errorf("%d lines", len(lines))
	}
	if d := cmp.Diff([]string{"watch: connection refused", "watch: well again"}, n.warned); d != "" {
		t.Error(d)
	}
}

func TestWatchResync(t *testing.T) {
	for name, answer := range map[string]func() (bool, error){
		"in the reply": func() (bool, error) { return true, nil },
		"by 409":       func() (bool, error) { return true, errors.New("409") },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write("n1/7/run-0", `{"ready":true}`+"\n")
			n.want(t0, `n1/7.0 -0 {"ready":true}`)
			n.write("n1/7/run-0", `{"iter":1}`+"\n")
			n.answer = answer
			n.round(t0)
			n.answer = nil
			n.want(t0, `n1/7.0 -0 {"ready":true} {"iter":1}`)
			n.want(t0)
			// A daemon that asks again at once does not get everything each time.
			n.write("n1/7/run-0", `{"iter":2}`+"\n")
			n.answer = func() (bool, error) { return true, nil }
			n.want(t0.Add(time.Second), `n1/7.0 -0 {"iter":2}`)
			n.want(t0.Add(2 * time.Second))
		})
	}
}

func TestWatchGoesOnAfterARefusedReport(t *testing.T) {
	n := newNode(t)
	n.write("n1/7/run-0", `{"iter":1}`+"\n")
	n.answer = func() (bool, error) { return false, fmt.Errorf("%w: HTTP 400", errRefused) }
	n.want(t0)
	n.answer = nil
	n.write("n1/7/run-0", `{"iter":2}`+"\n")
	n.want(t0, `n1/7.0 -0 {"iter":2}`)
}

func TestWatchReplacedAndTruncatedFiles(t *testing.T) {
	n := newNode(t)
	n.write("n1/7/run-0", `{"iter":1}`+"\n"+`{"iter":2}`+"\n")
	n.round(t0)
	file := n.path("n1/7/run-0/progress.jsonl")
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	n.write("n1/7/run-0", `{"iter":3}`+"\n")
	n.want(t0, `n1/7.0 -0 {"iter":3}`)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	n.want(t0)
	n.write("n1/7/run-0", `{"iter":4}`+"\n"+`{"iter":5}`+"\n")
	n.want(t0, `n1/7.0 -0 {"iter":4} {"iter":5}`)
}

// What users can put into their directories must neither stop the watcher nor make it read what is not theirs.
func TestWatchHostileTree(t *testing.T) {
	n := newNode(t)
	secret := t.TempDir() + "/secret"
	mustWrite(t, secret, `{"iter":666}`+"\n")
	n.write("n1/1/run-0", `{"iter":1}`+"\n") // the honest one
	for _, d := range []string{"n1/2/run-0", "n1/3", "n1/4/run-0/progress.jsonl", "n1/5/run-0", "n1/6/run-x", "n1/7/run-01", "n1/8/run--1",
		"n1/x/run-0", "n1/09/run-0", "n1/-1/run-0", "n1/0/run-0", ".n/1/run-0", "n1/10/run-99999999999", "n1/11/run-0"} {
		if err := os.MkdirAll(n.path(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mustSymlink(t, secret, n.path("n1/2/run-0/progress.jsonl"))
	mustSymlink(t, n.path("n1/1/run-0"), n.path("n1/3/run-0"))
	mustSymlink(t, n.path("n1/1"), n.path("n1/12"))
	mustSymlink(t, n.path("n1"), n.path("n3"))
	if err := syscall.Mkfifo(n.path("n1/5/run-0/progress.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"n1/6/run-x", "n1/7/run-01", "n1/8/run--1", "n1/x/run-0", "n1/09/run-0", "n1/-1/run-0", "n1/0/run-0", ".n/1/run-0", "n1/10/run-99999999999"} {
		mustWrite(t, n.path(p+"/progress.jsonl"), `{"iter":666}`+"\n")
	}
	mustSymlink(t, "/dev/zero", n.path("n1/11/run-0/progress.jsonl"))
	n.want(t0, `n1/1.0 -0 {"iter":1}`)
}

func TestWatchForeignOwner(t *testing.T) {
	needRoot(t)
	n := newNode(t)
	n.write("n1/7/run-0", `{"iter":1}`+"\n")
	for _, dir := range []string{"n1/7", "n1/7/run-0"} {
		if err := os.Chown(n.path(dir), 4242, -1); err != nil {
			t.Fatal(err)
		}
	}
	n.want(t0) // a file that is not the user's own, hard-linked there perhaps
	if err := os.Chown(n.path("n1/7/run-0/progress.jsonl"), 4242, -1); err != nil {
		t.Fatal(err)
	}
	n.want(t0, `n1/7.0 -0 {"iter":1}`)
	if got := n.reports[0].Jobs[0].UID; got != 4242 {
		t.Errorf("uid %d", got)
	}
}

func TestWatchManyRunsOfOneJob(t *testing.T) {
	n := newNode(t)
	for i := range 50 {
		n.write(fmt.Sprintf("n1/7/run-%d", i), fmt.Sprintf(`{"iter":%d}`+"\n", i))
	}
	n.want(t0, `n1/7.46 -0 {"iter":46}`, `n1/7.47 -0 {"iter":47}`, `n1/7.48 -0 {"iter":48}`, `n1/7.49 -0 {"iter":49}`)
}

// A job that floods its file must not keep the others waiting, nor make a report too large.
func TestWatchFlood(t *testing.T) {
	n := newNode(t)
	metrics := ""
	for i := range 16 {
		metrics += fmt.Sprintf(`,"%s%02d":0.123456789`, strings.Repeat("m", 60), i)
	}
	line := `{"iter":1,"t":5` + metrics + "}\n"
	for j := 1; j <= 4; j++ {
		n.write(fmt.Sprintf("n1/%d/run-0", j), strings.Repeat(line, 600<<10/len(line)))
	}
	n.write("n1/9/run-0", `{"ready":true}`+"\n")
	got := strings.Join(n.round(t0), "\n")
	if !strings.Contains(got, `n1/9.0 -0 {"ready":true}`) {
		t.Error("the quiet job was kept waiting")
	}
	total := 0
	for _, r := range n.reports {
		for _, j := range r.Jobs {
			total += len(j.Lines)
		}
	}
	if want := 4*(600<<10/len(line)) + 1; total != want || len(n.reports) > maxReportsPerRound {
		t.Errorf("%d lines in %d reports, want %d lines", total, len(n.reports), want)
	}
}

func TestWatchEndedJobs(t *testing.T) {
	n := newNode(t)
	n.write("n1/7/run-0", `{"iter":1}`+"\n")
	n.round(t0)
	// The last line and the end come between two rounds.
	n.write("n1/7/run-0", `{"iter":2}`+"\n")
	mustWrite(t, n.path("n1/7.ended"), "")
	setTimes(t, t0, n.path("n1/7.ended"))
	n.want(t0, `n1/7.0 -0 {"iter":2}`)
	n.want(t0)
	if tl := n.w.runs[runKey{"n1", 7, 0}]; !tl.over {
		t.Error("an ended and fully read run is still looked at")
	}
	// Requeued: prolog took the marker away.
	if err := os.Remove(n.path("n1/7.ended")); err != nil {
		t.Fatal(err)
	}
	n.write("n1/7/run-1", `{"iter":3}`+"\n")
	n.want(t0, `n1/7.1 -0 {"iter":3}`)
	// A new watcher does not dig out what ended long ago.
	mustWrite(t, n.path("n1/7.ended"), "")
	setTimes(t, t0, n.path("n1/7.ended"))
	late := newNode(t)
	late.w.base = n.base
	late.want(t0.Add(2 * time.Hour))
}

func TestSweep(t *testing.T) {
	n := newNode(t)
	day := 24 * time.Hour
	for _, c := range []struct {
		job            string
		written, ended time.Duration // before t0; ended 0: not marked
		gone           bool
	}{
		{"1", 25 * time.Hour, 25 * time.Hour, true},
		{"2", 25 * time.Hour, 1 * time.Hour, false}, // ended a moment ago
		{"3", 1 * time.Hour, 25 * time.Hour, false}, // somebody still writes
		{"4", 29 * day, 0, false},                   // may run silently
		{"5", 31 * day, 0, true},                    // its epilog never came
		{"6.of-1-2", 31 * day, 0, true},             // put aside by prolog
	} {
		run := n.path("n1/" + c.job + "/run-0")
		mustWrite(t, run+"/progress.jsonl", "")
		mustSymlink(t, n.base, run+"/link")
		setTimes(t, t0.Add(-c.written), run+"/progress.jsonl", run, n.path("n1/"+c.job))
		if c.ended > 0 {
			mustWrite(t, n.path("n1/"+c.job+".ended"), "")
			setTimes(t, t0.Add(-c.ended), n.path("n1/"+c.job+".ended"))
		}
		defer func() {
			if got := !exists(n.path("n1/" + c.job)); got != c.gone {
				t.Errorf("job %s: gone %v, want %v", c.job, got, c.gone)
			}
			if c.gone && exists(n.path("n1/"+c.job+".ended")) {
				t.Errorf("job %s: its marker stays", c.job)
			}
		}()
	}
	n.want(t0)
	if len(n.warned) > 0 {
		t.Error(n.warned)
	}
}

// daemon is the node listener's side of the protocol.
func daemon(t *testing.T, status int, reply string, got chan<- progress.Report) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = progress.Verify([]byte(testKey), body, r.Header.Get("Authorization"), time.Now())
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/report" {
			http.Error(w, fmt.Sprint(err), http.StatusUnauthorized)
			return
		}
		report, err := progress.DecodeReport(body)
		if err != nil {
			t.Error(err)
		}
		if got != nil {
			got <- report
		}
		w.WriteHeader(status)
		io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestSender(t *testing.T) {
	body, err := progress.Report{SchemaVersion: 1, Node: "n1", Instance: "i"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, key       string
		status          int
		reply           string
		resync, refused bool
		fails           bool
	}{
		{"taken", testKey + "\n", 200, "{}", false, false, false},
		{"taken, no body", testKey, 204, "", false, false, false},
		{"resync", testKey, 200, `{"resync":true}`, true, false, false},
		{"odd reply", testKey, 200, `<html>`, false, false, false},
		{"conflict", testKey, 409, "", true, false, true},
		{"refused", testKey, 400, "bad", false, true, true},
		{"busy", testKey, 503, "", false, false, true},
		{"redirect", testKey, 307, "", false, false, true},
		{"other key", strings.Repeat("x", 32), 200, "{}", false, false, true},
		{"short key", "x", 200, "{}", false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyFile := t.TempDir() + "/key"
			mustWrite(t, keyFile, c.key)
			s, err := newSender(daemon(t, c.status, c.reply, nil).URL+"/", keyFile, "")
			if err != nil {
				t.Fatal(err)
			}
			resync, err := s.post(t.Context(), body)
			if resync != c.resync || (err != nil) != c.fails || errors.Is(err, errRefused) != c.refused {
				t.Errorf("got %v, %v", resync, err)
			}
		})
	}
}

func TestKeyOpenToAll(t *testing.T) {
	keyFile := t.TempDir() + "/key"
	mustWrite(t, keyFile, testKey)
	if _, err := readKey(keyFile); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(keyFile, 0o604); err != nil {
		t.Fatal(err)
	}
	if _, err := readKey(keyFile); err == nil {
		t.Error("a key that every user can read was taken")
	}
}

// The service as systemd runs it: it sends what is there, then what comes, and the last lines before it ends.
func TestWatchService(t *testing.T) {
	base, got := t.TempDir(), make(chan progress.Report, 10)
	mustWrite(t, base+"/n1/7/run-0/progress.jsonl", `{"ready":true}`+"\n")
	mustWrite(t, base+"/key", testKey)
	cmd := command(t, nil, "watch", "--base", base, "--url", daemon(t, 200, "{}", got).URL, "--key", base+"/key", "--node", "host", "--interval", "1h")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if r := <-got; string(r.Jobs[0].Lines[0]) != `{"ready":true}` {
		t.Errorf("%+v", r)
	}
	appendTo(t, base+"/n1/7/run-0/progress.jsonl", `{"iter":1}`+"\n")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	// The signal may have come before the first answer: then the first line comes twice, which is allowed.
	r := <-got
	if lines := texts(r.Jobs[0].Lines); !strings.HasPrefix(lines[len(lines)-1], `{"iter":1`) {
		t.Errorf("%q", lines)
	}
}
