package report

import (
	"fmt"
	"math"
	"strconv"

	"unisched/bridge/sim"
)

// Cell is one field of a table; Below marks a ratio below 1.
type Cell struct {
	Text  string
	Below bool
}

// Line is one row; Ours marks the policy that the others are compared with.
type Line struct {
	Ours  bool
	Cells []Cell
}

// Table is a table of the page.
type Table struct {
	Head []string
	Rows []Line
}

func (t *Table) add(ours bool, texts ...string) {
	l := Line{Ours: ours}
	for _, s := range texts {
		l.Cells = append(l.Cells, Cell{Text: s})
	}
	t.Rows = append(t.Rows, l)
}

// measure is a figure of the headline table: less is better for all of them.
type measure struct {
	name string
	of   func(sim.Figures) *float64
	text func(*float64) string
}

var headline = []measure{
	{"Weighted miss", weightedMiss, percent},
	{"BE JCT mean", beJCT, spanOf},
	{"BE JCT p99", func(f sim.Figures) *float64 { return f.BEJCTP99 }, spanOf},
	{"JCT mean", func(f sim.Figures) *float64 { return f.JCTMean }, spanOf},
}

// Ratio is a rival's figure over the base's, in words: above 1 the base is better. ok is false when either has none.
func Ratio(rival, base *float64) (text string, below, ok bool) {
	switch {
	case rival == nil || base == nil:
		return "–", false, false
	case *base == 0 && *rival == 0:
		return "1.00×", false, true
	case *base == 0:
		return "∞", false, true
	}
	v := *rival / *base
	text = fmt.Sprintf("%.2f×", v)
	if v < 1 && text == "1.00×" { // never rounded into a draw
		text = fmt.Sprintf("%.4f×", math.Min(v, 0.9999))
	}
	return text, v < 1, true
}

// Headline is the table of the figures that count, with every ratio; won of total comparisons are in favour of the base, or a draw.
func Headline(all []sim.Figures, base int) (t Table, won, total int) {
	t.Head = []string{"Policy"}
	for _, m := range headline {
		t.Head = append(t.Head, m.name, "ratio")
	}
	t.Head = append(t.Head, "GPUs busy", "Stops per job", "Unfinished")
	row := func(i int) {
		f := all[i]
		l := Line{Ours: i == base, Cells: []Cell{{Text: f.Name}}}
		for _, m := range headline {
			ratio := Cell{Text: ""}
			if i != base {
				text, below, ok := Ratio(m.of(f), m.of(all[base]))
				ratio = Cell{text, below}
				if ok {
					total++
				}
				if ok && !below {
					won++
				}
			}
			l.Cells = append(l.Cells, Cell{Text: m.text(m.of(f))}, ratio)
		}
		l.Cells = append(l.Cells, Cell{Text: percent(f.Utilization)}, Cell{Text: number(f.PreemptMean, 2)}, Cell{Text: strconv.Itoa(f.Unfinished)})
		t.Rows = append(t.Rows, l)
	}
	row(base)
	for i := range all {
		if i != base {
			row(i)
		}
	}
	return t, won, total
}

func costs(all []sim.Figures, base int) Table {
	t := Table{Head: []string{"Policy", "Held", "Checkpoints", "Resumes", "Profiles", "Lost work", "Holes", "Preemptions", "p99 per job", "Most"}}
	for i, f := range all {
		t.add(i == base, f.Name, hours(f.HeldGPU), hours(f.SavingGPU), hours(f.LoadingGPU), hours(f.ProfileGPU), hours(f.LostGPU), hours(f.HoleGPU),
			strconv.Itoa(f.Preemptions), number(f.PreemptP99, 0), number(f.PreemptMax, 0))
	}
	return t
}

func waiting(all []sim.Figures, base int) Table {
	t := Table{Head: []string{"Policy", "Wait p50", "Wait p95", "Wait p99", "Jobs waiting", "Longest profiling wait", "Forecast error", "Bias", "In 80 % interval", "Solver p50", "Solver max",
		"Unproven", "Cached", "Rounds"}}
	for i, f := range all {
		t.add(i == base, f.Name, spanOf(f.WaitP50), spanOf(f.WaitP95), spanOf(f.WaitP99), number(f.QueueMean, 1), spanOf(f.ProfileWait), percent(f.ForecastError),
			signed(f.ForecastBias), percent(f.ForecastCover), millis(f.SolverP50), millis(f.SolverMax), strconv.Itoa(f.SolverTimeouts), strconv.Itoa(f.CachedRounds),
			strconv.Itoa(f.Rounds))
	}
	return t
}

// accounts is nil when nobody has a deadline.
func accounts(all []sim.Figures, base int) *Table {
	t := Table{Head: []string{"Policy", "Runs ended unasked", "misses", "GPU-h", "Rounds unproven", "misses", "GPU-h", "Promised too much", "GPU-h", "No room", "GPU-h"}}
	slo := false
	for i, f := range all {
		slo = slo || f.WeightedMiss != nil
		a := f.Accounts
		t.add(i == base, f.Name, strconv.Itoa(a.Runtime.Events), strconv.Itoa(a.Runtime.Misses), hours(a.Runtime.GPU), strconv.Itoa(a.Solver.Events),
			strconv.Itoa(a.Solver.Misses), hours(a.Solver.GPU), strconv.Itoa(a.Prediction.Misses), hours(a.Prediction.GPU), strconv.Itoa(a.Crowding.Misses),
			hours(a.Crowding.GPU))
	}
	if !slo {
		return nil
	}
	return &t
}

// tenants is nil when the trace names none.
func tenants(r sim.Result) *Table {
	if len(r.Tenants) == 0 {
		return nil
	}
	t := Table{Head: []string{"Tenant", "Jobs", "GPU-h", "Weighted miss", "JCT p50", "JCT p95", "JCT p99", "BE JCT mean", "Wait p50", "Wait p95", "Preemptions"}}
	for _, x := range r.Tenants[:min(len(r.Tenants), 12)] {
		t.add(false, x.Name, strconv.Itoa(x.Jobs), hours(x.HeldGPU), percent(x.WeightedMiss), spanOf(x.JCTP50), spanOf(x.JCTP95), spanOf(x.JCTP99), spanOf(x.BEJCTMean),
			spanOf(x.WaitP50), spanOf(x.WaitP95), strconv.Itoa(x.Preemptions))
	}
	return &t
}

func percent(v *float64) string {
	if v == nil {
		return "–"
	}
	switch x := 100 * *v; {
	case x == 0:
		return "0 %"
	case x < 10:
		return fmt.Sprintf("%.2f %%", x)
	default:
		return fmt.Sprintf("%.1f %%", x)
	}
}

func signed(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100**v)
}

func spanOf(v *float64) string {
	if v == nil {
		return "–"
	}
	return span(*v)
}

func number(v *float64, digits int) string {
	if v == nil {
		return "–"
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

// millis writes a time of the solver.
func millis(v *float64) string {
	if v == nil {
		return "–"
	}
	if *v < 1 {
		return fmt.Sprintf("%.0f ms", 1000**v)
	}
	return fmt.Sprintf("%.2f s", *v)
}
