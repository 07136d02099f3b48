package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/contrib/fidelity/job"
	"unisched/contrib/lab"
)

// where the jobs' files lie in the cluster.
const jobsDir = "/shared/fidelity"

var users = []string{"alice", "bob", "carol"}

// delay is how far ahead the begin time of a waiting job lies, in both clusters.
const delay = 3 * time.Minute

// playReal brings a cluster and a daemon up, submits the jobs when they are due, waits for their ends and writes down what became of them.
func playReal(ctx context.Context, f flags) (err error) {
	unit := f.load.unit()
	l, err := lab.Up(ctx, lab.Options{Slurm: f.slurm, Nodes: nodeCount, GPUs: gpusPerNode, Unit: unit, Delay: delay, BinDir: f.bin, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() {
		keep := exec.Command("cp", l.LogFile, filepath.Join(f.out, "unischedd.log"))
		ctld := exec.Command("sh", "-c", `cp "$0"/log/slurmctld* "$1"/`, filepath.Join(l.Dir, "cluster"), f.out)
		_ = errors.Join(keep.Run(), ctld.Run())
		err = errors.Join(err, l.Down())
	}()
	if err := furnish(l); err != nil {
		return err
	}
	config, err := os.ReadFile(l.ConfigFile)
	if err != nil {
		return err
	}
	r := record{Load: f.load, Unit: unit, Config: string(config)}
	r.Zero = time.Now().Truncate(unit).Add(unit)
	ids := map[int]int{}
	for i, s := range f.load.jobs() {
		select {
		case <-time.After(time.Until(r.Zero.Add(s.Submit))):
		case <-ctx.Done():
			return ctx.Err()
		}
		id, err := submit(l, users[i%len(users)], s)
		if err != nil {
			return err
		}
		ids[id] = i
		r.Jobs = append(r.Jobs, jobRecord{Spec: s, Submitted: time.Since(r.Zero)})
		if i%10 == 9 {
			fmt.Fprintf(os.Stderr, "%v: %d of %d jobs submitted\n", time.Since(r.Zero).Round(time.Second), i+1, f.load.count())
		}
	}
	if err := waitEnds(ctx, l, &r, ids); err != nil {
		return err
	}
	if err := readAccounting(l, &r, ids); err != nil {
		return err
	}
	readScripts(l, &r)
	return writeRecord(filepath.Join(f.out, "real.json"), r)
}

// furnish builds the jobs' script into the cluster.
func furnish(l *lab.Lab) error {
	dir := filepath.Join(l.Slurm.Root, jobsDir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "body"), "unisched/contrib/fidelity/body")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the jobs' script: %w: %s", err, text)
	}
	return nil
}

// submit hands a job in as its user would. The number of tasks is that of the GPUs, so that it may be spread over nodes.
func submit(l *lab.Lab, user string, s job.Spec) (int, error) {
	text, err := s.Text()
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(l.Slurm.Root, jobsDir, s.ID), []byte(text), 0o644); err != nil {
		return 0, err
	}
	return l.Submit(user, lab.Job{
		Args: []string{"--job-name=" + s.ID, "--gpus=" + strconv.Itoa(s.GPUs), "--ntasks=" + strconv.Itoa(s.GPUs), "--time=60", "--requeue",
			"--comment=" + s.Wish(), "--output=" + jobsDir + "/" + s.ID + ".out", "--open-mode=append"},
		Text: "#!/bin/bash\nexec " + jobsDir + "/body " + jobsDir + "/" + s.ID + "\n",
	})
}

// waitEnds waits until the daemon has seen the end of all jobs, at most twice the window and ten minutes.
func waitEnds(ctx context.Context, l *lab.Lab, r *record, ids map[int]int) error {
	limit := r.Zero.Add(2*r.Load.window() + 10*time.Minute)
	for {
		views, err := l.Jobs(ctx)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		open := len(ids)
		for _, v := range views {
			if i, ours := ids[int(v.ID)]; ours {
				r.Jobs[i].View = v
				if v.Phase.Ended() {
					open--
				}
			}
		}
		if open == 0 && len(views) > 0 || time.Now().After(limit) {
			fmt.Fprintf(os.Stderr, "%v: %d jobs have not ended\n", time.Since(r.Zero).Round(time.Second), open)
			return nil
		}
		if now := time.Now(); now.Unix()%15 == 0 {
			fmt.Fprintf(os.Stderr, "%v: %d jobs to go\n", now.Sub(r.Zero).Round(time.Second), open)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readAccounting asks for every run of every job.
func readAccounting(l *lab.Lab, r *record, ids map[int]int) error {
	time.Sleep(3 * time.Second) // accounting hears of changes a little later; nothing depends on its last lines
	out, err := l.Exec("root", "env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-D", "-n", "-P", "-S", "now-4hours", "-o", "JobIDRaw,State,Submit,Start,End,NodeList")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		p := strings.Split(strings.TrimSpace(line), "|")
		id, err := strconv.Atoi(p[0])
		i, ours := ids[id]
		if err != nil || !ours || len(p) != 6 {
			continue
		}
		r.Jobs[i].Runs = append(r.Jobs[i].Runs, accounted{State: p[1], Submit: epoch(p[2]), Start: epoch(p[3]), End: epoch(p[4]), Nodes: p[5]})
	}
	for _, j := range r.Jobs {
		slices.SortStableFunc(j.Runs, func(a, b accounted) int { return a.Submit.Compare(b.Submit) })
	}
	return nil
}

func epoch(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// readScripts reads what the jobs' scripts noted.
func readScripts(l *lab.Lab, r *record) {
	for i := range r.Jobs {
		text, _ := os.ReadFile(filepath.Join(l.Slurm.Root, jobsDir, r.Jobs[i].Spec.ID+".log"))
		for line := range strings.Lines(string(text)) {
			var n note
			var ms int64
			if _, err := fmt.Sscan(line, &n.Run, &n.What, &ms, &n.Iter); err == nil {
				n.At = time.UnixMilli(ms)
				r.Jobs[i].Script = append(r.Jobs[i].Script, n)
			}
		}
	}
}
