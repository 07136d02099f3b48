package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge/account"
	"unisched/bridge/control"
)

// withCSV marks the commands that can write CSV.
const withCSV = "csv"

const sloLong = `Sums up the jobs that have ended: how many met a deadline, how late they were and how long they took, by class, account and month; the ten that were
preempted most; and where GPU time went: what all runs held (fairshare charges that), what sacct shows without --duplicates, what profiles,
repeated work, loading and saving took, and what was left for useful work.

It reads state_dir/ended, also when no daemon runs; whoever may not read that folder asks the daemon. LATE is measured against the last deadline
of a job, negative means early. A job that was cancelled counts neither as met nor as missed.`

const sloExample = `  unisched report slo --since 30d
  unisched report slo --since 2026-11-01T00:00:00Z --by account -o csv > slo.csv
  unisched report slo --since 7d --jobs -o csv > jobs.csv
  unisched report slo --since 90d --by month -o json`

func (a *app) sloCommand() *cobra.Command {
	var since, by, dir string
	var jobs bool
	c := &cobra.Command{
		Use: "slo", Short: "Deadlines met, lateness, job times and what GPU time went to", Args: cobra.NoArgs, Long: sloLong, Example: sloExample,
		Annotations: map[string]string{withCSV: "yes"},
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			from, err := a.instant(since)
			if err != nil {
				return coded{exitUsage, fmt.Errorf("--since: %w", err)}
			}
			if by != "" && !slices.Contains(account.Bys(), by) {
				return coded{exitUsage, fmt.Errorf("--by %q is none of %s", by, strings.Join(account.Bys(), ", "))}
			}
			if jobs && a.output != "csv" {
				return coded{exitUsage, errors.New("--jobs goes with -o csv")}
			}
			list, source, err := a.ended(cmd.Context(), dir, from)
			if err != nil {
				return err
			}
			r := account.Sum(list, by, a.zone, from)
			r.Source = source
			switch {
			case a.output == "json":
				return a.json(r)
			case jobs:
				return account.WriteJobs(a.out, list)
			case a.output == "csv":
				return r.WriteGroups(a.out)
			}
			a.sloShow(r)
			return nil
		}),
	}
	c.Flags().StringVar(&since, "since", "", "only jobs that ended since: an RFC 3339 `time`, or how long ago (36h, 30d); default: all that is kept")
	c.Flags().StringVar(&by, "by", "", "only by one of "+strings.Join(account.Bys(), ", "))
	c.Flags().BoolVar(&jobs, "jobs", false, "with -o csv: one row for each job instead of each group")
	c.Flags().StringVar(&dir, "dir", "", "`folder` of ended jobs (default state_dir/ended)")
	return c
}

// ended reads the jobs that have ended from the files where they may be read, else asks the daemon, and says where they are from. An empty folder is no
// answer while a daemon that has its state elsewhere may know better.
func (a *app) ended(ctx context.Context, dir string, since time.Time) ([]account.Entry, string, error) {
	asked := dir != ""
	if !asked {
		site, _, err := a.site()
		if err != nil {
			return nil, "", err
		}
		dir = filepath.Join(site.Daemon.StateDir, account.Folder)
	}
	list, err := account.Read(dir, since)
	if err == nil {
		return list, dir, nil
	}
	if asked || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, "", err
	}
	c, bad := a.client()
	if bad != nil {
		return nil, "", errors.Join(err, bad)
	}
	path := account.Path
	if !since.IsZero() {
		path += "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339))
	}
	raw, bad := c.Raw(ctx, path)
	if bad != nil {
		if r, ok := errors.AsType[*control.Refusal](bad); ok && r.Status == 404 {
			return nil, "", fmt.Errorf("%w, and the daemon does not keep what became of jobs", err)
		}
		return nil, "", fmt.Errorf("%w, and the daemon cannot be asked: %w", err, hint(bad))
	}
	doc, err := decode[account.Document](raw)
	return doc.Jobs, "the daemon", err
}

// sloShow prints a report.
func (a *app) sloShow(r account.Report) {
	if len(r.Groups) == 0 {
		fmt.Fprintf(a.out, "No job has ended in that time, says %s.\n", clean(r.Source, false))
		return
	}
	fmt.Fprintf(a.out, "%d jobs ended from %s to %s\n\n", r.Groups[0].Jobs, a.stamp(r.First), a.stamp(r.Last))
	t := table{head: []string{"BY", "", "JOBS", "SLO", "MET %", "LATE P50", "P95", "P99", "JCT P50", "P95", "P99"}, bound: []int{7, 14, 6, 5, 6, 8, 7, 7, 7, 7, 7}, flex: 1}
	for _, g := range r.Groups {
		t.add(g.By, g.Value, strconv.Itoa(g.Jobs), strconv.Itoa(g.SLO), scaled(g.Attainment, 100, 1), signed(g.Lateness.P50), signed(g.Lateness.P95), signed(g.Lateness.P99),
			signed(g.JCT.P50), signed(g.JCT.P95), signed(g.JCT.P99))
	}
	t.write(a.out)
	fmt.Fprintln(a.out, "\nGPU hours: held by all runs (fairshare), shown by sacct, and where they went")
	t = table{head: []string{"BY", "", "HELD", "SACCT", "USEFUL", "PROFILE", "LOST", "RESUME", "SAVE", "STOPS"}, bound: []int{7, 14, 9, 9, 9, 7, 7, 7, 7, 6}, flex: 1}
	for _, g := range r.Groups {
		t.add(append(append([]string{g.By, g.Value}, hours(g.Charge)...), strconv.Itoa(g.Preemptions))...)
	}
	t.write(a.out)
	if len(r.Preempted) > 0 {
		fmt.Fprintln(a.out, "\nMost preempted, GPU hours")
		t = table{head: []string{"JOB", "USER", "GPUS", "STOPS", "HELD", "USEFUL", "LOST", "RESUME", "SAVE"}, bound: []int{10, 14, 5, 5, 9, 9, 7, 7, 7}, flex: 1}
		for _, p := range r.Preempted {
			h := hours(p.Charge)
			t.add(p.Job, p.User, strconv.Itoa(p.GPUs), strconv.Itoa(p.Preemptions), h[0], h[2], h[4], h[5], h[6])
		}
		t.write(a.out)
	}
	fmt.Fprintln(a.out)
	for _, n := range r.Notes {
		item(a.out, "Note:", "%s.", n)
	}
}

// hours are a charge in GPU hours: held, shown by sacct, useful, profile, lost, resume, checkpoint.
func hours(c account.Charge) []string {
	var out []string
	for _, v := range []float64{c.Held, c.Shown, c.Useful, c.Profile, c.Lost, c.Resume, c.Checkpoint} {
		out = append(out, strconv.FormatFloat(v/3600, 'f', 1, 64))
	}
	return out
}

// signed is a duration of either sign.
func signed(v *float64) string {
	if v == nil {
		return "-"
	}
	d := time.Duration(*v * float64(time.Second)).Round(time.Second)
	if d < 0 {
		return "-" + span(-d)
	}
	return span(d)
}
