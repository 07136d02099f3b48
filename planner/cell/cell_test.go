package cell

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFitPrefersWhatBreaksLeast(t *testing.T) {
	for _, c := range []struct {
		name    string
		g       int
		free    []int // candidate nodes
		want    int   // index of the best
		missing bool
	}{
		{name: "exact fit wins", g: 2, free: []int{8, 4, 2, 6}, want: 2},
		{name: "a 2-block beside a 4-block beats splitting a 4-block", g: 2, free: []int{4, 6}, want: 1},
		{name: "fullest of equals", g: 1, free: []int{7, 3, 5}, want: 1},
		{name: "odd shares count GPUs", g: 3, free: []int{8, 3}, want: 1},
		{name: "nothing fits", g: 5, free: []int{4, 4, 0}, missing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			best, bestRank := -1, 0
			for i, f := range c.free {
				if r, ok := Fit(f, c.g); ok && (best < 0 || r < bestRank) {
					best, bestRank = i, r
				}
			}
			if c.missing != (best < 0) || !c.missing && best != c.want {
				t.Errorf("best node %d, want %d", best, c.want)
			}
		})
	}
}

func TestRootsOfOddNodes(t *testing.T) {
	for gpus, want := range map[int][]Cell{
		0: nil,
		3: {{0, 2}, {2, 1}},
		6: {{0, 4}, {4, 2}},
		8: {{0, 8}},
	} {
		if d := cmp.Diff(want, NewTree(gpus).Free()); d != "" {
			t.Errorf("%d GPUs: %s", gpus, d)
		}
	}
}

// TestTreeProperties holds HiveD's properties: cells partition the leaves, buddies never lie free side by side, an allocation succeeds iff a
// large enough cell is free and splits the smallest, and freeing everything in any order restores the initial cells.
func TestTreeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(0, 16).Draw(t, "gpus")
		tree, used := NewTree(gpus), []Cell(nil)
		initial := tree.Free()
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(used) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(used)-1).Draw(t, "which")
				if !tree.Release(used[i]) {
					t.Fatalf("release of %v refused", used[i])
				}
				if tree.Release(used[i]) {
					t.Fatalf("second release of %v accepted", used[i])
				}
				used = append(used[:i], used[i+1:]...)
			} else {
				g := rapid.IntRange(1, 9).Draw(t, "g")
				smallest := 0
				for _, c := range tree.Free() {
					if c.Size >= 1<<Level(g) && (smallest == 0 || c.Size < smallest) {
						smallest = c.Size
					}
				}
				before := sizes(tree.Free())
				c, ok := tree.Alloc(g)
				if ok != (smallest > 0) {
					t.Fatalf("alloc(%d) = %v with free cells %v", g, ok, before)
				}
				if ok {
					used = append(used, c)
					if after := sizes(tree.Free()); after[smallest] != before[smallest]-1 {
						t.Fatalf("alloc(%d) did not split the smallest cell: %v to %v", g, before, after)
					}
				}
			}
			partition(t, gpus, tree.Free(), used)
		}
		for _, c := range rapid.Permutation(used).Draw(t, "order") {
			tree.Release(c)
		}
		if d := cmp.Diff(initial, tree.Free()); d != "" {
			t.Fatalf("not restored: %s", d)
		}
	})
}

func sizes(cs []Cell) map[int]int {
	m := map[int]int{}
	for _, c := range cs {
		m[c.Size]++
	}
	return m
}

func partition(t *rapid.T, gpus int, free, used []Cell) {
	owner := make([]int, gpus)
	for _, c := range append(append([]Cell(nil), free...), used...) {
		for g := c.First; g < c.First+c.Size; g++ {
			owner[g]++
		}
	}
	for g, n := range owner {
		if n != 1 {
			t.Fatalf("GPU %d lies in %d cells: free %v, used %v", g, n, free, used)
		}
	}
	for i, a := range free {
		for _, b := range free[:i] {
			if a.Size == b.Size && a.First^a.Size == b.First {
				t.Fatalf("buddies %v and %v lie free", a, b)
			}
		}
	}
}

// TestTake: GPUs taken by index, in any order, leave cells that partition the rest, and giving them back restores the tree.
func TestTake(t *testing.T) {
	tree := NewTree(8)
	for _, g := range []int{1, 4} {
		if !tree.Take(g) || tree.Take(g) {
			t.Fatalf("GPU %d", g)
		}
	}
	if d := cmp.Diff([]Cell{{0, 1}, {2, 2}, {5, 1}, {6, 2}}, tree.Free()); d != "" || tree.Largest() != 2 {
		t.Errorf("largest %d: %s", tree.Largest(), d)
	}
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 16).Draw(t, "gpus")
		tree, used := NewTree(gpus), []Cell(nil)
		initial := tree.Free()
		for _, g := range rapid.SliceOf(rapid.IntRange(-1, gpus)).Draw(t, "take") {
			taken := slices.Contains(used, Cell{g, 1})
			if got := tree.Take(g); got != (g >= 0 && g < gpus && !taken) {
				t.Fatalf("take %d: %v", g, got)
			} else if got {
				used = append(used, Cell{g, 1})
			}
			partition(t, gpus, tree.Free(), used)
		}
		for _, c := range used {
			tree.Release(c)
		}
		if d := cmp.Diff(initial, tree.Free()); d != "" {
			t.Fatal(d)
		}
	})
}
