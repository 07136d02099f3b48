package lease

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPrefixRowsAgainstFlow: without margins the prefix rows hold for every tau iff the work can be spread over unit slots so that no job
// uses more than its GPUs, no slot more than there are, and all is done by its deadline (a maximum flow).
func TestPrefixRowsAgainstFlow(t *testing.T) {
	both := [2]int{}
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		in := &instance{cfg: Config{Rho: 1}}
		n := rapid.IntRange(1, 6).Draw(t, "jobs")
		var cols []column
		last := 0
		for range n {
			work := rapid.IntRange(1, 5).Draw(t, "work")
			due := work + rapid.IntRange(0, 5).Draw(t, "slack")
			last = max(last, due)
			cols = append(cols, column{tier: 0, gpus: rapid.IntRange(1, gpus).Draw(t, "g"), left: float64(work), due: float64(due)})
		}
		rows := true
		for tau := 1; tau <= last; tau++ {
			sum := 0.0
			for _, c := range cols {
				sum += in.demand(c, float64(tau))
			}
			rows = rows && sum <= float64(gpus*tau)+1e-9
		}
		flows := flow(cols, gpus, last)
		if rows != flows {
			t.Errorf("rows hold: %v, flow exists: %v", rows, flows)
		}
		if rows {
			both[1]++
		} else {
			both[0]++
		}
	})
	if both[0] == 0 || both[1] == 0 {
		t.Errorf("only one kind seen: %v", both)
	}
}

// flow reports whether a maximum flow from jobs (left x gpus) over job-slot edges (gpus each) into slots (capacity each) carries all work.
func flow(cols []column, capacity, slots int) bool {
	n := len(cols)
	size := n + slots + 2
	source, sink := n+slots, n+slots+1
	room := make([][]int, size)
	for i := range room {
		room[i] = make([]int, size)
	}
	want := 0
	for i, c := range cols {
		room[source][i] = c.gpus * int(c.left)
		want += room[source][i]
		for k := range int(c.due) {
			room[i][n+k] = c.gpus
		}
	}
	for k := range slots {
		room[n+k][sink] = capacity
	}
	got := 0
	for {
		from := make([]int, size)
		for i := range from {
			from[i] = -1
		}
		from[source] = source
		queue := []int{source}
		for len(queue) > 0 && from[sink] < 0 {
			v := queue[0]
			queue = queue[1:]
			for w := range size {
				if from[w] < 0 && room[v][w] > 0 {
					from[w] = v
					queue = append(queue, w)
				}
			}
		}
		if from[sink] < 0 {
			return got == want
		}
		push := want
		for v := sink; v != source; v = from[v] {
			push = min(push, room[from[v]][v])
		}
		for v := sink; v != source; v = from[v] {
			room[from[v]][v] -= push
			room[v][from[v]] += push
		}
		got += push
	}
}
