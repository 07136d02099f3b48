package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/spf13/cobra"

	"unisched/bridge/control"
	"unisched/planner"
	"unisched/slurm"
)

// ganttFlags choose what is drawn.
type ganttFlags struct {
	by          string
	past, ahead time.Duration
	width       int
	user        string
	all         bool
}

func (a *app) ganttCommand() *cobra.Command {
	var f ganttFlags
	c := &cobra.Command{
		Use: "gantt", Short: "Who holds which GPUs: past, now and planned", Args: cobra.NoArgs,
		Long: "Draws the leases of the last units and what the plan foresees, as wide as the terminal. --by job: one row a job, with its deadline (!). --by node: one row a node,\n" +
			"with the number of GPUs held. `watch unisched gantt` keeps it up to date. Colours only on a terminal, and not with NO_COLOR set.",
		Example: "  unisched gantt\n  unisched gantt --by node --past 6h\n  unisched gantt --user anna --ahead 4h\n  watch -n 10 unisched gantt",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.by != "job" && f.by != "node":
				return coded{exitUsage, fmt.Errorf("--by %s: want job or node", f.by)}
			case f.past < 0 || f.ahead < 0 || f.past+f.ahead > 30*24*time.Hour || (cmd.Flags().Changed("past") && cmd.Flags().Changed("ahead") && f.past+f.ahead < time.Minute):
				return coded{exitUsage, fmt.Errorf("--past %v and --ahead %v: want a minute to 30 days together", f.past, f.ahead)}
			case f.width != 0 && (f.width < 40 || f.width > 1000):
				return coded{exitUsage, fmt.Errorf("--width %d is not within 40..1000", f.width)}
			}
			return a.show(cmd, control.PathBoard, func(raw []byte) error {
				b, err := decode[control.Board](raw)
				unit := planner.Seconds(max(b.UnitS, 1))
				if !cmd.Flags().Changed("past") {
					f.past = 12 * unit
				}
				if !cmd.Flags().Changed("ahead") {
					f.ahead = 24 * unit
				}
				if err == nil && a.output == "table" {
					a.gantt(b, f)
				}
				return err
			})
		}),
	}
	fs := c.Flags()
	fs.StringVar(&f.by, "by", "job", "rows: job or node")
	fs.DurationVar(&f.past, "past", 0, "how far back (default: 12 units)")
	fs.DurationVar(&f.ahead, "ahead", 0, "how far ahead (default: the 24 units that the plan reaches)")
	fs.IntVar(&f.width, "width", 0, "columns (default: the terminal's, else 80)")
	fs.BoolVarP(&f.all, "all", "a", false, "also jobs that have ended in the time shown")
	fs.StringVar(&f.user, "user", "", "only this user's jobs")
	return c
}

// columnsOf is the width of the terminal that out is, $COLUMNS, or 80.
func (a *app) columnsOf() int {
	if n, err := strconv.Atoi(a.env("COLUMNS")); err == nil && n >= 40 && n <= 1000 {
		return n
	}
	if f, ok := a.out.(*os.File); ok {
		var size struct{ rows, cols, x, y uint16 }
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); errno == 0 && size.cols >= 40 {
			return int(min(size.cols, 1000))
		}
	}
	return width
}

// coloured reports whether colours would be seen and are wanted (no-color.org).
func (a *app) coloured() bool {
	return a.env("NO_COLOR") == "" && a.env("TERM") != "dumb" && isTerminal(a.out)
}

// The signs of the chart: past, now, planned, waiting, deadline, the line of the present.
type signs struct{ past, now, plan, wait, due, line string }

func (a *app) signs() signs {
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := a.env(k); v != "" {
			if u := strings.ToUpper(v); strings.Contains(u, "UTF-8") || strings.Contains(u, "UTF8") {
				return signs{"▒", "█", "░", "·", "!", "│"}
			}
			break
		}
	}
	return signs{"-", "#", "=", ".", "!", "|"}
}

// chart is a Gantt chart being drawn.
type chart struct {
	a        *app
	b        control.Board
	f        ganttFlags
	from     time.Time
	step     time.Duration // of one column
	cols     int
	label    int
	sign     signs
	coloured bool
}

func (a *app) gantt(b control.Board, f ganttFlags) {
	c := chart{a: a, b: b, f: f, sign: a.signs(), coloured: a.coloured(), label: 22}
	if f.by == "node" {
		c.label = 14
	}
	w := f.width
	if w == 0 {
		w = a.columnsOf()
	}
	c.cols = w - c.label - 1
	c.step = (f.past + f.ahead) / time.Duration(c.cols)
	c.from = b.At.Add(-f.past)
	c.axis()
	if f.by == "node" {
		c.nodes()
	} else {
		c.jobs()
	}
}

func (c *chart) at(t time.Time) int {
	d := t.Sub(c.from)
	n := int(d / c.step)
	if d < 0 {
		n = -1
	}
	return n
}

// axis writes the hours, and marks the present.
func (c *chart) axis() {
	marks := []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour}
	i := slices.IndexFunc(marks, func(d time.Duration) bool { return int(d/c.step) >= 9 })
	if i < 0 {
		i = len(marks) - 1
	}
	line := []rune(strings.Repeat(" ", c.cols))
	put := func(n int, s string) {
		if n < 0 || n+len(s) > c.cols {
			return
		}
		for k, r := range s {
			line[n+k] = r
		}
	}
	now := c.at(c.b.At)
	local := c.from.In(c.a.zone)
	for t := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, c.a.zone); c.at(t) < c.cols; t = t.Add(marks[i]) {
		layout := "15:04"
		if marks[i] >= 24*time.Hour {
			layout = "01-02"
		}
		if n := c.at(t); n > now+3 || n+5 < now-1 {
			put(n, t.Format(layout))
		}
	}
	put(now-1, "now")
	zone := c.b.At.In(c.a.zone).Format("-07:00")
	fmt.Fprintln(c.a.out, strings.TrimRight(fmt.Sprintf("%-*s %s", c.label, fmt.Sprintf("%s %s", cut(clean(c.b.Cluster, false), c.label-8), zone), string(line)), " "))
}

// jobs draws one row a job: those on GPUs by their end, then those that wait by their start.
func (c *chart) jobs() {
	leases := map[slurm.JobID][]control.BoardLease{}
	for _, l := range c.b.Leases {
		leases[l.Job] = append(leases[l.Job], l)
	}
	end := c.from.Add(time.Duration(c.cols) * c.step)
	var shown []control.BoardJob
	hidden := 0
	for _, j := range c.b.Jobs {
		switch visible := slices.ContainsFunc(leases[j.ID], func(l control.BoardLease) bool { return l.To.After(c.from) && l.From.Before(end) }); {
		case c.f.user != "" && j.User != c.f.user:
		case j.Phase.Ours() || visible && c.f.all:
			shown = append(shown, j)
		default:
			hidden++
		}
	}
	rank := func(j control.BoardJob) int {
		switch {
		case j.Phase.Ended():
			return 0
		case j.Phase.OnGPUs():
			return 1
		}
		return 2
	}
	when := func(j control.BoardJob) time.Time {
		t := cmp.Or(j.Ended, j.Forecast)
		if rank(j) == 2 {
			t = j.StartBy
		}
		if t.IsZero() {
			t = c.b.At.Add(1e6 * time.Hour)
		}
		return t
	}
	slices.SortStableFunc(shown, func(x, y control.BoardJob) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), when(x).Compare(when(y)), cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.ID, y.ID))
	})
	for _, j := range shown {
		c.jobRow(j, leases[j.ID])
	}
	s := c.sign
	fmt.Fprintf(c.a.out, "%s past  %s now  %s planned  %s waits  %s deadline (?: at risk)\n", s.past, s.now, s.plan, s.wait, s.due)
	if hidden > 0 {
		fmt.Fprintf(c.a.out, "(%d unmanaged or ended: --all)\n", hidden)
	}
}

func (c *chart) jobRow(j control.BoardJob, leases []control.BoardLease) {
	row := make([]string, c.cols)
	fill := func(from, to time.Time, s string) {
		if to.Before(c.from) {
			return
		}
		for k := max(0, c.at(from)); k < c.cols && k <= c.at(to.Add(-1)); k++ {
			row[k] = s
		}
	}
	stop := j.Ended
	if stop.IsZero() {
		stop = cmp.Or(j.Forecast, c.b.At)
	}
	if !j.Submit.IsZero() {
		fill(j.Submit, stop, c.sign.wait)
	}
	sign := map[string]string{"past": c.sign.past, "now": c.sign.now, "plan": c.sign.plan}
	for _, l := range leases {
		fill(l.From, l.To, sign[l.Kind])
	}
	if n := c.at(j.Due); !j.Due.IsZero() && n >= 0 && n < c.cols {
		row[n] = c.sign.due
		if j.Risk {
			row[n] = "?"
		}
	}
	mark := " "
	if j.Risk {
		mark = "!"
	}
	c.write(fmt.Sprintf("%s%s %s", mark, j.Ref, j.Name), fmt.Sprintf("%d", j.GPUs), row, j.Class, j.Risk)
}

// colours of classes: blue, magenta, green, yellow.
var colours = map[planner.Class]string{planner.Strict: "34", planner.Soft: "35", planner.BestEffort: "32", planner.Profiler: "33"}

// write writes one row: label, count, cells; the present is a line where nothing is.
func (c *chart) write(label, count string, row []string, class planner.Class, risk bool) {
	now := c.at(c.b.At)
	var out strings.Builder
	for k, s := range row {
		switch {
		case s == "" && k == now:
			s = c.sign.line
		case s == "":
			s = " "
		}
		out.WriteString(s)
	}
	text := strings.TrimRight(out.String(), " ")
	label = cut(clean(label, false), c.label-columns(count)-1)
	label += strings.Repeat(" ", max(1, c.label-columns(label)-columns(count)))
	if c.coloured && text != "" {
		code := colours[class]
		if risk {
			code = "31"
		}
		if code != "" {
			text = "\x1b[" + code + "m" + text + "\x1b[0m"
		}
	}
	fmt.Fprintln(c.a.out, strings.TrimRight(label+count+" "+text, " "))
}

// nodes draws one row a node: the GPUs held, as a digit ("+" from 10 on).
func (c *chart) nodes() {
	for _, n := range c.b.Nodes {
		held := make([]float64, c.cols)
		planned := make([]bool, c.cols)
		for _, l := range c.b.Leases {
			g := l.Place.On(n.Name)
			if g == 0 || c.f.user != "" && !c.ofUser(l.Job) {
				continue
			}
			for k := max(0, c.at(l.From)); k < c.cols; k++ {
				begin := c.from.Add(time.Duration(k) * c.step)
				overlap := min(l.To.Sub(begin), c.step, begin.Add(c.step).Sub(l.From)).Seconds() / c.step.Seconds()
				if overlap <= 0 {
					break
				}
				held[k] += float64(g) * overlap
				planned[k] = planned[k] || l.Kind == "plan"
			}
		}
		row := make([]string, c.cols)
		for k, h := range held {
			switch v := int(h + 0.5); {
			case v > 9:
				row[k] = "+"
			case v > 0:
				row[k] = strconv.Itoa(v)
			case !n.Usable:
				row[k] = "x"
			case n.GPUs > 0 && k != c.at(c.b.At):
				row[k] = c.sign.wait
			}
		}
		label := " " + n.Name
		if !n.Usable {
			label = "x" + n.Name
		}
		c.write(label, strconv.Itoa(n.GPUs), row, "", !n.Usable)
	}
	fmt.Fprintf(c.a.out, "digits: GPUs held by managed jobs; x: node not usable\n")
	for _, n := range c.b.Nodes {
		if !n.Usable {
			item(c.a.out, "x "+cut(clean(n.Name, false), 10), "%s", n.Why)
		}
	}
}

func (c *chart) ofUser(id slurm.JobID) bool {
	i := slices.IndexFunc(c.b.Jobs, func(j control.BoardJob) bool { return j.ID == id })
	return i >= 0 && c.b.Jobs[i].User == c.f.user
}
