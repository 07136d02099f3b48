package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner"
	"unisched/planner/plantest"
)

// everybodyUp is a slot in which everybody who may be moved gets up, whether somebody with a better claim waits or not.
func (f *forecast) everybodyUp(t time.Time) {
	clear(f.full)
	f.line(t, t.Sub(f.in.s.Now).Seconds()/f.in.unit)
	for _, c := range f.queue {
		if len(f.place[c.ji]) > 0 {
			f.book(c.ji, -1)
		}
	}
	slices.SortFunc(f.queue, claim.compare)
	f.sitAgain(t)
}

// Whoever keeps his seat because nobody with a better claim waits would have found it again: the floor, the seats and the leases are those of a play in which
// everybody gets up in every slot, also on nodes that the snapshot overfills.
func TestSeatsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plantest.DrawSnapshot(t)
		in := newInstance(s, Config{}.filled())
		mine, twin := in.forecast(), in.forecast()
		for ji := range in.jobs {
			j := &in.jobs[ji]
			e := planner.Entry{Decision: planner.Wait, Tier: -1}
			if j.State == planner.Running && rapid.IntRange(0, 4).Draw(t, "kept") > 0 {
				e = planner.Entry{Decision: planner.Keep, Placement: j.Current, LeaseUntil: j.LeaseUntil, Tier: -1}
			}
			if len(j.due) > 0 {
				e.Tier = rapid.IntRange(-1, len(j.due)-1).Draw(t, "tier")
			}
			for _, f := range []*forecast{mine, twin} {
				f.seat(ji, e)
				f.order = append(f.order, claim{rank: ji, ji: ji})
			}
		}
		at := in.s.Now
		for range rapid.IntRange(1, 12).Draw(t, "slots") {
			mine.slot(at)
			twin.everybodyUp(at)
			next := planner.LeaseEnd(at, in.s.Unit, 1)
			mine.work(at, next)
			twin.work(at, next)
			at = next
			if d := cmp.Diff(twin.place, mine.place); d != "" {
				t.Fatalf("seats: %s", d)
			}
			if d := cmp.Diff([][]int{twin.floor.gpus, twin.floor.cpus, twin.floor.tenants, twin.floor.alone, twin.floor.quota},
				[][]int{mine.floor.gpus, mine.floor.cpus, mine.floor.tenants, mine.floor.alone, mine.floor.quota}); d != "" {
				t.Fatalf("floor: %s", d)
			}
			if d := cmp.Diff(twin.left, mine.left); d != "" {
				t.Fatalf("work left: %s", d)
			}
		}
		if d := cmp.Diff(twin.out, mine.out); d != "" {
			t.Fatalf("leases: %s", d)
		}
	})
}
