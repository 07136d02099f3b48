package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"unisched/bridge/sim"
	"unisched/planner"
)

// plots draws everything that the results allow.
func (r Report) plots() []Plot {
	var out []Plot
	add := func(p Plot, ok bool) {
		if ok {
			out = append(out, p)
		}
	}
	add(r.barsOf("bars-miss", "Deadline value lost", "Weighted miss rate by policy, the best first. 0 % means that every job met its first deadline.", weightedMiss,
		func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }))
	add(r.barsOf("bars-be-jct", "Best-effort completion time", "Mean time from submission to end of the jobs without deadlines, the best first.", beJCT, span))
	add(r.both())
	add(r.waitCDF())
	add(r.latenessCDF())
	add(r.over("utilization", "GPUs in use", "Share of the cluster's GPUs held by jobs, over time.", func(x sim.Result) []float64 { return x.Busy }, true))
	add(r.over("queue", "Jobs waiting", "Jobs that hold no GPU and have not ended, over time.", func(x sim.Result) []float64 { return x.Waiting }, false))
	add(r.over("holes", "GPU holes", "GPUs free while somebody waited whom they would have served, over time. A hole of a few seconds after each job's end is unavoidable.",
		func(x sim.Result) []float64 { return x.Holes }, false))
	out = append(out, r.gantts()...)
	return out
}

func (r Report) barsOf(name, title, caption string, of func(sim.Figures) *float64, write func(float64) string) (Plot, bool) {
	p := Plot{Name: name, Title: title, Caption: caption}
	var list []bar
	for i, x := range r.Results {
		if v := of(x.Figures); v != nil {
			list = append(list, bar{x.Name, v, write(*v), i == r.base()})
		}
	}
	slices.SortStableFunc(list, func(a, b bar) int { return cmp.Compare(*a.value, *b.value) })
	if len(list) == 0 {
		return p, false
	}
	p.svg = bars(title, list)
	return p, true
}

// cdf is the share of n that lies at or below each value, at most 200 steps; what is missing of n never comes.
func cdf(values []float64, n int, place func(float64) float64) plotter.XYs {
	slices.Sort(values)
	var out plotter.XYs
	step := max(len(values)/200, 1)
	for i := 0; i < len(values); i += step {
		out = append(out, plotter.XY{X: place(values[i]), Y: float64(i+1) / float64(n)})
	}
	if k := len(values); k > 0 {
		out = append(out, plotter.XY{X: place(values[k-1]), Y: float64(k) / float64(n)})
	}
	return out
}

// shares are the ticks of an axis from 0 to 100 %.
func shares() axis {
	a := axis{min: 0, max: 1}
	for i := 0; i <= 4; i++ {
		a.ticks = append(a.ticks, plot.Tick{Value: float64(i) / 4, Label: fmt.Sprintf("%d %%", 25*i)})
	}
	return a
}

// waitCDF is the distribution of the completion time of best-effort jobs.
func (r Report) waitCDF() (Plot, bool) {
	p := Plot{Name: "cdf-be-jct", Title: "How soon best-effort jobs are done", Caption: "Share of the best-effort jobs that ended within a time from their submission. Higher and further left is better."}
	x := axis{min: math.Inf(1), max: math.Inf(-1)}
	var curves []curve
	for k, i := range r.shown() {
		var v []float64
		n := 0
		for _, o := range r.Results[i].Outcomes {
			if o.Class == planner.BestEffort {
				n++
				if o.End >= 0 {
					v = append(v, max((o.End-o.Submit).Seconds(), 1))
				}
			}
		}
		pts := cdf(v, n, math.Log10)
		if len(pts) < 2 {
			continue
		}
		// what the fastest one in a hundred and the slowest one in a thousand do would take half of the width
		x.min, x.max = min(x.min, math.Log10(v[len(v)/50])), max(x.max, math.Log10(v[len(v)-1-len(v)/1000]))
		curves = append(curves, curve{r.Results[i].Name, k, pts})
	}
	if len(curves) == 0 || !(x.max > x.min) {
		return p, false
	}
	for i := range curves {
		curves[i].points = slices.DeleteFunc(curves[i].points, func(q plotter.XY) bool { return q.X < x.min || q.X > x.max })
	}
	for _, l := range landmarks {
		if v := math.Log10(l.d.Seconds()); v >= x.min && v <= x.max && (len(x.ticks) == 0 || v-x.ticks[len(x.ticks)-1].Value > (x.max-x.min)/10) {
			x.ticks = append(x.ticks, plot.Tick{Value: v, Label: l.name})
		}
	}
	p.svg = lines(p.Title, x, shares(), curves, math.NaN())
	return p, true
}

// latenessCDF is the distribution of the time between the first deadline and the end of SLO jobs.
func (r Report) latenessCDF() (Plot, bool) {
	p := Plot{Name: "cdf-lateness", Title: "Early or late", Caption: "Share of the jobs with deadlines that ended within a time from their first deadline; left of the broken line is in time. " +
		"A curve that jumps up just before the line uses the slack that users gave."}
	// Cube roots show minutes and days at once.
	place := func(s float64) float64 { return math.Cbrt(s / 3600) }
	x := axis{}
	var curves []curve
	for k, i := range r.shown() {
		var v []float64
		n := 0
		for _, o := range r.Results[i].Outcomes {
			if o.Due > 0 {
				n++
				if o.End >= 0 {
					v = append(v, (o.End - o.Submit - o.Due).Seconds())
				}
			}
		}
		pts := cdf(v, n, place)
		if len(pts) < 2 {
			continue
		}
		x.min, x.max = min(x.min, place(v[len(v)/50])), max(x.max, place(v[len(v)-1-len(v)/50]))
		curves = append(curves, curve{r.Results[i].Name, k, pts})
	}
	if len(curves) == 0 {
		return p, false
	}
	x.max = max(x.max, 1)
	for i := range curves {
		curves[i].points = slices.DeleteFunc(curves[i].points, func(q plotter.XY) bool { return q.X < x.min || q.X > x.max })
	}
	for _, l := range landmarks {
		for _, sign := range []float64{-1, 1} {
			if v := place(sign * l.d.Seconds()); v >= x.min && v <= x.max {
				x.ticks = append(x.ticks, plot.Tick{Value: v, Label: map[float64]string{-1: "−", 1: "+"}[sign] + l.name})
			}
		}
	}
	x.ticks = append(thinned(x.ticks, (x.max-x.min)/9), plot.Tick{Value: 0, Label: "0"})
	p.svg = lines(p.Title, x, shares(), curves, 0)
	return p, true
}

// thinned leaves out ticks that stand closer than gap to one kept, or to 0.
func thinned(ticks []plot.Tick, gap float64) []plot.Tick {
	var out []plot.Tick
	for i := len(ticks) - 1; i >= 0; i-- {
		t := ticks[i]
		if math.Abs(t.Value) > gap && !slices.ContainsFunc(out, func(o plot.Tick) bool { return math.Abs(o.Value-t.Value) < gap }) {
			out = append(out, t)
		}
	}
	return out
}

// over is a figure over time, as means of at most 160 spans. share divides by the GPUs.
func (r Report) over(name, title, caption string, of func(sim.Result) []float64, share bool) (Plot, bool) {
	p := Plot{Name: name, Title: title, Caption: caption}
	end := 0
	for _, i := range r.shown() {
		end = max(end, busyUntil(r.Results[i]))
	}
	y := axis{max: 0}
	var curves []curve
	for k, i := range r.shown()[:min(len(r.shown()), 4)] {
		x := r.Results[i]
		v := of(x)
		v = v[:min(len(v), end)]
		step := max((len(v)+159)/160, 1)
		var pts plotter.XYs
		for j := 0; j < len(v); j += step {
			part := v[j:min(j+step, len(v))]
			sum := 0.0
			for _, z := range part {
				sum += z
			}
			sum /= float64(len(part))
			if share {
				sum /= float64(max(x.GPUs, 1))
			}
			pts = append(pts, plotter.XY{X: (float64(j) + float64(len(part))/2) * x.Unit.Seconds(), Y: sum})
			y.max = max(y.max, sum)
		}
		if len(pts) > 1 {
			curves = append(curves, curve{x.Name, k, pts})
		}
	}
	if len(curves) == 0 || y.max <= 0 {
		return p, false
	}
	if share {
		y = shares()
	} else {
		y.ticks = round(y.max)
		y.max *= 1.05
	}
	x := axis{max: float64(end) * r.Results[r.base()].Unit.Seconds()}
	x.ticks = clock(x.max)
	p.svg = lines(title, x, y, curves, math.NaN())
	return p, true
}

// busyUntil is the unit after which a run only waits for its last few jobs: less than a fortieth of the GPU time is held later.
func busyUntil(x sim.Result) int {
	total, sum := 0.0, 0.0
	for _, v := range x.Busy {
		total += v
	}
	for i, v := range x.Busy {
		if sum += v; sum >= 0.975*total {
			return i + 1
		}
	}
	return len(x.Busy)
}

// round are a few round numbers up to a maximum.
func round(top float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(top)))
	for top/step < 3 {
		step /= 2
	}
	for top/step > 6 {
		step *= 2
	}
	var out []plot.Tick
	for i := 0; float64(i)*step <= top*1.04 && i < 20; i++ {
		out = append(out, plot.Tick{Value: float64(i) * step, Label: strconv.FormatFloat(float64(i)*step, 'g', 4, 64)})
	}
	return out
}

// clock are ticks of a time axis in seconds.
func clock(top float64) []plot.Tick {
	step, unit, name := 86400.0, 86400.0, "d"
	if top < 3*86400 {
		step, unit, name = 3600, 3600, "h"
	}
	if top < 3*3600 {
		step, unit, name = 600, 60, "m"
	}
	for top/step > 8 {
		step *= 2
	}
	var out []plot.Tick
	for v := 0.0; v <= top; v += step {
		out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g%s", v/unit, name)})
	}
	return out
}

// hours writes GPU-seconds as GPU-hours.
func hours(sec float64) string {
	h := sec / 3600
	switch {
	case h == 0:
		return "0"
	case h < 10:
		return fmt.Sprintf("%.1f", h)
	case h < 1e5:
		return fmt.Sprintf("%.0f", h)
	}
	return fmt.Sprintf("%.0fk", h/1000)
}
