package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"context"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/news"
	"unisched/planner"
	"unisched/slurm"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, job slurm.JobID, whats ...string) {
	t.Helper()
	for _, w := range whats {
		if err := s.Append(Event{At: noon, Level: "info", What: w, Job: job}); err != nil {
			t.Fatal(err)
		}
	}
}

// find gives the numbers and words of an answer, and its next.
func find(t *testing.T, s *Store, q Query) string {
	t.Helper()
	a, err := s.Find(q)
	if err != nil {
		t.Fatal(err)
	}
	return text(a)
}

func text(a Answer) string {
	var b strings.Builder
	for _, e := range a.Events {
		fmt.Fprintf(&b, "%d%s ", e.Seq, e.What)
	}
	fmt.Fprintf(&b, "next %d", a.Next)
	return b.String()
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, 1, "a", "b")
	put(t, s, 2, "c")
	put(t, s, 12, "d")
	check := func(s *Store, when string) {
		t.Helper()
		for _, tt := range []struct {
			q    Query
			want string
		}{
			{Query{}, "1a 2b 3c 4d next 4"},
			{Query{Limit: 2}, "3c 4d next 4"},
			{Query{Since: 1, Limit: 2}, "2b 3c next 3"},
			{Query{Since: 4}, "next 4"},
			{Query{Since: 9}, "next 9"},
			{Query{Job: 1}, "1a 2b next 4"},
			{Query{Job: 1, Since: 1}, "2b next 4"},
			{Query{Job: 3}, "next 4"},
		} {
			if d := cmp.Diff(tt.want, find(t, s, tt.q)); d != "" {
				t.Errorf("%s: %+v: %s", when, tt.q, d)
			}
		}
	}
	check(s, "as appended")
	s.Close()
	check(open(t, dir), "after a restart")
	s = open(t, dir)
	s.recent = nil
	put(t, s, 5, "e")
	if got := find(t, s, Query{}); got != "1a 2b 3c 4d 5e next 5" {
		t.Errorf("from files: %s", got)
	}
	if got := find(t, s, Query{Job: 1, Limit: 1}); got != "2b next 5" {
		t.Errorf("the newest of a job, from files: %s", got)
	}
}

// What is damaged is passed over; numbers go on.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, 1, "a", "b")
	s.Close()
	names, err := s.files.Names()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	path := filepath.Join(dir, names[0])
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := string(raw) + strings.Repeat("\x00", 3*maxLine) + "\n{\"seq\":-4}\nnull\n[]\n" + `{"seq":7,"what":"torn`
	if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	put(t, s, 1, "c")
	if got := find(t, s, Query{}); got != "1a 2b 3c next 3" {
		t.Error(got)
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 5000)
	var batch []Event
	for range 1000 {
		batch = append(batch, Event{What: "x", Text: long})
	}
	for range 60 { // about 65 MB
		if err := s.Append(batch...); err != nil {
			t.Fatal(err)
		}
	}
	names, err := s.files.Names()
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, n := range names {
		info, err := os.Stat(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > maxAllBytes+maxFileBytes+2<<20 || total < maxAllBytes/2 {
		t.Errorf("%d bytes in %d files", total, len(names))
	}
	if len(s.recent) != maxRecent {
		t.Errorf("%d in memory", len(s.recent))
	}
	a, err := s.Find(Query{Limit: 5})
	if err != nil || len(a.Events) != 5 || len(a.Events[0].Text) != maxText || a.Next != 60000 {
		t.Errorf("%d events, next %d, %v", len(a.Events), a.Next, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "note.txt")); err != nil {
		t.Error(err)
	}
}

// A disk that takes nothing costs history, and the list goes on when it is back.
func TestDiskTrouble(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	s := open(t, dir)
	put(t, s, 1, "a")
	s.Close()
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(Event{What: "b"}); err == nil {
		t.Error("written to a folder that is gone")
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	if got := find(t, s, Query{}); got != "1a 2b next 2" {
		t.Error(got)
	}
	put(t, s, 1, "c")
	if got := find(t, open(t, dir), Query{}); got != "1a 3c next 3" {
		t.Error(got)
	}
}

func TestWait(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		put(t, s, 1, "a")
		got := make(chan string, 2)
		ask := func(q Query, d time.Duration) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				a, err := s.Wait(ctx, q)
				got <- fmt.Sprint(text(a), err)
			}()
		}
		ask(Query{Since: 1, Job: 2}, time.Minute)
		synctest.Wait()
		put(t, s, 1, "other")
		synctest.Wait()
		put(t, s, 2, "mine")
		if a := <-got; a != "3mine next 3<nil>" {
			t.Error(a)
		}
		start := time.Now()
		ask(Query{Since: 3}, time.Minute)
		if a := <-got; a != "next 3<nil>" || time.Since(start) != time.Minute {
			t.Error(a, time.Since(start))
		}
	})
}

func TestHandler(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, 1, "a", "b")
	for _, tt := range []struct {
		method, query string
		status        int
		says          string
	}{
		{"GET", "", 200, `{"schema_version":1,"events":[{"seq":1,"at":"2026-12-01T12:00:00Z","level":"info","what":"a","job_id":1},{"seq":2,`},
		{"GET", "?job=2", 200, `{"schema_version":1,"events":[],"next":2}`},
		{"GET", "?since=1&limit=1", 200, `"next":2}`},
		{"GET", "?since=0&wait=5", 200, `"next":2}`},
		{"GET", "?limit=1001", 400, "limit"},
		{"GET", "?job=-1", 400, "job"},
		{"GET", "?since=x", 400, "since"},
		{"GET", "?wait=31", 400, "wait"},
		{"POST", "", 405, "only GET"},
	} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(tt.method, Path+tt.query, nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: HTTP %d %s", tt.method, tt.query, w.Code, w.Body)
		}
	}
}

func TestSources(t *testing.T) {
	note := bridge.Note{Level: "info", What: "action", Job: 3, Plan: "p", Action: "20261201T120000.000-1", Kind: "start", Outcome: bridge.Done, Text: "t"}
	e, ok := OfNote(noon, note)
	want := Event{At: noon, Level: "info", What: "action", Job: 3, Plan: "p", Action: "20261201T120000.000-1", Kind: "start", Outcome: bridge.Done, Text: "t"}
	if d := cmp.Diff(want, e); !ok || d != "" {
		t.Error(d)
	}
	for _, tt := range []struct {
		n    bridge.Note
		want bool
	}{
		{bridge.Note{Level: "info", Job: 3}, false}, {bridge.Note{Level: "debug", Job: 3}, false}, {bridge.Note{Level: "warn", Job: 3}, true},
		{bridge.Note{Level: "info"}, true}, {bridge.Note{Level: "debug", What: "plan"}, true},
	} {
		if _, ok := OfNote(noon, tt.n); ok != tt.want {
			t.Errorf("%+v: %v", tt.n, ok)
		}
	}
	missed := -1
	c := news.Change{Job: &bridge.JobView{ID: 4, Restart: 2, Phase: bridge.Completed, Met: &missed, Tiers: []planner.Tier{{At: noon}}}, Missed: true,
		Events: []bridge.Event{{N: 7, At: noon, Run: 1, What: "end", Text: "COMPLETED"}}}
	wantAll := []Event{{At: noon, Level: "info", What: "end", Job: 4, Run: 1, Text: "COMPLETED"},
		{At: noon.Add(1), Level: "warn", What: "deadline-missed", Job: 4, Run: 2, Text: "missed"}}
	if d := cmp.Diff(wantAll, OfChange(noon.Add(1), c)); d != "" {
		t.Error(d)
	}
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "events")); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
