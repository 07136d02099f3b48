// Package trace reads records of training jobs that somebody really ran, or once published, and turns them into the jobs of a simulation: what was
// asked for, how long it took, what its deadlines were. It also makes up what traces lack (deadlines, stopping criteria) by stated rules.
//
// It refuses to guess: a file that is not of the format named is an error with its line, and rows that are left out are counted and named, never
// dropped in silence. It reads from an io.Reader and knows nothing of clusters or policies. The simulator and the experiment commands call it.
package trace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// Job is one training job of a trace. Times are relative: Submit to the first submission of the trace, deadlines to Submit.
type Job struct {
	ID            string
	User, Account string
	GPUs          int
	// Counts are the GPU counts that an elastic job may take; nil: only GPUs.
	Counts []int
	Submit time.Duration
	// Duration is the run time of the whole job at GPUs on the fewest nodes.
	Duration   time.Duration
	Iterations int64 // 0: one a second
	Model      string
	Class      planner.Class
	Tiers      []Tier
	// Metric, when set, is what the job stops on: it reaches its target at Iterations, which nobody knows before.
	Metric *Metric
	// Checkpoint and Resume are the costs of saving and of loading (0: the simulation's own rule); Fixed jobs cannot be checkpointed at all.
	Checkpoint, Resume time.Duration
	Fixed              bool
}

// Tier is a deadline after the submission and what meeting it is worth, 0..100.
type Tier struct {
	After time.Duration
	Value float64
}

// Metric is a stopping criterion of the second kind.
type Metric struct {
	Family string // of the curve that leads to the target, see Families
	Seed   uint64
	Max    int64 // the user's maximum of iterations
}

// Families are the learning curves of generated metric jobs.
func Families() []string { return []string{"weibull", "log-power", "mmf", "janoschek", "ilog2"} }

// Odd says what was left out or mended, and how often.
type Odd struct {
	What  string `json:"what"`
	Rows  int    `json:"rows"`
	First int    `json:"first_line"`
}

// Trace is what a file held.
type Trace struct {
	Format string
	Jobs   []Job // by submission, then id
	Odd    []Odd
	Rows   int    // data rows read
	SHA256 string // of the file
}

// ErrFormat means that the input is not of the format named.
var ErrFormat = errors.New("not of this format")

// Formats are the formats that Read knows.
func Formats() []string {
	return []string{"unisched", "chronus", "philly", "itp", "helios", "sacct", "helios-like"}
}

// Options are what some formats need to be told.
type Options struct {
	// Seed, GPUs, Days and Load are for helios-like: jobs are made for a cluster of so many GPUs, for so many days, at a load of Load.
	Seed uint64
	GPUs int
	Days float64
	Load float64
	// Cluster picks one of several in a file: a virtual cluster of Philly, a row of the Helios summary ("": all, or the first).
	Cluster string
	// Zone of times without one (sacct); nil: UTC.
	Zone *time.Location
}

// Read reads a trace of a format.
func Read(r io.Reader, format string, o Options) (Trace, error) {
	read, ok := map[string]func(*table, Options) error{
		"chronus": readChronus, "philly": readPhilly, "itp": readITP, "helios": readHelios, "sacct": readSacct, "helios-like": makeHelios,
	}[format]
	if !ok && format != "unisched" {
		return Trace{}, fmt.Errorf("trace format %q is none of %v", format, Formats())
	}
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	t := &table{sep: ','}
	if format == "sacct" {
		t.sep = '|'
	}
	var err error
	if format == "unisched" {
		err = readNative(t, in)
	} else if err = t.open(in); err == nil {
		err = read(t, o)
	}
	if err != nil {
		return Trace{}, fmt.Errorf("%s trace: %w", format, err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return Trace{}, fmt.Errorf("%s trace: %w", format, err)
	}
	out := Trace{Format: format, Jobs: t.jobs, Odd: t.odds(), Rows: t.rows, SHA256: hex.EncodeToString(sum.Sum(nil))}
	out.settle()
	return out, nil
}

// settle sorts the jobs and counts their submissions from the first.
func (t *Trace) settle() {
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID)) })
	if len(t.Jobs) == 0 {
		return
	}
	first := t.Jobs[0].Submit
	for i := range t.Jobs {
		j := &t.Jobs[i]
		j.Submit -= first
		if j.Class == "" {
			j.Class = planner.BestEffort
		}
	}
}

// Between keeps the jobs submitted in [from, until); until 0 is the end. Submissions are counted from the first that is kept.
func (t Trace) Between(from, until time.Duration) Trace {
	var jobs []Job
	for _, j := range t.Jobs {
		if j.Submit >= from && (until <= 0 || j.Submit < until) {
			jobs = append(jobs, j)
		}
	}
	t.Jobs = jobs
	t.settle()
	return t
}

// RoundUp lets jobs of 3 GPUs take 4 and jobs of 5 to 7 take 8, at the speed that they had, as schedulers do that know whole buddy cells only.
func (t Trace) RoundUp() Trace {
	t.Jobs = slices.Clone(t.Jobs)
	for i := range t.Jobs {
		switch j := &t.Jobs[i]; {
		case j.GPUs == 3:
			j.GPUs = 4
		case j.GPUs >= 5 && j.GPUs <= 7:
			j.GPUs = 8
		}
	}
	return t
}

// GPUTime is the sum of duration times GPUs.
func (t Trace) GPUTime() (gpuSeconds float64) {
	for _, j := range t.Jobs {
		gpuSeconds += j.Duration.Seconds() * float64(j.GPUs)
	}
	return gpuSeconds
}

// The bounds of what a row may say.
const (
	maxGPUs     = 1 << 16
	maxDuration = 10 * 365 * 24 * time.Hour
	maxRows     = 10_000_000
	maxIters    = 1e12
	maxTiers    = 8
)

// LongestIteration is the longest iteration that a job keeps: jobs of traces with coarser ones are counted in equal parts of them, since a checkpoint is
// taken between iterations and no training loop's last minutes.
const LongestIteration = 10 * time.Second

// refine cuts iterations that are too long.
func refine(j *Job) {
	if j.Iterations <= 0 {
		j.Iterations = max(int64(math.Round(j.Duration.Seconds())), 1)
	}
	each := j.Duration / time.Duration(j.Iterations)
	if each > LongestIteration {
		parts := int64((each + LongestIteration - 1) / LongestIteration)
		j.Iterations *= parts
		if j.Metric != nil {
			j.Metric.Max *= parts
		}
	}
	// And no iteration is so short that nanoseconds are coarse for it.
	if most := int64(j.Duration / (10 * time.Microsecond)); j.Iterations > most {
		j.Iterations = max(most, 1)
	}
}
