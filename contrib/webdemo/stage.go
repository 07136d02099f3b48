package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/planner/lease"
)

// errEnough ends a simulation that has been watched for long enough.
var errEnough = errors.New("seen enough")

// scene is a simulated cluster to look at.
type scene struct {
	nodes, jobs int
	seed        uint64
	// from is the virtual time at which the watching begins, views how many views are taken from then on, one a unit.
	from  time.Duration
	views int
}

// play runs a seeded simulation of the daemon's own loop and returns views of it, oldest first. Names of users and jobs are made up.
func (s scene) play(ctx context.Context) ([]*bridge.View, error) {
	jobs, err := s.trace()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var views []*bridge.View
	var first, last time.Time
	cfg := sim.Config{Nodes: s.nodes, GPUsPerNode: 8, Seed: s.seed, Noise: 0.05, Profile: 5 * time.Minute, Speeds: sim.Published(), Look: func(v *bridge.View) {
		if first.IsZero() {
			first = v.At
		}
		if v.At.Sub(first) < s.from || v.At.Sub(last) < 5*time.Minute {
			return
		}
		last = v.At
		if views = append(views, v); len(views) >= s.views {
			stop(errEnough)
		}
	}}
	if _, err := sim.Run(ctx, cfg, jobs, lease.New(lease.Config{}, nil)); err != nil && !errors.Is(context.Cause(ctx), errEnough) {
		return nil, err
	}
	if len(views) == 0 {
		return nil, fmt.Errorf("all jobs had ended before %v", s.from)
	}
	return views, nil
}

// trace makes jobs that keep the cluster a little more than busy: run times lognormal, GPU counts as published for Helios, a third of them at the start.
func (s scene) trace() ([]trace.Job, error) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	span := s.from + time.Duration(s.views)*5*time.Minute
	t := trace.Trace{}
	works := []string{"bert-finetune", "resnet-sweep", "asr-large", "vit-b16", "diffusion", "gnn-mol", "nerf", "llm-7b-sft", "reward-model", "unet-seg"}
	people := []string{"anna", "bo", "chen", "dora", "emil", "farah", "goran", "hana", "ines", "jun"}
	for i := range s.jobs {
		j := trace.Job{ID: fmt.Sprintf("%s-%d", works[rng.IntN(len(works))], i%7+1), User: people[rng.IntN(len(people))], Account: []string{"vision", "speech", "physics"}[rng.IntN(3)]}
		if draw := rng.Float64(); draw < 0.5 {
			j.GPUs = 1
		} else {
			j.GPUs = []int{2, 4, 8, 8, 16}[rng.IntN(5)]
		}
		d := min(max(45*60*math.Exp(1.1*rng.NormFloat64()), 10*60), 20*3600)
		j.Duration = (time.Duration(d) * time.Second).Round(time.Second)
		j.Iterations = int64(j.Duration / time.Second)
		if i > s.jobs/3 {
			j.Submit = time.Duration(rng.Float64() * float64(span)).Round(time.Second)
		}
		t.Jobs = append(t.Jobs, j)
	}
	slices.SortStableFunc(t.Jobs, func(a, b trace.Job) int { return int(a.Submit - b.Submit) })
	t, err := t.Workload("mix2", s.seed, 5*time.Minute)
	return t.Jobs, err
}
