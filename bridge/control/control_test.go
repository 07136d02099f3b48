package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/planner"
	"unisched/slurm"
)

var at = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func view() *bridge.View {
	return &bridge.View{
		Schema: bridge.ViewSchema, At: at, Cycle: 7, Stage: bridge.StageStrict, Unit: time.Minute, Cluster: "c",
		Jobs: []bridge.JobView{
			{ID: 12, Ref: "12", Name: "one", Phase: bridge.Running},
			{ID: 1235, Ref: "1234_1", Name: "task one"},
			{ID: 1234, Ref: "1234_2", Name: "last task, which carries the array's number"},
		},
		LastPlan: planner.Plan{Schema: 1, ID: "p7"},
		Snapshot: planner.Snapshot{Schema: 1, SLOUnits: 2},
	}
}

// start serves s on a fresh socket until the test ends, and returns a client.
func start(t *testing.T, s Server) Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := Listen(path, 0o600, -1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return Client{Path: path}
}

func canned(orders *[]bridge.Order, operator bool) Server {
	return Server{
		View: view,
		Order: func(_ context.Context, o bridge.Order) (string, error) {
			*orders = append(*orders, o)
			if o.Job == 99 {
				return "", errors.New("job 99 is not managed")
			}
			if o.Job == 98 {
				return "", fmt.Errorf("job 98: %w", bridge.ErrNoSuchJob)
			}
			return "done: " + string(o.Kind), nil
		},
		Operator: func(uint32) bool { return operator },
	}
}

func TestReads(t *testing.T) {
	ctx := context.Background()
	c := start(t, canned(new([]bridge.Order), false))
	got, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := *view()
	want.Jobs, want.LastPlan, want.Snapshot = nil, planner.Plan{}, planner.Snapshot{}
	if d := cmp.Diff(want, got); d != "" {
		t.Error("status:", d)
	}
	raw, err := c.Raw(ctx, PathStatus)
	var members map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &members) != nil || members["jobs"] != nil || members["plan"] != nil || string(members["schema_version"]) != "1" {
		t.Errorf("status document: %s, %v", raw, err)
	}
	jobs, err := c.Jobs(ctx)
	if d := cmp.Diff(view().Jobs, jobs); err != nil || d != "" {
		t.Error("jobs:", err, d)
	}
	plan, err := c.Plan(ctx)
	if d := cmp.Diff(view().LastPlan, plan); err != nil || d != "" {
		t.Error("plan:", err, d)
	}
	snap, err := c.Snapshot(ctx)
	if d := cmp.Diff(view().Snapshot, snap); err != nil || d != "" {
		t.Error("snapshot:", err, d)
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		ref  string
		id   slurm.JobID
		want error
		says string
	}{
		{ref: "12", id: 12},
		{ref: "1234_1", id: 1235},
		{ref: "1234_2", id: 1234},
		{ref: "1235", id: 1235},
		{ref: "1234", want: ErrManyJobs, says: "1234_1, 1234_2"}, // case 12: never the one task with that raw id
		{ref: "13", want: ErrNoJob, says: "unknown to the daemon"},
		{ref: "1234_3", want: ErrNoJob},
		{ref: "1234_[1-2]", want: ErrManyJobs, says: "name one task, such as 1234_1"},
		{ref: "12+0", want: ErrHetJob, says: "12+0 is a heterogeneous job's component"}, // case 14
		{ref: "12.0", want: ErrBadJob, says: "name the job, 12"},
		{ref: "", want: ErrBadJob},
		{ref: "-1", want: ErrBadJob},
		{ref: "+1", want: ErrBadJob},
		{ref: "1 2", want: ErrBadJob},
		{ref: "../order", want: ErrBadJob},
		{ref: "99999999999999999999", want: ErrBadJob},
		{ref: strings.Repeat("1", 65), want: ErrBadJob},
	} {
		j, err := Find(view().Jobs, tt.ref)
		if !errors.Is(err, tt.want) || j.ID != tt.id || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Find(%q) = %d, %v", tt.ref, j.ID, err)
		}
	}
	c := start(t, canned(new([]bridge.Order), false))
	if j, err := c.Job(context.Background(), "1234_2"); err != nil || j.ID != 1234 {
		t.Errorf("Job over the socket: %d, %v", j.ID, err)
	}
	if _, err := c.Job(context.Background(), "13"); !errors.Is(err, ErrNoJob) {
		t.Errorf("unknown job over the socket: %v", err)
	}
	var r *Refusal
	if _, err := c.Job(context.Background(), "1234"); !errors.As(err, &r) || r.Status != http.StatusConflict {
		t.Errorf("array over the socket: %v", err)
	}
}

func TestOrders(t *testing.T) {
	var orders []bridge.Order
	c := start(t, canned(&orders, true))
	got, err := c.Order(context.Background(), bridge.Order{Kind: bridge.OrderRelease, Job: 12, By: "somebody else"})
	if d := cmp.Diff(Result{1, true, "done: release"}, got); err != nil || d != "" {
		t.Error(err, d)
	}
	var r *Refusal
	if _, err := c.Order(context.Background(), bridge.Order{Kind: bridge.OrderRelease, Job: 99}); !errors.As(err, &r) || r.Status != http.StatusConflict {
		t.Errorf("refused order: %v", err)
	}
	if _, err := c.Order(context.Background(), bridge.Order{Kind: bridge.OrderRelease, Job: 98}); !errors.Is(err, ErrNoJob) {
		t.Errorf("order for an unknown job: %v", err)
	}
	by := fmt.Sprintf("uid %d", os.Getuid()) // the kernel's word, not the client's
	want := []bridge.Order{{Kind: bridge.OrderRelease, Job: 12, By: by}, {Kind: bridge.OrderRelease, Job: 99, By: by},
		{Kind: bridge.OrderRelease, Job: 98, By: by}}
	if d := cmp.Diff(want, orders); d != "" {
		t.Error(d)
	}
}

func TestOrdersNeedAnOperator(t *testing.T) {
	var orders []bridge.Order
	c := start(t, canned(&orders, false))
	_, err := c.Order(context.Background(), bridge.Order{Kind: bridge.OrderPause})
	var r *Refusal
	if !errors.As(err, &r) || r.Status != http.StatusForbidden || !strings.Contains(r.Text, "daemon.operators") || len(orders) > 0 {
		t.Errorf("%v, orders %v", err, orders)
	}
}

// exchange sends raw bytes and reads the whole answer.
func exchange(t *testing.T, path, request string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, request)
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func TestBadRequests(t *testing.T) {
	var orders []bridge.Order
	c := start(t, canned(&orders, true))
	post := func(body string) string {
		return fmt.Sprintf("POST /v1/order HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, tt := range []struct{ name, request, status, says string }{
		{"body too big", post(strings.Repeat(" ", maxOrderBytes+1)), "413", "at most 4096 bytes"},
		{"announced too big", "POST /v1/order HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n" + strings.Repeat("x", 8192), "413", ""},
		{"not JSON", post("pause"), "400", "order:"},
		{"misspelt member", post(`{"order":"release","jobs":12}`), "400", "unknown field"},
		{"unknown order", post(`{"order":"reboot"}`), "400", "none of pause"},
		{"pause of one job", post(`{"order":"pause","job":3}`), "400", "is for all jobs"},
		{"negative job", post(`{"order":"release","job":-3}`), "400", "negative"},
		{"two documents", post(`{"order":"pause"}{"order":"pause"}`), "400", "text after"},
		{"deep nesting", post(strings.Repeat("[", 4000)), "400", ""},
		{"order by GET", "GET /v1/order HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "405", "only POST"},
		{"write to a read path", "DELETE /v1/jobs/12 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "405", "only GET"},
		{"no such path", "GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404", "this daemon speaks"},
		{"huge header", "GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 64<<10) + "\r\n\r\n", "431", ""},
		{"no HTTP", "hello\r\n\r\n", "400", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := exchange(t, c.Path, tt.request)
			if !strings.HasPrefix(got, "HTTP/1.1 "+tt.status) || !strings.Contains(got, tt.says) {
				t.Errorf("%.300s", got)
			}
		})
	}
	if len(orders) > 0 {
		t.Errorf("orders came through: %v", orders)
	}
}

// A client that sends half a request holds nobody up: neither other clients nor the end of the server (start's cleanup waits for it).
func TestHangingClient(t *testing.T) {
	c := start(t, canned(new([]bridge.Order), true))
	for range 20 {
		conn, err := net.Dial("unix", c.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "POST /v1/order HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	}
	if _, err := c.Status(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestConnectionsPerUser(t *testing.T) {
	l := newPeerListener(nil)
	taken := 0
	for l.take(1000) {
		taken++
	}
	if taken != maxPerUID || !l.take(1001) || !l.take(0) {
		t.Errorf("user 1000 got %d connections", taken)
	}
	l.give(1000)
	if !l.take(1000) {
		t.Error("a closed connection still counts")
	}
	for uid := uint32(2000); l.total < maxConns; uid++ {
		for l.take(uid) {
		}
	}
	if l.take(5000) || !l.take(0) {
		t.Error("the bound of all connections must leave room for root only")
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.sock")
	l, err := Listen(path, 0o660, os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if _, err := Listen(path, 0o600, -1); !errors.Is(err, ErrInUse) {
		t.Errorf("second daemon: %v", err)
	}
	l.Close() // as after a kill: the file stays
	if _, err := (Client{Path: path}).Status(context.Background()); !errors.Is(err, ErrDown) {
		t.Errorf("dead socket: %v", err)
	}
	if l, err = Listen(path, 0o600, -1); err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file, 0o600, -1); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a plain file: %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("the plain file was replaced")
	}
}

func TestDown(t *testing.T) {
	if _, err := (Client{Path: filepath.Join(t.TempDir(), "none")}).Status(context.Background()); !errors.Is(err, ErrDown) {
		t.Errorf("missing socket: %v", err)
	}
	// Listens and never answers.
	path := filepath.Join(t.TempDir(), "mute")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := (Client{Path: path, Timeout: 20 * time.Millisecond}).Status(context.Background()); !errors.Is(err, ErrDown) {
		t.Errorf("mute daemon: %v", err)
	}
	// Closes at once.
	path2 := filepath.Join(t.TempDir(), "rude")
	l2, err := net.Listen("unix", path2)
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	go func() {
		for {
			c, err := l2.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if _, err := (Client{Path: path2}).Status(context.Background()); !errors.Is(err, ErrDown) {
		t.Errorf("rude daemon: %v", err)
	}
}

// case 35: a NaN inside must not turn into half a document.
func TestDocumentThatCannotBeWritten(t *testing.T) {
	s := canned(new([]bridge.Order), false)
	s.View = func() *bridge.View {
		v := view()
		v.Jobs[0].GPUSeconds = math.NaN()
		return v
	}
	c := start(t, s)
	var r *Refusal
	if _, err := c.Jobs(context.Background()); !errors.As(err, &r) || r.Status != http.StatusInternalServerError || !strings.Contains(r.Text, "NaN") {
		t.Errorf("%v", err)
	}
	if _, err := c.Status(context.Background()); err != nil {
		t.Errorf("status must not suffer: %v", err)
	}
}

func TestNoViewYet(t *testing.T) {
	s := canned(new([]bridge.Order), false)
	s.View = func() *bridge.View { return nil }
	var r *Refusal
	if _, err := start(t, s).Status(context.Background()); !errors.As(err, &r) || r.Status != http.StatusServiceUnavailable {
		t.Errorf("%v", err)
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{"12", "1234_2", "12+0", "1_[1-3]", "\xff", "..", "1_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		if j, err := Find(view().Jobs, ref); (err == nil) != (j.ID != 0) {
			t.Errorf("%q: %v, %v", ref, j.ID, err)
		}
	})
}
