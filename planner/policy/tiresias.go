package policy

// newTiresias makes Tiresias (Gu et al., NSDI 2019) with discretised two-dimensional least attained service and two queues: jobs that
// have used less than the threshold of GPU-seconds go before those that have used more; within a queue by submission. It needs no
// estimate of any kind, and knows no deadline.
func newTiresias(o Options) Policy {
	return &ranker{name: "tiresias", o: o, key: func(_ *round, j *job) [3]float64 {
		if positive(j.Attained) < o.Threshold {
			return [3]float64{normal}
		}
		return [3]float64{last}
	}}
}
