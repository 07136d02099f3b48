package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/news"
	"unisched/planner"
	"unisched/slurm"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// book keeps what became of notices.
type book struct {
	mu      sync.Mutex
	results []string
	errs    []string
	more    chan struct{}
}

func newBook() *book { return &book{more: make(chan struct{}, 1000)} }

func (b *book) told(result string, err error) {
	b.mu.Lock()
	b.results = append(b.results, result)
	if err != nil {
		b.errs = append(b.errs, err.Error())
	}
	b.mu.Unlock()
	b.more <- struct{}{}
}

func (b *book) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[string]int{}
	for _, r := range b.results {
		n[r]++
	}
	return n
}

func all() []string {
	var out []string
	for _, k := range Kinds {
		out = append(out, string(k))
	}
	return out
}

func config() Config {
	return Config{On: all(), Timeout: 20 * time.Second, Repeat: time.Hour, PerHour: 1000}
}

// started makes a sender that delivers until the test ends, with no pauses between tries.
func started(t *testing.T, cfg Config, b *book) *Sender {
	t.Helper()
	s := New(cfg, b.told)
	s.tries = []time.Duration{0, 0}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s
}

// hostile is a notice of a job whose owner means no good.
func hostile() Notice {
	return Notice{Kind: Preempted, At: noon, Cluster: "hpc", Job: 12, Ref: "12", Run: 2, Name: "$(touch /tmp/x); `id`\n\x00\x1b[31m\xff'\"; rm -rf /", User: "--help",
		Account: "a=b", Class: "strict", Deadline: noon.Add(time.Hour), Text: strings.Repeat("é", 400)}
}

// The command is a real one: it gets the fields of hostile jobs as data, and nothing of our own environment.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "tell me")
	text := "#!/bin/sh\nset -e\ncat > \"$1\"/body\nenv > \"$1\"/env\nprintf %s \"$#\" > \"$1\"/args\npwd >> \"$1\"/args\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_JWT", "secret")
	cfg := config()
	cfg.Command = []string{script, dir}
	b := newBook()
	s := started(t, cfg, b)
	s.Offer(hostile())
	<-b.more
	if len(b.errs) > 0 {
		t.Fatal(b.errs)
	}
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var got Notice
	if err := json.Unmarshal([]byte(read("body")), &got); err != nil {
		t.Fatal(err)
	}
	want := hostile()
	want.Schema, want.Name, want.Text = 1, "$(touch /tmp/x); `id`???[31m?'\"; rm -rf /", strings.Repeat("é", 128)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	env := strings.Split(strings.TrimSpace(read("env")), "\n")
	env = slices.DeleteFunc(env, func(e string) bool {
		return strings.HasPrefix(e, "PWD=") || strings.HasPrefix(e, "_=") || strings.HasPrefix(e, "SHLVL=")
	})
	slices.Sort(env)
	wantEnv := []string{"LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "UNISCHED_AT=2026-12-01T12:00:00Z", "UNISCHED_CLASS=strict",
		"UNISCHED_CLUSTER=hpc", "UNISCHED_DEADLINE=2026-12-01T13:00:00Z", "UNISCHED_JOB=12", "UNISCHED_JOB_ACCOUNT=a=b", "UNISCHED_JOB_ID=12",
		"UNISCHED_JOB_NAME=$(touch /tmp/x); `id`???[31m?'\"; rm -rf /", "UNISCHED_JOB_USER=--help", "UNISCHED_KIND=preempted", "UNISCHED_RUN=2",
		"UNISCHED_TEXT=" + strings.Repeat("é", 128)}
	if d := cmp.Diff(wantEnv, env); d != "" {
		t.Error(d)
	}
	if got := read("args"); got != "1/\n" {
		t.Errorf("arguments and folder: %q", got)
	}
}

func TestCommandFails(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	count := filepath.Join(dir, "count")
	for _, tt := range []struct {
		name, command, says string
		tries               int
	}{
		{"it says no", path("no", "#!/bin/sh\necho x >> "+count+"\necho no mail >&2\nexit 3\n", 0o700), "exit status 3: no mail", 3},
		{"it is not there", filepath.Join(dir, "none"), "no such file", 0},
		{"it may not be run", path("plain", "x", 0o600), "permission denied", 0},
		{"it never ends, nor does its child", path("hang", "#!/bin/sh\necho x >> "+count+"\nsleep 1000 &\nexec sleep 1000\n", 0o700), "did not end within", 3},
		{"it floods us and reads nothing", path("flood", "#!/bin/sh\necho x >> "+count+"\nhead -c 1000000 /dev/zero\nexit 1\n", 0o700), "exit status 1: ?", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			os.Remove(count)
			cfg := config()
			cfg.Command = []string{tt.command}
			if strings.HasPrefix(tt.name, "it never ends") {
				cfg.Timeout = 300 * time.Millisecond
			}
			b := newBook()
			started(t, cfg, b).Offer(hostile())
			<-b.more
			if d := cmp.Diff(map[string]int{Failed: 1}, b.counts()); d != "" || !strings.Contains(b.errs[0], tt.says) {
				t.Errorf("%s %v", d, b.errs)
			}
			raw, _ := os.ReadFile(count)
			if n := strings.Count(string(raw), "x"); n != tt.tries {
				t.Errorf("%d tries, want %d", n, tt.tries)
			}
		})
	}
}

// The webhook is a real HTTP server.
func TestWebhook(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type seen struct{ Method, Path, Auth, Type, Kind string }
	for _, tt := range []struct {
		name    string
		answers []int // one a try
		want    map[string]int
		tries   int
		says    string
	}{
		{"taken", []int{204}, map[string]int{Sent: 1}, 1, ""},
		{"taken in the end", []int{503, 429, 200}, map[string]int{Sent: 1}, 3, ""},
		{"never taken", []int{500, 500, 500, 200}, map[string]int{Failed: 1}, 3, "HTTP 500: line?two"},
		{"refused", []int{403, 200}, map[string]int{Failed: 1}, 1, "HTTP 403"},
		{"a redirect is not followed", []int{302, 200}, map[string]int{Failed: 1}, 1, "HTTP 302"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []seen
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var n Notice
				if err := json.Unmarshal(body, &n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				code := tt.answers[len(got)]
				got = append(got, seen{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(n.Kind)})
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(code)
				if code != 204 {
					io.WriteString(w, "line\ntwo")
				}
			}))
			defer srv.Close()
			cfg := config()
			cfg.Webhook, cfg.TokenFile = srv.URL+"/hook/very-secret", token
			b := newBook()
			started(t, cfg, b).Offer(hostile())
			<-b.more
			if d := cmp.Diff(tt.want, b.counts()); d != "" {
				t.Error(d)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(got) != tt.tries {
				t.Errorf("%d tries", len(got))
			}
			if d := cmp.Diff(seen{"POST", "/hook/very-secret", "Bearer s3cret", "application/json", "preempted"}, got[0]); d != "" {
				t.Error(d)
			}
			errs := strings.Join(b.errs, "\n")
			if !strings.Contains(errs, tt.says) || strings.Contains(errs, "secret") || strings.Contains(errs, "s3cret") {
				t.Errorf("error %q", errs)
			}
		})
	}
}

// A webhook that takes the connection and never answers is given up; its URL is in no error.
func TestWebhookHangs(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	for _, url := range []string{srv.URL + "/secret", "http://127.0.0.1:1/secret"} {
		cfg := config()
		cfg.Webhook, cfg.Timeout = url, 100*time.Millisecond
		b := newBook()
		started(t, cfg, b).Offer(hostile())
		<-b.more
		if len(b.errs) != 1 || strings.Contains(b.errs[0], "secret") || !strings.HasPrefix(b.errs[0], "notify.webhook") {
			t.Errorf("%s: %v", url, b.errs)
		}
	}
}

// Offer never waits, whatever the other end does: what does not fit the queue is dropped and counted.
func TestQueueIsBounded(t *testing.T) {
	cfg := config()
	cfg.Webhook, cfg.PerHour = "http://127.0.0.1:1/", 1<<20
	b := newBook()
	s := New(cfg, b.told) // nobody delivers
	for k := range maxQueue + 50 {
		n := hostile()
		n.Job = slurm.JobID(k + 1)
		s.Offer(n)
	}
	if d := cmp.Diff(map[string]int{Dropped: 50}, b.counts()); d != "" {
		t.Error(d)
	}
}

func TestLimits(t *testing.T) {
	cfg := config()
	cfg.Webhook, cfg.On, cfg.Repeat, cfg.PerHour = "http://127.0.0.1:1/", []string{"preempted", "preemption-stopped"}, 10*time.Minute, 3
	b := newBook()
	s := New(cfg, b.told)
	for k, tt := range []struct {
		kind Kind
		job  slurm.JobID
		at   time.Duration
		text string
		want bool
	}{
		{Preempted, 1, 0, "", true},
		{Preempted, 1, 9 * time.Minute, "", false}, // the same again
		{Preempted, 2, 9 * time.Minute, "", true},
		{DeadlineMissed, 3, 9 * time.Minute, "", false}, // not wanted
		{Preempted, 1, 10 * time.Minute, "", true},
		{Preempted, 4, 11 * time.Minute, "", false}, // three in this hour
		{PreemptionStopped, 0, 61 * time.Minute, "gpu", true},
		{PreemptionStopped, 0, 62 * time.Minute, "gpu", false},
		{PreemptionStopped, 0, 70 * time.Minute, "big", true},
	} {
		before := len(s.queue)
		s.Offer(Notice{Kind: tt.kind, Job: tt.job, At: noon.Add(tt.at), Text: tt.text})
		if got := len(s.queue) > before; got != tt.want {
			t.Errorf("%d: %+v: queued %v", k, tt, got)
		}
	}
	if d := cmp.Diff(map[string]int{Limited: 3}, b.counts()); d != "" {
		t.Error(d)
	}
	cfg.PerHour, cfg.Repeat = 1<<30, time.Hour
	s = New(cfg, func(string, error) {})
	for k := range maxRemembered + 10 {
		s.turn(Notice{Kind: Preempted, Job: slurm.JobID(k + 1), At: noon})
	}
	if len(s.last) > maxRemembered {
		t.Errorf("%d are remembered", len(s.last))
	}
}

func TestNoWay(t *testing.T) {
	s := New(config(), func(string, error) { t.Error("told") })
	s.Offer(hostile())
	if len(s.queue) != 0 || s.Wanted() {
		t.Error("queued for nobody")
	}
}

func TestOf(t *testing.T) {
	v := &bridge.View{At: noon, Cluster: "hpc"}
	j := &bridge.JobView{ID: 12, Ref: "12", Restart: 1, Name: "n", User: "u", Account: "a", Class: planner.Strict, Phase: bridge.Waiting, SavedIter: 70, Strikes: 2,
		Tiers: []planner.Tier{{At: noon.Add(time.Hour)}}, Laxity: -90 * time.Second, Forecast: noon.Add(2 * time.Hour)}
	base := Notice{At: noon, Cluster: "hpc", Job: 12, Ref: "12", Run: 1, Name: "n", User: "u", Account: "a", Class: "strict", Deadline: noon.Add(time.Hour), Finish: noon.Add(2 * time.Hour)}
	with := func(k Kind, text string) Notice { n := base; n.Kind, n.Text = k, text; return n }
	got := Of(v, news.Change{Job: j, AtRisk: true, Missed: true, Preempted: 1, Unconfirmed: 1,
		Events: []bridge.Event{{What: "rerun", Text: "exit 99"}, {What: "start"}, {What: "stalled", Text: "no iteration"}}})
	want := []Notice{
		with(DeadlineAtRisk, "job 12: it is expected to miss its deadline, by about 1m30s (no-slack)"),
		with(DeadlineMissed, "job 12: it has missed its last deadline"),
		with(Preempted, "job 12: it was preempted and is back in the queue; iteration 70 is saved"),
		with(CheckpointUnconfirmed, "job 12: it was asked for a checkpoint and did not confirm one (2 of its signals so far)"),
		with(PutBack, "job 12: it ended and is put back into the queue: exit 99"),
		with(Stalled, "job 12: no iteration"),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := Of(v, news.Change{Job: j, Ended: true}); got != nil {
		t.Errorf("%v", got)
	}
	if d := cmp.Diff(Notice{Kind: PreemptionStopped, At: noon, Cluster: "hpc", Text: "why"}, OfStandstill(v, bridge.Standstill{Why: "why"})); d != "" {
		t.Error(d)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x00\xffé" + strings.Repeat("日", 100))
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		if len(got) > maxField || strings.ContainsAny(got, "\x00\n\r\x1b") {
			t.Errorf("%q", got)
		}
		if _, err := json.Marshal(Notice{Text: got}); err != nil {
			t.Error(err)
		}
	})
}
