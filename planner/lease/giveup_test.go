package lease

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// gangs draws strict jobs that take the whole of one node, and what they need: on one machine as many of them as possible meet their deadlines when
// those of some set run in the order of deadlines (Jackson's rule), whatever the set is.
func gangs(t *rapid.T) (planner.Snapshot, [][2]int) {
	var jobs []planner.Job
	var needs [][2]int
	for i := range rapid.IntRange(2, 7).Draw(t, "jobs") {
		work := rapid.IntRange(1, 8).Draw(t, "work")
		due := work + 1 + rapid.IntRange(0, 20).Draw(t, "slack")
		needs = append(needs, [2]int{work, due})
		jobs = append(jobs, plantest.Strict(plantest.Job(i+1, float64(work), planner.Shape{8}), float64(due)))
	}
	return plantest.Snapshot(plantest.Nodes(1, 8), jobs...), needs
}

// most is the largest number of those jobs that can be in time.
func most(needs [][2]int) int {
	slices.SortStableFunc(needs, func(a, b [2]int) int { return a[1] - b[1] })
	best := 0
	for set := range 1 << len(needs) {
		now, n := 0, 0
		for i, need := range needs {
			if set>>i&1 == 0 {
				continue
			}
			if now += need[0]; now > need[1] {
				n = -1
				break
			}
			n++
		}
		best = max(best, n)
	}
	return best
}

// TestGiveUpAgainstBrute: on one machine the search meets as many deadlines as any set allows.
func TestGiveUpAgainstBrute(t *testing.T) {
	short, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s, needs := gangs(t)
		in := newInstance(s, Config{}.filled())
		g := &giveUp{in: in, units: giveUpUnits}
		g.count()
		got, want := int(g.search().value/g.value(0, 0)+0.5), most(needs)
		all++
		if got < want {
			short++
		}
		if got > want || got < want-1 {
			t.Fatalf("%d met, %d can be: %v", got, want, needs)
		}
	})
	t.Logf("%d of %d one short", short, all)
}
