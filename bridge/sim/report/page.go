package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"

	"unisched/bridge/sim"
)

//go:embed colours.css
var colours string

//go:embed page.css
var layout string

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pair is a name with what belongs to it.
type pair struct{ Name, Value string }

// tile is one large figure.
type tile struct{ Name, Value, Beside string }

// picture is a plot on the page.
type picture struct {
	Title, Caption string
	Wide           bool
	SVG            template.HTML
}

// content is what the page's template shows.
type content struct {
	Title, Kicker, Lead, Against, Base string
	Style                              template.CSS
	Tiles                              []tile
	Headline, Costs, Waiting           Table
	Accounts, Tenants                  *Table
	Below                              int
	Plots                              []picture
	LeftOut                            string
	Meanings, Setup, Flags             []pair
	Command, Foot                      string
}

// page makes the HTML page.
func (r Report) page(plots []Plot) ([]byte, error) {
	base := r.Results[r.base()]
	c := content{Title: r.Title, Base: base.Name, Style: Style(), Command: quote(r.Command)}
	c.Kicker = fmt.Sprintf("A simulation of %d jobs on %d GPUs, %d policies side by side", r.Trace.Jobs, base.GPUs, len(r.Results))
	if len(r.Results) == 1 {
		c.Kicker = fmt.Sprintf("A simulation of %d jobs on %d GPUs", r.Trace.Jobs, base.GPUs)
	}
	all := r.figures()
	var won, total int
	c.Headline, won, total = Headline(all, r.base())
	c.Below = total - won
	c.Lead, c.Against = r.lead(base.Figures), r.against(won, total)
	c.Tiles = r.tiles()
	c.Lead, c.Against = together(c.Lead), together(c.Against)
	for i := range c.Tiles {
		c.Tiles[i].Beside = together(c.Tiles[i].Beside)
	}
	c.Costs, c.Waiting = costs(all, r.base()), waiting(all, r.base())
	c.Accounts, c.Tenants = accounts(all, r.base()), tenants(base)
	for _, p := range plots {
		c.Plots = append(c.Plots, picture{p.Title, p.Caption, p.Wide, template.HTML(p.svg)}) // drawn by us, texts escaped
	}
	if n := len(r.Results) - len(r.shown()); n > 0 {
		c.LeftOut = fmt.Sprintf("Pictures with a line for each policy show %d of %d: %s, and the best of the others in either headline figure.", len(r.shown()), len(r.Results), base.Name)
	}
	c.Meanings, c.Setup = meanings, r.setup(base)
	for _, k := range slices.Sorted(maps.Keys(r.Manifest.Config)) {
		v := r.Manifest.Config[k]
		if v == "" || v == "[]" {
			v = "–"
		}
		c.Flags = append(c.Flags, pair{"--" + k, v})
	}
	c.Foot = fmt.Sprintf("UniSched %s, commit %s, %s. Numbers come from a simulation that drives the daemon's own loop against a model of Slurm; they are no measurement of a cluster.",
		r.Manifest.Version, cmpOr(strings.TrimSpace(r.Manifest.Revision), "unknown"), r.Manifest.Go)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, c); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return b.Bytes(), nil
}

var unit = regexp.MustCompile(`([0-9]) (%|s|min|h|d)([^a-z]|$)`)

// together keeps numbers and their units on one line.
func together(s string) string { return unit.ReplaceAllString(s, "$1\u00a0$2$3") }

// Style is the style sheet of our pages.
func Style() template.CSS { return template.CSS(colours + layout) }

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (r Report) figures() []sim.Figures {
	out := make([]sim.Figures, len(r.Results))
	for i, x := range r.Results {
		out[i] = x.Figures
	}
	return out
}

// lead is the first sentence: what came out.
func (r Report) lead(f sim.Figures) string {
	var parts []string
	if f.WeightedMiss != nil {
		parts = append(parts, fmt.Sprintf("lost %s of the value of all deadlines", percent(f.WeightedMiss)))
	}
	if f.BEJCTMean != nil {
		parts = append(parts, fmt.Sprintf("brought jobs without a deadline home in %s on average", span(*f.BEJCTMean)))
	}
	if f.Utilization != nil {
		parts = append(parts, fmt.Sprintf("kept %s of the GPUs busy", percent(f.Utilization)))
	}
	if len(parts) > 1 {
		parts[len(parts)-1] = "and " + parts[len(parts)-1]
	}
	sep := ", "
	if len(parts) == 2 {
		sep = " "
	}
	return f.Name + " " + strings.Join(parts, sep) + "."
}

// against is the second: how the others did.
func (r Report) against(won, total int) string {
	if len(r.Results) < 2 {
		return ""
	}
	best := func(of func(sim.Figures) *float64) (int, bool) {
		k := -1
		for i, x := range r.Results {
			if v := of(x.Figures); i != r.base() && v != nil && (k < 0 || *v < *of(r.Results[k].Figures)) {
				k = i
			}
		}
		return k, k >= 0
	}
	var s strings.Builder
	if k, ok := best(weightedMiss); ok {
		fmt.Fprintf(&s, "The rival with the fewest misses is %s (%s). ", r.Results[k].Name, percent(r.Results[k].WeightedMiss))
	}
	if k, ok := best(beJCT); ok {
		fmt.Fprintf(&s, "The quickest with best-effort jobs is %s (%s). ", r.Results[k].Name, span(*r.Results[k].BEJCTMean))
	}
	fmt.Fprintf(&s, "In %d of %d comparisons below, %s is at least as good.", won, total, r.Results[r.base()].Name)
	return s.String()
}

func (r Report) tiles() []tile {
	f := r.Results[r.base()].Figures
	var out []tile
	if f.WeightedMiss != nil {
		out = append(out, tile{"Weighted miss", percent(f.WeightedMiss), fmt.Sprintf("strict %s, soft %s", percent(f.StrictMiss), percent(f.SoftMiss))})
	}
	if f.BEJCTMean != nil {
		out = append(out, tile{"Best-effort JCT", span(*f.BEJCTMean), fmt.Sprintf("median %s, p99 %s", spanOf(f.BEJCTP50), spanOf(f.BEJCTP99))})
	}
	out = append(out, tile{"GPUs busy", percent(f.Utilization), fmt.Sprintf("holes %s of usable time", percent(f.HoleShare))},
		tile{"Preemptions per job", number(f.PreemptMean, 2), fmt.Sprintf("%d in all, at most %s", f.Preemptions, number(f.PreemptMax, 0))},
		tile{"Forecast error", percent(f.ForecastError), fmt.Sprintf("of the run time left; half way %s", percent(f.ForecastMid))})
	if f.Unfinished > 0 {
		out = append(out, tile{"Unfinished", fmt.Sprint(f.Unfinished), "wider than the cluster, failed, or stuck"})
	}
	return out
}

// setup is the configuration in words.
func (r Report) setup(base sim.Result) []pair {
	t := r.Trace
	out := []pair{
		{"Trace", fmt.Sprintf("%s (%s), %d rows, %d jobs played over %s", t.File, t.Format, t.Rows, t.Jobs, span(t.Span.Seconds()))},
		{"Checksum", "SHA-256 " + t.SHA256},
		{"What was done to it", strings.Join(t.Steps, "; ")},
		{"Cluster", fmt.Sprintf("%d GPUs; load %.2f (GPU time asked for over what there is between the first submission and the last)", base.GPUs, t.Load)},
		{"Unit", fmt.Sprintf("%v: the best-effort lease, and the period of planning", base.Unit)},
		{"Seed", fmt.Sprint(r.Manifest.Seed)},
	}
	for _, o := range t.Odd {
		out = append(out, pair{"Rows left out", fmt.Sprintf("%d: %s (the first in line %d)", o.Rows, o.What, o.First)})
	}
	return out
}

// quote writes a command line that a shell reads back.
func quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsFunc(w, func(c rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+", c)
		}) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

var meanings = []pair{
	{"Weighted miss", "Mean over the jobs with deadlines of 1 − value of the best deadline met / full value. A strict job counts 0 or 1; a soft one in between. Jobs never finished count 1."},
	{"JCT", "Job completion time: from submission to end, waiting included. BE: best-effort jobs, those without a deadline."},
	{"Ratio", "The policy's figure divided by the base policy's. Above 1 the base policy is better, below 1 the other one; ∞ where the base policy has none of it."},
	{"GPUs busy", "Share of GPU time held by jobs from the first submission to the last."},
	{"Holes", "GPUs free while jobs waited that they would have served, the smallest job first. The time between an end and the next start, and Slurm's own delay after a requeue, are in it."},
	{"Checkpoint, resume", "GPU time held while saving before a preemption, and while loading after one."},
	{"Lost work", "Iterations done since the newest checkpoint when a run was cut, as GPU time."},
	{"Profiling wait", "Longest time from a submission to the first profile run."},
	{"Forecast error", "Mean of |predicted − true| / true of the run time left of running jobs; bias is the same with its sign; coverage is how often the truth lies in the 80 % interval (with --oracle it has no width)."},
	{"Prediction misses", "Jobs whose newest plan counted on a better deadline than the one met."},
	{"Cached rounds", "Rounds in which the plan before, or the fallback, was used again."},
}
