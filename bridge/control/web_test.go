package control

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/planner"
)

// page serves s as the page on TCP and returns its address.
func page(t *testing.T, s Server, hosts ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeWeb(ctx, l, hosts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func fetchPage(t *testing.T, method, addr, path, host string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestPageOnTCP(t *testing.T) {
	var orders []bridge.Order
	addr := page(t, canned(&orders, true), "sched.example.org")
	for _, tt := range []struct{ name, method, path, host, status, says string }{
		{"the page", "GET", "/", "", "200", `<script src="web/app.js" defer>`},
		{"its script", "GET", "/web/app.js", "", "200", "use strict"},
		{"its style", "GET", "/web/app.css", "", "200", "--strict"},
		{"a document", "GET", "/v1/status", "", "200", `"cycle":7`},
		{"the board", "GET", "/v1/board", "", "200", `"schema_version":1`},
		{"a job explained", "GET", "/v1/explain/12", "", "200", `"verdict"`},
		{"under the proxy's name", "GET", "/", "sched.example.org", "200", "UniSched"},
		{"under the proxy's name, with a port", "GET", "/", "SCHED.example.org:443", "200", "UniSched"},
		{"under another name", "GET", "/", "evil.example.com", "421", "web.hosts"},
		{"a name that begins alike", "GET", "/v1/jobs", "127.0.0.1.evil.example.com", "421", "web.hosts"},
		{"an order", "POST", "/v1/order", "", "405", "control socket"},
		{"an order by GET", "GET", "/v1/order", "", "405", ""},
		{"a what-if", "POST", "/v1/whatif", "", "405", ""},
		{"a file that is not there", "GET", "/web/../server.go", "", "30", ""},
		{"no such file", "GET", "/web/server.go", "", "404", "no such file"},
		{"no such path", "GET", "/etc/passwd", "", "404", "this daemon speaks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := fetchPage(t, tt.method, addr, tt.path, tt.host)
			if !strings.HasPrefix(resp.Status, tt.status) || !strings.Contains(body, tt.says) {
				t.Errorf("%s: %.200s", resp.Status, body)
			}
			if resp.Header.Get("Content-Security-Policy") != security || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
	if len(orders) > 0 {
		t.Errorf("orders came through: %v", orders)
	}
}

// The policy allows what the page needs and nothing else: no inline script or style is in the page, and nothing comes from elsewhere.
func TestPageKeepsToItsPolicy(t *testing.T) {
	for name, f := range assets() {
		text := string(f.body)
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " onclick=", " style=\"", "http://", "https://"} {
			if strings.Contains(strings.ReplaceAll(text, `"http://www.w3.org/2000/svg"`, ""), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		if strings.HasSuffix(name, ".html") && strings.Count(text, "<script") != strings.Count(text, "<script src=\"web/") {
			t.Errorf("%s has an inline script", name)
		}
	}
	if !strings.Contains(security, "default-src 'none'") || strings.Contains(security, "unsafe") {
		t.Error(security)
	}
}

func TestBoardIsSentOnce(t *testing.T) {
	addr := page(t, canned(new([]bridge.Order), false))
	first, _ := fetchPage(t, "GET", addr, PathBoard, "")
	tag := first.Header.Get("ETag")
	again, body := fetchPage(t, "GET", addr, PathBoard, "", "If-None-Match", tag)
	if tag == "" || again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("tag %q: %s %q", tag, again.Status, body)
	}
}

func TestBoard(t *testing.T) {
	in := func(m int) time.Time { return at.Add(time.Duration(m) * time.Minute) }
	on := planner.NewPlacement(planner.Share{Node: "n1", GPUs: 2})
	met := 0
	v := view()
	v.Jobs = []bridge.JobView{
		{ID: 12, Ref: "12", Phase: bridge.Running, Placement: on, Class: planner.Strict, Tiers: []planner.Tier{{At: in(60)}}, Forecast: in(50), LeaseUntil: in(5), Laxity: time.Hour,
			Stays:  []bridge.Stay{{Run: 0, From: in(-26 * 60), To: in(-25 * 60), Placement: on}, {Run: 0, From: in(-60), To: in(-30), Placement: on}, {Run: 1, From: in(-20), Placement: on}},
			Events: []bridge.Event{{At: in(-20), Run: 1, What: "running"}}},
		{ID: 13, Ref: "13", Phase: bridge.Completed, Ended: in(-5), Tiers: []planner.Tier{{At: in(-1)}}, Met: &met, Events: []bridge.Event{{At: in(-5), What: "completed"}}},
	}
	v.LastPlan.Leases = []planner.Lease{{Run: planner.Run{Job: 12, Restart: 1}, From: in(-2), Until: in(50), Placement: on}, {Run: planner.Run{Job: 14}, From: in(-9), Until: in(-4), Placement: on}}
	b := boardOf(v)
	slack, spare := 600.0, 240.0
	wantJobs := []BoardJob{
		{ID: 12, Ref: "12", Class: planner.Strict, Phase: bridge.Running, Where: "n1:2", Until: in(5), Forecast: in(50), Due: in(60), Slack: &slack},
		{ID: 13, Ref: "13", Phase: bridge.Completed, Ended: in(-5), Due: in(-1), Slack: &spare, Met: &met},
	}
	if d := cmp.Diff(wantJobs, b.Jobs); d != "" {
		t.Error(d)
	}
	wantLeases := []BoardLease{
		{Job: 12, Run: 0, Kind: "past", From: in(-60), To: in(-30), Place: on}, // the one of yesterday is too old
		{Job: 12, Run: 1, Kind: "now", From: in(-20), To: at, Place: on},
		{Job: 12, Run: 1, Kind: "plan", From: at, To: in(50), Place: on},
	}
	if d := cmp.Diff(wantLeases, b.Leases); d != "" {
		t.Error(d)
	}
	if len(b.Events) != 2 || b.Events[0].Ref != "13" {
		t.Errorf("events %+v", b.Events)
	}
	if _, err := json.Marshal(b); err != nil {
		t.Error(err)
	}
}

// A what-if without an asker, and one that is no question.
func TestWhatIfRefusals(t *testing.T) {
	c := start(t, canned(new([]bridge.Order), false))
	got := exchange(t, c.Path, "POST /v1/whatif HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
	if !strings.HasPrefix(got, "HTTP/1.1 404") || !strings.Contains(got, "no what-if") {
		t.Errorf("%.200s", got)
	}
}
