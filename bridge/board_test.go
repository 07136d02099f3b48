package bridge

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/estimator"
)

func TestCompareNames(t *testing.T) {
	want := []string{"", "a", "n1", "n02", "n2", "n10", "n10a", "n10b2", "n10b11", "n99999999999999999999999", "node-1"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareNames)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestThinned(t *testing.T) {
	var c []estimator.Point
	for i := range 2000 {
		c = append(c, estimator.Point{Iter: int64(i)})
	}
	got := thinned(c)
	if len(got) != maxCurveShown || got[0].Iter != 0 || got[len(got)-1].Iter != 1999 {
		t.Errorf("%d points, from %d to %d", len(got), got[0].Iter, got[len(got)-1].Iter)
	}
	if short := thinned(c[:5]); cmp.Diff(c[:5], short) != "" {
		t.Errorf("%v", short)
	}
}

// The history of loads has one entry a unit and a bound, and what was published is never written to.
func TestKeepLoad(t *testing.T) {
	b := &Bridge{cfg: Defaults()}
	t0 := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	var early []Load
	for i := range 2 * maxLoads * 3 {
		b.keepLoad(&View{At: t0.Add(time.Duration(i) * 100 * time.Second), GPUs: GPUCount{Total: 8, Managed: i}, Counts: []PhaseCount{{Waiting, 3}, {Running, 2}, {Completed, 9}}})
		if i == 10 {
			early = b.loads
		}
	}
	if len(b.loads) != maxLoads || b.loads[1].At.Sub(b.loads[0].At) != 5*time.Minute || b.loads[0].Waiting != 3 {
		t.Errorf("%d loads, the first %+v and %+v", len(b.loads), b.loads[0], b.loads[1])
	}
	if len(early) != 4 || early[3].Managed != 9 {
		t.Errorf("early ones: %+v", early)
	}
}

// What an action notes carries its id, before the call and after it, also when old events make room for new ones; what was there before carries none of it.
func TestSign(t *testing.T) {
	r := &Record{}
	t0 := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for range maxEvents {
		r.note(t0, "progress", "")
	}
	was := r.clone()
	r.note(t0, "release", "to start on n1:2")
	r.sign(was, "a-1")
	r.note(t0, "unknown", "start: timeout")
	r.sign(was, "a-1")
	var got []string
	for _, e := range r.Events[len(r.Events)-3:] {
		got = append(got, e.What+" "+e.Action)
	}
	if d := cmp.Diff([]string{"progress ", "release a-1", "unknown a-1"}, got); d != "" || len(r.Events) != maxEvents {
		t.Error(d, len(r.Events))
	}
}
