package bridge

import (
	"fmt"
	"testing"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// A job of one GPU is measured in its first lease: until that has shown something, plans are told so.
func TestFirstLeaseIsTheProfile(t *testing.T) {
	b := &Bridge{cfg: Defaults(), records: map[slurm.JobID]*Record{}}
	b.seen.Nodes = []slurm.Node{{Name: "n1", Partitions: []string{"gpu"}, Usable: true, GPUs: []slurm.GPUs{{Count: 4}}}}
	job := slurm.Job{ID: 1, UID: 1000, Partition: "gpu", Batch: true, Requeue: true, State: slurm.StatePending, ArrayTask: -1, Submit: time.Unix(1000, 0).UTC()}
	job.Request = slurm.Request{GPUs: 1, Nodes: slurm.MinMax{Min: 1}, Tasks: 1, TRESPerJob: "gres/gpu:1"}
	now := job.Submit.Add(time.Minute)
	for _, c := range []struct {
		name, comment string
		change        func(*Record)
		want          bool
	}{
		{"waiting", "unisched:ckpt=USR1", func(*Record) {}, true},
		{"it cannot checkpoint", "unisched:class=besteffort", func(*Record) {}, false},
		{"its user does not want it", "unisched:ckpt=USR1,profile=skip", func(*Record) {}, false},
		{"elastic", "unisched:ckpt=USR1,gpus=1-4", func(*Record) {}, false},
		{"measured", "unisched:ckpt=USR1", func(r *Record) { r.Samples = []estimator.Sample{{Shape: planner.Shape{1}, IterTime: 1}} }, false},
		{"in its first lease", "unisched:ckpt=USR1", func(r *Record) { r.Started, r.Phase, r.LeaseUntil = true, Running, now.Add(time.Minute) }, true},
		{"its first lease has shown nothing", "unisched:ckpt=USR1", func(r *Record) { r.Started, r.Phase, r.LeaseUntil = true, Running, now }, false},
		{"it lost its first lease", "unisched:ckpt=USR1", func(r *Record) { r.Started, r.Restart = true, 1 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := job
			j.Comment = c.comment
			b.parts.Log = func(time.Time, Note) {}
			rec := b.admit(now, &j)
			if rec == nil || rec.Phase == Unmanaged {
				t.Fatalf("not admitted: %+v", rec)
			}
			c.change(rec)
			if got := b.unmeasured(now, rec); got != c.want {
				t.Errorf("unmeasured %v, want %v (profile %+v)", got, c.want, rec.Profile)
			}
		})
	}
}

// What is forecast of a job that is being measured is the end of the job, not of the step.
func TestForecastBehindTheProfile(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	step, left := now.Add(time.Minute), leftTime{Interval: planner.Interval{Low: 1800, Mid: 3600, High: 7200}}
	for _, c := range []struct {
		phase Phase
		done  bool
		want  time.Time
	}{{Admitted, false, step.Add(time.Hour)}, {Profiling, false, step.Add(time.Hour)}, {Waiting, true, step}} {
		r := &Record{Phase: c.phase, Profile: Profile{Steps: []planner.Shape{{1}}, Done: c.done}, Target: Target{Finish: step}}
		if mid, low, high := r.finish(now, left); !mid.Equal(c.want) || low.After(mid) || high.Before(mid) {
			t.Errorf("%s: %v (%v to %v), want %v", c.phase, mid, low, high, c.want)
		}
	}
}

// The steps of a profile stay within the GPUs allowed for one.
func TestProfileSteps(t *testing.T) {
	shapes := []planner.Shape{{8}, {4, 4}}
	for most, want := range map[int]string{0: "[1 2 2x1]", 1: "[1]", 2: "[1 2 2x1]", 4: "[1 2 2x1 4]", 8: "[1 2 2x1 8]"} {
		b := &Bridge{cfg: Config{ProfileGPUs: most}}
		if got := fmt.Sprint(b.profileSteps(shapes)); got != want {
			t.Errorf("%d GPUs: %s, want %s", most, got, want)
		}
	}
}
