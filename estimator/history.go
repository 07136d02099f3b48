package estimator

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"unisched/planner"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Key identifies jobs that are likely alike.
type Key struct {
	User    string `json:"user"`
	Script  string `json:"script"` // digest of the batch script
	Name    string `json:"name"`
	GPUType string `json:"gpu_type,omitempty"`
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.User, o.User), cmp.Compare(k.Script, o.Script), cmp.Compare(k.Name, o.Name), cmp.Compare(k.GPUType, o.GPUType))
}

// Past is what earlier jobs of one key left behind.
type Past struct {
	Key     Key       `json:"key"`
	Updated time.Time `json:"updated"`
	Jobs    int       `json:"jobs"`
	// Samples are step times, the newest of each shape and batch size; Ends the iterations at which the newest jobs met their stop criterion.
	Samples []Sample `json:"samples,omitempty"`
	Ends    []int64  `json:"ends,omitempty"`
	// Resumes and Checkpoints as measured.
	Resumes     []SRSample `json:"resumes,omitempty"`
	Checkpoints []SRSample `json:"checkpoints,omitempty"`
}

// History is what is remembered of finished jobs of one cluster: a bounded, ageing value that callers store as JSON. Pasts are sorted by key.
type History struct {
	Schema int    `json:"schema_version"`
	Pasts  []Past `json:"pasts,omitempty"`
}

// Bounds of a History.
const (
	maxPasts       = 2000
	maxPastSamples = 24
	maxPastEnds    = 8
	maxPastAge     = 120 * 24 * time.Hour
)

// Find returns what is remembered of a key, unless it is too old.
func (h History) Find(k Key, now time.Time) (Past, bool) {
	i, ok := slices.BinarySearchFunc(h.Pasts, k, func(p Past, k Key) int { return p.Key.Compare(k) })
	if !ok || now.Sub(h.Pasts[i].Updated) > maxPastAge {
		return Past{}, false
	}
	return h.Pasts[i], true
}

// Remember returns the history after a job ended: end is the iteration at which it met its stop criterion, 0 when it did not. h is not changed.
func (h History) Remember(k Key, j Job, end int64, now time.Time) History {
	out := History{Schema: 1, Pasts: slices.DeleteFunc(slices.Clone(h.Pasts), func(p Past) bool { return now.Sub(p.Updated) > maxPastAge })}
	i, ok := slices.BinarySearchFunc(out.Pasts, k, func(p Past, k Key) int { return p.Key.Compare(k) })
	if !ok {
		out.Pasts = slices.Insert(out.Pasts, i, Past{Key: k})
	}
	p := &out.Pasts[i]
	p.Updated = now
	p.Jobs++
	p.Samples = mergeSamples(p.Samples, cleanSamples(j.Samples, maxSamples))
	if end > 0 {
		p.Ends = append(slices.Clone(p.Ends), end)
		p.Ends = p.Ends[max(0, len(p.Ends)-maxPastEnds):]
	}
	p.Resumes = lastOf(keepLast(p.Resumes, j.Resumes), maxPastEnds)
	p.Checkpoints = lastOf(keepLast(p.Checkpoints, j.Checkpoints), maxPastEnds)
	if len(out.Pasts) > maxPasts { // the one not seen for longest goes
		oldest := 0
		for i := range out.Pasts {
			if out.Pasts[i].Updated.Before(out.Pasts[oldest].Updated) {
				oldest = i
			}
		}
		out.Pasts = slices.Delete(out.Pasts, oldest, oldest+1)
	}
	return out
}

func lastOf(s []SRSample, n int) []SRSample { return s[max(0, len(s)-n):] }

// mergeSamples keeps the newest sample of each shape and batch size, at most maxPastSamples, the newest ones.
func mergeSamples(old, add []Sample) []Sample {
	all := append(slices.Clone(old), add...)
	slices.SortStableFunc(all, func(a, b Sample) int { return a.At.Compare(b.At) })
	var out []Sample
	for i := len(all) - 1; i >= 0 && len(out) < maxPastSamples; i-- {
		if !slices.ContainsFunc(out, func(s Sample) bool { return s.Shape.Equal(all[i].Shape) && s.Batch == all[i].Batch }) {
			out = append(out, all[i])
		}
	}
	slices.Reverse(out)
	return out
}

// historyDoubt is the standard deviation of the step time of a job against that of earlier jobs of its key.
const historyDoubt = 0.08

// Prime gives a job what earlier ones of its key left behind: their samples, with doubt, and their ends. Call it once per job; the job's own measurements
// then outweigh the past ones.
func (p Past) Prime(j Job) Job {
	past := make([]Sample, 0, len(p.Samples)+len(j.Samples))
	for _, s := range p.Samples {
		s.StdErr = max(finiteOr(s.StdErr, 0), historyDoubt*s.IterTime)
		s.Profile, s.Past = false, true
		past = append(past, s)
	}
	j.Samples = append(past, j.Samples...)
	j.PastEnds = p.Ends
	if len(j.Resumes) == 0 {
		j.Resumes = p.Resumes
	}
	if len(j.Checkpoints) == 0 {
		j.Checkpoints = p.Checkpoints
	}
	return j
}

// Answers reports whether the past holds what one profile step would measure: one GPU, several of one node, or several of several nodes.
func (p Past) Answers(step planner.Shape) bool {
	return slices.ContainsFunc(p.Samples, func(x Sample) bool {
		return min(x.Shape.GPUs(), 2) == min(step.GPUs(), 2) && min(x.Shape.Nodes(), 2) == min(step.Nodes(), 2)
	})
}

// Restore puts a stored past in its place; one of the same key is replaced.
func (h History) Restore(p Past) History {
	out := History{Schema: 1, Pasts: slices.Clone(h.Pasts)}
	i, ok := slices.BinarySearchFunc(out.Pasts, p.Key, func(p Past, k Key) int { return p.Key.Compare(k) })
	if ok {
		out.Pasts[i] = p
	} else if len(out.Pasts) < maxPasts {
		out.Pasts = slices.Insert(out.Pasts, i, p)
	}
	return out
}

// Profiled reports whether the past answers what a profile of the shape would: a step time on one GPU, and for several GPUs a step time with an exchange
// on one node and, when the job spans nodes, across nodes.
func (p Past) Profiled(s planner.Shape) bool {
	var one, local, cross bool
	for _, x := range p.Samples {
		switch {
		case x.Shape.GPUs() == 1:
			one = true
		case x.Shape.Nodes() == 1:
			local = true
		default:
			cross = true
		}
		if x.Shape.Equal(s) {
			return true
		}
	}
	return one && (s.GPUs() == 1 || s.Nodes() == 1 && local || s.Nodes() > 1 && cross)
}
