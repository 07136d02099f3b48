package lease

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The queue of a slot comes out as one sort of all of it would put it, whatever the keys, also those that no class was meant for.
func TestQueueInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f forecast
		for range rapid.IntRange(1, 3).Draw(t, "slots") {
			n := rapid.IntRange(0, 40).Draw(t, "jobs")
			f.queue = f.queue[:0]
			for rank := range n {
				key := rapid.OneOf(
					rapid.Map(rapid.IntRange(-50, 50), func(v int) float64 { return float64(v) / 4 }),
					rapid.Map(rapid.SampledFrom([]float64{1, 2, 3}), func(c float64) float64 { return c*classes + float64(rank) }),
					rapid.Float64(),
				).Draw(t, "key")
				f.queue = append(f.queue, claim{key: key, rank: rank, ji: n - rank})
			}
			want := slices.Clone(f.queue)
			slices.SortFunc(want, claim.compare)
			f.sort()
			if d := cmp.Diff(want, f.queue, cmp.AllowUnexported(claim{})); n > 0 && d != "" {
				t.Fatal(d)
			}
		}
	})
}
