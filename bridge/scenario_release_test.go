package bridge_test

import (
	"strings"
	"testing"
	"time"

	"unisched/bridge"
)

// A running job that was released keeps our node list until it is back in the queue: the view says so, and `release` with the daemon dead counts it as
// still to come, not as a failure that a timer would report for ever.
func TestScenarioReleasedWhilePinned(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.fill(1, 3000)
	w.order(bridge.Order{Kind: bridge.OrderRelease, Job: w.ids["long1"]})
	w.run(time.Minute, nil)
	v := w.view("long1")
	if len(v.Changed.Pinned) == 0 {
		t.Fatalf("nothing is pinned: %+v", v.Changed)
	}
	if !v.Releasing {
		t.Error("the view does not say that it is being given back")
	}
	if !strings.Contains(v.Why, "released") || !strings.Contains(v.Why, "node list") {
		t.Errorf("the view says %q", v.Why)
	}
	w.b = nil // the daemon is dead
	if rep := w.releaseDead(); len(rep.Failed) > 0 || rep.Waiting != 1 {
		t.Errorf("release with the daemon dead: %+v", rep)
	}
}
