package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unisched/bridge/sim"
	"unisched/contrib/fidelity/job"
	"unisched/planner"
)

// cluster of the UniSched paper's prototype (section 6): 16 nodes of 4 V100.
const (
	nodeCount   = 16
	gpusPerNode = 4
	paperWindow = 8 * time.Hour
	paperUnit   = 5 * time.Minute
	sloUnits    = 2
)

// load is what is asked of both clusters.
type load struct {
	Jobs  int     // the paper's number, over eight hours
	Share float64 // of the window that is played, with as many jobs less
	Scale float64 // how much faster than the paper time goes
	Seed  uint64
}

func (l load) count() int            { return max(int(math.Round(float64(l.Jobs)*l.Share)), 1) }
func (l load) window() time.Duration { return l.scaled(time.Duration(float64(paperWindow) * l.Share)) }
func (l load) unit() time.Duration   { return l.scaled(paperUnit).Round(time.Second) }
func (l load) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / l.Scale)
}

// counts are the shares of GPU counts in the Philly trace, rounded.
var counts = []struct {
	gpus  int
	share float64
}{{1, 0.66}, {2, 0.09}, {4, 0.09}, {8, 0.13}, {16, 0.03}}

// jobs draws the jobs of a load: arrivals uniform over the window, run times lognormal (median 15 min, sigma 0.75, within 4 and 80 min before scaling), one of
// five models each; 30 % strict, 40 % soft, 30 % best effort; first deadlines U[1.1, 2.0] x run time, at least the run time and two units; soft tiers
// at 1, 1.1, 1.2 and 1.5 times the first with 100, 80, 50 and 20; a fifth stops on a metric. Deadlines leave the cluster's own latencies aside.
func (l load) jobs() []job.Spec {
	rng := rand.New(rand.NewPCG(l.Seed, uint64(l.Jobs)))
	speeds := sim.Published()
	models := speeds.Models()
	const iter = 100 * time.Millisecond
	out := make([]job.Spec, l.count())
	for i := range out {
		minutes := min(max(15*math.Exp(0.75*rng.NormFloat64()), 4), 80)
		s := job.Spec{
			Submit: time.Duration(rng.Float64() * float64(l.window())), Model: models[rng.IntN(len(models))], GPUs: gpuCount(rng.Float64()),
			Duration: l.scaled(time.Duration(minutes * float64(time.Minute))).Round(iter), Noise: 0.03, Ready: 300 * time.Millisecond,
			Resume: l.scaled(30 * time.Second), Save: l.scaled(4 * time.Second), Every: l.unit() / 2,
		}
		s.Iterations = int64(s.Duration / iter)
		s.Times = times(s, speeds, iter)
		class, slack := rng.Float64(), 1.1+0.9*rng.Float64()
		due := max(time.Duration(float64(s.Duration)*slack), s.Duration+sloUnits*l.unit()).Round(time.Second)
		switch {
		case class < 0.3:
			s.Class, s.Tiers = "strict", []job.Tier{{After: due, Value: 100}}
		case class < 0.7:
			s.Class = "soft"
			for _, t := range []job.Tier{{After: 100, Value: 100}, {After: 110, Value: 80}, {After: 120, Value: 50}, {After: 150, Value: 20}} {
				s.Tiers = append(s.Tiers, job.Tier{After: (due / 100 * t.After).Round(time.Second), Value: t.Value})
			}
		default:
			s.Class = "besteffort"
		}
		metric := job.Metric{Start: 0.1 + 0.2*rng.Float64(), Sharp: 2 + 2*rng.Float64(), Bend: 0.4 + 0.5*rng.Float64(), Target: 0.9,
			Max: int64(float64(s.Iterations) * (1.2 + 0.8*rng.Float64()))}
		if rng.Float64() < 0.2 {
			s.Metric = &metric
		}
		out[i] = s
	}
	slices.SortStableFunc(out, func(a, b job.Spec) int { return int(a.Submit - b.Submit) })
	for i := range out {
		out[i].ID = fmt.Sprintf("J%03d", i+1)
	}
	return out
}

func gpuCount(x float64) int {
	for _, c := range counts {
		if x -= c.share; x < 0 {
			return c.gpus
		}
	}
	return 1
}

// times are those of all shapes on which a job may find itself: its own count on any number of nodes, and the profiles.
func times(s job.Spec, speeds sim.Speeds, iter time.Duration) []job.Time {
	var out []job.Time
	gpus := []int{1, 2, s.GPUs}
	slices.Sort(gpus)
	for _, g := range slices.Compact(gpus) {
		for n := (g + gpusPerNode - 1) / gpusPerNode; n <= min(g, nodeCount); n++ {
			shape := planner.Even(n, 1)
			shape[0] += g - n
			v := speeds.Relative(s.Model, s.GPUs, shape, gpusPerNode, false)
			out = append(out, job.Time{GPUs: g, Nodes: n, Iter: time.Duration(float64(iter) / v)})
		}
	}
	return out
}
