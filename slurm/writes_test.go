package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everything is an update of all fields.
var everything = Update{SeenPending: true, Hold: Some(false), BeginTime: Some(time.Time{}), Nice: Some(int64(-5)),
	RequiredNodes: []string{"n1", "n2"}, ExcludedNodes: Some([]string{"n3"}), Tasks: Some(2), CPUsPerTask: Some(4),
	TRESPerNode: Some("gres/gpu:4"), TRESPerJob: Some(""), Partition: Some("gpu"), QOS: Some("normal"),
	TimeLimit: Some(61 * time.Second), Requeue: Some(true)}

func TestUpdateBody(t *testing.T) {
	for _, tt := range []struct {
		name string
		u    Update
		want string
	}{
		{"everything", everything, `{"begin_time":{"number":1,"set":true},"cpus_per_task":4,"excluded_nodes":["n3"],"hold":false,"nice":-5,"nodes":"2","partition":"gpu","qos":"normal","requeue":true,"required_nodes":["n1","n2"],"tasks":2,"time_limit":{"number":2,"set":true},"tres_per_job":"","tres_per_node":"gres/gpu:4"}`},
		{"hold", Update{Hold: Some(true)}, `{"hold":true}`},
		{"begin time", Update{BeginTime: Some(time.Unix(1795964676, 5))}, `{"begin_time":{"number":1795964676,"set":true}}`},
		{"priority beyond 31 bits", Update{Priority: Some(int64(4294901758))}, `{"priority":{"number":4294901758,"set":true}}`},
		{"nodes alone", Update{SeenPending: true, Nodes: Some(3)}, `{"nodes":"3"}`},
		{"nodes beside the pin", Update{SeenPending: true, Nodes: Some(1), RequiredNodes: []string{"n1"}}, `{"nodes":"1","required_nodes":["n1"]}`},
		{"exclusion cleared", Update{ExcludedNodes: Some([]string{})}, `{"excluded_nodes":""}`},
		{"nice 0", Update{Nice: Some(int64(0))}, `{"nice":0}`},
		{"per job", Update{TRESPerNode: Some(""), TRESPerJob: Some("gres/gpu:v100:6")}, `{"tres_per_job":"gres/gpu:v100:6","tres_per_node":""}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, map[string]reply{"POST /slurm/v0.0.42/job/5": {200, `{"results":null,` + meta + `,"errors":[],"warnings":[{"description":"x"}]}`}})
			if err := pinned(t, s).Update(t.Context(), JobID(5).Ref(), tt.u); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"POST /slurm/v0.0.42/job/5 " + tt.want}, s.sent()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestUpdateUnwritable(t *testing.T) {
	ref := JobID(5).Ref()
	for _, tt := range []struct {
		name string
		ref  Ref
		u    Update
	}{
		{"nothing", ref, Update{}},
		{"only the caller's word", ref, Update{SeenPending: true}},
		{"no job", Ref{}, Update{Hold: Some(true)}},
		{"negative job", JobID(-1).Ref(), Update{Hold: Some(true)}},
		{"task of nothing", Ref{ID: 5, Tasks: "1"}, Update{Hold: Some(true)}},
		{"odd task", Ref{ID: 5, Array: 5, Tasks: "1;x"}, Update{Hold: Some(true)}},
		{"priority with hold", ref, Update{Priority: Some(int64(5)), Hold: Some(false)}},
		{"priority 0 is a hold", ref, Update{Priority: Some(int64(0))}},
		{"priority is a mark", ref, Update{Priority: Some(int64(noVal32))}},
		{"nice", ref, Update{Nice: Some(int64(1) << 31)}},
		{"pin of a job not seen pending", ref, Update{RequiredNodes: []string{"n1"}}},
		{"nodes of a job not seen pending", ref, Update{Nodes: Some(1)}},
		{"empty pin", ref, Update{SeenPending: true, RequiredNodes: []string{}}},
		{"pin and another number", ref, Update{SeenPending: true, RequiredNodes: []string{"n1", "n2", "n3"}, Nodes: Some(1)}},
		{"node named twice", ref, Update{SeenPending: true, RequiredNodes: []string{"n1", "n1"}}},
		{"node list as name", ref, Update{SeenPending: true, RequiredNodes: []string{"n[1-2]"}}},
		{"node in both lists", ref, Update{SeenPending: true, RequiredNodes: []string{"n1"}, ExcludedNodes: Some([]string{"n1"})}},
		{"no nodes", ref, Update{SeenPending: true, Nodes: Some(0)}},
		{"no tasks", ref, Update{Tasks: Some(0)}},
		{"no cpus", ref, Update{CPUsPerTask: Some(-1)}},
		{"tres cleared alone", ref, Update{TRESPerNode: Some("")}},
		{"both tres cleared", ref, Update{TRESPerNode: Some(""), TRESPerJob: Some("")}},
		{"tres that Slurm refuses", ref, Update{TRESPerNode: Some("gpu:v100:1")}},
		{"no GPUs", ref, Update{TRESPerNode: Some("gres/gpu:0")}},
		{"MIG", ref, Update{TRESPerNode: Some("gres/gpu:1g.5gb:1")}},
		{"two kinds", ref, Update{TRESPerNode: Some("gres/gpu:1,gres/shard:1")}},
		{"no partition", ref, Update{Partition: Some("")}},
		{"two partitions", ref, Update{Partition: Some("a,b")}},
		{"odd QOS", ref, Update{QOS: Some("a b")}},
		{"no time", ref, Update{TimeLimit: Some(time.Duration(0))}},
		{"begin before the epoch", ref, Update{BeginTime: Some(time.Unix(-5, 0))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, nil)
			if err := pinned(t, s).Update(t.Context(), tt.ref, tt.u); !errors.Is(err, ErrInvalid) || len(s.sent()) != 0 {
				t.Errorf("%v, sent %v", err, s.sent())
			}
		})
	}
}

func TestWriteErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		want  []error
		not   []error
	}{
		{"denied", reply{500, `{` + problem(2010, "Invalid user id") + `}`}, []error{ErrRefused, ErrDenied}, []error{ErrUnknownOutcome}},
		{"denied, other word", reply{401, `{` + problem(2002, "Access/permission denied") + `}`}, []error{ErrRefused, ErrDenied}, []error{ErrUnauthorised}},
		{"held", reply{500, `{` + problem(2042, "Job is in held state") + `}`}, []error{ErrRefused}, []error{ErrNotFound, ErrUnknownOutcome}},
		{"unknown id", reply{404, `{` + problem(2017, "Invalid job id specified") + `}`}, []error{ErrRefused, ErrNotFound}, nil},
		{"running", reply{422, `{` + problem(2073, "Job is no longer pending execution") + `}`}, []error{ErrRefused, ErrNotPending}, nil},
		{"finished, 24.11", reply{500, `{` + problem(2084, "Job has already finished") + `}`}, []error{ErrRefused, ErrFinished}, []error{ErrUnknownOutcome}},
		{"finished, 26.05", reply{422, `{` + problem(2084, "Job has already finished") + `}`}, []error{ErrRefused, ErrFinished}, nil},
		{"refused in an answer 200", reply{200, `{` + problem(2018, "Invalid node name specified") + `}`}, []error{ErrRefused}, nil},
		{"error number 0 in an answer 200", reply{200, `{` + problem(0, "") + `}`}, []error{ErrUnknownOutcome}, []error{ErrRefused}},
		{"500 without a number", reply{500, `oops`}, []error{ErrUnknownOutcome}, []error{ErrRefused, ErrUnavailable}},
		{"500 unspecified", reply{500, `{` + problem(-1, "Unspecified error") + `}`}, []error{ErrUnknownOutcome}, nil},
		{"controller away, nothing sent", reply{502, `{` + problem(1800, "connect failure") + `}`}, []error{ErrUnavailable}, []error{ErrUnknownOutcome}},
		{"controller away half-way", reply{500, `{` + problem(1000, "Unexpected message received") + `}`}, []error{ErrUnknownOutcome, ErrUnavailable}, nil},
		{"controller away, signal on 26.05", reply{403, `{` + problem(1, "Operation not permitted") + `}`}, []error{ErrUnknownOutcome}, []error{ErrUnauthorised, ErrRefused}},
		{"forbidden by a proxy", reply{403, `no`}, []error{ErrUnauthorised}, []error{ErrUnknownOutcome}},
		{"token", reply{511, `{` + meta + `,"errors":[]}`}, []error{ErrUnauthorised}, []error{ErrUnknownOutcome}},
		{"case 48: 429", reply{429, ``}, []error{ErrRateLimited}, []error{ErrUnknownOutcome}},
		{"bad request", reply{400, `Rejecting bad JSON`}, []error{ErrRefused}, nil},
		{"redirect is not followed", reply{307, ``}, []error{ErrUnknownOutcome}, nil},
		{"answer is no JSON", reply{200, `<html>`}, []error{ErrUnknownOutcome}, nil},
		{"answer is cut", reply{200, `{"results":`}, []error{ErrUnknownOutcome}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, map[string]reply{"POST /slurm/v0.0.42/job/5": tt.reply})
			err := pinned(t, s).Update(t.Context(), JobID(5).Ref(), Update{Hold: Some(true)})
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			for _, not := range tt.not {
				if errors.Is(err, not) {
					t.Errorf("%v is %v", err, not)
				}
			}
			if len(s.sent()) != 1 {
				t.Errorf("sent %v", s.sent())
			}
		})
	}
}

func TestWriteToNobody(t *testing.T) {
	s := newServer(t, nil)
	c := newClient(t, Options{URL: s.URL, Version: "v0.0.42"})
	s.Close()
	err := c.Update(t.Context(), JobID(5).Ref(), Update{Hold: Some(true)})
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
		t.Error(err)
	}
}

func TestSignal(t *testing.T) {
	const ok = `{"status":[],"errors":[],` + meta + `}`
	s := newServer(t, map[string]reply{"DELETE /slurm/v0.0.42/job/5": {200, ok}, "DELETE /slurm/v0.0.42/job/1234_4": {200, ok},
		"DELETE /slurm/v0.0.42/job/6": {200, `{"status":[{"error":{"string":"x","code":2002,"message":"Access/permission denied"},"step_id":"6"}],"errors":[]}`},
		"DELETE /slurm/v0.0.42/job/7": {200, `{"status":[{"error":{"string":"","code":0,"message":""},"step_id":"7"}],"errors":[]}`},
		"DELETE /slurm/v0.0.42/job/8": {200, `{"status":[{"error":{"code":2017,"message":"Invalid job id specified"}}],"errors":[]}`}})
	c := pinned(t, s)
	last := Job{ID: 1234, ArrayJobID: 1234, ArrayTask: 4}.Ref()
	for _, call := range []struct {
		ref  Ref
		s    Signal
		want error
	}{
		{JobID(5).Ref(), Signal{Name: USR1}, nil}, {JobID(5).Ref(), Signal{Name: TERM, BatchOnly: true}, nil}, {last, Signal{Name: USR2}, nil},
		{JobID(6).Ref(), Signal{Name: USR1}, ErrDenied}, {JobID(7).Ref(), Signal{Name: USR1}, nil}, {JobID(8).Ref(), Signal{Name: USR1}, ErrNotFound},
	} {
		if err := c.Signal(t.Context(), call.ref, call.s); !errors.Is(err, call.want) {
			t.Errorf("%s %v: %v", call.ref, call.s, err)
		}
	}
	want := []string{"DELETE /slurm/v0.0.42/job/5?signal=SIGUSR1", "DELETE /slurm/v0.0.42/job/5?flags=BATCH_JOB&signal=SIGTERM",
		"DELETE /slurm/v0.0.42/job/1234_4?signal=SIGUSR2", // case 12: not the whole array
		"DELETE /slurm/v0.0.42/job/6?signal=SIGUSR1", "DELETE /slurm/v0.0.42/job/7?signal=SIGUSR1", "DELETE /slurm/v0.0.42/job/8?signal=SIGUSR1"}
	if d := cmp.Diff(want, s.sent()); d != "" {
		t.Error(d)
	}
	rest := Job{ID: 1234, ArrayJobID: 1234, ArrayTask: -1, ArrayTaskString: "2-4"}.Ref()
	for _, call := range []struct {
		ref  Ref
		name SignalName
	}{{JobID(5).Ref(), ""}, {JobID(5).Ref(), "KILL"}, {JobID(5).Ref(), "9"}, {JobID(5).Ref(), "STOP"}, {JobID(5).Ref(), "USR1&flags=x"}, {Ref{}, USR1}, {rest, USR1}, {Ref{ID: 9, Array: 9}, USR1}} {
		if err := c.Signal(t.Context(), call.ref, Signal{Name: call.name}); !errors.Is(err, ErrInvalid) || len(s.sent()) != len(want) {
			t.Errorf("%s %q: %v", call.ref, call.name, err)
		}
	}
}

// case 6: an answer 200 whose status cannot be understood is no success.
func TestStatusOfAnotherShape(t *testing.T) {
	for status, want := range map[string]error{
		`[]`: nil, `null`: nil, `{}`: nil, `[{"error":{"string":"No error","code":0,"message":""},"step_id":"5"}]`: nil,
		`[{"step_id":"5"}]`: nil, `[{"error":null}]`: nil, `[{"error":{}}]`: nil, `[{"error":""}]`: nil,
		`[{"error":{"code":2002}}]`: ErrDenied, `[{"error":{"code":{"set":true,"number":2002}}}]`: ErrDenied, `[{"error":{"code":0}},{"error":{"code":2017}}]`: ErrNotFound,
		`"Access/permission denied"`: ErrUnknownOutcome, `{"error":{"code":2002}}`: ErrUnknownOutcome, `["denied"]`: ErrUnknownOutcome, `[2002]`: ErrUnknownOutcome,
		`[null]`: ErrUnknownOutcome, `[{"error":"Access/permission denied"}]`: ErrUnknownOutcome, `[{"error":2002}]`: ErrUnknownOutcome, `[{"error":{"code":"denied"}}]`: ErrUnknownOutcome,
	} {
		s := newServer(t, map[string]reply{"DELETE /slurm/v0.0.42/job/5": {200, `{"status":` + status + `,"errors":[],` + meta + `}`},
			"POST /slurm/v0.0.45/jobs/requeue": {200, `{"status":` + status + `,"errors":[],` + meta + `}`}})
		if err := pinned(t, s).Signal(t.Context(), JobID(5).Ref(), Signal{Name: USR1}); !errors.Is(err, want) {
			t.Errorf("signal: %s: %v", status, err)
		}
		if err := newClient(t, Options{URL: s.URL, Version: "v0.0.45"}).Requeue(t.Context(), JobID(5).Ref()); !errors.Is(err, want) {
			t.Errorf("requeue: %s: %v", status, err)
		}
	}
}

func TestRequeueREST(t *testing.T) {
	s := newServer(t, map[string]reply{"POST /slurm/v0.0.45/jobs/requeue": {200, `{"status":[],"errors":[],` + meta + `}`}})
	c := newClient(t, Options{URL: s.URL, Version: "v0.0.45"})
	last := Job{ID: 1234, ArrayJobID: 1234, ArrayTask: 4}.Ref()
	for _, ref := range []Ref{JobID(5).Ref(), last} {
		if err := c.Requeue(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}
	want := []string{`POST /slurm/v0.0.45/jobs/requeue {"flags":["Incomplete"],"jobs":["5"]}`,
		`POST /slurm/v0.0.45/jobs/requeue {"flags":["Incomplete"],"jobs":["1234_4"]}`} // case 12: not the whole array
	if d := cmp.Diff(want, s.sent()); d != "" {
		t.Error(d)
	}
	s.set("POST /slurm/v0.0.45/jobs/requeue", reply{422, `{"status":[],` + problem(2037, "Requested operation is presently disabled") + `}`})
	if err := c.Requeue(t.Context(), last); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if err := c.Requeue(t.Context(), Job{ID: 9, ArrayJobID: 9, ArrayTask: -1, ArrayTaskString: "2-4"}.Ref()); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestSubmit(t *testing.T) {
	s := newServer(t, map[string]reply{"POST /slurm/v0.0.42/job/submit": {200, `{"job_id":7,"step_id":"batch",` + meta + `,"errors":[],"warnings":[{"description":"held"}]}`}})
	c := pinned(t, s)
	id, err := c.Submit(t.Context(), SubmitRequest{Name: "a", Script: "#!/bin/sh\n", WorkDir: "/tmp", Hold: true, TimeLimit: time.Minute})
	if id != 7 || err != nil {
		t.Error(id, err)
	}
	want := `POST /slurm/v0.0.42/job/submit {"job":{"current_working_directory":"/tmp","environment":["PATH=/usr/local/bin:/usr/bin:/bin"],"hold":true,"name":"a","requeue":false,"script":"#!/bin/sh\n","time_limit":{"number":1,"set":true}}}`
	if d := cmp.Diff([]string{want}, s.sent()); d != "" {
		t.Error(d)
	}
	s.set("POST /slurm/v0.0.42/job/submit", reply{200, `{"errors":[]}`})
	if _, err := c.Submit(t.Context(), SubmitRequest{Script: "x", WorkDir: "/"}); !errors.Is(err, ErrUnknownOutcome) {
		t.Error(err)
	}
}

// TestMain plays scontrol when the test binary is run as such.
func TestMain(m *testing.M) {
	if mode := os.Getenv("FAKE_SCONTROL"); mode != "" {
		fakeScontrol(mode)
	}
	os.Exit(m.Run())
}

func fakeScontrol(mode string) {
	switch mode {
	case "ok":
		log, _ := json.Marshal(map[string]any{"args": os.Args[1:], "env": os.Environ()})
		os.WriteFile(os.Getenv("FAKE_LOG"), log, 0o600)
		os.Exit(0)
	case "hang":
		select {}
	case "flood":
		for range 1000 {
			fmt.Println(strings.Repeat("x", 1000))
		}
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, mode)
	os.Exit(1)
}

func fake(t *testing.T, mode string) (Scontrol, string) {
	log := filepath.Join(t.TempDir(), "log")
	return Scontrol{Argv: []string{os.Args[0]}, Env: []string{"FAKE_SCONTROL=" + mode, "FAKE_LOG=" + log, "SLURM_JWT=secret"}}, log
}

func TestScontrol(t *testing.T) {
	t.Setenv("SLURM_JWT", "secret")
	last := Job{ID: 1234, ArrayJobID: 1234, ArrayTask: 4}.Ref()
	for _, tt := range []struct {
		name string
		call func(*Client) error
		want []string
	}{
		{"requeue", func(c *Client) error { return c.Requeue(t.Context(), JobID(5).Ref()) }, []string{"requeue", "Incomplete", "5"}},
		{"case 12: requeue of the last task", func(c *Client) error { return c.Requeue(t.Context(), last) }, []string{"requeue", "Incomplete", "1234_4"}},
		{"clear the pin", func(c *Client) error { return c.ClearRequiredNodes(t.Context(), last, 0) }, []string{"update", "JobId=1234_4", "ReqNodeList="}},
		{"clear the pin, with tasks", func(c *Client) error { return c.ClearRequiredNodes(t.Context(), last, 8) }, []string{"update", "JobId=1234_4", "ReqNodeList=", "NumTasks=8"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, log := fake(t, "ok")
			c := newClient(t, Options{URL: "http://slurm:1", Version: "v0.0.42", Scontrol: s})
			if err := tt.call(c); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Args, Env []string }
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got.Args); d != "" {
				t.Error(d)
			}
			if strings.Contains(string(data), "secret") {
				t.Error("the token reached scontrol")
			}
		})
	}
}

func TestScontrolErrors(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		want       error
		not        error
	}{
		{"unknown id", "Invalid job id specified for job 999", ErrNotFound, ErrUnknownOutcome},
		{"disabled", "Requested operation is presently disabled for job 5", ErrRefused, ErrUnknownOutcome},
		{"denied", "slurm_update error: Access/permission denied", ErrDenied, ErrUnknownOutcome},
		{"finished", "Job/step already completing or completed for job 5", ErrFinished, ErrUnknownOutcome},
		{"controller away", "Unable to contact slurm controller (connect failure)", ErrUnavailable, ErrUnknownOutcome},
		{"controller away half-way", "Zero Bytes were transmitted or received", ErrUnknownOutcome, ErrRefused},
		{"controller away, requeue", "Unexpected message received for job 1", ErrUnavailable, ErrRefused},
		{"other words", "flood", ErrUnknownOutcome, ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := fake(t, tt.says)
			err := newClient(t, Options{URL: "http://slurm:1", Version: "v0.0.42", Scontrol: s}).Requeue(t.Context(), JobID(5).Ref())
			if !errors.Is(err, tt.want) || errors.Is(err, tt.not) || len(err.Error()) > 600 {
				t.Errorf("%v", err)
			}
		})
	}
	s, _ := fake(t, "hang")
	s.Timeout = 10 * time.Millisecond
	c := newClient(t, Options{URL: "http://slurm:1", Version: "v0.0.42", Scontrol: s})
	if err := c.Requeue(t.Context(), JobID(5).Ref()); !errors.Is(err, ErrUnknownOutcome) {
		t.Error(err)
	}
	c = newClient(t, Options{URL: "http://slurm:1", Version: "v0.0.42", Scontrol: Scontrol{Argv: []string{"/nonexistent/scontrol"}}})
	if err := c.Requeue(t.Context(), JobID(5).Ref()); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
		t.Error(err)
	}
	c = newClient(t, Options{URL: "http://slurm:1", Version: "v0.0.42"})
	if err := c.Requeue(t.Context(), JobID(5).Ref()); !errors.Is(err, ErrNeedsScontrol) {
		t.Error(err)
	}
}
