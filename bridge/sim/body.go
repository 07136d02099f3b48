package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/bridge/sim/trace"
	"unisched/planner"
	"unisched/slurm/slurmsim"
)

// truth is what is true of one job, and nobody in the loop knows.
type truth struct {
	job     trace.Job
	perNode int
	speeds  Speeds
	iter    time.Duration // of one iteration at the requested GPUs on the fewest nodes
	resume  func(gpus int) time.Duration
	save    time.Duration
	speedOf func(planner.Shape) float64 // speed
	known   []planner.ShapeSpeed        // the shapes that were asked about so far: few
	shown   []planner.ShapeSpeed        // the newest list that was found to say so: nobody writes to one
	loading time.Duration               // what a resume on the requested GPUs costs
}

// DefaultCheckpoint is what saving costs unless the trace says otherwise.
const DefaultCheckpoint = 4 * time.Second

// DefaultResume is what loading on g GPUs costs unless the trace says otherwise: 0.5 (1 + log2 g) minutes, as in CHRONUS (SoCC'21).
func DefaultResume(g int) time.Duration {
	return time.Duration(30 * (1 + math.Log2(float64(max(g, 1)))) * float64(time.Second))
}

func truthOf(j trace.Job, perNode int, s Speeds) *truth {
	t := &truth{job: j, perNode: perNode, speeds: s, resume: DefaultResume, save: DefaultCheckpoint}
	t.iter = max(j.Duration/time.Duration(max(j.Iterations, 1)), time.Microsecond)
	if j.Checkpoint > 0 {
		t.save = j.Checkpoint
	}
	if j.Resume > 0 {
		t.resume = func(int) time.Duration { return j.Resume }
	}
	t.speedOf, t.loading = t.speed, t.resume(j.GPUs)
	return t
}

// speed is the true speed on a shape in iterations per second, without noise. It is worked out once for each shape: nothing that it follows from changes.
func (t *truth) speed(s planner.Shape) float64 {
	for i := range t.known {
		if t.known[i].Shape.Equal(s) {
			return t.known[i].Speed.Mid
		}
	}
	v := t.speeds.Relative(t.job.Model, t.job.GPUs, s, t.perNode, len(t.job.Counts) > 1) / t.iter.Seconds()
	t.known = append(t.known, planner.ShapeSpeed{Shape: slices.Clone(s), Speed: planner.Exactly(v)})
	return v
}

// Submission is the job as its user hands it in, with the script that it runs.
func (t *truth) submission(seed uint64, noise float64, unit time.Duration, now time.Time) slurmsim.Submission {
	j := t.job
	rng := rand.New(rand.NewPCG(seed, key("noise", j.ID)))
	body := slurmsim.Body{
		Iterations: j.Iterations, Ready: time.Second, Save: t.save, ResumeOn: t.resume, Every: unit, Ramp: true,
		Step: func(per []int) time.Duration { // asked once for every run: each has its own luck
			slow := math.Exp(noise * rng.NormFloat64())
			shape := slices.Clone(per)
			slices.SortFunc(shape, func(a, b int) int { return b - a })
			return time.Duration(slow / t.speed(shape) * float64(time.Second))
		},
	}
	if j.Metric != nil {
		body.Metric, body.Curve = metricName, curve(j)
	}
	return slurmsim.Submission{
		Name: j.ID, User: j.User, Account: j.Account, UID: 1000, Partition: partition, Comment: wish(j, now), GPUs: j.GPUs, Body: body,
	}
}

const (
	metricName   = "val_acc"
	metricTarget = 0.9
	partition    = "gpu"
	profiling    = "profile"
)

// wish is the comment that the job's user writes.
func wish(j trace.Job, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "unisched:class=%s", j.Class)
	switch {
	case j.Class == planner.Strict:
		fmt.Fprintf(&b, ",deadline=now+%ds", max(int64(j.Tiers[0].After/time.Second), 1))
	case j.Class == planner.Soft:
		sep := ",deadlines="
		for _, t := range j.Tiers {
			fmt.Fprintf(&b, "%snow+%ds:%s", sep, max(int64(t.After/time.Second), 1), strconv.FormatFloat(t.Value, 'g', 6, 64))
			sep = "/"
		}
	}
	if m := j.Metric; m != nil {
		fmt.Fprintf(&b, ",stop=metric:%s>=%g,max=%d", metricName, metricTarget, m.Max)
	} else {
		fmt.Fprintf(&b, ",stop=iters:%d", j.Iterations)
	}
	if len(j.Counts) > 1 {
		b.WriteString(",batch=global,gpus=")
		for i, c := range j.Counts {
			if i > 0 {
				b.WriteByte('/')
			}
			b.WriteString(strconv.Itoa(c))
		}
	}
	if !j.Fixed {
		b.WriteString(",ckpt=USR1")
	}
	return b.String()
}

// curve is the validation metric of a metric job by iteration: a curve of its family with parameters of its own that is exactly at the target at the
// last iteration, and below it before, with reporting noise that never lifts it over the target early.
func curve(j trace.Job) func(int64) float64 {
	rng := rand.New(rand.NewPCG(j.Metric.Seed, key("curve", j.Metric.Family)))
	start, bend, noise := 0.1+0.2*rng.Float64(), 0.4+0.5*rng.Float64(), 0.003*rng.Float64()
	sharp := 2 + 2*rng.Float64()
	n := float64(j.Iterations)
	shape := map[string]func(x float64) float64{ // rising on 0..1 and beyond, 0 at 0
		"weibull":   func(x float64) float64 { return 1 - math.Exp(-sharp*math.Pow(x, bend)) },
		"mmf":       func(x float64) float64 { return 1 - 1/(1+math.Pow(4*sharp*x, bend)) },
		"janoschek": func(x float64) float64 { return 1 - math.Exp(-sharp*math.Pow(x, bend+0.1)) },
		"log-power": func(x float64) float64 { return 1 / (1 + math.Pow(math.Max(x, 1e-9)*sharp*2, -bend)) },
		"ilog2":     func(x float64) float64 { return 1 - 1/(1+math.Log(1+20*sharp*x)) },
	}[j.Metric.Family]
	if shape == nil {
		shape = func(x float64) float64 { return x }
	}
	end := shape(1)
	return func(i int64) float64 {
		x := float64(i) / n
		v := start + (metricTarget-start)*shape(x)/end
		jitter := rand.New(rand.NewPCG(j.Metric.Seed, uint64(i)))
		if i >= j.Iterations {
			return math.Max(v, metricTarget)
		}
		return math.Min(v+noise*jitter.NormFloat64(), metricTarget-1e-6)
	}
}

func key(parts ...string) uint64 {
	h := fnvOffset
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * fnvPrime
		}
		h = (h ^ 0xff) * fnvPrime
	}
	return h
}

const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)
