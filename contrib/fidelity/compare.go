package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
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

// meanOf is the average of several simulations, figure by figure.
func meanOf(sims []record) totals {
	var m totals
	n := float64(len(sims))
	for _, s := range sims {
		t := s.totals()
		m.ended, m.slo, m.preempted, m.profiled = m.ended+t.ended, t.slo, m.preempted+t.preempted, m.profiled+t.profiled
		m.miss, m.jct, m.bestEffort, m.wait, m.gpuHours = m.miss+t.miss/n, m.jct+t.jct/n, m.bestEffort+t.bestEffort/n, m.wait+t.wait/n, m.gpuHours+t.gpuHours/n
	}
	m.ended, m.preempted, m.profiled = m.ended/len(sims), m.preempted/len(sims), m.profiled/len(sims)
	return m
}

// compare prints the real cluster beside the mean of the simulations, and says whether the paper's bounds hold. A deadline counts as the simulations decide it by
// majority.
func compare(w io.Writer, real record, sims []record) error {
	a, b := real.totals(), meanOf(sims)
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
	v := decide(real, sims)
	fmt.Fprintf(tab, "deadlines decided alike\t%d of %d\t\t\t\n", v.alike, v.all)
	fmt.Fprintf(tab, "  met or missed by over 2 units\t%d of %d\t\t\tall\n", v.clearAlike, v.clear)
	fmt.Fprintf(tab, "  of jobs submitted with over 2 units of slack\t%d of %d\t\t\t\n", v.slackAlike, v.slack)
	fmt.Fprintf(tab, "JCT of single jobs, |sim/real - 1|\tmedian %.1f %%\tp90 %.1f %%\t\t\n", 100*v.median, 100*v.p90)
	if err := tab.Flush(); err != nil {
		return err
	}
	for i, s := range sims {
		t := s.totals()
		fmt.Fprintf(w, "simulation %d: weighted miss %.2f %%, mean JCT %.1f s, %d preemptions\n", i+1, t.miss, t.jct, t.preempted)
	}
	for _, line := range v.odd {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "within the paper's bounds: weighted miss %v, mean JCT %v, deadlines decided by over 2 units %v\n", math.Abs(b.miss-a.miss) <= paperMissPoints,
		math.Abs(b.jct-a.jct) <= paperJCTPercent/100*a.jct, v.clearAlike == v.clear)
	return nil
}

// verdicts compares job by job.
type verdicts struct {
	all, alike, slack, slackAlike, clear, clearAlike int
	median, p90                                      float64
	odd                                              []string
}

// decide looks at every deadline. It has slack when it is more than two units later than the job's submission and run time, and is clear when the real job
// ended more than two units before or after it.
func decide(real record, sims []record) verdicts {
	var v verdicts
	var off []float64
	for i, a := range real.Jobs {
		ra, aok := a.end()
		var ends []time.Duration
		for _, s := range sims {
			if end, ok := s.Jobs[i].end(); ok {
				ends = append(ends, end)
				if aok {
					off = append(off, math.Abs(end.Seconds()/ra.Seconds()-1))
				}
			}
		}
		for _, t := range a.Spec.Tiers {
			met := 0
			for _, e := range ends {
				met += count(e <= t.After)
			}
			same := (aok && ra <= t.After) == (2*met > len(sims))
			clear := !aok || (ra-t.After).Abs() > 2*real.Unit
			slack := t.After-a.Spec.Duration > 2*real.Unit+time.Second
			v.all++
			v.alike += count(same)
			v.slack += count(slack)
			v.slackAlike += count(slack && same)
			v.clear += count(clear)
			v.clearAlike += count(clear && same)
			if !same {
				v.odd = append(v.odd, fmt.Sprintf("%s (%s, %d GPUs, %v long): deadline %v, slack %v, real end %v, simulated ends %v", a.Spec.ID, a.Spec.Class,
					a.Spec.GPUs, a.Spec.Duration, t.After, t.After-a.Spec.Duration, ra, ends))
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
