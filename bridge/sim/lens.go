package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// Lens changes what a policy is shown, never what is true: a rival's own rule of thumb, an ablation, the truth for an oracle run. It writes to the job that the
// policy is to see, but not to the lists in it, which are the loop's own.
type Lens func(now time.Time, j *planner.Job, known *Known)

// Known is what a lens may know of a job beyond its snapshot.
type Known struct {
	Left        int64 // true iterations left
	Max         int64 // the user's maximum, 0 when the job declares its iterations
	Done        int64 // iterations done
	GPUs        int
	Duration    time.Duration // true, at GPUs on the fewest nodes
	Speed       func(planner.Shape) float64
	Shown       *[]planner.ShapeSpeed // the newest list of true speeds that was shown, nil: none is kept
	Resume      time.Duration         // on GPUs
	Checkpoint  time.Duration
	Unit, Lease time.Duration // Lease: of the job's class
	RoundedGPUs int           // what it takes when 3 becomes 4 and 5 to 7 become 8
}

// oracle is an estimator that knows. What it said is refreshed in every round by [Oracle].
type oracle struct{ w *world }

// Estimate implements bridge.Estimator.
func (o oracle) Estimate(id slurm.JobID, j estimator.Job, now time.Time) planner.Estimate {
	e := planner.Estimate{Reaches: 1, Basis: "oracle"}
	t := o.w.truths.of(id)
	for _, s := range append([]planner.Shape{j.Requested}, j.Candidates...) {
		if _, twice := e.SpeedOf(s); !twice {
			e.Speeds = append(e.Speeds, planner.ShapeSpeed{Shape: s, Speed: planner.Exactly(t.speed(s))})
		}
	}
	k := o.w.known(t, &planner.Job{Run: planner.Run{Job: planner.JobID(id)}, Class: j.Class}, &planner.Snapshot{Unit: o.w.cfg.Unit, SLOUnits: o.w.cfg.SLOUnits})
	seen := planner.Job{Class: j.Class, Estimate: e}
	Oracle(now, &seen, &k)
	return seen.Estimate
}

// Oracle shows the truth: speeds, iterations left and costs, each without any doubt.
func Oracle(now time.Time, j *planner.Job, k *Known) {
	e := &j.Estimate
	if k.Shown == nil || len(e.Speeds) == 0 || len(*k.Shown) != len(e.Speeds) || &(*k.Shown)[0] != &e.Speeds[0] {
		e.Speeds = trueSpeeds(e.Speeds, k.Speed)
		if k.Shown != nil {
			*k.Shown = e.Speeds
		}
	}
	e.Iterations = planner.Exactly(float64(k.Left))
	e.Resume, e.Checkpoint = planner.Exactly(k.Resume.Seconds()), planner.Exactly(k.Checkpoint.Seconds())
	e.Reaches, e.Basis = 1, "oracle"
	e.Suspensions = 0
	if work := float64(k.Left) / max(e.Speeds[0].Speed.Mid, 1e-12); k.Lease > 0 {
		e.Suspensions = expectedSuspensions(now, j, work, k.Lease)
	}
}

// trueSpeeds are the shapes with their true speeds, fastest first: the list itself when it says so already, as those of the oracle's own estimates do.
func trueSpeeds(list []planner.ShapeSpeed, speed func(planner.Shape) float64) []planner.ShapeSpeed {
	right := true
	for i, s := range list {
		right = right && s.Speed == planner.Exactly(speed(s.Shape)) && (i == 0 || list[i-1].Speed.Mid >= s.Speed.Mid)
	}
	if right {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Speed = planner.Exactly(speed(list[i].Shape))
	}
	slices.SortStableFunc(list, func(a, b planner.ShapeSpeed) int {
		switch {
		case a.Speed.Mid > b.Speed.Mid:
			return -1
		case a.Speed.Mid < b.Speed.Mid:
			return 1
		}
		return 0
	})
	return list
}

// expectedSuspensions is UniSched's own expectation (section 4.3): n(m-n+1)/m - 1 for an SLO job, half a cut after each lease of a best-effort job.
func expectedSuspensions(now time.Time, j *planner.Job, work float64, lease time.Duration) float64 {
	n := math.Ceil(work / lease.Seconds())
	if !j.Class.SLO() || len(j.Tiers) == 0 {
		return 0
	}
	m := math.Floor(j.Tiers[len(j.Tiers)-1].At.Sub(now).Seconds() / lease.Seconds())
	if m <= n || n <= 1 {
		return 0
	}
	return max(n*(m-n+1)/m-1, 0)
}

// FlatPlacement hides topology: every shape of a GPU count looks as fast as the best.
func FlatPlacement(_ time.Time, j *planner.Job, _ *Known) {
	j.Estimate.Speeds = slices.Clone(j.Estimate.Speeds)
	best := map[int]planner.Interval{}
	for _, s := range j.Estimate.Speeds {
		if b, ok := best[s.Shape.GPUs()]; !ok || s.Speed.Mid > b.Mid {
			best[s.Shape.GPUs()] = s.Speed
		}
	}
	for i := range j.Estimate.Speeds {
		j.Estimate.Speeds[i].Speed = best[j.Estimate.Speeds[i].Shape.GPUs()]
	}
}

// NoIterationEstimator takes the user's maximum for the iterations of a metric job.
func NoIterationEstimator(_ time.Time, j *planner.Job, k *Known) {
	if k.Max > 0 && j.Class != planner.Profiler {
		j.Estimate.Iterations = planner.Exactly(float64(max(k.Max-k.Done, 1)))
	}
}

// ChronusEstimates is the CHRONUS artifact's rule: duration x (1 + (1 + log2 g) 0.5 min / lease) x 1.1, of which the share done is taken off.
func ChronusEstimates(now time.Time, j *planner.Job, k *Known) {
	if j.Class == planner.Profiler {
		return
	}
	Oracle(now, j, k)
	over := 1.1 * (1 + DefaultResume(k.GPUs).Seconds()/max(k.Lease.Seconds(), 1))
	j.Estimate.Iterations = planner.Exactly(float64(k.Left) * over)
	j.Estimate.Suspensions = 0
}

// tap stands between the bridge and a policy: it applies the lenses and keeps account of what the policy did.
type tap struct {
	inner  bridge.Policy
	lenses []Lens
	w      *world
	jobs   []planner.Job // as the lenses show them
}

// Plan implements bridge.Policy.
func (t *tap) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	if len(t.lenses) > 0 {
		t.jobs = append(t.jobs[:0], s.Jobs...) // nobody keeps a snapshot
		s.Jobs = t.jobs
		for i := range s.Jobs {
			j := &s.Jobs[i]
			tr := t.w.truths.of(slurm.JobID(j.Run.Job))
			if tr == nil || j.Class == planner.Profiler || j.Foreign {
				continue
			}
			k := t.w.known(tr, j, &s)
			for _, l := range t.lenses {
				l(s.Now, j, &k)
			}
		}
	}
	began := t.w.cfg.clock()
	plan := t.inner.Plan(ctx, s)
	t.w.books.planned(s, plan, t.w.cfg.clock().Sub(began))
	return plan
}
