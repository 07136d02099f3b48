package cell

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNetwork(t *testing.T) {
	paths := [][]string{{"s0", "left", "root"}, {"s0", "left", "root"}, {"s1", "left", "root"}, {"s2", "right", "root"}, {}}
	w := NewNetwork(paths)
	want := []Group{{"s0", 0, []int{0, 1}}, {"s1", 0, []int{2}}, {"s2", 0, []int{3}}, {"left", 1, []int{0, 1, 2}}, {"root", 2, []int{0, 1, 2, 3}}}
	if d := cmp.Diff(want, w.Groups()); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		name string
		free []int
		gpus int
		want []string
	}{
		{"the fullest leaf that will do", []int{4, 4, 6, 5, 8}, 5, []string{"s2", "s1", "s0", "left", "root"}},
		{"a leaf before what is above", []int{4, 4, 6, 5, 8}, 7, []string{"s0", "left", "root"}},
		{"two leaves of one side", []int{4, 4, 6, 5, 8}, 9, []string{"left", "root"}},
		{"overfull counts as nothing", []int{-4, 4, 0, 0, 0}, 4, []string{"s0", "left", "root"}},
		{"none", []int{1, 1, 1, 1, 8}, 5, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, i := range w.Order(c.free, c.gpus, nil) {
				got = append(got, w.Groups()[i].Name)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if n := len(NewNetwork([][]string{{"s"}, {"s"}}).Groups()); n != 0 {
		t.Errorf("one switch for all: %d cells", n)
	}
}

// TestNetworkProperties: cells of one level share no node, cells of two levels are nested or apart, and Order lists exactly those with room, smaller levels first.
func TestNetworkProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths, free := make([][]string, rapid.IntRange(1, 12).Draw(t, "nodes")), []int(nil)
		for i := range paths {
			free = append(free, rapid.IntRange(-1, 8).Draw(t, "free"))
			if leaf := rapid.IntRange(0, 6).Draw(t, "leaf"); leaf < 6 {
				paths[i] = []string{fmt.Sprint("s", leaf), fmt.Sprint("m", leaf/2), "root"}
			}
		}
		w := NewNetwork(paths)
		in := func(g Group, n int) bool { return slices.Contains(g.Nodes, n) }
		for i, a := range w.Groups() {
			for _, b := range w.Groups()[:i] {
				common := 0
				for _, n := range a.Nodes {
					if in(b, n) {
						common++
					}
				}
				if a.Level == b.Level && common > 0 || common > 0 && common < len(b.Nodes) || common == len(a.Nodes) {
					t.Fatalf("cells %v and %v", a, b)
				}
			}
		}
		gpus := rapid.IntRange(1, 20).Draw(t, "gpus")
		order, room := w.Order(free, gpus, nil), 0
		for _, g := range w.Groups() {
			sum := 0
			for _, n := range g.Nodes {
				sum += max(0, free[n])
			}
			if sum >= gpus {
				room++
			}
		}
		if len(order) != room || !slices.IsSortedFunc(order, func(a, b int) int { return w.Groups()[a].Level - w.Groups()[b].Level }) {
			t.Fatalf("order %v of %v", order, w.Groups())
		}
	})
}
