package eval

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Bars is a chart of grouped bars in percent: one group for each label, one bar in it for each series.
type Bars struct {
	Title  string
	Series []string
	Labels []string
	// Values by label, then series; NaN draws no bar.
	Values [][]Figure
}

// PlotErrors is the chart of a speed report: error by GPU count, the paper's rule beside it.
func (r SpeedReport) PlotErrors() Bars {
	b := Bars{Title: "Mean error of the extrapolated step time by GPUs", Series: []string{"this model", "paper's rule"}}
	for _, g := range r.ByGPUs {
		b.Labels = append(b.Labels, strconv.Itoa(g.GPUs))
		b.Values = append(b.Values, []Figure{g.Mean, g.Paper})
	}
	return b
}

// PlotErrors is the chart of a curve report: error by group and part of the run seen, the rule "use the maximum" beside it.
func (r CurveReport) PlotErrors() Bars {
	b := Bars{Title: "Mean error of the iterations to the target", Series: []string{"ensemble", "use the maximum"}}
	for _, g := range sortedKeys(r.ByGroup) {
		for _, p := range r.ByGroup[g] {
			if p.Runs > 0 {
				b.Labels = append(b.Labels, fmt.Sprintf("%s %.0f%%", g, 100*p.At))
				b.Values = append(b.Values, []Figure{p.Error, p.Baseline})
			}
		}
	}
	return b
}

// SVG draws the chart.
func (b Bars) SVG(w io.Writer) error {
	const width, height, left, top, bottom = 720.0, 300.0, 46.0, 44.0, 40.0
	colours := []string{"#2a6f97", "#c98b3c", "#888888"}
	high := 0.01
	for _, g := range b.Values {
		for _, v := range g {
			if f := float64(v); f > high && !math.IsInf(f, 1) {
				high = f
			}
		}
	}
	o := bufio.NewWriter(w)
	fmt.Fprintf(o, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(o, `<rect width="100%%" height="100%%" fill="white"/><text x="%.0f" y="18" font-size="14">%s</text>`+"\n", left, b.Title)
	y := func(v float64) float64 { return height - bottom - v/high*(height-top-bottom) }
	for i := range 5 {
		v := high * float64(i) / 4
		fmt.Fprintf(o, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%.0f" y="%.1f" text-anchor="end">%.1f%%</text>`+"\n",
			left, width-8, y(v), y(v), left-4, y(v)+4, 100*v)
	}
	group := (width - left - 8) / float64(max(len(b.Labels), 1))
	bar := 0.8 * group / float64(max(len(b.Series), 1))
	for i, label := range b.Labels {
		x := left + group*float64(i)
		fmt.Fprintf(o, `<text x="%.1f" y="%.0f" text-anchor="middle" font-size="10">%s</text>`+"\n", x+group/2, height-bottom+14, label)
		for k, v := range b.Values[i] {
			if f := float64(v); f >= 0 && !math.IsInf(f, 1) {
				fmt.Fprintf(o, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x+0.1*group+bar*float64(k), y(f), bar*0.95, height-bottom-y(f), colours[k%3])
			}
		}
	}
	for k, s := range b.Series {
		x := left + 150*float64(k)
		fmt.Fprintf(o, `<rect x="%.0f" y="26" width="10" height="10" fill="%s"/><text x="%.0f" y="35">%s</text>`+"\n", x, colours[k%3], x+14, s)
	}
	fmt.Fprintln(o, "</svg>")
	return o.Flush()
}
