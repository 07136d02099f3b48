package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"unisched/bridge"
)

// What the paper's simulator showed against its prototype (section 6).
const (
	paperMissPoints = 2.57
	paperJCTPercent = 5.38
)

// totals are the figures of one cluster.
type totals struct {
	ended, slo, preempted, profiled       int
	miss, jct, bestEffort, wait, gpuHours float64
}

func (r record) totals() totals {
	var t totals
	var jct, be, wait []float64
	for _, j := range r.Jobs {
		if len(j.Spec.Tiers) > 0 {
			t.slo++
			t.miss += j.miss()
		}
		t.preempted += j.View.Preemptions
		t.gpuHours += j.View.GPUSeconds / 3600
		if j.View.Profile.Note == "profiled" {
			t.profiled++
		}
		if len(j.View.Stays) > 0 {
			wait = append(wait, j.View.Stays[0].From.Sub(j.View.Submitted).Seconds())
		}
		if end, ok := j.end(); ok {
			t.ended++
			jct = append(jct, end.Seconds())
			if j.Spec.Class == "besteffort" {
				be = append(be, end.Seconds())
			}
		}
	}
	t.miss = 100 * t.miss / float64(max(t.slo, 1))
	t.jct, t.bestEffort, t.wait = average(jct), average(be), average(wait)
	return t
}

func average(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(len(v), 1))
}

// compare prints both clusters side by side and says whether the paper's bounds hold.
func compare(w io.Writer, real, sim record) error {
	a, b := real.totals(), sim.totals()
	if a.ended == 0 || b.ended == 0 {
		return errNoJobs
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tab, "\treal\tslurmsim\tdifference\tpaper\n")
	fmt.Fprintf(tab, "jobs ended\t%d of %d\t%d\t\t\n", a.ended, len(real.Jobs), b.ended)
	fmt.Fprintf(tab, "weighted miss (%d SLO jobs)\t%.2f %%\t%.2f %%\t%+.2f points\t%.2f\n", a.slo, a.miss, b.miss, b.miss-a.miss, paperMissPoints)
	row := func(name string, x, y float64, bound string) {
		fmt.Fprintf(tab, "%s\t%.1f s\t%.1f s\t%+.2f %%\t%s\n", name, x, y, 100*(y-x)/x, bound)
	}
	row("mean JCT", a.jct, b.jct, fmt.Sprintf("%.2f %%", paperJCTPercent))
	row("mean JCT, best effort", a.bestEffort, b.bestEffort, "")
	row("mean wait for the first GPU", a.wait, b.wait, "")
	fmt.Fprintf(tab, "GPU hours\t%.2f\t%.2f\t%+.2f %%\t\n", a.gpuHours, b.gpuHours, 100*(b.gpuHours-a.gpuHours)/a.gpuHours)
	fmt.Fprintf(tab, "preemptions\t%d\t%d\t\t\nprofiled\t%d\t%d\t\t\n", a.preempted, b.preempted, a.profiled, b.profiled)
	v := decide(real, sim)
	fmt.Fprintf(tab, "deadlines decided alike\t%d of %d\t\t\t\n", v.alike, v.all)
	fmt.Fprintf(tab, "  those with over 2 units to spare\t%d of %d\t\t\tall\n", v.clearAlike, v.clear)
	fmt.Fprintf(tab, "JCT of single jobs, |sim/real - 1|\tmedian %.1f %%\tp90 %.1f %%\t\t\n", 100*v.median, 100*v.p90)
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, line := range v.odd {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "within the paper's bounds: weighted miss %v, mean JCT %v, clear deadlines %v\n", math.Abs(b.miss-a.miss) <= paperMissPoints,
		math.Abs(b.jct-a.jct) <= paperJCTPercent/100*a.jct, v.clearAlike == v.clear)
	return nil
}

// verdicts compares job by job.
type verdicts struct {
	all, alike, clear, clearAlike int
	median, p90                   float64
	odd                           []string
}

// decide looks at every deadline. One is clear when the real job ended more than two units before or after it.
func decide(real, sim record) verdicts {
	var v verdicts
	var off []float64
	for i, a := range real.Jobs {
		b := sim.Jobs[i]
		ra, aok := a.end()
		rb, bok := b.end()
		if aok && bok {
			off = append(off, math.Abs(rb.Seconds()/ra.Seconds()-1))
		}
		for _, t := range a.Spec.Tiers {
			same := (aok && ra <= t.After) == (bok && rb <= t.After)
			clear := !aok || (ra-t.After).Abs() > 2*real.Unit
			v.all++
			v.alike += count(same)
			v.clear += count(clear)
			v.clearAlike += count(clear && same)
			if !same {
				v.odd = append(v.odd, fmt.Sprintf("%s (%s, %d GPUs, %v long): deadline %v, real end %v, simulated end %v%s", a.Spec.ID, a.Spec.Class, a.Spec.GPUs,
					a.Spec.Duration, t.After, ra, rb, map[bool]string{true: " (clear)"}[clear]))
			}
		}
	}
	slices.Sort(off)
	if n := len(off); n > 0 {
		v.median, v.p90 = off[n/2], off[min(n*9/10, n-1)]
	}
	return v
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// latencies prints what the records of a real run say about the figures of slurmsim.
func latencies(w io.Writer, r record) error {
	found := map[string][]float64{}
	add := func(name string, d time.Duration) { found[name] = append(found[name], d.Seconds()) }
	for _, j := range r.Jobs {
		events(j, add)
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, "\tn\tmin\tp10\tmedian\tmean\tp90\tmax")
	for _, n := range names {
		v := found[n]
		slices.Sort(v)
		q := func(p float64) float64 { return v[min(int(p*float64(len(v))), len(v)-1)] }
		fmt.Fprintf(tab, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", n, len(v), v[0], q(0.1), q(0.5), average(v), q(0.9), v[len(v)-1])
	}
	return tab.Flush()
}

// events measures one job: from the daemon's events to the script's notes, and from the script's end to its next start.
func events(j jobRecord, add func(string, time.Duration)) {
	first := map[string]map[int]time.Time{}
	for _, n := range j.Script {
		if first[n.What] == nil {
			first[n.What] = map[int]time.Time{}
		}
		first[n.What][n.Run] = n.At
	}
	asked := map[int]time.Time{} // start ordered, by run
	for _, e := range j.View.Events {
		switch e.What {
		case "start":
			asked[e.Run] = e.At
		case "signal":
			if at, ok := first["signal"][e.Run]; ok {
				add("signal ordered -> in the script", at.Sub(e.At))
			}
		}
	}
	for run, at := range first["script"] {
		if a, ok := asked[run]; ok {
			add("start ordered -> script", at.Sub(a))
		}
		if run < len(j.Runs) {
			add("Slurm's start (whole seconds) -> script", at.Sub(j.Runs[run].Start))
		}
	}
	for run, at := range first["saved"] {
		if again, ok := first["script"][run+1]; ok {
			add("saved -> next script", again.Sub(at))
		}
		if run < len(j.Runs) {
			add("saved -> Slurm's end (whole seconds)", j.Runs[run].End.Sub(at))
		}
	}
	if at, ok := lastOf(first["done"]); ok && j.View.Phase == bridge.Completed {
		add("done -> Slurm's end (whole seconds)", j.View.Ended.Sub(at))
	}
}

func lastOf(m map[int]time.Time) (time.Time, bool) {
	var last time.Time
	for _, t := range m {
		if t.After(last) {
			last = t
		}
	}
	return last, !last.IsZero()
}
