// Package plantest makes snapshots for tests: random ones for properties, in all the states that the field has, and small ones
// by hand. It is called by tests only and judges nothing; planner.Check does.
package plantest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"unisched/planner"
)

// Now is the time of every snapshot made here: a unit boundary for units that divide an hour.
var Now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Nodes returns n usable nodes a0, a1, ... with so many GPUs, 8 CPUs and 64 GB per GPU.
func Nodes(n, gpus int) []planner.Node {
	out := make([]planner.Node, n)
	for i := range out {
		out[i] = planner.Node{Name: fmt.Sprintf("a%03d", i), GPUs: gpus, CPUs: 8 * gpus, MemMB: int64(gpus) << 16, Usable: true}
	}
	return out
}

// Snapshot returns a snapshot at Now with 5-minute units and SLO leases of two units; jobs are sorted by Run.
func Snapshot(nodes []planner.Node, jobs ...planner.Job) planner.Snapshot {
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(a, b planner.Job) int { return a.Run.Compare(b.Run) })
	return planner.Snapshot{Schema: 1, Now: Now, Unit: 5 * time.Minute, SLOUnits: 2, Nodes: nodes, Jobs: jobs}
}

// Job returns a waiting, preemptible best-effort job that needs so many units of 5 minutes on the given shapes, all equally fast.
func Job(id int, units float64, shapes ...planner.Shape) planner.Job {
	j := planner.Job{Run: planner.Run{Job: planner.JobID(id)}, Class: planner.BestEffort, State: planner.Waiting, Preemptible: true,
		Submitted: Now, Elastic: false}
	for _, s := range shapes {
		j.Estimate.Speeds = append(j.Estimate.Speeds, planner.ShapeSpeed{Shape: s, Speed: planner.Exactly(1)})
	}
	j.Estimate.Iterations = planner.Exactly(units * 300)
	j.Estimate.Reaches = 1
	return j
}

// Strict gives a job a deadline in units from Now.
func Strict(j planner.Job, due float64) planner.Job {
	j.Class = planner.Strict
	j.Tiers = []planner.Tier{{At: Now.Add(time.Duration(due * 300 * float64(time.Second))), Value: 100}}
	return j
}

// Running puts a job on its nodes, at the end of its lease.
func Running(j planner.Job, p planner.Placement) planner.Job {
	j.State, j.Started, j.Current, j.LeaseUntil = planner.Running, true, p, Now
	return j
}

// DrawSnapshot draws a snapshot with everything that happens in the field: odd and mixed nodes, several GPU types, unusable and partly
// held nodes, all classes and states, jobs in mid-lease, leaving, foreign, blocked, not preemptible, and hostile estimates.
func DrawSnapshot(t *rapid.T) planner.Snapshot {
	nodes := drawNodes(t)
	free := make([]planner.Node, len(nodes))
	copy(free, nodes)
	n := rapid.IntRange(0, 14).Draw(t, "jobs")
	var jobs []planner.Job
	for i := range n {
		j := drawJob(t, i+1, nodes)
		if rapid.IntRange(0, 2).Draw(t, "holds") == 0 {
			drawHold(t, &j, free)
		}
		jobs = append(jobs, j)
	}
	s := Snapshot(nodes, jobs...)
	s.Now = Now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 3, 120, 290}).Draw(t, "off")) * time.Second)
	s.SLOUnits = rapid.IntRange(0, 3).Draw(t, "slo units")
	s.MaxPreemptions = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "budget")
	drawGrants(t, &s)
	return s
}

func drawNodes(t *rapid.T) []planner.Node {
	nodes := Nodes(rapid.IntRange(0, 6).Draw(t, "nodes"), 1)
	for i := range nodes {
		n := &nodes[i]
		n.GPUs = rapid.SampledFrom([]int{0, 1, 3, 4, 4, 6, 8, 8, 16}).Draw(t, "gpus")
		n.CPUs, n.MemMB = 4*n.GPUs, int64(n.GPUs)*1000
		n.GPUType = rapid.SampledFrom([]string{"", "", "h", "v"}).Draw(t, "type")
		n.Switch = rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "switch")
		if n.Switch != "" {
			n.Above = rapid.SampledFrom([][]string{nil, {"m"}, {"m", "root"}}).Draw(t, "above")
		}
		n.Busy = rapid.SampledFrom([][]int{nil, {0}, {1, 4}, {-1, 99}}).Draw(t, "busy")
		n.Partitions = rapid.SampledFrom([][]string{{"gpu"}, {"gpu", "profile"}, nil}).Draw(t, "partitions")
		n.Features = rapid.SampledFrom([][]string{nil, {"ib"}}).Draw(t, "features")
		n.Usable = rapid.IntRange(0, 5).Draw(t, "usable") > 0
		n.Wake = time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(t, "wake")) * time.Minute
		n.ClosesIn = time.Duration(rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(t, "closes")) * time.Hour
		if rapid.IntRange(0, 4).Draw(t, "others") == 0 {
			n.OtherGPUs = rapid.IntRange(0, n.GPUs+1).Draw(t, "other gpus")
			n.OtherCPUs = rapid.IntRange(0, n.CPUs).Draw(t, "other cpus")
		}
	}
	return nodes
}

func drawJob(t *rapid.T, id int, nodes []planner.Node) planner.Job {
	shapes := [][]planner.Shape{
		{{1}}, {{2}}, {{2}, {1, 1}}, {{4}, {2, 2}}, {{4}, {3, 1}, {2, 2}}, {{8}, {4, 4}, {2, 2, 2, 2}}, {{3}}, {{6}, {4, 2}}, {{8, 8}}, {{1}, {2}, {4}}, nil,
		{{0}}, {{1, 2}},
	}
	j := Job(id, rapid.Float64Range(0.1, 60).Draw(t, "units"), rapid.SampledFrom(shapes).Draw(t, "shapes")...)
	j.Run.Restart = rapid.IntRange(0, 2).Draw(t, "restart")
	j.Elastic = slices.ContainsFunc(j.Estimate.Speeds, func(x planner.ShapeSpeed) bool { return x.Shape.GPUs() != j.Estimate.Speeds[0].Shape.GPUs() })
	for i := range j.Estimate.Speeds {
		v := rapid.SampledFrom([]float64{1, 1, 0.9, 0.5, 0.1, 0, -1, math.NaN(), math.Inf(1)}).Draw(t, "speed")
		j.Estimate.Speeds[i].Speed = planner.Interval{Low: v * 0.9, Mid: v, High: v * 1.1}
	}
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		j.Estimate.Iterations = planner.Exactly(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 1e300}).Draw(t, "iterations"))
	}
	j.Estimate.Resume = planner.Exactly(rapid.SampledFrom([]float64{0, 30, 400, math.NaN()}).Draw(t, "resume"))
	j.Estimate.Unsaved = rapid.SampledFrom([]float64{0, 100}).Draw(t, "unsaved")
	j.Estimate.Suspensions = rapid.SampledFrom([]float64{0, 0.5, 3, math.NaN(), math.Inf(1)}).Draw(t, "suspensions")
	j.Class = rapid.SampledFrom([]planner.Class{planner.Strict, planner.Soft, planner.BestEffort, planner.BestEffort, planner.Profiler, ""}).Draw(t, "class")
	at := Now
	for range rapid.IntRange(0, 3).Draw(t, "tiers") {
		at = at.Add(time.Duration(rapid.IntRange(-600, 20000).Draw(t, "tier")) * time.Second)
		j.Tiers = append(j.Tiers, planner.Tier{At: at, Value: rapid.SampledFrom([]float64{100, 80, 20, 0}).Draw(t, "value")})
	}
	j.Weight = rapid.SampledFrom([]float64{0, 1, 2, -1, math.NaN()}).Draw(t, "weight")
	j.WaitingSince = Now.Add(-time.Duration(rapid.IntRange(0, 40000).Draw(t, "waited")) * time.Second)
	j.Submitted = j.WaitingSince
	j.Preemptible = rapid.IntRange(0, 3).Draw(t, "preemptible") > 0
	j.Foreign = rapid.IntRange(0, 5).Draw(t, "foreign") == 0
	if j.Foreign {
		j.TimeLeft = time.Duration(rapid.IntRange(0, 1000).Draw(t, "limit")) * time.Minute
	}
	if rapid.IntRange(0, 6).Draw(t, "blocked") == 0 {
		j.Blocked = "held by the user"
	}
	drawNeeds(t, &j.Needs, nodes)
	return j
}

func drawNeeds(t *rapid.T, n *planner.Needs, nodes []planner.Node) {
	n.GPUType = rapid.SampledFrom([]string{"", "", "", "h"}).Draw(t, "need type")
	n.CPUsPerGPU = rapid.SampledFrom([]int{0, 1, 4, 6}).Draw(t, "need cpus")
	n.MemPerNodeMB = rapid.SampledFrom([]int64{0, 0, 500, 3000}).Draw(t, "need mem")
	n.Exclusive = rapid.IntRange(0, 7).Draw(t, "exclusive") == 0
	n.Partition = rapid.SampledFrom([]string{"", "", "gpu", "profile", "none"}).Draw(t, "need partition")
	n.Features = rapid.SampledFrom([][]string{nil, nil, nil, {"ib"}}).Draw(t, "need features")
	n.Limit = time.Duration(rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "need limit")) * time.Hour
	n.MaxNodes = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "max nodes")
	if len(nodes) > 1 && rapid.IntRange(0, 7).Draw(t, "only") == 0 {
		n.Only = []string{nodes[0].Name, nodes[1].Name}
	}
	if len(nodes) > 1 && rapid.IntRange(0, 7).Draw(t, "exclude") == 0 {
		n.Exclude = []string{nodes[0].Name}
	}
}

// drawHold lets a job run, or leave, on GPUs that are still free; now and then on a shape or node that its estimate does not know.
func drawHold(t *rapid.T, j *planner.Job, free []planner.Node) {
	if len(j.Estimate.Speeds) == 0 {
		return
	}
	shape := rapid.SampledFrom(j.Estimate.Speeds).Draw(t, "held shape").Shape
	var shares []planner.Share
	for _, g := range shape {
		for i := range free {
			taken := slices.ContainsFunc(shares, func(s planner.Share) bool { return s.Node == free[i].Name })
			if g > 0 && !taken && free[i].GPUs-free[i].OtherGPUs >= g {
				free[i].GPUs -= g
				shares = append(shares, planner.Share{Node: free[i].Name, GPUs: g})
				break
			}
		}
	}
	if len(shares) == 0 {
		return
	}
	*j = Running(*j, planner.NewPlacement(shares...))
	j.LeaseUntil = Now.Add(time.Duration(rapid.IntRange(-600, 900).Draw(t, "lease")) * time.Second)
	if rapid.IntRange(0, 4).Draw(t, "leaving") == 0 {
		j.State = planner.Leaving
	}
}

// drawGrants draws what the site grants: quotas of accounts, which may hold more already, and budgets of preemptions, which may be used up.
func drawGrants(t *rapid.T, s *planner.Snapshot) {
	s.HourlyPreemptions = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "hourly budget")
	s.Preempted = rapid.IntRange(0, 4).Draw(t, "preempted")
	s.JobHourlyPreemptions = rapid.SampledFrom([]int{0, 2}).Draw(t, "hourly budget of a job")
	for _, name := range []string{"bio", "phys"} {
		if rapid.IntRange(0, 2).Draw(t, "granted") == 0 {
			s.Accounts = append(s.Accounts, planner.Account{Name: name, MaxGPUs: rapid.IntRange(0, 9).Draw(t, "quota"), OtherGPUs: rapid.IntRange(0, 3).Draw(t, "held outside")})
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		j.Account = rapid.SampledFrom([]string{"", "bio", "phys"}).Draw(t, "account")
		j.Preempted = rapid.IntRange(0, 3).Draw(t, "job preempted")
		j.ShareFactor = rapid.SampledFrom([]float64{0, 0.5, 2, math.NaN()}).Draw(t, "share factor")
	}
}
