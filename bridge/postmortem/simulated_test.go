package postmortem_test

import (
	"math"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/account"
	"unisched/bridge/postmortem"
	"unisched/bridge/replay"
	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/planner/policy"
)

// On a simulated cluster that is far too small, every miss of the very loop of the daemon has a verdict; shares add up to one, delays explain the lateness, and
// little of it is unknown.
func TestSimulatedMisses(t *testing.T) {
	var jobs []trace.Job
	for i := range 24 {
		d := time.Duration(20+7*(i%5)) * time.Minute
		j := trace.Job{ID: string(rune('a' + i)), GPUs: []int{1, 2, 4, 8}[i%4], Submit: time.Duration(i) * 4 * time.Minute, Duration: d, Iterations: int64(d / time.Second), Class: planner.BestEffort, Model: "vgg19"}
		if i%3 != 0 {
			j.Class, j.Tiers = planner.Strict, []trace.Tier{{After: d + 15*time.Minute, Value: 100}}
		}
		jobs = append(jobs, j)
	}
	p, err := policy.New("edf", policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rounds []replay.Round
	var last *bridge.View
	seen := ""
	cfg := sim.Config{Nodes: 2, GPUsPerNode: 4, Seed: 1, Noise: 0.05, Profile: 5 * time.Minute, Speeds: sim.Published(), Seen: func(v *bridge.View) {
		last = v
		if x := (replay.Round{Snapshot: v.Snapshot, Plan: v.LastPlan}); v.LastPlan.ID != "" && v.LastPlan.Now.Equal(v.Snapshot.Now) && x.Name() != seen {
			seen, rounds = x.Name(), append(rounds, x)
		}
	}}
	if _, err := sim.Run(t.Context(), cfg, jobs, p); err != nil {
		t.Fatal(err)
	}
	var ended []account.Entry
	for i := range last.Jobs {
		if e, ok := account.Of(&last.Jobs[i]); ok && e.Missed() {
			ended = append(ended, e)
		}
	}
	if len(ended) < 4 {
		t.Fatalf("%d misses: the cluster is not small enough", len(ended))
	}
	g := postmortem.NewGatherer(ended)
	for _, x := range rounds {
		g.Add(x)
	}
	for _, c := range g.Cases(nil) {
		r := postmortem.Judge(c)
		sum, delay, unknown := 0.0, 0.0, 0.0
		for _, p := range r.Parts {
			sum, delay = sum+p.Share, delay+p.DelayS
			if p.Cause == postmortem.Unknown {
				unknown = p.Share
			}
		}
		t.Logf("job %s: %s", r.Job, r.Verdict)
		if r.Cause == "" || math.Abs(sum-1) > 1e-9 || unknown > 0.2 || r.NeedS <= 0 || len(r.Parts[0].Evidence) == 0 {
			t.Errorf("job %s: shares %v, unknown %v, %+v", r.Job, sum, unknown, r)
		}
	}
}
