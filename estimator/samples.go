package estimator

import (
	"cmp"
	"math"
	"slices"
)

// cleanSamples drops what cannot be a measurement, sorts shapes into their canonical order and keeps the newest, at most limit, oldest first.
func cleanSamples(in []Sample, limit int) []Sample {
	out := make([]Sample, 0, len(in))
	for _, s := range in {
		if !validShape(s.Shape) || !(s.IterTime > 1e-7 && s.IterTime < 1e7) {
			continue
		}
		if !slices.IsSortedFunc(s.Shape, descending) {
			s.Shape = slices.Clone(s.Shape)
			slices.SortFunc(s.Shape, descending)
		}
		s.StdErr = finiteOr(s.StdErr, 0.2*s.IterTime)
		if s.Batch = finiteOr(s.Batch, 0); !(s.Batch > 1e-3 && s.Batch < 1e9) {
			s.Batch = 0
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Sample) int { return a.At.Compare(b.At) })
	return out[max(0, len(out)-limit):]
}

func descending(a, b int) int { return b - a }

// mergeWindow is how many of the newest samples of one shape and batch size speak for it.
const mergeWindow = 9

// merged replaces the samples of one shape and batch size by their median: a lease on a disturbed node does not count, and the fit stays small however long a job
// runs. Samples of earlier jobs count only where the job has none of its own. The result is sorted by shape and batch size.
func merged(in []Sample) []Sample {
	s := slices.Clone(in)
	slices.SortStableFunc(s, func(a, b Sample) int {
		return cmp.Or(slices.Compare(a.Shape, b.Shape), cmp.Compare(a.Batch, b.Batch), cmp.Compare(past(b), past(a)))
	})
	var out []Sample
	times := make([]float64, 0, mergeWindow)
	for i := 0; i < len(s); {
		k := i
		for k < len(s) && s[k].Batch == s[i].Batch && s[k].Shape.Equal(s[i].Shape) {
			k++
		}
		group := s[i:k]
		i = k
		if last := group[len(group)-1]; !last.Past { // own samples come last
			group = group[slices.IndexFunc(group, func(x Sample) bool { return !x.Past }):]
		}
		group = group[max(0, len(group)-mergeWindow):]
		m := group[len(group)-1]
		if n := len(group); n > 1 {
			times = times[:0]
			for _, x := range group {
				times = append(times, x.IterTime)
				m.StdErr = min(m.StdErr, x.StdErr)
				m.N = min(m.N+x.N, math.MaxInt32)
			}
			slices.Sort(times)
			m.IterTime = (times[(n-1)/2] + times[n/2]) / 2
			m.StdErr = max(m.StdErr/math.Sqrt(float64(n)), (times[n-1-n/4]-times[n/4])/(1.35*math.Sqrt(float64(n))))
		}
		out = append(out, m)
	}
	return out
}

func past(s Sample) int {
	if s.Past {
		return 1
	}
	return 0
}

// sampleCounts says where samples come from.
type sampleCounts struct{ past, profile, leases int }

func countSamples(in []Sample) (n sampleCounts) {
	for _, s := range in {
		switch {
		case s.Past:
			n.past++
		case s.Profile:
			n.profile++
		default:
			n.leases++
		}
	}
	return n
}
