package events

import (
	"time"

	"unisched/bridge"
	"unisched/bridge/news"
)

// OfNote is a line of the loop's log as an event; false for lines that the job's own events say better.
func OfNote(now time.Time, n bridge.Note) (Event, bool) {
	if n.Job != 0 && n.Action == "" && (n.Level == "info" || n.Level == "debug") {
		return Event{}, false
	}
	return Event{At: now, Level: n.Level, What: n.What, Job: n.Job, Plan: n.Plan, Action: n.Action, Kind: n.Kind, Outcome: n.Outcome, Text: n.Text}, true
}

// OfChange are the new events of a job in a view of an instant.
func OfChange(at time.Time, c news.Change) []Event {
	out := make([]Event, 0, len(c.Events)+2)
	for _, e := range c.Events {
		out = append(out, Event{At: e.At, Level: "info", What: e.What, Job: c.Job.ID, Run: e.Run, Text: e.Text})
	}
	risk, _ := c.Job.RiskKind()
	add := func(is bool, what string) {
		if is {
			out = append(out, Event{At: at, Level: "warn", What: what, Job: c.Job.ID, Run: c.Job.Restart, Text: string(risk)})
		}
	}
	add(c.AtRisk, "deadline-at-risk")
	add(c.Missed, "deadline-missed")
	return out
}
