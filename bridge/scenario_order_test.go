package bridge_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// startOrder are the jobs of a world by their first start.
func (w *world) startOrder(names []string) []string {
	first := map[string]time.Time{}
	for _, n := range names {
		if _, at := w.startsOf(n); len(at) > 0 {
			first[n] = at[0]
		}
	}
	out := slices.Clone(names)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Or(first[a].Compare(first[b]), cmp.Compare(a, b)) })
	return out
}

// Age that requeues and delays cost is made good: jobs of one size, every second one managed, start in the order in which they would if nobody managed them, although each
// managed one is delayed anew in every cycle, which resets its age in Slurm, and one of them is preempted.
func TestScenarioStartOrderIsThatOfANeverManagedTwin(t *testing.T) {
	play := func(managed bool) ([]string, *world) {
		w := newWorld(t, site{nodes: 1, gpus: 4, sim: slurmsim.Config{AgePerHour: 600, SubmitDelay: -1}})
		var names []string
		for i := range 9 {
			s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(900), TimeLimit: 30 * time.Minute}
			name := fmt.Sprint("job", i)
			if i%2 == 0 {
				s.User, s.UID = "bob", 1002
				if managed {
					s.Comment = "unisched:ckpt=B:USR1,profile=skip,stop=iters:900"
				}
			}
			names = append(names, name)
			w.submit(name, s)
			w.run(time.Minute, nil)
		}
		w.until(12*time.Hour, "all end", w.finished(names...))
		return w.startOrder(names), w
	}
	twin, _ := play(false)
	got, w := play(true)
	if d := gocmp.Diff(twin, got); d != "" {
		t.Errorf("start order: %s", d)
	}
	delayed := 0
	for _, line := range w.wire.log {
		if strings.Contains(line, "update begin=") {
			delayed++
		}
	}
	if delayed < 20 {
		t.Errorf("only %d delays: the scenario shows nothing", delayed)
	}
}

// A job that was requeued for another one comes back before plain jobs that were submitted after it.
func TestScenarioAPreemptedJobKeepsItsPlace(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4, sim: slurmsim.Config{AgePerHour: 600, SubmitDelay: -1}})
	w.submit("victim", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(2400), TimeLimit: time.Hour, Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:2400"})
	w.until(10*time.Minute, "it trains", w.reached("victim", 60))
	w.urgent("strict", 600, 20*time.Minute)
	for i := range 3 {
		w.submit(fmt.Sprint("plain", i), slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(2400), TimeLimit: time.Hour, User: "bob", UID: 1002})
	}
	w.until(8*time.Hour, "all end", w.finished("victim", "strict", "plain0", "plain1", "plain2"))
	w.checkMet("strict")
	_, victim := w.startsOf("victim")
	_, plain := w.startsOf("plain0")
	if len(victim) < 2 || !victim[1].Before(plain[0]) {
		t.Errorf("the victim started at %v, a job that came later at %v", victim, plain)
	}
}

// Shared storage: never more checkpoints and resumes at once than the site allows; the others follow, within the same unit, and nobody loses a deadline for it.
func TestScenarioCheckpointsAreStaggered(t *testing.T) {
	for _, most := range []int{1, 3} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			w := newWorld(t, site{nodes: 6, gpus: 4, cfg: func(c *bridge.Config) { c.MaxCheckpoints, c.MaxStarts = most, most }})
			slow := func(b slurmsim.Body) slurmsim.Body {
				b.Save, b.Resume = 25*time.Second, 25*time.Second
				return b
			}
			var names []string
			for i := range 6 {
				names = append(names, fmt.Sprint("long", i))
				w.submit(names[i], slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: slow(training(9000)), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:9000"})
			}
			w.until(30*time.Minute, "all train", func() bool {
				return !slices.ContainsFunc(names, func(n string) bool { return w.view(n).Iter < 60 })
			})
			var urgent []string
			for i := range 4 {
				urgent = append(urgent, fmt.Sprint("urgent", i))
				w.urgent(urgent[i], 900, 45*time.Minute)
			}
			most0, loading0 := 0, 0
			all := slices.Concat(names, urgent)
			w.until(8*time.Hour, "all end", func() bool {
				saving, loading := 0, 0
				for _, n := range all {
					switch v := w.view(n); {
					case v.Phase == bridge.Checkpointing:
						saving++
					case v.Phase == bridge.Starting || v.Phase == bridge.Running && strings.Contains(v.NoPreempt, "no sign of life"):
						loading++
					}
				}
				most0, loading0 = max(most0, saving), max(loading0, loading)
				return w.finished(all...)()
			})
			if most0 > most || loading0 > most {
				t.Errorf("%d checkpoints and %d starts at once, at most %d are allowed", most0, loading0, most)
			}
			if most0 < most {
				t.Errorf("only %d checkpoints at once: the scenario shows nothing", most0)
			}
			for _, n := range urgent {
				w.checkMet(n)
			}
			for _, n := range names {
				w.checkReturns(n, 0)
			}
		})
	}
}
