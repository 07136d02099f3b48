package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func liveClients(t *testing.T) (*Client, *Client, map[string]any) {
	dir := os.Getenv("LIVE_DIR")
	if dir == "" {
		t.Skip()
	}
	data, _ := os.ReadFile(filepath.Join(dir, "cluster.json"))
	var d map[string]any
	json.Unmarshal(data, &d)
	var argv []string
	for _, a := range d["scontrol"].([]any) {
		argv = append(argv, a.(string))
	}
	c, err := New(Options{URL: d["rest_url"].(string), TokenFile: d["token_file"].(string), Scontrol: Scontrol{Argv: argv}})
	if err != nil {
		t.Fatal(err)
	}
	u, err := New(Options{URL: "unix:" + d["rest_socket"].(string)})
	if err != nil {
		t.Fatal(err)
	}
	return c, u, d
}

func TestLive(t *testing.T) {
	c, u, d := liveClients(t)
	ctx := context.Background()
	pong, err := c.Ping(ctx)
	t.Logf("ping %+v %v", pong, err)
	pong, err = u.Ping(ctx)
	t.Logf("unix ping %+v %v", pong, err)
	s, err := u.State(ctx, time.Now())
	t.Logf("unix state: %d jobs %v", len(s.Jobs), err)
	s, err = c.State(ctx, time.Now())
	t.Logf("state: %v %+v %v", err, s.Odd, s.SlurmTime)
	for _, n := range s.Nodes {
		t.Logf("node %+v", n)
	}
	for _, p := range s.Partitions {
		t.Logf("part %+v", p)
	}
	for _, r := range s.Reservations {
		t.Logf("resv %+v", r)
	}
	diag, err := c.Diag(ctx)
	t.Logf("diag %+v %v", diag, err)
	show := func(what string) {
		states, err := c.JobStates(ctx)
		t.Logf("%s states %+v %v", what, states, err)
		jobs, _, err := c.jobs(ctx, tally{}, time.Time{})
		for _, j := range jobs {
			t.Logf("   %s id=%d %v %v %s held=%v nice=%d restarts=%d nodes=%v req=%v gpus=%v/%d limit=%v odd=%v begin=%v requeue=%v", j.Ref(), j.ID, j.State, j.Flags, j.Reason, j.Held, j.Nice, j.Restarts, j.Nodes, j.Request.RequiredNodes, j.NodeGPUs, j.Request.GPUs, j.TimeLimit, j.Odd, j.Begin, j.Requeue)
		}
		if err != nil {
			t.Log(err)
		}
	}
	show("start")
	bad, _ := New(Options{URL: d["rest_url"].(string), TokenFile: "/tmp/uc-slurm-badtoken"})
	os.WriteFile("/tmp/uc-slurm-badtoken", []byte("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjE3OTg1NjU1MjgsImlhdCI6MTc5NTk3MzUyOCwic3VuIjoiYWxpY2UifQ.AAAA\n"), 0o600)
	_, err = bad.State(ctx, time.Now())
	t.Logf("bad token: %v (unauthorised %v)", err, errors.Is(err, ErrUnauthorised))
	_, err = c.Job(ctx, 999999)
	t.Logf("no job: %v (%v)", err, errors.Is(err, ErrNotFound))
	err = c.Update(ctx, JobID(999999).Ref(), Update{Nice: Some(int64(5))})
	t.Logf("update no job: %v (%v)", err, errors.Is(err, ErrNotFound))
	err = c.Signal(ctx, JobID(999999).Ref(), Signal{Name: USR1})
	t.Logf("signal no job: %v (%v)", err, errors.Is(err, ErrNotFound))
	err = c.Requeue(ctx, JobID(999999).Ref())
	t.Logf("requeue no job: %v (%v)", err, errors.Is(err, ErrNotFound))

	id, err := c.Submit(ctx, SubmitRequest{Name: "live", Script: "#!/bin/bash\ntrap 'echo got; exit 99' USR1\nwhile :; do sleep 0.2; done\n", WorkDir: "/tmp", TRESPerNode: "gres/gpu:2", Nodes: "1", Requeue: true, TimeLimit: 10 * time.Minute, Comment: "caf\u00e9 unisched:class=besteffort", BeginTime: time.Now().Add(time.Hour)})
	t.Logf("submit %d %v", id, err)
	if err != nil {
		return
	}
	j, err := c.Job(ctx, id)
	t.Logf("job %+v %v", j, err)
	report := func(what string, err error) {
		j, e := c.Job(ctx, id)
		t.Logf("%s: %v -> %v %v %s held=%v nice=%d restarts=%d req=%v nodes=%v gpus=%d pn=%q pj=%q tasks=%d n=%v limit=%v ex=%v begin=%v %v", what, err, j.State, j.Flags, j.Reason, j.Held, j.Nice, j.Restarts, j.Request.RequiredNodes, j.Nodes, j.Request.GPUs, j.Request.TRESPerNode, j.Request.TRESPerJob, j.Request.Tasks, j.Request.Nodes, j.TimeLimit, j.Request.ExcludedNodes, j.Begin, e)
	}
	ref := j.Ref()
	report("everything", c.Update(ctx, ref, Update{SeenPending: true, Nice: Some(int64(7)), RequiredNodes: []string{"n1", "n2"}, Tasks: Some(2), TRESPerNode: Some("gres/gpu:1"),
		Partition: Some("gpu"), TimeLimit: Some(90 * time.Second), Requeue: Some(true), CPUsPerTask: Some(1), BeginTime: Some(time.Now().Add(time.Minute * 30))}))
	report("exclude", c.Update(ctx, ref, Update{ExcludedNodes: Some([]string{"n2"})}))
	report("un-exclude", c.Update(ctx, ref, Update{ExcludedNodes: Some([]string(nil))}))
	report("clear pin", c.ClearRequiredNodes(ctx, ref, 0))
	report("node->job", c.Update(ctx, ref, Update{SeenPending: true, TRESPerNode: Some(""), TRESPerJob: Some("gres/gpu:3"), Nodes: Some(1), Tasks: Some(1)}))
	report("job->node", c.Update(ctx, ref, Update{SeenPending: true, TRESPerNode: Some("gres/gpu:2"), TRESPerJob: Some(""), Nodes: Some(1), Tasks: Some(1)}))
	report("qos", c.Update(ctx, ref, Update{QOS: Some("normal")}))
	report("hold", c.Update(ctx, ref, Update{Hold: Some(true)}))
	report("release+begin", c.Update(ctx, ref, Update{Hold: Some(false), BeginTime: Some(time.Time{}), SeenPending: true, RequiredNodes: []string{"n2"}}))
	wait := func(want BaseState) {
		for range 100 {
			if j, err := c.Job(ctx, id); err == nil && j.State == want && !j.HasFlag(FlagCompleting) {
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
		t.Error("never", want)
	}
	wait(StateRunning)
	report("running", nil)
	report("tres on running", c.Update(ctx, ref, Update{TRESPerNode: Some("gres/gpu:1")}))
	time.Sleep(2 * time.Second)
	report("hold running", c.Update(ctx, ref, Update{Hold: Some(true)}))
	report("signal", c.Signal(ctx, ref, Signal{Name: USR1, BatchOnly: true}))
	wait(StatePending)
	report("after 99", nil)
	report("release", c.Update(ctx, ref, Update{Hold: Some(false), BeginTime: Some(time.Time{})}))
	wait(StateRunning)
	report("running", nil)
	report("requeue", c.Requeue(ctx, ref))
	time.Sleep(1500 * time.Millisecond)
	report("after requeue", nil)
	wait(StatePending)
	report("signal pending", c.Signal(ctx, ref, Signal{Name: USR1}))
	report("requeue pending", c.Requeue(ctx, ref))

	done, err := c.Submit(ctx, SubmitRequest{Name: "done", Script: "#!/bin/sh\ntrue\n", WorkDir: "/tmp", Requeue: true})
	t.Logf("submit %d %v", done, err)
	for range 50 {
		if j, err := c.Job(ctx, done); err == nil && j.State.Finished() && !j.HasFlag(FlagCompleting) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	ids := id
	id = done
	report("done", nil)
	report("requeue finished", c.Requeue(ctx, done.Ref()))
	time.Sleep(time.Second)
	report("after requeue finished", nil)
	report("update finished", c.Update(ctx, done.Ref(), Update{Nice: Some(int64(5))}))
	report("signal finished", c.Signal(ctx, done.Ref(), Signal{Name: USR1}))
	id = ids
	show("before arrays")
	jobs, _, _ := c.jobs(ctx, tally{}, time.Time{})
	for _, j := range jobs {
		if j.ArrayJobID != 0 && j.State == StateRunning {
			c.send(ctx, c.end(), c.end().version, call{op: "x", method: "DELETE", path: "/job/" + j.Ref().String(), write: true, timeout: time.Second * 5})
		}
	}
	arr, err := c.Submit(ctx, SubmitRequest{Name: "arr", Script: "#!/bin/bash\nsleep 100\n", WorkDir: "/tmp", TRESPerNode: "gres/gpu:1", Nodes: "1", Requeue: true, TimeLimit: 10 * time.Minute, Array: "1-3"})
	t.Logf("array %d %v", arr, err)
	for range 50 {
		time.Sleep(200 * time.Millisecond)
		if j, err := c.Job(ctx, arr); err == nil && j.ArrayTask >= 0 && j.State == StateRunning {
			break
		}
	}
	show("array runs")
	last, err := c.Job(ctx, arr)
	t.Logf("last %s %v", last.Ref(), err)
	t.Logf("nice of last: %v", c.Update(ctx, last.Ref(), Update{Nice: Some(int64(9)), TimeLimit: Some(5 * time.Minute)}))
	t.Logf("signal last: %v", c.Signal(ctx, last.Ref(), Signal{Name: CONT}))
	t.Logf("hold last: %v", c.Update(ctx, last.Ref(), Update{Hold: Some(true)}))
	t.Logf("requeue last: %v", c.Requeue(ctx, last.Ref()))
	for range 50 {
		time.Sleep(200 * time.Millisecond)
		if j, err := c.Job(ctx, arr); err == nil && j.State == StatePending {
			break
		}
	}
	show("last requeued")
	t.Logf("release last + begin + pin: %v", c.Update(ctx, last.Ref(), Update{Hold: Some(false), BeginTime: Some(time.Time{}), SeenPending: true, RequiredNodes: []string{"n2"}, TRESPerNode: Some("gres/gpu:1"), Tasks: Some(1), ExcludedNodes: Some([]string(nil)), Requeue: Some(true)}))
	time.Sleep(2 * time.Second)
	show("last released")
	_, err = c.do(ctx, call{op: "raw nice", method: "POST", path: "/job/" + arr.String(), body: map[string]any{"nice": 33}, write: true, timeout: time.Second * 5})
	t.Logf("raw nice on the shared id %v", err)
	show("after raw nice")
	c.send(ctx, c.end(), c.end().version, call{op: "x", method: "DELETE", path: "/job/" + arr.String(), write: true, timeout: time.Second * 5})
}
