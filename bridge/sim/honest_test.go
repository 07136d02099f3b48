package sim

import (
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/lease"
)

// TestHonestJobsAreBelieved: with noisy speeds, profiles, moves to other shapes and metric targets nobody is doubted or demoted who does what he said.
func TestHonestJobsAreBelieved(t *testing.T) {
	jobs := crowd(40, 90*time.Second)
	slo := 0
	for i := range jobs {
		switch {
		case i%5 == 0:
			jobs[i].Metric = &trace.Metric{Family: trace.Families()[i/5%5], Seed: uint64(i), Max: jobs[i].Iterations * 3 / 2}
		case i%3 == 0:
			jobs[i].Class, jobs[i].Tiers = planner.Strict, []trace.Tier{{After: 3*jobs[i].Duration + time.Hour, Value: 100}}
			slo++
		}
	}
	seen := map[string]bool{}
	look := func(v *bridge.View) {
		for _, j := range v.Jobs {
			if key := j.Ref + j.Name; (j.Doubted != "" || j.Demoted != nil) && !seen[key] {
				seen[key] = true
				t.Errorf("job %s %s: doubted %q, demoted %+v", j.Ref, j.Name, j.Doubted, j.Demoted)
			}
		}
	}
	for seed := range uint64(3) {
		r := play(t, Config{Nodes: 3, GPUsPerNode: 8, Noise: 0.05, Seed: seed, Profile: 5 * time.Minute, Seen: look}, lease.New(lease.Config{}, nil), jobs...)
		if r.Unfinished > 0 || r.Preemptions == 0 {
			t.Errorf("seed %d: %d unfinished, %v preemptions: the test shows nothing", seed, r.Unfinished, r.Preemptions)
		}
	}
	if slo < 5 {
		t.Errorf("%d jobs with deadlines", slo)
	}
}
