package policy

// newEDF makes earliest deadline first, preemptive (Liu and Layland, JACM 20(1), 1973). A soft job counts with the first tier that it can still meet.
// Best effort comes last, shortest remaining time first, together with those who can meet no deadline any more: kept first, they would make
// others late in turn.
func newEDF(o Options) Policy {
	return &ranker{name: "edf", o: o, key: func(_ *round, j *job) [3]float64 {
		if j.alive() {
			return [3]float64{urgent, j.due}
		}
		return [3]float64{last, j.left}
	}}
}
