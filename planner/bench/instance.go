// Package bench makes the synthetic instances of `unisched bench plan` and measures how the policy plans them. It is called by that
// command and by tests; it starts no solver itself (one is handed to it) and decides nothing.
package bench

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unisched/planner"
)

// Spec names an instance. The same Spec always gives the same snapshot.
type Spec struct {
	GPUs, Jobs int
	PerNode    int    // GPUs per node; 0 means 8
	Mix        string // "strict", "mix1" (70 % strict, 30 % best effort), "mix2" (30 % strict, 60 % soft, 10 % best effort)
	Shape      string // GPU counts: "philly" or "helios"
	Seed       uint64
}

// now is the time of all instances: a unit boundary.
var now = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

type share struct {
	gpus int
	part float64
}

var shapes = map[string][]share{
	"philly": {{1, .66}, {2, .09}, {4, .09}, {8, .13}, {16, .02}, {32, .01}},
	"helios": {{1, .50}, {2, .14}, {4, .12}, {8, .17}, {16, .04}, {32, .02}, {64, .01}},
}

// slowdown is the speed on twice, four, eight times the fewest nodes.
var slowdown = []float64{1, 0.88, 0.75, 0.6}

// Snapshot builds the instance: durations lognormal (median 60 min, sigma 1.2, clipped to 10 min .. 24 h), deadlines U[1.1, 2.0] x
// duration + 1 unit, soft tiers at 1, 1.1, 1.2, 1.5 times with 100/80/50/20, 3 % profilers, 85-95 % of the GPUs held by running jobs with buddy
// placements, a fifth of them spread over twice the nodes.
func (sp Spec) Snapshot() (planner.Snapshot, error) {
	counts, ok := shapes[sp.Shape]
	if !ok {
		return planner.Snapshot{}, fmt.Errorf("bench: unknown shape %q", sp.Shape)
	}
	if sp.PerNode == 0 {
		sp.PerNode = 8
	}
	if sp.GPUs < sp.PerNode || sp.PerNode < 1 || sp.Jobs < 0 || sp.GPUs > 1<<20 || sp.Jobs > 1<<20 {
		return planner.Snapshot{}, fmt.Errorf("bench: %d GPUs, %d jobs", sp.GPUs, sp.Jobs)
	}
	if sp.Mix != "strict" && sp.Mix != "mix1" && sp.Mix != "mix2" {
		return planner.Snapshot{}, fmt.Errorf("bench: unknown mix %q", sp.Mix)
	}
	g := &generator{sp: sp, r: rand.New(rand.NewPCG(sp.Seed, 0x5eed))}
	s := planner.Snapshot{Schema: 1, Now: now, Unit: 5 * time.Minute, SLOUnits: 2}
	for i := range sp.GPUs / sp.PerNode {
		s.Nodes = append(s.Nodes, planner.Node{Name: fmt.Sprintf("n%05d", i), GPUs: sp.PerNode, CPUs: 8 * sp.PerNode, MemMB: 1 << 19, Usable: true,
			Switch: fmt.Sprintf("s%03d", i/16)})
		g.free = append(g.free, sp.PerNode)
	}
	target := int(float64(sp.GPUs) * (0.85 + 0.1*g.r.Float64()))
	for i := range sp.Jobs {
		j := g.job(i+1, counts)
		if n := j.Estimate.Speeds[0].Shape.GPUs(); n <= target {
			if p, ok := g.place(j); ok {
				target -= n
				g.run(&j, p)
			}
		}
		s.Jobs = append(s.Jobs, j)
	}
	slices.SortFunc(s.Jobs, func(a, b planner.Job) int { return a.Run.Compare(b.Run) })
	return s, nil
}

type generator struct {
	sp   Spec
	r    *rand.Rand
	free []int
}

func (g *generator) job(id int, counts []share) planner.Job {
	j := planner.Job{Run: planner.Run{Job: planner.JobID(id)}, State: planner.Waiting, Preemptible: true, Class: planner.BestEffort}
	u := g.r.Float64()
	gpus := counts[len(counts)-1].gpus
	for _, c := range counts {
		if u < c.part {
			gpus = c.gpus
			break
		}
		u -= c.part
	}
	gpus = min(gpus, g.sp.GPUs/g.sp.PerNode*g.sp.PerNode)
	minutes := min(max(60*math.Exp(1.2*g.r.NormFloat64()), 10), 24*60)
	g.class(&j, minutes)
	if g.r.Float64() < 0.03 {
		j.Class, j.Tiers, gpus, minutes = planner.Profiler, nil, min(gpus, 2), 5
	}
	j.Estimate = planner.Estimate{Iterations: planner.Exactly(minutes * 60), Reaches: 1, Checkpoint: planner.Exactly(4),
		Resume: planner.Exactly(30 * (1 + math.Log2(float64(gpus))))}
	fewest := (gpus + g.sp.PerNode - 1) / g.sp.PerNode
	for k, v := range slowdown {
		nodes := fewest << k
		if gpus%nodes != 0 || gpus > 16 && k > 0 {
			break
		}
		j.Estimate.Speeds = append(j.Estimate.Speeds, planner.ShapeSpeed{Shape: planner.Even(nodes, gpus/nodes), Speed: planner.Exactly(v)})
	}
	j.Submitted = now.Add(-time.Duration(g.r.Float64() * float64(2*time.Hour)))
	j.WaitingSince = j.Submitted
	return j
}

func (g *generator) class(j *planner.Job, minutes float64) {
	u := g.r.Float64()
	due := func(factor float64) time.Time {
		return now.Add(time.Duration((minutes*factor + 5) * float64(time.Minute)))
	}
	f := 1.1 + 0.9*g.r.Float64()
	switch {
	case g.sp.Mix == "strict" || g.sp.Mix == "mix1" && u < 0.7 || g.sp.Mix == "mix2" && u < 0.3:
		j.Class, j.Tiers = planner.Strict, []planner.Tier{{At: due(f), Value: 100}}
	case g.sp.Mix == "mix2" && u < 0.9:
		j.Class = planner.Soft
		for k, x := range []float64{1, 1.1, 1.2, 1.5} {
			j.Tiers = append(j.Tiers, planner.Tier{At: due(f * x), Value: []float64{100, 80, 50, 20}[k]})
		}
	}
}

// place finds nodes for a running job: the first shape, for a fifth of those that have one the second; fullest nodes first.
func (g *generator) place(j planner.Job) (planner.Placement, bool) {
	shape := j.Estimate.Speeds[0].Shape
	if len(j.Estimate.Speeds) > 1 && g.r.Float64() < 0.2 {
		shape = j.Estimate.Speeds[1].Shape
	}
	var shares []planner.Share
	taken := map[int]bool{} // lookup only
	for _, n := range shape {
		best := -1
		for i, f := range g.free {
			if f >= n && !taken[i] && (best < 0 || f < g.free[best]) {
				best = i
			}
		}
		if best < 0 {
			return nil, false
		}
		taken[best] = true
		shares = append(shares, planner.Share{Node: fmt.Sprintf("n%05d", best), GPUs: n})
	}
	for i := range g.free {
		if taken[i] {
			g.free[i] -= shape[slices.IndexFunc(shares, func(s planner.Share) bool { return s.Node == fmt.Sprintf("n%05d", i) })]
		}
	}
	return planner.NewPlacement(shares...), true
}

// run lets a job hold its nodes, at the end of a lease or in the middle of one, part of its work done.
func (g *generator) run(j *planner.Job, p planner.Placement) {
	j.State, j.Started, j.Current = planner.Running, true, p
	j.LeaseUntil = now
	if g.r.Float64() < 0.3 && j.Class.SLO() {
		j.LeaseUntil = now.Add(5 * time.Minute)
	}
	j.WaitingSince = now
	j.Estimate.Unsaved = 60 * g.r.Float64()
	done := 0.5 * g.r.Float64()
	it := j.Estimate.Iterations.Mid
	j.Estimate.Iterations = planner.Exactly(it * (1 - done))
	// The deadline stays meetable: it was set for a job that has run since.
	for k := range j.Tiers {
		j.Tiers[k].At = j.Tiers[k].At.Add(-time.Duration(it * done * cmp.Or(1.0, 1) * float64(time.Second)))
	}
}
