package e2e

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"unisched/contrib/lab"
	"unisched/slurm"
)

// TestScale fills a real slurmctld with UNISCHED_SCALE waiting jobs, each a record of its own, and looks at them as the daemon does: full lists at a tenth
// of the time they take, states and changes in between. It prints what a look costs us and how long slurmrestd takes.
func TestScale(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("UNISCHED_SCALE"))
	if err != nil {
		t.Skip("long test: UNISCHED_SCALE says how many jobs")
	}
	l := up(t, lab.Options{Nodes: 2, NoDaemon: true})
	began := time.Now()
	script := fmt.Sprintf(`cd /tmp; printf '#!/bin/sh\nsleep 1\n' > j.sh; for k in 1 2 3; do (for i in $(seq $((%d/3))); do sbatch -Q -H -o /dev/null j.sh; done) & done; wait`, n)
	if out, err := l.Exec("alice", "bash", "-c", script); err != nil {
		t.Fatal(err, out)
	}
	t.Logf("SCALE submitted in %v", time.Since(began).Round(time.Second))
	client, err := slurm.New(slurm.Options{URL: l.Slurm.RestURL, TokenFile: l.Slurm.TokenFile, User: "unisched"})
	check(t, err)
	defer client.Close()
	p := slurm.NewPoller(client, slurm.PollOptions{Clock: time.Now, Fresh: func(j *slurm.Job) bool { return j.ID <= 20 }})
	for range 12 {
		before, start, counts := used(t), time.Now(), p.Counts()
		s, err := p.State(t.Context(), time.Now())
		check(t, err)
		kind := "full list"
		if p.Counts().Delta > counts.Delta {
			kind = "changes"
		}
		t.Logf("SCALE Slurm %s, %s: %d jobs, %.2f s, %.3f CPU s, %d records, odd %v", s.Release, kind, len(s.Jobs), time.Since(start).Seconds(), (used(t) - before).Seconds(),
			p.Counts().Records-counts.Records, s.Odd)
		if len(s.Jobs) < n-2 {
			t.Errorf("%d jobs of %d", len(s.Jobs), n)
		}
	}
}

// used is the CPU time of this process.
func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
