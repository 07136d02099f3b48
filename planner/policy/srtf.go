package policy

// newSRTF makes shortest remaining time first, preemptive (Schrage, Operations Research 16, 1968): optimal for the mean completion time on one machine,
// blind to deadlines and to the number of GPUs.
func newSRTF(o Options) Policy {
	return &ranker{name: "srtf", o: o, key: func(_ *round, j *job) [3]float64 { return [3]float64{normal, j.left} }}
}
