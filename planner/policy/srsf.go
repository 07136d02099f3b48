package policy

// newSRSF makes shortest remaining service first: remaining time x GPUs, the multi-GPU counterpart of SRTF that Tiresias (Gu et al., NSDI 2019) compares
// itself with. Blind to deadlines.
func newSRSF(o Options) Policy {
	return &ranker{name: "srsf", o: o, key: func(_ *round, j *job) [3]float64 { return [3]float64{normal, j.service()} }}
}
