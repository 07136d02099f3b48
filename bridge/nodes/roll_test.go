package nodes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The roll names each watcher once, with what its last report said.
func TestRoll(t *testing.T) {
	l := listener(t)
	say := func(node, instance, version string, seq uint64, sent time.Time) {
		r := report(node, instance, seq)
		r.Version, r.Sent = version, sent
		if resync, ok := l.put(r, 100); !ok || resync {
			t.Errorf("%s %d: resync %v, taken %v", node, seq, resync, ok)
		}
	}
	say("n2", "b", "", 1, at.Add(-30*time.Second))
	say("n1", "a", "v1", 1, at)
	say("n1", "a", "v2", 2, at.Add(time.Second))
	rec := httptest.NewRecorder()
	l.RollHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, PathRoll, nil))
	var got Roll
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := Roll{Schema: 1, Watchers: []Watcher{{"n1", "v2", at, time.Second}, {"n2", "", at, -30 * time.Second}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	rec = httptest.NewRecorder()
	l.RollHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, PathRoll, nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", rec.Code)
	}
}
