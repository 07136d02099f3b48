package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/siteconfig"
)

// releaser gives back to plain Slurm what a dead daemon left delayed, held or pinned. The report is for -o json, the text for people.
type releaser func(ctx context.Context, site siteconfig.Site, now time.Time) (report any, text string, err error)

func (a *app) orderCommand(kind bridge.OrderKind) *cobra.Command {
	c := &cobra.Command{
		Use: string(kind), Args: cobra.NoArgs,
		RunE: do(func(cmd *cobra.Command, _ []string) error { return a.order(cmd, bridge.Order{Kind: kind}) }),
	}
	switch kind {
	case bridge.OrderPause:
		c.Short = "Give all jobs back to plain Slurm until resume"
	case bridge.OrderResume:
		c.Short = "Take jobs under management again"
	}
	return c
}

// order gives an order and shows the answer.
func (a *app) order(cmd *cobra.Command, o bridge.Order) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.Order(cmd.Context(), o)
	if err != nil {
		return hint(err)
	}
	if a.output == "json" {
		if err := a.json(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.out, clean(r.Text, true))
	}
	if !r.OK {
		return coded{exitError, nil}
	}
	return nil
}

func (a *app) releaseCommand() *cobra.Command {
	var all bool
	var down time.Duration
	c := &cobra.Command{
		Use: "release [ID]", Short: "Give a job, or all, back to plain Slurm", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeJobs,
		Long: "release ID and release --all ask the daemon; a released job is not taken up again.\n" +
			"release --if-down D does nothing while the daemon's heartbeat is younger than D; else it undoes, from the journal, what the\n" +
			"dead daemon left delayed, held or pinned. A timer runs it every half minute.",
	}
	c.Flags().BoolVar(&all, "all", false, "all jobs")
	c.Flags().DurationVar(&down, "if-down", 0, "act in the daemon's place when it has been down for this long, such as 60s")
	c.RunE = do(func(cmd *cobra.Command, args []string) error {
		ifDown := cmd.Flags().Changed("if-down")
		switch {
		case ifDown && (len(args) > 0 || all && down <= 0):
			return coded{exitUsage, errors.New("release --if-down D is for all jobs and names none")}
		case ifDown && down <= 0:
			return coded{exitUsage, errors.New("release --if-down: want a duration above 0, such as 60s")}
		case ifDown:
			return a.releaseIfDown(cmd, down)
		case all == (len(args) == 1):
			return coded{exitUsage, errors.New("release: name one job, or say --all")}
		case all:
			return a.order(cmd, bridge.Order{Kind: bridge.OrderRelease})
		}
		return a.releaseOne(cmd, args[0])
	})
	return c
}

// releaseOne turns what Slurm prints into the daemon's own number of the job first.
func (a *app) releaseOne(cmd *cobra.Command, ref string) error {
	if err := control.CheckRef(ref); err != nil {
		return coded{exitUsage, err}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	j, err := c.Job(cmd.Context(), ref)
	if err != nil {
		return hint(err)
	}
	return a.order(cmd, bridge.Order{Kind: bridge.OrderRelease, Job: j.ID})
}

// idle is the answer of --if-down when there was nothing to do.
type idle struct {
	Schema   int    `json:"schema_version"`
	Released bool   `json:"released"`
	Text     string `json:"text"`
}

// releaseIfDown acts when no cycle has finished for that long. A socket that does not answer is not enough: a daemon that systemd is
// just restarting keeps its jobs. One that does not finish a cycle is as good as dead even if its socket answers; should it still hold the
// journal, releasing is refused there.
func (a *app) releaseIfDown(cmd *cobra.Command, down time.Duration) error {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	if age, ok, err := heartbeatAge(site.Daemon.StateDir, a.now()); err != nil {
		return err
	} else if ok && age < down {
		return a.nothing(fmt.Sprintf("the daemon's last cycle finished %s ago: nothing to do", span(max(age, 0))))
	}
	if _, err := os.Stat(filepath.Join(site.Daemon.StateDir, "journal")); errors.Is(err, os.ErrNotExist) {
		return a.nothing("there is no journal in " + site.Daemon.StateDir + ": nothing was ever changed")
	}
	report, text, err := a.release(cmd.Context(), site, a.now())
	if report != nil && a.output == "json" {
		if jerr := a.json(report); jerr != nil {
			return jerr
		}
	} else if text != "" {
		fmt.Fprintln(a.out, clean(text, true))
	}
	if err != nil {
		return fmt.Errorf("release in the daemon's place: %w\nIt is tried again by unisched-release.timer; by hand: systemctl start unisched-release", err)
	}
	return nil
}

func (a *app) nothing(text string) error {
	if a.output == "json" {
		return a.json(idle{bridge.ViewSchema, false, text})
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// heartbeatAge is the time since the daemon's last finished cycle; false when there never was one. A heartbeat from the future (the
// clock was set back) counts as fresh only as far ahead as the daemon could be behind.
func heartbeatAge(stateDir string, now time.Time) (time.Duration, bool, error) {
	fi, err := os.Stat(filepath.Join(stateDir, "heartbeat"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("heartbeat: %w", err)
	}
	age := now.Sub(fi.ModTime())
	if age < -time.Minute {
		return 0, false, nil
	}
	return age, true, nil
}
