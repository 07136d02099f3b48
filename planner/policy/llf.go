package policy

// newLLF makes least laxity first, preemptive (Mok, MIT 1983): deadline - remaining time - now. Jobs of equal laxity take turns, at the cost of a
// resume each time; that is how the rule behaves. Best effort and hopeless jobs come last, in order of submission.
func newLLF(o Options) Policy {
	return &ranker{name: "llf", o: o, key: func(_ *round, j *job) [3]float64 {
		if j.alive() {
			return [3]float64{urgent, j.slack()}
		}
		return [3]float64{last}
	}}
}
