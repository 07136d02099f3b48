package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge/account"
	"unisched/bridge/control"
	"unisched/bridge/events"
	"unisched/bridge/postmortem"
	"unisched/bridge/replay"
)

const postmortemLong = `Says why a job missed its deadline: where the time from its submission to its end went, and whose doing that was, with the records that show it.

Causes: user (held, submitted too late, declared wrongly, no checkpoint, failed by itself), fault (nodes, Slurm or the daemon away, a solver that
failed), capacity (nobody could have met it), reward (others were worth more, or it was stopped for them), speed and iterations (estimates that
promised too much), topology (no hole of its shape, a slow placement), profile (waited to be measured), unknown (no records).

WITHOUT is how late the job would have been without that delay alone. SHARE splits the lateness among the causes. HOW is "computed" where the
times of the records give it, "rule" where they do not.

It reads state_dir (ended, rounds, events), also when no daemon runs. Rounds are kept for about a week: of older jobs it says what is left.`

const postmortemExample = `  unisched postmortem 1234
  unisched postmortem 1234 -o json
  unisched postmortem --worst 10 --since 1d
  unisched postmortem --worst 10 --since 1d --save   (what the daily timer does)`

// postmortemFlags are what the command was told.
type postmortemFlags struct {
	worst       int
	since       string
	dir, events string
	rounds      []string
	save, quiet bool
}

func (a *app) postmortemCommand() *cobra.Command {
	var f postmortemFlags
	c := &cobra.Command{
		Use: "postmortem [JOB]", Short: "Why a deadline was missed", Args: cobra.MaximumNArgs(1), Long: postmortemLong, Example: postmortemExample,
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (f.worst > 0) {
				return coded{exitUsage, errors.New("want a job, or --worst N")}
			}
			if f.worst < 0 || f.worst > 1000 {
				return coded{exitUsage, fmt.Errorf("--worst %d is not within 1..1000", f.worst)}
			}
			from, err := a.instant(f.since)
			if err != nil {
				return coded{exitUsage, fmt.Errorf("--since: %w", err)}
			}
			if len(args) == 1 {
				return a.postmortemOne(cmd.Context(), f, args[0], from)
			}
			return a.postmortemWorst(cmd.Context(), f, from)
		}),
	}
	s := c.Flags()
	s.IntVar(&f.worst, "worst", 0, "the N jobs that missed by the most GPU time, instead of one job")
	s.StringVar(&f.since, "since", "", "only jobs that ended since: an RFC 3339 `time`, or how long ago (36h, 7d)")
	s.StringVar(&f.dir, "dir", "", "`folder` of ended jobs (default state_dir/ended)")
	s.StringSliceVar(&f.rounds, "rounds", nil, "`folder` of rounds, repeated for several (default state_dir/rounds)")
	s.StringVar(&f.events, "events", "", "`folder` of events (default state_dir/events)")
	s.BoolVar(&f.save, "save", false, "with --worst: keep the answer in state_dir/postmortem as well")
	s.BoolVar(&f.quiet, "quiet", false, "no progress")
	return c
}

// postmortemOne explains one job.
func (a *app) postmortemOne(ctx context.Context, f postmortemFlags, ref string, from time.Time) error {
	if err := control.CheckRef(ref); err != nil {
		return coded{exitUsage, err}
	}
	list, source, err := a.ended(ctx, f.dir, from)
	if err != nil {
		return err
	}
	i := -1
	for k, e := range list { // the newest of those with this number
		if e.Ref == ref || e.Job.String() == ref {
			i = k
		}
	}
	if i < 0 {
		return fmt.Errorf("job %s is not among the %d jobs that ended, says %s\nA job that goes on is explained by: unisched explain %s", ref, len(list), source, ref)
	}
	reports, err := a.judge(f, list[i:i+1])
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.json(reports[0])
	}
	a.postmortemShow(reports[0])
	return nil
}

type worstDoc struct {
	Schema int                 `json:"schema_version"`
	Since  time.Time           `json:"since,omitzero"`
	Until  time.Time           `json:"until"`
	Missed int                 `json:"missed"`
	Worst  []postmortem.Report `json:"worst"`
}

// postmortemWorst explains the jobs that missed by most.
func (a *app) postmortemWorst(ctx context.Context, f postmortemFlags, from time.Time) error {
	list, _, err := a.ended(ctx, f.dir, from)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e account.Entry) bool { return !e.Missed() })
	weight := func(e account.Entry) float64 { // GPU time too late; one that failed early is late by nothing
		late, _ := e.Late()
		return max(late.Seconds(), 0) * float64(max(e.GPUs, 1))
	}
	slices.SortStableFunc(list, func(x, y account.Entry) int { return cmp.Compare(weight(y), weight(x)) })
	doc := worstDoc{Schema: 1, Since: from, Until: a.now(), Missed: len(list), Worst: []postmortem.Report{}}
	if list = list[:min(len(list), f.worst)]; len(list) > 0 {
		if doc.Worst, err = a.judge(f, list); err != nil {
			return err
		}
	}
	if f.save {
		if err := a.savePostmortem(doc); err != nil {
			return err
		}
	}
	if a.output == "json" {
		return a.json(doc)
	}
	if doc.Missed == 0 {
		fmt.Fprintln(a.out, "No deadline was missed in that time.")
		return nil
	}
	fmt.Fprintf(a.out, "%d jobs missed their deadlines; the worst %d:\n\n", doc.Missed, len(doc.Worst))
	t := table{head: []string{"JOB", "USER", "GPUS", "LATE", "CAUSE", "SHARE", "ALSO"}, bound: []int{10, 12, 5, 8, 10, 6, 30}, flex: 6}
	for _, r := range doc.Worst {
		var also []string
		for _, p := range r.Parts[min(1, len(r.Parts)):] {
			also = append(also, fmt.Sprintf("%s %.0f %%", p.Cause, 100*p.Share))
		}
		share := "-"
		if len(r.Parts) > 0 {
			share = fmt.Sprintf("%.0f %%", 100*r.Parts[0].Share)
		}
		late := "-" // it did not come to its end
		if r.LateS > 0 {
			late = signed(&r.LateS)
		}
		t.add(r.Job, r.User, fmt.Sprint(r.GPUs), late, string(r.Cause), share, strings.Join(also, ", "))
	}
	t.write(a.out)
	fmt.Fprintln(a.out, "\nMore of one: unisched postmortem JOB")
	return nil
}

// judge gathers what the state folder holds of the jobs and judges them. Rounds or events that cannot be read cost certainty, and the reports say so.
func (a *app) judge(f postmortemFlags, list []account.Entry) ([]postmortem.Report, error) {
	site, _, err := a.site()
	if err != nil {
		return nil, err
	}
	if len(f.rounds) == 0 {
		f.rounds = []string{filepath.Join(site.Daemon.StateDir, "rounds")}
	}
	g := postmortem.NewGatherer(list)
	from, until := g.Window()
	var missing []string
	records, err := replay.Open(f.rounds...)
	switch {
	case errors.Is(err, replay.ErrNone), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		missing = append(missing, "rounds could not be read: "+err.Error())
	case err != nil:
		return nil, err
	}
	records = records.Between(from, until)
	progress := a.newTicker(f.quiet)
	for i := range records.Len() {
		x, err := records.Read(i)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		g.Add(x)
		progress.say("rounds read: %d of %d", i+1, records.Len())
	}
	progress.end()
	happened, err := events.Read(cmp.Or(f.events, filepath.Join(site.Daemon.StateDir, "events")), from, until, 10*events.MaxLimit, postmortem.Wanted)
	if err != nil {
		missing = append(missing, "events could not be read: "+err.Error())
	}
	var out []postmortem.Report
	for _, c := range g.Cases(happened) {
		r := postmortem.Judge(c)
		r.Notes = append(r.Notes, missing[:min(len(missing), 5)]...)
		out = append(out, r)
	}
	return out, nil
}

// maxSaved bounds the answers kept: the oldest go.
const maxSaved = 90

// savePostmortem keeps the day's answer, whole or not at all.
func (a *app) savePostmortem(doc worstDoc) error {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	dir := filepath.Join(site.Daemon.StateDir, "postmortem")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("postmortems: %w", err)
	}
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("postmortems: %w", err)
	}
	path := filepath.Join(dir, doc.Until.UTC().Format("20060102T150405Z")+".json")
	if err := os.WriteFile(path+".tmp", append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("postmortems: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("postmortems: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return fmt.Errorf("postmortems: %w", err)
	}
	slices.Sort(names)
	for _, old := range names[:max(len(names)-maxSaved, 0)] {
		if err := os.Remove(old); err != nil {
			return fmt.Errorf("postmortems: %w", err)
		}
	}
	return nil
}

// postmortemShow prints one report.
func (a *app) postmortemShow(r postmortem.Report) {
	item(a.out, "Job", "%s %s of %s, %s, %d GPUs", r.Job, r.Name, r.User, r.Class, r.GPUs)
	item(a.out, "Verdict", "%s", r.Verdict)
	item(a.out, "Submitted", "%s", a.stamp(r.Submitted))
	if !r.Deadline.IsZero() {
		item(a.out, "Deadline", "%s, %s later", a.stamp(r.Deadline), signed(&r.WindowS))
	}
	late := ""
	if !r.Deadline.IsZero() && r.LateS > 0 {
		late = ", " + signed(&r.LateS) + " after the deadline"
	}
	item(a.out, "Ended", "%s (%s)%s", a.stamp(r.Ended), cmp.Or(r.Exit, string(r.Phase)), late)
	if r.NeedS > 0 {
		item(a.out, "Needs", "%s without a pause on its best placement", signed(&r.NeedS))
	}
	if len(r.Parts) > 0 {
		fmt.Fprintln(a.out)
		t := table{head: []string{"CAUSE", "DELAY", "SHARE", "WITHOUT", "HOW"}, bound: []int{12, 9, 7, 9, 9}, flex: 0}
		for _, p := range r.Parts {
			without := signed(&p.WithoutS)
			if p.DelayS == 0 {
				without = "-"
			}
			t.add(string(p.Cause), signed(&p.DelayS), fmt.Sprintf("%.0f %%", 100*p.Share), without, p.How)
		}
		t.write(a.out)
		fmt.Fprintln(a.out)
	}
	for _, p := range r.Parts {
		for i, e := range p.Evidence {
			label := ""
			if i == 0 {
				label = string(p.Cause)
			}
			if e.At.IsZero() {
				item(a.out, label, "%s", e.Text)
			} else {
				item(a.out, label, "%s: %s", a.stamp(e.At), e.Text)
			}
		}
	}
	for _, n := range r.Notes {
		item(a.out, "Note", "%s.", n)
	}
}
