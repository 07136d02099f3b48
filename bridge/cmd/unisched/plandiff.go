package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"unisched/bridge/control"
	"unisched/planner"
)

func (a *app) planDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff", Short: "What the newest plan changed: who moved, and why", Args: cobra.NoArgs,
		Long:    "Compares the daemon's last two plans. First deadlines lost and won, then who gets or leaves GPUs, then whose start or end is expected a unit later or earlier.",
		Example: "  unisched plan diff\n  unisched plan diff -o json",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd, control.PathPlanDiff, func(raw []byte) error {
				d, err := decode[planner.PlanDiff](raw)
				if err == nil && a.output == "table" {
					a.planDiff(d)
				}
				return err
			})
		}),
	}
}

func (a *app) planDiff(d planner.PlanDiff) {
	if d.Before.ID == "" || d.After.ID == "" {
		fmt.Fprintln(a.out, "There are not two plans yet: the daemon plans at each unit boundary.")
		return
	}
	made := func(r planner.PlanRef) string {
		if r.Made.IsZero() {
			return a.moment(r.Now)
		}
		return a.moment(r.Made)
	}
	item(a.out, "Before", "%s (%s), made %s, %d jobs", d.Before.ID, d.Before.Candidate, made(d.Before), d.Before.Jobs)
	item(a.out, "After", "%s (%s), made %s, %d jobs", d.After.ID, d.After.Candidate, made(d.After), d.After.Jobs)
	if len(d.Changes) == 0 {
		fmt.Fprintln(a.out, "Nobody moved.")
		return
	}
	t := table{head: []string{"JOB", "WHAT", "FROM", "TO", "SHIFT", "WHY"}, bound: []int{12, 15, 16, 16, 8, 200}, flex: 5}
	for _, c := range d.Changes {
		shift := "-"
		if c.Shift > 0 {
			shift = "+" + span(c.Shift)
		} else if c.Shift < 0 {
			shift = span(c.Shift)
		}
		why := c.Reason.Text
		if c.Kind == planner.ChangeGone {
			why = "no longer planned: it ended, or was given back"
		}
		t.add(strconv.FormatInt(int64(c.Job), 10), c.Kind, where(c.Before), where(c.After), shift, why)
	}
	a.print(&t)
}

// where is what a plan gave a job.
func where(e planner.Entry) string {
	switch {
	case e.Decision == "":
		return "-"
	case len(e.Placement) > 0:
		return e.Placement.String()
	}
	return string(e.Decision)
}
