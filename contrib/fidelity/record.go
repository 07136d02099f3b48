package main

import (
	"encoding/json"
	"os"
	"time"

	"unisched/bridge"
	"unisched/contrib/fidelity/job"
)

// record is what one cluster made of the jobs, as its daemon saw it.
type record struct {
	Load load
	Unit time.Duration
	Zero time.Time // the experiment's begin
	// Config is the daemon's configuration file.
	Config string
	Jobs   []jobRecord
	// Rounds are the wall times of the policy, real cluster only.
	Rounds []float64 `json:",omitempty"`
}

// jobRecord is one job in it.
type jobRecord struct {
	Spec job.Spec
	// Submitted is when sbatch had returned, since the begin.
	Submitted time.Duration
	View      bridge.JobView
	// Script is what the job's own script noted, real cluster only.
	Script []note `json:",omitempty"`
	// Runs is what accounting knows of its runs, real cluster only.
	Runs []accounted `json:",omitempty"`
}

// note is an instant in a job's script: script, ready, signal, saved, done.
type note struct {
	Run  int
	What string
	At   time.Time
	Iter int64
}

// accounted is one run of a job in accounting. Times are whole seconds.
type accounted struct {
	State              string
	Submit, Start, End time.Time
	Nodes              string
}

// end is when the job was done since its submission, and whether it was at all.
func (j jobRecord) end() (time.Duration, bool) {
	if j.View.Phase != bridge.Completed || j.View.Ended.IsZero() {
		return 0, false
	}
	return j.View.Ended.Sub(j.View.Submitted), true
}

// miss is 1 - value of the best deadline met / full value; 0 for a job without deadlines.
func (j jobRecord) miss() float64 {
	if len(j.Spec.Tiers) == 0 {
		return 0
	}
	end, ok := j.end()
	for _, t := range j.Spec.Tiers {
		if ok && end <= t.After {
			return 1 - t.Value/j.Spec.Tiers[0].Value
		}
	}
	return 1
}

func readRecord(path string) (record, error) {
	var r record
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

func writeRecord(path string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
