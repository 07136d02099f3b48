package main

import (
	"net/http"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/planner/lease"
	"unisched/slurm"
	"unisched/slurm/slurmtest"
)

// BenchmarkCycle is the whole loop over 10,000 jobs and 1,000 nodes of 8 GPUs, 100 jobs of ours among them, in shadow: a look by changes, their estimates,
// a plan when one is due (a round a unit, without the solver), the view.
func BenchmarkCycle(b *testing.B) {
	url, stop, err := slurmtest.Load{Jobs: 10000, Nodes: 1000, Ours: 100, Churn: 50}.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	cluster, err := newCluster(slurm.Options{URL: url})
	if err != nil {
		b.Fatal(err)
	}
	j, _, err := journal.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	cfg := bridge.Defaults()
	cfg.Stage = bridge.Shadow
	body, err := bridge.New(cfg, bridge.Parts{Cluster: cluster, Memory: j, Policy: lease.New(lease.Config{}, nil)}, bridge.Restored{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	var longest time.Duration
	step := func() {
		resp, err := http.Get(url + "/churn")
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		began := time.Now()
		if err := body.Step(b.Context(), now); err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		now = now.Add(cfg.Poll)
	}
	for range 3 {
		step()
	}
	slurmtest.ResetPeak()
	longest = 0
	before, polls := slurmtest.CPU(), cluster.(*slurm.Poller).Counts()
	for b.Loop() {
		step()
	}
	b.ReportMetric((slurmtest.CPU()-before).Seconds()/float64(b.N), "cpu-s/cycle")
	b.ReportMetric(longest.Seconds(), "longest-s")
	b.ReportMetric(slurmtest.Peak(), "peak-MB")
	b.ReportMetric(float64(cluster.(*slurm.Poller).Counts().Full-polls.Full), "full-lists")
	if v := body.View(); v.Trouble != "" || len(v.Jobs) < 50 {
		b.Errorf("%d jobs of ours, %s", len(v.Jobs), v.Trouble)
	}
}
