package nodes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/hooks/gpu"
	"unisched/hooks/progress"
)

// The newest report of each node's GPUs is kept, whatever is unavailable stays so, and a watcher's restart or a report without GPUs takes nothing away.
func TestGPUs(t *testing.T) {
	key := bytes.Repeat([]byte("k"), progress.MinKeyBytes)
	now := time.Unix(1764435600, 0).UTC()
	l, err := New(key, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	post := func(r progress.Report) int {
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
		req.Header.Set("Authorization", progress.Sign(key, body, now))
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, req)
		return w.Code
	}
	look := func(n float64) *gpu.Report {
		return &gpu.Report{SchemaVersion: 1, Time: now, Source: gpu.NVML, GPUs: []gpu.Sample{{Slice: -1, Health: gpu.Well, MIG: "off", MemoryUsed: gpu.Of(n), Throttled: []string{}}}}
	}
	send := func(node, instance string, seq uint64, gpus *gpu.Report) {
		t.Helper()
		if code := post(progress.Report{SchemaVersion: 1, Node: node, Instance: instance, Seq: seq, Jobs: []progress.JobReport{}, GPUs: gpus}); code != http.StatusOK {
			t.Fatalf("HTTP %d", code)
		}
	}
	send("n2", "a", 1, look(1))
	send("n1", "b", 1, look(2))
	first := now
	now = now.Add(10 * time.Second)
	send("n2", "a", 2, look(3))
	send("n1", "c", 1, nil)
	send("n3", "d", 1, nil)
	at := func(r *gpu.Report, when time.Time) gpu.Report { r.Time = when; return *r }
	want := []NodeGPUs{{"n1", first, at(look(2), first)}, {"n2", now, at(look(3), now)}}
	if d := cmp.Diff(want, l.GPUs()); d != "" {
		t.Error(d)
	}
	w := httptest.NewRecorder()
	l.RollHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, PathRoll, nil))
	var roll Roll
	if err := json.Unmarshal(w.Body.Bytes(), &roll); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, roll.GPUs); d != "" {
		t.Error(d)
	}
	bad := look(1)
	bad.Source = "me"
	if code := post(progress.Report{SchemaVersion: 1, Node: "n1", Instance: "c", Seq: 2, Jobs: []progress.JobReport{}, GPUs: bad}); code != http.StatusBadRequest {
		t.Errorf("a bad report: HTTP %d", code)
	}
}
