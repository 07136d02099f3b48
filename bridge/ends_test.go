package bridge

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"unisched/estimator"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// case 32: which runs that end with exit 0 after our signal have come to an end of their own.
func TestCutShort(t *testing.T) {
	signal := time.Unix(1_800_000_000, 0)
	saved := func(r *Record) {
		r.Run.CheckpointAt, r.Run.SavedIter, r.Run.LastIter, r.Run.LastAt = signal.Add(5*time.Second), 500, 500, signal.Add(-time.Second)
	}
	iters := func(r *Record) { r.Wish.Stop = comment.Stop{Kind: comment.StopIters, Iterations: 9000} }
	metric := func(r *Record) {
		r.Wish.Stop, r.Wish.Max = comment.Stop{Kind: comment.StopMetric, Metric: "acc", Op: comment.AtLeast, Target: 0.9}, 9000
		r.Curve = []estimator.Point{{Iter: 400, Value: 0.95}, {Iter: 500, Value: 0.8}}
	}
	for _, c := range []struct {
		name   string
		change []func(*Record)
		state  slurm.BaseState
		after  time.Duration // from the signal to the end; 0 is 6 s
		want   string
	}{
		{name: "declares no end, saved", change: []func(*Record){saved}, want: "without a word that it was done"},
		{name: "declares no end, said nothing"},
		{name: "declares no end, saved, said that it was done", change: []func(*Record){saved, func(r *Record) { r.Run.Done = true }}},
		{name: "declares no end, saved and trained on", change: []func(*Record){saved, func(r *Record) { r.Run.LastIter, r.Run.LastAt = 510, signal.Add(15*time.Second) }}},
		{name: "declares no end, an iteration was reported while it saved", change: []func(*Record){saved, func(r *Record) { r.Run.LastIter, r.Run.LastAt = 501, signal.Add(time.Second) }},
			want: "without a word that it was done"},
		{name: "declares no end, saved, was told to go on", change: []func(*Record){saved, func(r *Record) { r.Phase = Running }}},
		{name: "nobody asked it", change: []func(*Record){saved, func(r *Record) { r.Run.Signalled = time.Time{} }}},
		{name: "failed", change: []func(*Record){saved}, state: slurm.StateFailed},
		{name: "iterations left, saved", change: []func(*Record){saved, iters}, want: "at iteration 500 of 9000"},
		{name: "iterations left, saved, given back since", change: []func(*Record){saved, iters, func(r *Record) { r.Phase = Running }}, want: "at iteration 500 of 9000"},
		{name: "iterations left as far as was heard, given back long ago", change: []func(*Record){saved, iters, func(r *Record) { r.Phase = Running }}, after: 10 * time.Minute},
		{name: "iterations left, said nothing", change: []func(*Record){iters, func(r *Record) { r.Run.LastIter = 700 }}, want: "at iteration 700 of 9000, and did not say"},
		{name: "iterations left, said that it was done", change: []func(*Record){saved, iters, func(r *Record) { r.Run.Done = true }}},
		{name: "all iterations made", change: []func(*Record){saved, iters, func(r *Record) { r.Run.LastIter = 9000 }}},
		{name: "target not reached, saved", change: []func(*Record){saved, metric}, want: "without a word that it was done"},
		{name: "target reached, saved", change: []func(*Record){saved, metric, func(r *Record) { r.Curve[1].Value = 0.91 }}},
		{name: "target not reached, the most iterations made", change: []func(*Record){saved, metric, func(r *Record) { r.Run.LastIter = 9000 }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Record{Phase: Checkpointing, Run: RunProgress{Signalled: signal}}
			for _, change := range c.change {
				change(r)
			}
			job := slurm.Job{State: slurm.StateCompleted, End: signal.Add(cmp.Or(c.after, 6*time.Second))}
			if c.state != "" {
				job.State = c.state
			}
			if got := r.cutShort(&job, time.Minute); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
