package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"unisched/bridge"
)

// action is one call of the daemon, from its log.
type action struct {
	Cycle   time.Time `json:"cycle"`
	At      time.Time `json:"time"`
	What    string    `json:"what"`
	Job     int64     `json:"job"`
	Message string    `json:"message"`
}

// readLog reads the actions and the plans of a daemon's log.
func readLog(path string) ([]action, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []action
	d := json.NewDecoder(f)
	for {
		var a action
		switch err := d.Decode(&a); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if a.What == "action" || a.What == "plan" {
			out = append(out, a)
		}
	}
}

// series are durations by what they are of.
type series map[string][]float64

func (s series) add(name string, d time.Duration) { s[name] = append(s[name], d.Seconds()) }

// latencies prints what the records of a real run say about the figures in virtual.go.
func latencies(w io.Writer, out string, r record) error {
	log, err := readLog(filepath.Join(out, "unischedd.log"))
	if err != nil {
		return err
	}
	found := series{}
	byJob := map[int64][]action{}
	for _, a := range log {
		switch a.What {
		case "plan":
			found.add("cycle begins -> plan made", a.At.Sub(a.Cycle))
		case "action":
			byJob[a.Job] = append(byJob[a.Job], a)
			found.add("cycle begins -> call", a.At.Sub(a.Cycle))
		}
	}
	for _, j := range r.Jobs {
		found.job(j, byJob[int64(j.View.ID)])
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, "seconds\tn\tmin\tp10\tmedian\tmean\tp90\tmax")
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		v := found[n]
		slices.Sort(v)
		q := func(p float64) float64 { return v[min(int(p*float64(len(v))), len(v)-1)] }
		fmt.Fprintf(tab, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", n, len(v), v[0], q(0.1), q(0.5), average(v), q(0.9), v[len(v)-1])
	}
	return tab.Flush()
}

// job measures one job: from the daemon's calls to the script's notes, and from there to what Slurm and the daemon show.
func (s series) job(j jobRecord, calls []action) {
	at := map[string]map[int]time.Time{}
	for _, n := range j.Script {
		if at[n.What] == nil {
			at[n.What] = map[int]time.Time{}
		}
		at[n.What][n.Run] = n.At
	}
	// The newest call of a kind before an instant.
	last := func(kind string, before time.Time) (time.Time, bool) {
		var found time.Time
		for _, c := range calls {
			if strings.HasPrefix(c.Message, kind+":") && c.At.Before(before) && c.At.After(found) {
				found = c.At
			}
		}
		return found, !found.IsZero() && before.Sub(found) < time.Minute
	}
	for run, t := range at["script"] {
		if c, ok := last("start", t); ok {
			kind := "start released -> script, first start"
			if run > 0 {
				kind = "start released -> script, restart"
				if prev, ok := at["saved"][run-1]; ok && prev.After(c) {
					continue // released before its GPUs were free
				}
			}
			s.add(kind, t.Sub(c))
		}
		for _, stay := range j.View.Stays {
			if stay.Run == run {
				s.add("Slurm's start (whole seconds) -> script", t.Sub(stay.From))
			}
		}
		if ready, ok := at["ready"][run]; ok {
			s.add("script -> ready", ready.Sub(t))
		}
	}
	for run, t := range at["signal"] {
		if c, ok := last("signal", t); ok {
			s.add("signal sent -> script", t.Sub(c))
		}
		if saved, ok := at["saved"][run]; ok {
			s.add("signal in the script -> saved", saved.Sub(t))
		}
	}
	for run, t := range at["saved"] {
		if again, ok := at["script"][run+1]; ok {
			s.add("saved -> next script", again.Sub(t))
		}
		for _, stay := range j.View.Stays {
			if stay.Run == run && !stay.To.IsZero() {
				s.add("saved -> end of stay (whole seconds)", stay.To.Sub(t))
			}
		}
	}
	for _, t := range at["done"] {
		if j.View.Phase == bridge.Completed {
			s.add("done -> Slurm's end (whole seconds)", j.View.Ended.Sub(t))
		}
	}
	if len(j.View.Stays) > 0 {
		s.add("submitted -> first stay (whole seconds)", j.View.Stays[0].From.Sub(j.View.Submitted))
	}
}
