package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge/control"
	"unisched/bridge/events"
	"unisched/slurm"
)

func (a *app) eventsCommand() *cobra.Command {
	var follow bool
	var most int
	c := &cobra.Command{
		Use: "events [ID]", Short: "What happened, to all jobs or to one", Args: cobra.MaximumNArgs(1),
		Long: "Shows what the daemon did and saw, oldest first: phases of jobs, every write to Slurm with its outcome, rounds, trouble.\n" +
			"With -f it goes on until interrupted, also over a restart of the daemon. -o json gives one document, with -f one event a line.",
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if most < 1 || most > events.MaxLimit {
				return coded{exitUsage, fmt.Errorf("-n %d is not within 1..%d", most, events.MaxLimit)}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			q := events.Query{Limit: most}
			if len(args) == 1 {
				if q.Job, err = a.jobNumber(cmd, c, args[0]); err != nil {
					return err
				}
			}
			return a.tell(cmd, c, q, follow)
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	c.Flags().IntVarP(&most, "lines", "n", 50, "at most so many events of the past")
	return c
}

// jobNumber turns what Slurm prints into the daemon's own number. A job that the daemon has forgotten may still have events.
func (a *app) jobNumber(cmd *cobra.Command, c control.Client, ref string) (slurm.JobID, error) {
	if err := control.CheckRef(ref); err != nil {
		return 0, coded{exitUsage, err}
	}
	j, err := c.Job(cmd.Context(), ref)
	if err == nil {
		return j.ID, nil
	}
	if n, bad := strconv.ParseInt(ref, 10, 64); bad == nil && errors.Is(err, control.ErrNoJob) {
		return slurm.JobID(n), nil
	}
	return 0, hint(err)
}

// askAgain is how long after a question that nobody answered the next one follows.
const askAgain = 2 * time.Second

// tell shows the past, and then what comes.
func (a *app) tell(cmd *cobra.Command, c control.Client, q events.Query, follow bool) error {
	raw, doc, err := askEvents(cmd, c, q, 0)
	if err != nil {
		return hint(err)
	}
	switch {
	case a.output == "json" && !follow:
		return a.json(raw)
	case len(doc.Events) == 0 && !follow:
		fmt.Fprintln(a.out, "Nothing is known.")
	}
	a.showEvents(doc.Events)
	away := false
	for follow && cmd.Context().Err() == nil {
		// With Since 0 the past would be shown again.
		q.Since, q.Limit = max(doc.Next, 1), events.MaxLimit
		_, next, err := askEvents(cmd, c, q, 25*time.Second)
		switch {
		case cmd.Context().Err() != nil:
		case errors.Is(err, control.ErrDown):
			if !away {
				fmt.Fprintln(a.err, "unisched: the daemon does not answer; waiting for it")
			}
			away = true
			pause(cmd, askAgain)
		case err != nil:
			return hint(err)
		default:
			away, doc = false, next
			a.showEvents(doc.Events)
		}
	}
	return nil
}

func pause(cmd *cobra.Command, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-cmd.Context().Done():
	}
}

func askEvents(cmd *cobra.Command, c control.Client, q events.Query, wait time.Duration) (json.RawMessage, events.Document, error) {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}, "since": {strconv.FormatInt(q.Since, 10)}}
	if q.Job != 0 {
		v.Set("job", q.Job.String())
	}
	if wait > 0 {
		v.Set("wait", strconv.Itoa(int(wait.Seconds())))
	}
	c.Timeout = wait + 15*time.Second
	raw, err := c.Raw(cmd.Context(), events.Path+"?"+v.Encode())
	if err != nil {
		return nil, events.Document{}, err
	}
	doc, err := decode[events.Document](raw)
	return raw, doc, err
}

func (a *app) showEvents(list []events.Event) {
	for _, e := range list {
		if a.output == "json" {
			b, err := json.Marshal(e)
			if err == nil {
				fmt.Fprintf(a.out, "%s\n", b)
			}
			continue
		}
		a.showEvent(e)
	}
}

// showEvent writes one event, its text wrapped under itself.
func (a *app) showEvent(e events.Event) {
	const indent = 20
	job := ""
	if e.Job != 0 {
		job = "job " + e.Job.String()
	}
	if e.Run != 0 {
		job += " run " + strconv.Itoa(e.Run)
	}
	mark := ""
	if e.Level == "warn" || e.Level == "error" {
		mark = "! "
	}
	var words []string
	for _, w := range []string{job, e.What, e.Text} {
		if w != "" {
			words = append(words, w)
		}
	}
	text := mark + strings.Join(words, ", ")
	if e.Action != "" {
		text += " (" + e.Action + ")"
	}
	text = clean(text, false)
	label := e.At.In(a.zone).Format("2006-01-02 15:04:05")
	for first := true; len(text) > 0 || first; first = false {
		line := text
		if columns(text) > width-indent {
			line = head(text, width-indent)
		}
		text = strings.TrimLeft(text[len(line):], " ")
		fmt.Fprintf(a.out, "%-*s%s\n", indent, label, strings.TrimRight(line, " "))
		label = ""
	}
}
