package planner

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Following the loads from lease to lease finds a lease plan faulty exactly when summing them up at every moment does.
func TestLeasesFit(t *testing.T) {
	faulty, sound := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
		s := Snapshot{Now: at, Unit: time.Minute}
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			s.Nodes = append(s.Nodes, Node{Name: fmt.Sprint("n", i), GPUs: 8, CPUs: 16, MemMB: 100, Usable: true,
				OtherGPUs: rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "others")})
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			needs := Needs{CPUsPerGPU: rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "cpus"), MemPerNodeMB: rapid.SampledFrom([]int64{0, 20, 60}).Draw(t, "mem"),
				Exclusive: rapid.IntRange(0, 7).Draw(t, "exclusive") == 0}
			s.Jobs = append(s.Jobs, Job{Run: Run{Job: JobID(i + 1)}, Needs: needs})
		}
		c := checker{s: s, node: map[string]int{}}
		for i := range s.Nodes {
			c.node[s.Nodes[i].Name] = i
		}
		var all []tenant
		for moment := range rapid.IntRange(1, 4).Draw(t, "moments") {
			from := at.Add(time.Duration(moment) * time.Minute)
			for ji := range s.Jobs {
				if !rapid.Bool().Draw(t, "comes") {
					continue
				}
				var p Placement
				for i := range s.Nodes {
					if rapid.Bool().Draw(t, "on") {
						p = append(p, Share{s.Nodes[i].Name, rapid.IntRange(1, 5).Draw(t, "gpus")})
					}
				}
				until := from.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "units")) * time.Minute)
				c.p.Leases = append(c.p.Leases, Lease{Run: s.Jobs[ji].Run, From: from, Until: until, Placement: p})
				all = append(all, c.tenant(ji, p, rapid.IntRange(0, 2).Draw(t, "fresh") > 0, until))
			}
		}
		fit := c.leasesFit(all)
		c.everyMoment(all)
		if fit != (len(c.out) == 0) {
			t.Fatalf("fits: %v, violations: %v", fit, c.out)
		}
		if fit {
			sound++
		} else {
			faulty++
		}
	})
	if faulty == 0 || sound == 0 {
		t.Errorf("%d faulty and %d sound plans were drawn", faulty, sound)
	}
}
