package bridge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"unisched/slurm"
)

func TestAwaited(t *testing.T) {
	waits := func(id slurm.JobID, uid int64, text string) slurm.Job {
		return slurm.Job{ID: id, UID: uid, State: slurm.StatePending, Dependency: text}
	}
	for name, c := range map[string]struct {
		jobs []slurm.Job
		want map[awaitedTask][]waiter
	}{
		"nobody":       {[]slurm.Job{waits(1, 7, ""), waits(2, 7, "singleton(unfulfilled)"), waits(3, 7, "after:9+5(unfulfilled)")}, nil},
		"one":          {[]slurm.Job{waits(2, 7, "afterok:1(unfulfilled)")}, map[awaitedTask][]waiter{{1, -1}: {{2, 7, ""}}}},
		"several":      {[]slurm.Job{waits(5, 7, "afterany:1(unfulfilled),afternotok:2(failed)?afterok:3(unfulfilled)")}, map[awaitedTask][]waiter{{1, -1}: {{5, 7, ""}}, {2, -1}: {{5, 7, ""}}, {3, -1}: {{5, 7, ""}}}},
		"of an array":  {[]slurm.Job{waits(5, 7, "afterok:12_*(unfulfilled)"), waits(6, 7, "aftercorr:13_4(unfulfilled)")}, map[awaitedTask][]waiter{{12, -1}: {{5, 7, ""}}, {13, 4}: {{6, 7, ""}}}},
		"two users":    {[]slurm.Job{waits(5, 7, "afterok:1"), waits(6, 8, "afterok:1"), waits(7, 8, "afterok:1")}, map[awaitedTask][]waiter{{1, -1}: {{5, 7, ""}, {6, 8, ""}}}},
		"no such ids":  {[]slurm.Job{waits(5, 7, "afterok:99999999999999999999"), waits(6, 7, "afterok:x")}, nil},
		"it has begun": {[]slurm.Job{{ID: 2, UID: 7, State: slurm.StateRunning, Dependency: "afterok:1"}}, nil},
	} {
		if d := cmp.Diff(c.want, awaited(c.jobs), cmp.AllowUnexported(awaitedTask{}, waiter{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Instants that are past by either clock stay: the clock may have been fast for a while only, and what is older than that was written by a good one.
func TestClockBackOfARecord(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	was := now.Add(time.Hour)
	at := func(m int) time.Time { return now.Add(time.Duration(m) * time.Minute) }
	r := Record{LeaseUntil: at(63), BlockedTill: at(10), LastOnGPUs: at(30), Avoid: []Avoid{{"n1", at(70)}},
		Run: RunProgress{Start: at(-90), Ready: at(-89), Signalled: at(-1), CheckpointAt: at(50), FirstAt: at(-80), LastAt: at(50)}}
	r.clockBack(step{was, now})
	want := Record{LeaseUntil: at(3), BlockedTill: now, LastOnGPUs: at(-30), Avoid: []Avoid{{"n1", at(10)}}, SubmitSlack: time.Hour,
		Run: RunProgress{Start: at(-90), Ready: at(-89), Signalled: at(-1), CheckpointAt: at(-1), LastAt: at(-10)}}
	if d := cmp.Diff(want, r, cmpopts.IgnoreUnexported(Record{})); d != "" {
		t.Error(d)
	}
}
