package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
	"unisched/planner"
)

// bar is a stay of a job on GPUs of one node.
type bar struct {
	job      *outcome
	node     string
	gpus     int
	from, to time.Time
	profile  bool
	cut      bool // it was preempted at its end
}

// outcome is what became of a job, in both worlds.
type outcome struct {
	played
	Submitted, Ended time.Time
	Stays            []bridge.Stay
	Runs             []trained // from the job's own output
	EndIter          int64
	// Under plain Slurm: the run time, uninterrupted and on what it asked for, and what becomes of it.
	Length               time.Duration
	PlainStart, PlainEnd time.Time
	PlainPlacement       planner.Placement
}

// deadline is the first one, zero when there is none.
func (o *outcome) deadline() time.Time {
	if len(o.view.Tiers) == 0 {
		return time.Time{}
	}
	return o.view.Tiers[0].At
}

// tierMet is the index of the first deadline that an end at t meets, -1 when none.
func (o *outcome) tierMet(t time.Time) int {
	return slices.IndexFunc(o.view.Tiers, func(tier planner.Tier) bool { return !t.After(tier.At) })
}

// result is the whole run.
type result struct {
	began      time.Time
	nodes      []planner.Node
	jobs       []*outcome
	status     bridge.View
	alive      bool
	leftovers  []string
	errorLines []string // of the daemon's log
	dir        string
}

// collect asks Slurm, the daemon and the jobs' own outputs for what happened.
func collect(ctx context.Context, l *lab.Lab, s *scenario) (*result, error) {
	r := &result{began: s.began, dir: l.Dir}
	for _, name := range l.Slurm.Nodes {
		r.nodes = append(r.nodes, planner.Node{Name: name, GPUs: l.Slurm.GPUsPerNode, GPUType: "v100", Usable: true})
	}
	for _, j := range s.jobs {
		o := &outcome{played: *j}
		text, err := l.Output(j.user, j.id)
		if err != nil {
			return nil, fmt.Errorf("output of job %s: %w", j.name, err)
		}
		o.Runs, o.EndIter = parseOutput(text)
		if j.plain() {
			o.Submitted, o.Ended = j.acct.Submit, j.acct.End
			o.Stays = []bridge.Stay{{From: j.acct.Start, To: j.acct.End, Placement: planner.Placement{{Node: j.acct.Nodes, GPUs: j.acct.GPUs}}}}
		} else {
			o.Submitted, o.Ended, o.Stays = j.view.Submitted, j.view.Ended, j.view.Stays
		}
		r.jobs = append(r.jobs, o)
	}
	r.replay()
	var err error
	if r.leftovers, err = l.Leftovers(); err != nil {
		return nil, err
	}
	r.alive = l.Alive()
	if r.status, err = l.Control().Status(ctx); err != nil {
		return nil, err
	}
	r.errorLines, err = errorLines(l.LogFile)
	return r, err
}

// errorLines are the lines of the daemon's log that report errors of its own.
func errorLines(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		var entry struct{ Level string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Level == "error" || entry.Level == "fatal" || entry.Level == "panic" {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out, nil
}

// trained is one run of a training as its output tells it.
type trained struct{ Start, GPUs, Nodes int64 }

// parseOutput reads the lines that train.py prints: one per run, and one at the end (0 iterations when it is missing).
func parseOutput(text string) (runs []trained, end int64) {
	for line := range strings.Lines(text) {
		var t trained
		if n, _ := fmt.Sscanf(line, "start iter=%d gpus=%d nodes=%d", &t.Start, &t.GPUs, &t.Nodes); n == 3 {
			runs = append(runs, t)
		}
		var it int64
		if n, _ := fmt.Sscanf(line, "end iter=%d", &it); n == 1 {
			end = it
		}
	}
	return runs, end
}

// bars are the stays as pieces per node, by time.
func (r *result) bars() []bar {
	var out []bar
	for _, o := range r.jobs {
		for i, s := range o.Stays {
			for _, share := range s.Placement {
				out = append(out, bar{o, share.Node, share.GPUs, s.From, s.To, s.Profile, i < len(o.Stays)-1 && !s.Profile})
			}
		}
	}
	sortBars(out)
	return out
}

// plainBars are those of the replay.
func (r *result) plainBars() []bar {
	var out []bar
	for _, o := range r.jobs {
		for _, share := range o.PlainPlacement {
			out = append(out, bar{job: o, node: share.Node, gpus: share.GPUs, from: o.PlainStart, to: o.PlainEnd})
		}
	}
	sortBars(out)
	return out
}

func (r *result) print(w io.Writer) {
	r.table(w)
	r.gantt(w)
	r.comparison(w)
}

// write puts the picture and the numbers into a folder.
func (r *result) write(dir string) error {
	var views []bridge.JobView
	for _, o := range r.jobs {
		if !o.plain() {
			views = append(views, o.view)
		}
	}
	text, err := json.MarshalIndent(views, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "demo.svg"), []byte(r.svg()), 0o644), os.WriteFile(filepath.Join(dir, "demo.json"), text, 0o644))
}
