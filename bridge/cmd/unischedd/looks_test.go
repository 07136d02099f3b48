package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/nodes"
	"unisched/hooks/gpu"
	"unisched/hooks/progress"
)

// What a node's watcher sends of its GPUs reaches the loop as it is, with the time at which it came.
func TestLooks(t *testing.T) {
	key := bytes.Repeat([]byte("k"), progress.MinKeyBytes)
	now := time.Unix(1_800_000_000, 0).UTC()
	l, err := nodes.New(key, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	report := gpu.Report{SchemaVersion: 1, Time: now.Add(-time.Second), Source: gpu.NVML,
		GPUs: []gpu.Sample{{Slice: -1, Minor: gpu.Of(0), Health: gpu.Well, MIG: "off", Utilization: gpu.Of(93), Throttled: []string{}}}}
	body, err := progress.Report{SchemaVersion: 1, Node: "n1", Instance: "a", Seq: 1, Sent: now, Jobs: []progress.JobReport{}, GPUs: &report}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, nodes.Path, bytes.NewReader(body))
	req.Header.Set("Authorization", progress.Sign(key, body, now))
	w := httptest.NewRecorder()
	if l.Handler().ServeHTTP(w, req); w.Code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	if d := cmp.Diff([]bridge.GPULook{{Node: "n1", At: now, Report: report}}, looks(l)()); d != "" {
		t.Error(d)
	}
}
