package sim

import "unisched/slurm"

// byJob finds what is known of a job by its id. The simulated cluster numbers its jobs from 1 on without holes, so that a list does: it is asked of every job in
// every round, and a map of all jobs of a long trace is slow where a list is not.
type byJob[T any] []*T

// of is nil for an id that was never set.
func (l byJob[T]) of(id slurm.JobID) *T {
	if id < 0 || id >= slurm.JobID(len(l)) {
		return nil
	}
	return l[id]
}

func (l *byJob[T]) set(id slurm.JobID, v *T) {
	for slurm.JobID(len(*l)) <= id {
		*l = append(*l, nil)
	}
	(*l)[id] = v
}
