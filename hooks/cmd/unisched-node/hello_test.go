package main

import (
	"errors"
	"testing"
	"time"
)

// A watcher without news says once a minute that it is there, and of which version it is; one with news needs not.
func TestHello(t *testing.T) {
	n := newNode(t)
	hello := func(at time.Time) int {
		t.Helper()
		before := len(n.reports)
		if err := n.w.hello(t.Context(), at); err != nil {
			t.Error(err)
		}
		return len(n.reports) - before
	}
	if hello(t0) != 1 || hello(t0.Add(time.Second)) != 0 || hello(t0.Add(helloEvery)) != 1 {
		t.Errorf("%d reports", len(n.reports))
	}
	r := n.reports[1]
	if r.Version != version() || r.Version == "" || r.Node != "host" || r.Seq != 2 || len(r.Jobs) != 0 {
		t.Errorf("%+v", r)
	}
	n.write("n1/7/run-0", "{\"iter\":1}\n")
	at := t0.Add(3 * helloEvery)
	if got := n.round(at); len(got) != 1 {
		t.Errorf("round: %v", got)
	}
	if hello(at.Add(time.Second)) != 0 {
		t.Error("a hello right after a report")
	}
	n.answer = func() (bool, error) { return false, errors.New("away") }
	if err := n.w.hello(t.Context(), at.Add(helloEvery)); err == nil {
		t.Error("the daemon is away, and nobody is told")
	}
	n.answer = nil
	if hello(at.Add(helloEvery+time.Second)) != 1 {
		t.Error("no new try")
	}
}
