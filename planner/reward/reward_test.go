package reward

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
)

func TestFilled(t *testing.T) {
	got := Config{Ratio: math.NaN(), Filler: -1, Late: 0.5, AgeSpan: math.Inf(1)}.Filled()
	want := Default()
	want.Late = 0.5
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestWeight(t *testing.T) {
	for in, want := range map[float64]float64{0: 1, 1: 1, 2.5: 2.5, -3: 1, 1e9: 1000, 1e-9: 0.001} {
		if got := Weight(planner.Job{Weight: in}); got != want {
			t.Errorf("weight %g counts %g, want %g", in, got, want)
		}
	}
	if got := Weight(planner.Job{Weight: math.NaN()}); got != 1 {
		t.Errorf("NaN counts %g", got)
	}
}

func TestCurves(t *testing.T) {
	c := Default()
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"strict in time", c.Tier(100), 30},
		{"third soft tier", c.Tier(50), 15},
		{"a tenth of a long job", Done(10, 1, 1), 0.1},
		{"at half speed", Done(10, 1, 0.5), 0.05},
		{"all of a short job", Done(0.3, 1, 1), 1},
		{"nothing left", Done(0, 1, 1), 1},
		{"a suspension of half a unit spared", Saved(10, 0.5), 0.05},
		{"best effort at the end of its patience", c.Age(planner.BestEffort, 24, 10), 0},
		{"and a span later", c.Age(planner.BestEffort, 96, 10), 1},
		{"two days of work: patient for a day", c.Age(planner.BestEffort, 288, 576), 0},
		{"and aged by one a day later", c.Age(planner.BestEffort, 576, 576), 1},
		{"eight hours of work: as patient", c.Age(planner.BestEffort, 192, 96), 1},
		{"a profiler after three units", c.Age(planner.Profiler, 3, 1000), 1},
	} {
		if math.Abs(x.got-x.want) > 1e-12 {
			t.Errorf("%s: %g, want %g", x.name, x.got, x.want)
		}
	}
}

// TestMonotone: waiting longer never pays less, and shorter jobs never earn less per lease than longer ones.
func TestMonotone(t *testing.T) {
	c := Default()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0, 1e4).Draw(t, "a"), rapid.Float64Range(0, 1e4).Draw(t, "b")
		left := rapid.Float64Range(0, 1e4).Draw(t, "left")
		a, b = min(a, b), max(a, b)
		for _, class := range []planner.Class{planner.Strict, planner.BestEffort, planner.Profiler} {
			if c.Age(class, a, left) > c.Age(class, b, left) {
				t.Errorf("age %s falls from %g to %g", class, a, b)
			}
			if c.Age(class, left, a) < c.Age(class, left, b) {
				t.Errorf("with %g left a %s job has aged less than with %g", a, class, b)
			}
		}
		if Done(a, 1, 1) < Done(b, 1, 1) || Saved(a, 1) < Saved(b, 1) && a > 0 {
			t.Errorf("longer pays more: %g, %g", a, b)
		}
	})
}

func TestShares(t *testing.T) {
	for _, c := range []struct{ share, used, want float64 }{
		{0.4, 0, 2}, {0.4, 0.4, 1}, {0.4, 0.8, 0.5}, {0.4, 1, 0.5}, {0.4, 0.2, math.Sqrt2}, {0, 0.5, 1}, {math.NaN(), 0.5, 1}, {0.4, math.NaN(), 1},
	} {
		if got := Share(c.share, c.used); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("share %g, used %g: factor %g, want %g", c.share, c.used, got, c.want)
		}
	}
	for _, c := range []struct{ weight, factor, claim, urgency float64 }{
		{0, 0, 1, 1}, {2, 2, 4, 2.02}, {1, 0.5, 0.5, 0.99}, {1, 100, 2, 1.01}, {1, math.NaN(), 1, 1},
	} {
		j := planner.Job{Weight: c.weight, ShareFactor: c.factor}
		if Claim(j) != c.claim || math.Abs(Urgency(j)-c.urgency) > 1e-12 {
			t.Errorf("weight %g, factor %g: claim %g, urgency %g", c.weight, c.factor, Claim(j), Urgency(j))
		}
	}
}
