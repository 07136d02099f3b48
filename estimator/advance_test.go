package estimator

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner"
)

// Bringing an estimate of declared iterations up to date is the same as making it anew.
func TestAdvanceIsEstimate(t *testing.T) {
	j := Job{Class: planner.Strict, Requested: planner.Shape{4}, Stop: Stop{Kind: Iterations, Iterations: 50000}, Done: 1000, Lease: 10 * time.Minute,
		Deadline: now.Add(10 * time.Hour), Samples: []Sample{{Shape: planner.Shape{1}, IterTime: 1}, {Shape: planner.Shape{4}, IterTime: 0.4, N: 100}}}
	var f Fabric
	before := f.Estimate(j, now)
	kept := f.Estimate(j, now)
	later := now.Add(3 * time.Hour)
	j.Done, j.UnsavedSeconds = 21000, 77
	want := f.Estimate(j, later)
	if d := cmp.Diff(want, f.Advance(before, j, 20000, later)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(kept, before); d != "" {
		t.Error("the old estimate was changed:", d)
	}
	for _, more := range []int64{-5, 49000, math.MaxInt64} {
		if e := f.Advance(before, j, more, later); sound(e) != "" || e.Iterations.Mid > before.Iterations.Mid {
			t.Errorf("%d more: %+v", more, e)
		}
	}
}

func TestPastAnswers(t *testing.T) {
	p := Past{Samples: []Sample{{Shape: planner.Shape{1}}, {Shape: planner.Shape{2, 2}}}}
	for _, tt := range []struct {
		step planner.Shape
		want bool
	}{{planner.Shape{1}, true}, {planner.Shape{2}, false}, {planner.Shape{1, 1}, true}} {
		if got := p.Answers(tt.step); got != tt.want {
			t.Errorf("step %v: %v", tt.step, got)
		}
	}
}

func TestHistoryRestore(t *testing.T) {
	var want, got History
	for i, name := range []string{"b", "a", "c", "a"} {
		k := Key{User: "u", Name: name}
		want = want.Remember(k, Job{Samples: []Sample{{Shape: planner.Shape{1}, IterTime: float64(i + 1), At: now}}}, 0, now)
		p, _ := want.Find(k, now)
		got = got.Restore(p)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for i := range maxPasts + 10 {
		got = got.Restore(Past{Key: Key{Name: itoa(i)}})
	}
	if len(got.Pasts) > maxPasts {
		t.Errorf("%d pasts restored", len(got.Pasts))
	}
}
