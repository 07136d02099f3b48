package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/slurm"
)

func TestTrueSpeeds(t *testing.T) {
	one, two := planner.Shape{1}, planner.Shape{1, 1}
	truth := func(s planner.Shape) float64 { return float64(10 * s.GPUs()) }
	at := func(s planner.Shape, v float64) planner.ShapeSpeed {
		return planner.ShapeSpeed{Shape: s, Speed: planner.Exactly(v)}
	}
	for _, c := range []struct {
		name     string
		in, want []planner.ShapeSpeed
		same     bool // it is the list itself
	}{
		{"true and in order", []planner.ShapeSpeed{at(two, 20), at(one, 10)}, []planner.ShapeSpeed{at(two, 20), at(one, 10)}, true},
		{"true, out of order", []planner.ShapeSpeed{at(one, 10), at(two, 20)}, []planner.ShapeSpeed{at(two, 20), at(one, 10)}, false},
		{"one is wrong", []planner.ShapeSpeed{at(two, 20), at(one, 11)}, []planner.ShapeSpeed{at(two, 20), at(one, 10)}, false},
		{"one has a width", []planner.ShapeSpeed{at(two, 20), {Shape: one, Speed: planner.Interval{Low: 9, Mid: 10, High: 11}}},
			[]planner.ShapeSpeed{at(two, 20), at(one, 10)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := append([]planner.ShapeSpeed(nil), c.in...)
			got := trueSpeeds(c.in, truth)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(before, c.in); d != "" {
				t.Errorf("it wrote to the loop's own list: %s", d)
			}
			if same := &got[0] == &c.in[0]; same != c.same {
				t.Errorf("the list itself: %v", same)
			}
		})
	}
}

func TestByJob(t *testing.T) {
	var l byJob[string]
	a, b := "a", "b"
	l.set(1, &a)
	l.set(4, &b)
	for id, want := range []*string{nil, &a, nil, nil, &b, nil} {
		if got := l.of(slurm.JobID(id)); got != want {
			t.Errorf("job %d: %v", id, got)
		}
	}
	if l.of(-1) != nil {
		t.Error("a job before the first")
	}
}

func TestTruthRemembersSpeeds(t *testing.T) {
	model := Published().Models()[0]
	tr := truthOf(trace.Job{GPUs: 4, Iterations: 100, Duration: 100 * time.Second, Model: model}, 8, Published())
	shape := planner.Shape{2, 2}
	fresh := func(s planner.Shape) float64 {
		return Published().Relative(model, 4, s, 8, false) / tr.iter.Seconds()
	}
	for range 2 {
		for _, s := range []planner.Shape{{4}, {2, 2}, {1, 1, 1, 1}, {8}} {
			if got, want := tr.speed(s), fresh(s); got != want {
				t.Errorf("%v: %v instead of %v", s, got, want)
			}
		}
	}
	tr.speed(shape)
	shape[0] = 3 // what was asked about is not what is remembered
	if got, want := tr.speed(planner.Shape{2, 2}), fresh(planner.Shape{2, 2}); got != want {
		t.Errorf("%v instead of %v", got, want)
	}
}
