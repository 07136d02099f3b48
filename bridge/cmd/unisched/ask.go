package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/bridge/control"
	"unisched/planner"
)

// staleAfter is the age at which the daemon's view says nothing about now.
const staleAfter = time.Minute

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Is the daemon well, and what does it do?", Args: cobra.NoArgs,
		Example: "  unisched status\n  watch -n 5 unisched status\n  unisched status -o json | jq .gpus",
		Long: "Shows the daemon's last cycle. Exit code 3 when it is degraded: Slurm unreachable, snapshot suspect, view old,\n" +
			"preemption stopped because preempted jobs do not come back.",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd, control.PathStatus, func(raw []byte) error {
				v, err := decode[bridge.View](raw)
				if err != nil {
					return err
				}
				bad := a.degraded(v)
				if a.output == "table" {
					a.status(v, bad)
				}
				if len(bad) > 0 {
					return coded{exitDegraded, nil}
				}
				return nil
			})
		}),
	}
}

func decode[T any](raw []byte) (T, error) {
	var doc T
	if err := json.Unmarshal(raw, &doc); err != nil {
		return doc, fmt.Errorf("answer of the daemon: %w", err)
	}
	return doc, nil
}

// degraded says what keeps the daemon from its work.
func (a *app) degraded(v bridge.View) []string {
	var bad []string
	if v.Standby != "" {
		bad = append(bad, "This instance is "+v.Standby)
	}
	if v.Trouble != "" {
		bad = append(bad, "Slurm: "+v.Trouble)
	}
	if v.Suspect != "" {
		bad = append(bad, "nothing disruptive is done: "+v.Suspect)
	}
	for _, s := range v.Standstills {
		until := "until one comes back, or `unisched resume`"
		if !s.Until.IsZero() {
			until = "until " + a.moment(s.Until)
		}
		bad = append(bad, fmt.Sprintf("no preemption %s: %s", until, s.Why))
	}
	if age := a.now().Sub(v.At); age > staleAfter {
		bad = append(bad, "no cycle has finished for "+span(age))
	}
	return bad
}

func (a *app) status(v bridge.View, bad []string) {
	state := "well"
	if v.Paused {
		state = "paused: jobs are plain Slurm jobs until `unisched resume`"
	}
	if len(bad) > 0 {
		state = "degraded"
	}
	item(a.out, "State", "%s", state)
	for _, b := range bad {
		item(a.out, "", "%s", b)
	}
	item(a.out, "Stage", "%s, unit %s", v.Stage, span(v.Unit))
	for _, p := range v.Stages {
		item(a.out, "", "%s in partition %s", p.Stage, p.Partition)
	}
	item(a.out, "Slurm", "%s %s, API %s, seen %s", v.Cluster, v.Slurm, v.API, a.moment(v.SeenAt))
	item(a.out, "Cycle", "%d, %s", v.Cycle, a.moment(v.At))
	item(a.out, "Next plan", "%s", a.moment(v.NextPlan))
	item(a.out, "GPUs", "%d: %d managed, %d other, %d free", v.GPUs.Total, v.GPUs.Managed, v.GPUs.Other, v.GPUs.Free)
	var counts []string
	for _, c := range v.Counts {
		counts = append(counts, fmt.Sprintf("%d %s", c.Jobs, c.Phase))
	}
	if counts == nil {
		counts = []string{"none"}
	}
	item(a.out, "Jobs", "%s", strings.Join(counts, ", "))
	for i, b := range v.Budgets {
		item(a.out, label(i == 0, "Budgets"), "%s: strict jobs have reserved %.1f of %.1f GPU-hours in %s", b.Account, b.Reserved, b.Limit, span(planner.Seconds(b.WindowS)))
	}
	item(a.out, "Actions", "%d done, %d refused, %d unknown", v.Actions.Done, v.Actions.Refused, v.Actions.Unknown)
	item(a.out, "Rounds", "%d, %d of them without the solver", v.Actions.Rounds, v.Actions.Greedy)
}

func (a *app) jobsCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "jobs", Short: "The jobs, one a line",
		Long:    "Shows the jobs that UniSched steers: lease end, deadline and expected end as times from now. ! marks a job at risk, * one that is never preempted.",
		Example: "  unisched jobs\n  unisched jobs --all\n  unisched jobs -o json | jq '.jobs[] | {ref, phase}'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("jobs shows all of them; one alone: unisched job %s", args[0])
			}
			return nil
		},
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd, control.PathJobs, func(raw []byte) error {
				d, err := decode[control.Jobs](raw)
				if err == nil && a.output == "table" {
					a.jobs(d.Jobs, all)
				}
				return err
			})
		}),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also the unmanaged jobs and those that have ended")
	return c
}

func (a *app) jobs(jobs []bridge.JobView, all bool) {
	t := table{head: []string{"JOB", "NAME", "USER", "CLASS", "PHASE", "GPUS", "LEASE", "DUE", "FINISH", ""},
		bound: []int{20, 40, 8, 8, 10, 4, 7, 7, 7, 2}, flex: 1}
	hidden := 0
	for _, j := range jobs {
		if !all && !j.Phase.Ours() {
			hidden++
			continue
		}
		lease := a.ahead(j.LeaseUntil)
		if j.Releasing {
			lease = "-" // it has none any more
		}
		t.add(j.Ref, j.Name, j.User, shortClass(string(j.Class)), shortPhase(j.Phase), strconv.Itoa(j.GPUs), lease,
			a.ahead(j.LastDeadline()), a.ahead(finish(j)), note(j))
	}
	a.print(&t)
	if hidden > 0 {
		fmt.Fprintf(a.out, "(%d unmanaged or ended: --all)\n", hidden)
	}
}

func shortClass(c string) string {
	if c == "besteffort" {
		return "best"
	}
	return c
}

func shortPhase(p bridge.Phase) string {
	if p == bridge.Checkpointing {
		return "checkpoint"
	}
	return string(p)
}

// note is one mark: ! at risk, * cannot be preempted.
func note(j bridge.JobView) string {
	n := ""
	if risk(j) != "" {
		n = "!"
	}
	if j.NoPreempt != "" {
		n += "*"
	}
	return n
}

func finish(j bridge.JobView) time.Time {
	if !j.Ended.IsZero() {
		return j.Ended
	}
	return j.Forecast
}

func (a *app) jobCommand() *cobra.Command {
	return &cobra.Command{
		Use: "job ID", Short: "One job in short", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		Example: "  unisched job 1234\n  unisched job 1234 -o json",
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if a.output == "json" {
				return one(a, cmd, args[0], control.PathJob, "", func(d control.Job) error { return atRisk(d.Job) })
			}
			return one(a, cmd, args[0], control.PathExplain, "", func(x ask.Explanation) error {
				a.job(x)
				return atRisk(x.Job)
			})
		}),
	}
}

func (a *app) explainCommand() *cobra.Command {
	var quick bool
	c := &cobra.Command{
		Use: "explain ID", Short: "Why a job waits or runs, what is expected, and what would change it", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		Long: "Explains one job: how it stands in one sentence, what Slurm says, what binds and what you can do about it, when it starts and ends and how likely it meets its\n" +
			"deadlines, its leases, and what was done to it. For a job that waits, the daemon's planner also solves what a few changes would bring.\n" +
			"Exit code 2 when its deadline is at risk or it can never run.",
		Example: "  unisched explain 1234\n  unisched explain --quick 1234_5 -o json",
	}
	c.Flags().BoolVar(&quick, "quick", false, "without the what-ifs, which take a few seconds")
	c.RunE = do(func(cmd *cobra.Command, args []string) error {
		query := "?helps=1"
		if quick {
			query = ""
		}
		return one(a, cmd, args[0], control.PathExplain, query, func(x ask.Explanation) error {
			if a.output == "table" {
				a.explain(x)
			}
			return atRisk(x.Job)
		})
	})
	return c
}

// one shows one document about one job.
func one[T any](a *app, cmd *cobra.Command, ref, path, query string, show func(T) error) error {
	if err := control.CheckRef(ref); err != nil {
		return coded{exitUsage, err}
	}
	return a.show(cmd, path+url.PathEscape(ref)+query, func(raw []byte) error {
		doc, err := decode[T](raw)
		if err != nil {
			return err
		}
		return show(doc)
	})
}

// atRisk turns what is at risk into the exit code.
func atRisk(j bridge.JobView) error {
	if risk(j) != "" {
		return coded{exitRisk, nil}
	}
	return nil
}
