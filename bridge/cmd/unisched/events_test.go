package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/events"
)

// cannedEvents are what the daemons of the scripts remember.
func cannedEvents() []events.Event {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	return []events.Event{
		{At: at(-time.Hour), Level: "info", What: "admitted", Job: 12, Text: "class strict, no profile: profile=skip"},
		{At: at(-50 * time.Minute), Level: "info", What: "action", Job: 12, Plan: "p800", Action: "20261201T111000.000-1", Kind: "start", Outcome: bridge.Done, Text: "start: on n1:4, nice -2000"},
		{At: at(-40 * time.Minute), Level: "warn", What: "slurm-unreachable", Text: "slurm: ping: the server does not answer: connection refused and some more words that make the line long"},
		{At: at(-30 * time.Minute), Level: "info", What: "unmanaged", Job: 15, Text: "evil \x1b[31m\nname"},
		{At: at(-20 * time.Minute), Level: "info", What: "running", Job: 99, Run: 2},
	}
}

// Following goes on with what comes, and over a restart of the daemon.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.sock")
	daemon := func(store *events.Store) (stop func()) {
		l, err := control.Listen(path, 0o600, -1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- control.Server{View: view, Mounts: map[string]http.Handler{events.Path: store.Handler()}}.Serve(ctx, l)
		}()
		return func() { cancel(); <-done }
	}
	open := func() *events.Store {
		s, err := events.Open(filepath.Join(dir, "events"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	put := func(s *events.Store, what string) {
		if err := s.Append(events.Event{At: noon, What: what, Job: 12}, events.Event{At: noon, What: "other", Job: 13}); err != nil {
			t.Fatal(err)
		}
	}
	store := open()
	put(store, "one")
	stop := daemon(store)
	out, said := newPipe(), newPipe()
	a := testApp()
	a.env = func(string) string { return "" }
	a.out, a.err = out, said
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- a.run(ctx, []string{"events", "12", "-f", "-o", "json", "--socket", path}) }()
	want := func(what string) {
		t.Helper()
		var e events.Event
		if err := json.Unmarshal([]byte(out.line()), &e); err != nil || e.What != what {
			t.Errorf("%+v, %v; want %s", e, err, what)
		}
	}
	want("one")
	put(store, "two")
	want("two")
	stop()
	store.Close()
	if line := said.line(); !strings.Contains(line, "waiting for it") {
		t.Error(line)
	}
	store = open()
	put(store, "three")
	stop = daemon(store)
	want("three")
	put(store, "four")
	want("four")
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	stop()
	store.Close()
}

// pipe is an output that is read line by line.
type pipe struct {
	mu   sync.Mutex
	rest []byte
	got  chan string
}

func newPipe() *pipe { return &pipe{got: make(chan string, 100)} }

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, b...)
	for {
		i := bytes.IndexByte(p.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		p.got <- string(p.rest[:i])
		p.rest = p.rest[i+1:]
	}
}

func (p *pipe) line() string { return <-p.got }

// untar reads a bundle.
func untar(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for tr := tar.NewReader(zip); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(h.Name, "unisched-bundle/")
		if !ok || h.Mode != 0o600 {
			t.Errorf("%s, mode %o", h.Name, h.Mode)
		}
		out[name] = string(raw)
	}
}

// No secret of the site leaves it, wherever it stands; what is too large is cut or left out and said.
func TestBundleHidesAndBounds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const foreignToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJib2IifQ.c2lnbmF0dXJlb2Zib2I"
	token := write("token", "SLURM_JWT=topsecrettoken\n")
	key := write("key", "nodekeynodekeynodekeynodekeynode\n")
	config := write("unisched.toml", fmt.Sprintf("[slurm]\ntoken_file = %q\n[daemon]\nstate_dir = %q\nnode_key_file = %q\n[notify]\nwebhook = \"https://hooks.example/T0/secretpath\"\ncommand = [\"/bin/mail\", \"--password=hunter22\"]\n",
		token, filepath.Join(dir, "state"), key))
	write("state/heartbeat", "pid 1\n")
	write("state/journal", strings.Repeat("x", tailBytes)+"topsecrettoken nodekeynodekeynodekeynodekeynode "+foreignToken+" https://hooks.example/T0/secretpath --password=hunter22 the end\n")
	for k := range 5 {
		write(fmt.Sprintf("state/rounds/20261201T12000%d.000Z-p%d.json", k, k), fmt.Sprint("{\"k\":", k, "}"))
	}
	write("state/rounds/20261201T120009.000Z-big.json", "")
	if err := os.Truncate(filepath.Join(dir, "state/rounds/20261201T120009.000Z-big.json"), maxBundleFile+1); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := testApp()
	a.env = func(string) string { return "" }
	a.out, a.err = &out, &errs
	a.logs = func(context.Context) ([]byte, error) { return []byte("log topsecrettoken\n"), nil }
	path := filepath.Join(dir, "b.tar.gz")
	args := []string{"debug", "bundle", "--config", config, "--socket", filepath.Join(dir, "none.sock"), "--out", path, "-o", "json"}
	if code := a.run(t.Context(), args); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	files := untar(t, path)
	for name, text := range files {
		for _, secret := range []string{"topsecrettoken", "nodekeynodekey", "secretpath", "hunter22", foreignToken} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", name, secret)
			}
		}
	}
	if !strings.HasSuffix(files["journal-end"], "(removed) (removed) (removed) (removed) (removed) the end\n") || len(files["journal-end"]) > tailBytes {
		t.Errorf("journal: %d bytes, %.200q", len(files["journal-end"]), files["journal-end"][len(files["journal-end"])-100:])
	}
	if files["log-end.txt"] != "log (removed)\n" || files["heartbeat"] != "pid 1\n" || !strings.Contains(files["config.json"], `"key": "notify.webhook",`) {
		t.Errorf("log %q, heartbeat %q", files["log-end.txt"], files["heartbeat"])
	}
	var doc struct{ Contents []bundleItem }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	var names []string
	for _, i := range doc.Contents {
		names = append(names, i.Name)
		if notes[i.Name] = i.Note; strings.HasPrefix(i.Note, "left out") != (files[i.Name] == "") {
			t.Errorf("%s: %q, %d bytes in the file", i.Name, i.Note, len(files[i.Name]))
		}
	}
	if d := cmp.Diff([]string{"versions.json", "config.json", "status.json", "heartbeat", "journal-end", "rounds/20261201T120003.000Z-p3.json", "rounds/20261201T120004.000Z-p4.json",
		"rounds/20261201T120009.000Z-big.json", "log-end.txt"}, names); d != "" {
		t.Error(d)
	}
	if !strings.Contains(notes["status.json"], "does not answer") || !strings.Contains(notes["journal-end"], "the end of") || !strings.Contains(notes["rounds/20261201T120009.000Z-big.json"], "too many") {
		t.Errorf("%v", notes)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Error(fi, err)
	}
	if code := a.run(t.Context(), args); code != exitError {
		t.Errorf("an existing file was overwritten: exit code %d", code)
	}
}
