package bridge

import (
	"encoding/json"
	"testing"

	"unisched/hooks/progress"
	"unisched/slurm"
)

// A user who writes lines of a run that does not begin costs the daemon no more than a bounded number of bytes, and others their early lines not at all.
func TestEarlyReportsAreBounded(t *testing.T) {
	b := &Bridge{records: map[slurm.JobID]*Record{1: {Job: 1, UID: 7, Phase: Running}, 2: {Job: 2, UID: 8, Phase: Running}}}
	long := json.RawMessage(`{"iter":1,"x":"` + string(make([]byte, 4000)) + `"}`)
	lines := make([]json.RawMessage, 60)
	for i := range lines {
		lines[i] = long
	}
	var left []progress.JobReport
	for range 2000 {
		left = append(left, progress.JobReport{Job: 1, Restart: 1, UID: 7, Lines: lines})
	}
	left = append(left, progress.JobReport{Job: 2, Restart: 1, UID: 8, Lines: lines[:1]})
	bytes, other := 0, false
	for _, r := range b.stillEarly(left) {
		for _, l := range r.Lines {
			bytes += len(l)
		}
		other = other || r.Job == 2
	}
	if bytes > maxEarlyJobBytes+len(long) || !other {
		t.Errorf("%d bytes are kept; the other job's line: %v", bytes, other)
	}
}
