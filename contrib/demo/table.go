package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// since is an instant as time since the first submission.
func (r *result) since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return clock(t.Sub(r.began))
}

// met says in words whether an end at t meets the job's deadlines.
func (o *outcome) met(t time.Time) string {
	switch i := o.tierMet(t); {
	case len(o.view.Tiers) == 0:
		return "-"
	case i < 0 || t.IsZero():
		return "MISSED"
	case len(o.view.Tiers) == 1:
		return "yes"
	default:
		return fmt.Sprintf("%g%%", o.view.Tiers[i].Value)
	}
}

// table prints what became of each job.
func (r *result) table(w io.Writer) {
	fmt.Fprintf(w, "\nWhat happened (times since the first submission):\n\n")
	fmt.Fprintf(w, "  %-7s %-10s %6s %6s %8s %6s %6s %7s %5s %6s\n", "job", "class", "submit", "finish", "deadline", "met", "preem.", "restart", "lost", "GPU-s")
	for _, o := range r.jobs {
		seconds, preempted, lost := o.view.GPUSeconds, fmt.Sprint(o.view.Preemptions), fmt.Sprint(o.view.LostIters)
		if o.plain() {
			seconds, preempted, lost = o.Ended.Sub(o.acct.Start).Seconds()*float64(o.acct.GPUs), "-", "-"
		}
		fmt.Fprintf(w, "%c %-7s %-10s %6s %6s %8s %6s %6s %7d %5s %6.0f\n", o.letter, o.name, o.class, r.since(o.Submitted), r.since(o.Ended), r.since(o.deadline()), o.met(o.Ended),
			preempted, max(len(o.Runs)-1, 0), lost, seconds)
	}
	fmt.Fprintf(w, "\n  preem. = preemptions; restart = runs after the first, profile steps included;\n  lost = iterations done twice; GPU-s = GPU-seconds held\n")
}

// comparison prints both worlds side by side.
func (r *result) comparison(w io.Writer) {
	fmt.Fprintf(w, "\nWhat plain Slurm (first come first served, with backfill) would have made of it:\n\n")
	fmt.Fprintf(w, "  %-7s %8s %8s | %-21s | %-21s\n", "job", "run time", "deadline", "UniSched", "plain Slurm")
	fmt.Fprintf(w, "  %-7s %8s %8s | %6s %6s %7s | %6s %6s %7s\n", "", "", "", "finish", "met", "in all", "finish", "met", "in all")
	var ours, plain, slo [2]time.Duration
	met := [2]int{}
	deadlines := 0
	for _, o := range r.jobs {
		a, b := o.Ended.Sub(o.Submitted), o.PlainEnd.Sub(o.Submitted)
		fmt.Fprintf(w, "%c %-7s %8s %8s | %6s %6s %7s | %6s %6s %7s\n", o.letter, o.name, clock(o.Length), r.since(o.deadline()), r.since(o.Ended), o.met(o.Ended), clock(a),
			r.since(o.PlainEnd), o.met(o.PlainEnd), clock(b))
		ours[0], plain[0] = ours[0]+a, plain[0]+b
		if len(o.view.Tiers) > 0 {
			deadlines++
			slo[0], slo[1] = slo[0]+a, slo[1]+b
			for i, t := range []time.Time{o.Ended, o.PlainEnd} {
				if o.tierMet(t) == 0 {
					met[i]++
				}
			}
		}
	}
	n := time.Duration(len(r.jobs))
	fmt.Fprintf(w, "  %s\n", strings.Repeat("-", 76))
	fmt.Fprintf(w, "  %-25s | %21s | %21s\n", "first deadlines met", fmt.Sprintf("%d of %d", met[0], deadlines), fmt.Sprintf("%d of %d", met[1], deadlines))
	fmt.Fprintf(w, "  %-25s | %21s | %21s\n", "mean time in the system", clock(ours[0]/n), clock(plain[0]/n))
	fmt.Fprintf(w, "\n  run time = uninterrupted, at the pace measured on the GPUs asked for;\n  in all = from submission to end; met = for the soft job, what its end is worth\n")
	if s := r.job("strict"); s != nil && s.tierMet(s.PlainEnd) < 0 {
		fmt.Fprintf(w, "\nPlain Slurm would have ended the strict job at %s, %s too late.\n", r.since(s.PlainEnd), clock(s.PlainEnd.Sub(s.deadline())))
	}
}

func (r *result) job(name string) *outcome {
	for _, o := range r.jobs {
		if o.name == name {
			return o
		}
	}
	return nil
}
