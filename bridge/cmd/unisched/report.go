package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge/control"
	"unisched/estimator"
)

func (a *app) reportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "report", Short: "How well the daemon has done", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("report: want slo or forecast") },
	}
	var since string
	f := &cobra.Command{
		Use: "forecast", Short: "How well the remaining duration of jobs was forecast", Args: cobra.NoArgs,
		Long: "Compares what was forecast of the jobs that have completed since with what happened: mean error, bias and coverage of the 80 % interval of the remaining\n" +
			"run time, by class, GPU count and age of the job, the error of the forecast end, and how often an estimate jumped.",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			from, err := a.instant(since)
			if err != nil {
				return coded{exitUsage, fmt.Errorf("--since: %w", err)}
			}
			path := control.PathForecast
			if !from.IsZero() {
				path += "?since=" + url.QueryEscape(from.UTC().Format(time.RFC3339))
			}
			return a.show(cmd, path, func(raw []byte) error {
				rep, err := decode[estimator.ForecastReport](raw)
				if err == nil && a.output == "table" {
					a.forecastReport(rep)
				}
				return err
			})
		}),
	}
	f.Flags().StringVar(&since, "since", "", "only jobs that ended since: an RFC 3339 `time`, or how long ago (36h, 7d); default: all that the daemon remembers")
	c.AddCommand(a.sloCommand(), f)
	return c
}

// instant reads an RFC 3339 time or a time ago.
func (a *app) instant(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if n := len(s) - 1; s[n] == 'd' {
		if days, err := strconv.ParseFloat(s[:n], 64); err == nil && days > 0 && days < 36500 {
			return a.now().Add(-time.Duration(days * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return a.now().Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither an RFC 3339 time nor a time ago such as 36h or 7d", s)
}

// forecastReport prints the scores of forecasts.
func (a *app) forecastReport(r estimator.ForecastReport) {
	pct := func(v float64, sign string) string { return fmt.Sprintf("%"+sign+".1f", 100*v) }
	t := table{head: []string{"BY", "", "FORECASTS", "ERROR, %", "BIAS, %", "HOLDS, %", "END, %"}, bound: []int{9, 16, 9, 8, 8, 8, 8}, flex: 1}
	for _, g := range r.Groups {
		end := "-"
		if g.FinishN > 0 {
			end = pct(g.FinishError, "")
		}
		t.add(g.By, g.Value, strconv.Itoa(g.N), pct(g.Error, ""), pct(g.Bias, "+"), pct(g.Coverage, ""), end)
	}
	if len(r.Groups) == 0 {
		fmt.Fprintln(a.out, "No forecast to score yet: none of a job that has completed.")
	} else {
		t.write(a.out)
		fmt.Fprintln(a.out, "ERROR and BIAS of the run time left; HOLDS: truths within the 80 % interval;")
		fmt.Fprintln(a.out, "END: error of the time until the end on the clock.")
	}
	fmt.Fprintf(a.out, "%d jumps of an estimate, %d forecasts of jobs that go on\n", r.Jumps, r.Pending)
}
