package lease

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Places come out as a plain sort by keys and job would put them: in order already, in runs, backwards, with ties, with keys that are no numbers.
func TestSortPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]float64{0, 1, 2, 2.5, -1, math.Inf(1), math.Inf(-1), math.NaN()})
		var list []place
		for len(list) < 200 && rapid.IntRange(0, 9).Draw(t, "more") > 0 {
			run, at := rapid.IntRange(1, 30).Draw(t, "run"), rapid.Float64Range(-5, 5).Draw(t, "at")
			step := rapid.SampledFrom([]float64{-0.5, 0, 0.5}).Draw(t, "step")
			for k := range run {
				key := [2]float64{at + step*float64(k), few.Draw(t, "second")}
				if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
					key[0] = few.Draw(t, "first")
				}
				list = append(list, place{key, len(list)})
			}
		}
		want := slices.Clone(list)
		slices.SortFunc(want, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.key[0], b.key[0]), cmp.Compare(a.key[1], b.key[1]), a.job-b.job)
		})
		jobs := func(ps []place) (out []int) {
			for _, p := range ps {
				out = append(out, p.job)
			}
			return out
		}
		if d := gocmp.Diff(jobs(want), jobs(sortPlaces(slices.Clone(list), make([]place, len(list))))); d != "" {
			t.Fatal(d)
		}
	})
}
