package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// row is a line of our own format: one JSON object per job, with everything that a simulation can use.
type row struct {
	ID         string   `json:"id"`
	User       string   `json:"user,omitempty"`
	Account    string   `json:"account,omitempty"`
	GPUs       int      `json:"gpus"`
	Counts     []int    `json:"gpu_counts,omitempty"`
	Submit     float64  `json:"submit_s"`
	Duration   float64  `json:"duration_s"`
	Iterations int64    `json:"iterations,omitempty"`
	Model      string   `json:"model,omitempty"`
	Class      string   `json:"class,omitempty"`
	Deadlines  []rowDue `json:"deadlines,omitempty"`
	Metric     *rowStop `json:"metric,omitempty"`
	Checkpoint float64  `json:"checkpoint_s,omitempty"`
	Resume     float64  `json:"resume_s,omitempty"`
	Fixed      bool     `json:"no_checkpoint,omitempty"`
}

type rowDue struct {
	After float64 `json:"after_s"`
	Value float64 `json:"value"`
}

type rowStop struct {
	Family string `json:"family"`
	Seed   uint64 `json:"seed"`
	Max    int64  `json:"max_iterations"`
}

func readNative(t *table, r io.Reader) error {
	t.lines(r)
	return t.each(func() error {
		dec := json.NewDecoder(bytes.NewReader(t.scan.Bytes()))
		dec.DisallowUnknownFields()
		var x row
		if err := dec.Decode(&x); err != nil {
			return fmt.Errorf("line %d: %w: %w", t.line, err, ErrFormat)
		}
		j, err := x.job()
		if err != nil {
			return fmt.Errorf("line %d: %w", t.line, err)
		}
		t.add(j)
		return nil
	})
}

// job checks a row and makes a job of it.
func (x row) job() (Job, error) {
	j := Job{ID: x.ID, User: x.User, Account: x.Account, GPUs: x.GPUs, Iterations: x.Iterations, Model: x.Model, Class: planner.Class(x.Class), Fixed: x.Fixed}
	for _, s := range []struct {
		name string
		in   float64
		out  *time.Duration
	}{{"submit_s", x.Submit, &j.Submit}, {"duration_s", x.Duration, &j.Duration}, {"checkpoint_s", x.Checkpoint, &j.Checkpoint}, {"resume_s", x.Resume, &j.Resume}} {
		if !(s.in >= 0) || s.in > maxDuration.Seconds() {
			return j, fmt.Errorf("%s: %v is not within 0..10 years", s.name, s.in)
		}
		*s.out = seconds(s.in)
	}
	if x.ID == "" || len(x.ID) > 200 {
		return j, fmt.Errorf("id: missing or longer than 200 bytes")
	}
	if x.GPUs < 0 || x.Iterations < 0 || float64(x.Iterations) > maxIters {
		return j, fmt.Errorf("gpus %d or iterations %d out of range", x.GPUs, x.Iterations)
	}
	switch j.Class {
	case "":
		j.Class = planner.BestEffort
	case planner.BestEffort, planner.Strict, planner.Soft:
	default:
		return j, fmt.Errorf("class: %q is none of strict, soft, besteffort", clip(x.Class))
	}
	if j.Class.SLO() == (len(x.Deadlines) == 0) || len(x.Deadlines) > maxTiers || j.Class == planner.Strict && len(x.Deadlines) != 1 {
		return j, fmt.Errorf("deadlines: %d for class %s", len(x.Deadlines), j.Class)
	}
	for i, d := range x.Deadlines {
		if !(d.After > 0) || d.After > maxDuration.Seconds() || !(d.Value > 0) || d.Value > 100 ||
			i > 0 && (d.After <= x.Deadlines[i-1].After || d.Value >= x.Deadlines[i-1].Value) {
			return j, fmt.Errorf("deadlines: times must rise, values fall within 0..100")
		}
		j.Tiers = append(j.Tiers, Tier{seconds(d.After), d.Value})
	}
	if m := x.Metric; m != nil {
		if !slices.Contains(Families(), m.Family) || m.Max < x.Iterations || x.Iterations <= 0 || float64(m.Max) > maxIters {
			return j, fmt.Errorf("metric: family %q, maximum %d, iterations %d: want one of %v and a maximum of at least the iterations", clip(m.Family), m.Max, x.Iterations, Families())
		}
		j.Metric = &Metric{m.Family, m.Seed, m.Max}
	}
	if len(x.Counts) > 32 {
		return j, fmt.Errorf("gpu_counts: more than 32")
	}
	for _, c := range x.Counts {
		if c <= 0 || c > maxGPUs {
			return j, fmt.Errorf("gpu_counts: %d out of range", c)
		}
	}
	j.Counts = x.Counts
	return j, nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Write writes jobs in our own format, which Read takes back.
func Write(w io.Writer, jobs []Job) error {
	enc := json.NewEncoder(w)
	for _, j := range jobs {
		x := row{ID: j.ID, User: j.User, Account: j.Account, GPUs: j.GPUs, Counts: j.Counts, Submit: j.Submit.Seconds(), Duration: j.Duration.Seconds(),
			Iterations: j.Iterations, Model: j.Model, Class: string(j.Class), Checkpoint: j.Checkpoint.Seconds(), Resume: j.Resume.Seconds(), Fixed: j.Fixed}
		for _, t := range j.Tiers {
			x.Deadlines = append(x.Deadlines, rowDue{t.After.Seconds(), t.Value})
		}
		if m := j.Metric; m != nil {
			x.Metric = &rowStop{m.Family, m.Seed, m.Max}
		}
		if err := enc.Encode(x); err != nil {
			return fmt.Errorf("trace row: %w", err)
		}
	}
	return nil
}
