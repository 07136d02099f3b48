package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/bridge/siteconfig"
	"unisched/contrib/fidelity/job"
	"unisched/hooks/progress"
	"unisched/planner"
	"unisched/planner/lease"
	"unisched/planner/milp/highs"
	"unisched/slurm/slurmsim"
)

// testCluster is slurmsim with the figures of contrib/testcluster.
func testCluster(seed uint64, start time.Time) slurmsim.Config {
	return slurmsim.Config{
		Seed: seed, Start: start, SubmitDelay: delay, RequeueDelay: 121 * time.Second, SchedInterval: 5 * time.Second,
		BackfillInterval: 5 * time.Second, BatchDelay: 3 * time.Second, Completing: 60 * time.Millisecond,
	}
}

// The daemon's surroundings, as measured: the watcher sends what jobs wrote in rounds, and a round of planning takes time.
const (
	watchEvery = 2 * time.Second
	planTakes  = 100 * time.Millisecond
	launch     = 200 * time.Millisecond // from Slurm's start to the job's script
)

// playVirtual plays the submissions of a real run on slurmsim, with the daemon's own loop and configuration. seed is the luck that Slurm has.
func playVirtual(ctx context.Context, f flags, real record, seed uint64) (record, error) {
	path := filepath.Join(f.out, "unisched.toml")
	if err := os.WriteFile(path, []byte(real.Config), 0o644); err != nil {
		return record{}, err
	}
	site, _, err := siteconfig.Load(path)
	if err != nil {
		return record{}, err
	}
	lead := 4 * site.Bridge.Poll
	nodes := make([]slurmsim.Node, nodeCount)
	for i := range nodes {
		nodes[i] = slurmsim.Node{Name: fmt.Sprintf("n%d", i+1), GPUs: gpusPerNode, CPUs: 16, MemMB: 64000}
	}
	c := slurmsim.New(testCluster(seed, real.Zero.Add(-lead)), nodes, slurmsim.Partition{Name: "gpu"},
		slurmsim.Partition{Name: "profile", MaxNodes: 2, MaxGPUs: 2})
	w := &watcher{cluster: c}
	policy := slow{lease.New(site.Lease(time.Now), highs.New(highs.Options{})), c}
	b, err := bridge.New(site.Bridge, bridge.Parts{Cluster: c, Policy: policy, Memory: forgetful{}, Reports: w.reports}, bridge.Restored{})
	if err != nil {
		return record{}, err
	}
	r := record{Load: real.Load, Unit: real.Unit, Zero: real.Zero, Config: real.Config}
	limit := real.Zero.Add(2*real.Load.window() + 10*time.Minute)
	ids := map[int64]int{}
	for now := real.Zero.Add(-lead); ; now = now.Add(site.Bridge.Poll) {
		for len(r.Jobs) < len(real.Jobs) && !real.Zero.Add(real.Jobs[len(r.Jobs)].Submitted).After(now) {
			j := real.Jobs[len(r.Jobs)]
			c.Advance(real.Zero.Add(j.Submitted))
			id := c.Submit(submission(j.Spec, users[len(r.Jobs)%len(users)]))
			ids[int64(id)] = len(r.Jobs)
			r.Jobs = append(r.Jobs, jobRecord{Spec: j.Spec, Submitted: j.Submitted})
		}
		c.Advance(now)
		if err := b.Step(ctx, now); err != nil {
			return r, err
		}
		if err := c.Check(); err != nil {
			return r, err
		}
		open := len(real.Jobs)
		for _, v := range b.View().Jobs {
			if i, ours := ids[int64(v.ID)]; ours {
				r.Jobs[i].View = v
				if v.Phase.Ended() {
					open--
				}
			}
		}
		if open == 0 || now.After(limit) {
			return r, nil
		}
	}
}

// submission is a job as sbatch hears of it.
func submission(s job.Spec, user string) slurmsim.Submission {
	body := slurmsim.Body{
		Iterations: s.Iterations, Ready: launch + s.Ready, ResumeOn: s.ResumeOn, Save: s.Save, Every: s.Every, Ramp: true,
		StepOf: func(perNode []int, restart int) time.Duration {
			gpus := 0
			for _, n := range perNode {
				gpus += n
			}
			return s.Step(gpus, len(perNode), restart)
		},
	}
	if s.Metric != nil {
		body.Metric, body.Curve = job.MetricName, func(n int64) float64 { return s.Metric.Value(n, s.Iterations) }
	}
	return slurmsim.Submission{Name: s.ID, User: user, Account: "lab", UID: 1000, Partition: "gpu", Comment: s.Wish(), GPUs: s.GPUs, Tasks: s.GPUs,
		TimeLimit: time.Hour, Body: body}
}

// watcher is the node watcher: it hands over what was written before its newest round.
type watcher struct {
	cluster *slurmsim.Cluster
	kept    []progress.JobReport
	last    time.Time
}

func (w *watcher) reports() []progress.JobReport {
	now := w.cluster.Now()
	round := now.Truncate(watchEvery)
	w.kept = append(w.kept, w.cluster.Reports()...)
	if !round.After(w.last) {
		return nil
	}
	w.last = round
	out := w.kept
	w.kept = nil
	return out
}

// slow is a policy that takes its time: Slurm goes on meanwhile.
type slow struct {
	bridge.Policy
	cluster *slurmsim.Cluster
}

// Plan implements bridge.Policy.
func (s slow) Plan(ctx context.Context, snap planner.Snapshot) planner.Plan {
	p := s.Policy.Plan(ctx, snap)
	s.cluster.Advance(s.cluster.Now().Add(planTakes))
	return p
}

// forgetful is a journal that nobody will open.
type forgetful struct{}

func (forgetful) Append(...journal.Entry) error { return nil }
func (forgetful) Compact([]journal.Entry) error { return nil }
func (forgetful) Size() int64                   { return 0 }

var errNoJobs = errors.New("no job ended on both clusters")
