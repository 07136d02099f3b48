package account

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"unisched/bridge"
	"unisched/planner"
)

// Bys are the groupings of a report.
func Bys() []string { return []string{"class", "account", "month"} }

// Quantiles of a set of durations in seconds, nearest rank; nil without any.
type Quantiles struct {
	N   int      `json:"n"`
	P50 *float64 `json:"p50_s"`
	P95 *float64 `json:"p95_s"`
	P99 *float64 `json:"p99_s"`
}

// Group is a set of ended jobs.
type Group struct {
	// By is "all", "class", "account" or "month"; Value the group's value.
	By        string `json:"by"`
	Value     string `json:"value"`
	Jobs      int    `json:"jobs"`
	Completed int    `json:"completed"`
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
	// SLO counts the jobs with deadlines whose end was seen, those that were cancelled aside; Met those of them that met one, Attainment their share;
	// Value is the mean share of the full value that they earned.
	SLO        int      `json:"slo_jobs"`
	Met        int      `json:"slo_met"`
	Attainment *float64 `json:"attainment"`
	Earned     *float64 `json:"value_earned"`
	// Lateness of completed jobs against their last deadline, negative when early; JCT from the first submission to the end, of completed jobs.
	Lateness    Quantiles `json:"lateness"`
	JCT         Quantiles `json:"jct"`
	Preemptions int       `json:"preemptions"`
	Charge      Charge    `json:"charge"`
}

// Preempted is one of the jobs that were preempted most.
type Preempted struct {
	Job         string        `json:"job"`
	Name        string        `json:"name"`
	User        string        `json:"user"`
	Account     string        `json:"account"`
	Class       planner.Class `json:"class"`
	GPUs        int           `json:"gpus"`
	Preemptions int           `json:"preemptions"`
	Charge      Charge        `json:"charge"`
}

// Report is the answer of `unisched report slo`.
type Report struct {
	Schema int       `json:"schema_version"`
	Since  time.Time `json:"since,omitzero"`
	// First and Last are the ends of the first and the last job counted.
	First     time.Time   `json:"first,omitzero"`
	Last      time.Time   `json:"last,omitzero"`
	Source    string      `json:"source"`
	Groups    []Group     `json:"groups"`
	Preempted []Preempted `json:"most_preempted"`
	Notes     []string    `json:"notes"`
}

// Sum makes a report over entries in the order of their ends. by is one of Bys, or "" for all of them; months are those of the zone.
func Sum(list []Entry, by string, zone *time.Location, since time.Time) Report {
	r := Report{Schema: bridge.ViewSchema, Since: since, Groups: []Group{}, Preempted: []Preempted{}}
	if len(list) > 0 {
		r.First, r.Last = list[0].Ended, list[len(list)-1].Ended
		r.Groups = append(r.Groups, sum("all", "", list))
	}
	for _, b := range Bys() {
		if by != "" && by != b {
			continue
		}
		parts := map[string][]Entry{}
		var names []string
		for _, e := range list {
			v := e.value(b, zone)
			if parts[v] == nil {
				names = append(names, v)
			}
			parts[v] = append(parts[v], e)
		}
		slices.Sort(names)
		for _, v := range names {
			r.Groups = append(r.Groups, sum(b, v, parts[v]))
		}
	}
	r.Preempted = most(list, 10)
	r.Notes = notes(list)
	return r
}

func (e Entry) value(by string, zone *time.Location) string {
	switch by {
	case "class":
		return string(e.Class)
	case "account":
		return cmp.Or(e.Account, "(none)")
	}
	return e.Ended.In(zone).Format("2006-01")
}

func sum(by, value string, list []Entry) Group {
	g := Group{By: by, Value: value, Jobs: len(list)}
	var late, jct []float64
	earned := 0.0
	for _, e := range list {
		switch e.Phase {
		case bridge.Completed:
			g.Completed++
			jct = append(jct, e.Ended.Sub(e.Submitted).Seconds())
			if d, ok := e.Late(); ok {
				late = append(late, d.Seconds())
			}
		case bridge.Failed:
			g.Failed++
		default:
			g.Cancelled++
		}
		if e.Met != nil && e.Phase != bridge.Cancelled {
			g.SLO++
			earned += e.Value()
			if *e.Met >= 0 {
				g.Met++
			}
		}
		g.Preemptions += e.Preemptions
		g.Charge = g.Charge.Plus(e.Charge())
	}
	if g.SLO > 0 {
		a, v := float64(g.Met)/float64(g.SLO), earned/float64(g.SLO)
		g.Attainment, g.Earned = &a, &v
	}
	g.Lateness, g.JCT = quantiles(late), quantiles(jct)
	return g
}

func quantiles(v []float64) Quantiles {
	if len(v) == 0 {
		return Quantiles{}
	}
	slices.Sort(v)
	at := func(q float64) *float64 {
		x := v[max(int(math.Ceil(q*float64(len(v))))-1, 0)]
		return &x
	}
	return Quantiles{len(v), at(0.5), at(0.95), at(0.99)}
}

// most are the n jobs preempted most often, then those that lost most GPU time by it.
func most(list []Entry, n int) []Preempted {
	cost := func(c Charge) float64 { return c.Lost + c.Resume + c.Checkpoint }
	out := []Preempted{}
	for _, e := range list {
		if e.Preemptions > 0 {
			out = append(out, Preempted{e.Ref, e.Name, e.User, e.Account, e.Class, e.GPUs, e.Preemptions, e.Charge()})
		}
	}
	slices.SortStableFunc(out, func(a, b Preempted) int {
		return cmp.Or(cmp.Compare(b.Preemptions, a.Preemptions), cmp.Compare(cost(b.Charge), cost(a.Charge)))
	})
	return head(out, n)
}

// notes say what the figures do not.
func notes(list []Entry) []string {
	n := []string{
		"fairshare charges what all runs held; sacct shows the last run alone unless it is asked with --duplicates",
		"resume and checkpoint time are counts times what one of the job is believed to take; lost time is iterations done twice, at the job's mean speed",
	}
	blind := 0
	for _, e := range list {
		if e.HeldS > 0 && e.Iter == 0 && e.Preemptions > 0 {
			blind++
		}
	}
	if blind > 0 {
		n = append(n, fmt.Sprintf("%d preempted jobs report no iterations: what they lost is not known and counts as nothing", blind))
	}
	return n
}

// WriteGroups writes the groups as CSV: rates are fractions, times seconds, GPU time GPU-seconds; a field without jobs is empty.
func (r Report) WriteGroups(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"by", "value", "jobs", "completed", "failed", "cancelled", "slo_jobs", "slo_met", "attainment", "value_earned", "lateness_p50_s", "lateness_p95_s", "lateness_p99_s",
		"jct_p50_s", "jct_p95_s", "jct_p99_s", "preemptions", "held_gpu_s", "sacct_gpu_s", "profile_gpu_s", "lost_gpu_s", "resume_gpu_s", "checkpoint_gpu_s", "useful_gpu_s"})
	for _, g := range r.Groups {
		out.Write(append([]string{g.By, cell(g.Value), strconv.Itoa(g.Jobs), strconv.Itoa(g.Completed), strconv.Itoa(g.Failed), strconv.Itoa(g.Cancelled), strconv.Itoa(g.SLO), strconv.Itoa(g.Met),
			opt(g.Attainment), opt(g.Earned), opt(g.Lateness.P50), opt(g.Lateness.P95), opt(g.Lateness.P99), opt(g.JCT.P50), opt(g.JCT.P95), opt(g.JCT.P99), strconv.Itoa(g.Preemptions)},
			g.Charge.fields()...))
	}
	out.Flush()
	return out.Error()
}

// WriteJobs writes one row a job as CSV.
func WriteJobs(w io.Writer, list []Entry) error {
	out := csv.NewWriter(w)
	out.Write([]string{"job", "name", "user", "account", "class", "gpus", "submitted", "ended", "phase", "exit", "met_tier", "value_earned", "lateness_s", "jct_s", "preemptions",
		"held_gpu_s", "sacct_gpu_s", "profile_gpu_s", "lost_gpu_s", "resume_gpu_s", "checkpoint_gpu_s", "useful_gpu_s"})
	for _, e := range list {
		tier, value, late := "", "", ""
		if e.Met != nil {
			tier, value = strconv.Itoa(*e.Met), num(e.Value())
		}
		if d, ok := e.Late(); ok {
			late = num(d.Seconds())
		}
		out.Write(append([]string{cell(e.Ref), cell(e.Name), cell(e.User), cell(e.Account), string(e.Class), strconv.Itoa(e.GPUs), e.Submitted.UTC().Format(time.RFC3339), e.Ended.UTC().Format(time.RFC3339),
			string(e.Phase), cell(e.Exit), tier, value, late, num(e.Ended.Sub(e.Submitted).Seconds()), strconv.Itoa(e.Preemptions)}, e.Charge().fields()...))
	}
	out.Flush()
	return out.Error()
}

func (c Charge) fields() []string {
	return []string{num(c.Held), num(c.Shown), num(c.Profile), num(c.Lost), num(c.Resume), num(c.Checkpoint), num(c.Useful)}
}

// cell keeps names that users choose from being formulas of a spreadsheet.
func cell(s string) string {
	if s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@' || s[0] == '\t' || s[0] == '\r') {
		return "'" + s
	}
	return s
}

func num(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

func opt(v *float64) string {
	if v == nil {
		return ""
	}
	return num(*v)
}
