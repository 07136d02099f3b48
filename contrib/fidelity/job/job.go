// Package job is what one job of the fidelity experiment is in truth: how fast it trains on which GPUs, what it costs to load and to save, what its
// metric shows. The same values and functions drive the script on the real cluster (contrib/fidelity/body) and the body in slurmsim, so that what
// differs between the two is Slurm, the nodes and the daemon's wall clock.
//
// It refuses to know of clusters and schedulers, and uses the standard library only: it runs inside the test cluster's jobs.
package job

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Spec is one job. Times are those of the experiment, after scaling.
type Spec struct {
	ID     string        `json:"id"`
	Model  string        `json:"model"`
	GPUs   int           `json:"gpus"`
	Submit time.Duration `json:"submit_ns"` // since the experiment's begin
	// Duration is the run time on GPUs GPUs on the fewest nodes, without loading or saving.
	Duration   time.Duration `json:"duration_ns"`
	Iterations int64         `json:"iterations"`
	// Times is the time of one iteration by GPUs and nodes.
	Times []Time `json:"times"`
	// Noise is the standard deviation of the logarithm of a run's speed.
	Noise float64 `json:"noise"`
	// Ready is the time from the script's start to its first line; Resume on top when there is a checkpoint; Save is the time that one takes.
	Ready  time.Duration `json:"ready_ns"`
	Resume time.Duration `json:"resume_ns"` // on one GPU; 1 + log2(g) times as long on g
	Save   time.Duration `json:"save_ns"`
	// Every is the time between two lines; the first comes after a tenth, and the gaps double until they are Every.
	Every time.Duration `json:"every_ns"`
	Class string        `json:"class"`
	Tiers []Tier        `json:"tiers,omitempty"`
	// Metric is nil when the job declares its iterations.
	Metric *Metric `json:"metric,omitempty"`
}

// Time is how long one iteration takes on so many GPUs of so many nodes.
type Time struct {
	GPUs  int           `json:"gpus"`
	Nodes int           `json:"nodes"`
	Iter  time.Duration `json:"iter_ns"`
}

// Tier is a deadline, counted from the submission, and its value.
type Tier struct {
	After time.Duration `json:"after_ns"`
	Value float64       `json:"value"`
}

// Metric is a validation metric that rises from Start to Target at the last iteration.
type Metric struct {
	Start  float64 `json:"start"`
	Sharp  float64 `json:"sharp"`
	Bend   float64 `json:"bend"`
	Max    int64   `json:"max"` // the user's bound on iterations
	Target float64 `json:"target"`
}

// MetricName is the name under which jobs report it.
const MetricName = "val_acc"

// Step is the time of one iteration in a run: that of its GPUs and nodes, times the luck of this run.
func (s Spec) Step(gpus, nodes, restart int) time.Duration {
	best := s.Times[0]
	far := func(t Time) int { return 100*abs(t.GPUs-gpus) + abs(t.Nodes-nodes) }
	for _, t := range s.Times[1:] {
		if far(t) < far(best) {
			best = t
		}
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.ID)
	luck := rand.New(rand.NewPCG(h.Sum64(), uint64(restart)))
	return max(time.Duration(float64(best.Iter)*math.Exp(s.Noise*luck.NormFloat64())), time.Microsecond)
}

func abs(n int) int { return max(n, -n) }

// ResumeOn is what loading a checkpoint costs on g GPUs: proportional to 1 + log2 g, as in CHRONUS (SoCC'21).
func (s Spec) ResumeOn(g int) time.Duration {
	return time.Duration(float64(s.Resume) * (1 + math.Log2(float64(max(g, 1)))))
}

// Value is the metric after an iteration.
func (m Metric) Value(iter, last int64) float64 {
	shape := func(x float64) float64 { return 1 - math.Exp(-m.Sharp*math.Pow(x, m.Bend)) }
	return m.Start + (m.Target-m.Start)*shape(float64(iter)/float64(max(last, 1)))/shape(1)
}

// Wish is the comment with which its user submits it.
func (s Spec) Wish() string {
	w := "unisched:class=" + s.Class
	switch s.Class {
	case "strict":
		w += ",deadline=now+" + seconds(s.Tiers[0].After)
	case "soft":
		sep := ",deadlines="
		for _, t := range s.Tiers {
			w += sep + "now+" + seconds(t.After) + fmt.Sprintf(":%g", t.Value)
			sep = "/"
		}
	}
	if s.Metric != nil {
		w += fmt.Sprintf(",stop=metric:%s>=%g,max=%d", MetricName, s.Metric.Target, s.Metric.Max)
	} else {
		w += fmt.Sprintf(",stop=iters:%d", s.Iterations)
	}
	return w + ",ckpt=USR1"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", max(int64(d/time.Second), 1)) }

// Text is the spec as one argument of the script.
func (s Spec) Text() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

// Parse reads what Text wrote.
func Parse(text string) (Spec, error) {
	var s Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Spec{}, fmt.Errorf("job: %w", err)
	}
	if len(s.Times) == 0 || s.Iterations <= 0 {
		return Spec{}, fmt.Errorf("job %s: no iterations or no times of them", s.ID)
	}
	return s, nil
}
