package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/bridge/control"
	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
)

// simulated is the control socket of a daemon an hour into a simulation with running, waiting and ended jobs.
func simulated(t *testing.T) string {
	t.Helper()
	job := func(id string, gpus int, submit, duration, due time.Duration) trace.Job {
		j := trace.Job{ID: id, User: "anna", GPUs: gpus, Submit: submit, Duration: duration, Iterations: int64(duration / time.Second), Class: planner.BestEffort, Model: "resnet101"}
		if due > 0 {
			j.Class, j.Tiers = planner.Strict, []trace.Tier{{After: due, Value: 100}}
		}
		return j
	}
	jobs := []trace.Job{job("a", 8, 0, 2*time.Hour, 3*time.Hour), job("b", 8, 0, 2*time.Hour, 3*time.Hour), job("c", 8, 10*time.Minute, time.Hour, 8*time.Hour), job("d", 2, 10*time.Minute, time.Hour, 0)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var view *bridge.View
	var first time.Time
	_, err := sim.Run(ctx, sim.Config{Nodes: 2, GPUsPerNode: 8, Speeds: sim.Published(), Look: func(v *bridge.View) {
		if first.IsZero() {
			first = v.At
		}
		if view == nil && v.At.Sub(first) > time.Hour {
			view = v
			stop()
		}
	}}, jobs, lease.New(lease.Config{}, nil))
	if view == nil {
		t.Fatal("no view:", err)
	}
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := control.Listen(path, 0o600, -1)
	if err != nil {
		t.Fatal(err)
	}
	served, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- control.Server{View: func() *bridge.View { return view }, Operator: func(uint32) bool { return true },
			Order: func(context.Context, bridge.Order) (string, error) { return "done", nil },
			Asker: &ask.Asker{Clock: func() time.Time { return view.At }}}.Serve(served, l)
	}()
	t.Cleanup(func() { end(); <-done })
	return path
}
