package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"unisched/contrib/lab"
	"unisched/slurm"
)

// What looking may cost in steady state, at 10,000 jobs.
const (
	mostCPU  = time.Second      // of ours, for one look by changes
	mostWall = 10 * time.Second // of such a look
	mostHeap = 150.0            // MB in use between two looks
)

// TestScale fills a real slurmctld with UNISCHED_SCALE waiting jobs, each a record of its own, and looks at them as the daemon does, every ten seconds of a clock that does
// not wait: full lists at a tenth of the time they take, states and changes in between. It prints what a look costs us and how long slurmrestd takes, and fails beyond the
// bounds above, or when full lists come more often than their time allows.
func TestScale(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("UNISCHED_SCALE"))
	if err != nil {
		t.Skip("long test: UNISCHED_SCALE says how many jobs")
	}
	l := up(t, lab.Options{Nodes: 2, NoDaemon: true})
	began := time.Now()
	submitMany(t, l, n)
	t.Logf("SCALE submitted in %v", time.Since(began).Round(time.Second))
	client, err := slurm.New(slurm.Options{URL: l.Slurm.RestURL, TokenFile: l.Slurm.TokenFile, User: "unisched"})
	check(t, err)
	defer client.Close()
	p := slurm.NewPoller(client, slurm.PollOptions{Clock: time.Now, Fresh: func(j *slurm.Job) bool { return j.ID <= 20 }})
	var fullAt time.Time
	var fullTook time.Duration
	now := time.Now()
	for range 60 {
		before, start, counts := used(t), time.Now(), p.Counts()
		s, err := p.State(t.Context(), now)
		check(t, err)
		took, cpu, kind := time.Since(start), used(t)-before, "full list"
		if p.Counts().Delta > counts.Delta {
			kind = "changes"
			if cpu > mostCPU || took > mostWall {
				t.Errorf("a look by changes took %v of CPU and %v", cpu, took)
			}
		} else {
			if pause := now.Sub(fullAt); !fullAt.IsZero() && pause < min(9*fullTook, 10*time.Minute) {
				t.Errorf("a full list that took %v came again after %v", fullTook, pause)
			}
			fullAt, fullTook = now, took
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap := float64(m.HeapAlloc) / 1e6
		t.Logf("SCALE Slurm %s, %s: %d jobs, %.2f s, %.3f CPU s, heap %.0f MB, peak RSS %.0f MB, %d records, odd %v", s.Release, kind, len(s.Jobs), took.Seconds(), cpu.Seconds(), heap, peak(t),
			p.Counts().Records-counts.Records, s.Odd)
		if len(s.Jobs) < n-2 || heap > mostHeap {
			t.Errorf("%d jobs of %d, heap %.0f MB", len(s.Jobs), n, heap)
		}
		now = now.Add(max(10*time.Second, took))
	}
	if p.Counts().Full < 2 {
		t.Errorf("%d full lists: too few to see whether they adapt", p.Counts().Full)
	}
}

// submitMany hands in n held jobs of alice through slurmrestd, which takes a tenth of what sbatch does.
func submitMany(t *testing.T, l *lab.Lab, n int) {
	out, err := l.Exec("alice", "scontrol", "token", "lifespan=7200")
	if err != nil {
		t.Fatal(err, out)
	}
	token := strings.TrimPrefix(strings.TrimSpace(out), "SLURM_JWT=")
	body := []byte(`{"script":"#!/bin/sh\nsleep 1\n","job":{"name":"one-of-many","hold":true,"environment":["PATH=/usr/bin:/bin"],"current_working_directory":"/tmp","standard_output":"/dev/null"}}`)
	var group sync.WaitGroup
	failed := make(chan error, 4)
	var left atomic.Int64
	left.Store(int64(n))
	for range 4 {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := submitOne(t.Context(), l.Slurm.RestURL, token, body); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	check(t, <-failed)
}

func submitOne(ctx context.Context, url, token string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/slurm/v0.0.42/job/submit", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-SLURM-USER-NAME", "alice")
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d: %.300s", resp.StatusCode, answer)
	}
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	return nil
}

// peak is the most memory that this process has had, in MB.
func peak(t *testing.T) float64 {
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Maxrss) / 1000
}

// used is the CPU time of this process.
func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
