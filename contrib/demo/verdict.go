package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"unisched/bridge"
)

// check is one promise and whether it was kept.
type check struct {
	what   string
	faults []string // empty: kept
	detail string
}

// judge prints the promises and returns an error that names the broken ones.
func (r *result) judge(w io.Writer) error {
	fmt.Fprintf(w, "\nPromises:\n")
	var broken []string
	for _, c := range []check{r.strictMet(), r.preempted(), r.resumed(), r.stoppedEarly(), r.allCompleted(), r.nothingLeft(), r.healthy(), r.plainMisses()} {
		word := "kept  "
		if len(c.faults) > 0 {
			word = "BROKEN"
			broken = append(broken, c.what+": "+strings.Join(c.faults, "; "))
		}
		fmt.Fprintf(w, "  %s %s", word, c.what)
		if c.detail != "" {
			fmt.Fprintf(w, " (%s)", c.detail)
		}
		fmt.Fprintln(w)
		for _, f := range c.faults {
			fmt.Fprintf(w, "           %s\n", f)
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("not every promise was kept:\n  %s", strings.Join(broken, "\n  "))
	}
	return nil
}

func (c *check) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (r *result) strictMet() check {
	c := check{what: "the strict deadline was met"}
	for _, o := range r.jobs {
		if o.class != "strict" {
			continue
		}
		slack := o.deadline().Sub(o.Ended)
		c.detail = "with " + clock(slack) + " to spare"
		if o.view.Phase != bridge.Completed || o.tierMet(o.Ended) < 0 || o.view.Met == nil || *o.view.Met != 0 {
			c.fault("%s ended at %s, its deadline was %s", o.name, r.since(o.Ended), r.since(o.deadline()))
		}
	}
	return c
}

func (r *result) preempted() check {
	c := check{what: "somebody was preempted"}
	var who []string
	for _, o := range r.jobs {
		if o.view.Preemptions > 0 {
			who = append(who, fmt.Sprintf("%s %dx", o.name, o.view.Preemptions))
		}
	}
	c.detail = strings.Join(who, ", ")
	if len(who) == 0 {
		c.fault("nobody was")
	}
	return c
}

// resumed holds every return against three witnesses: the checkpoint that the job reported, the iteration that the next run reported, and the
// job's own output.
func (r *result) resumed() check {
	c := check{what: "every job came back at the iteration of its checkpoint"}
	returns := 0
	for _, o := range r.jobs {
		if o.plain() {
			if len(o.Runs) != 1 {
				c.fault("%s was not ours and has %d runs", o.name, len(o.Runs))
			}
			continue
		}
		if len(o.Runs) != o.view.Restart+1 {
			c.fault("%s was restarted %d times and its output shows %d runs", o.name, o.view.Restart, len(o.Runs))
			continue
		}
		for _, ret := range o.view.Returns {
			returns++
			if ret.Run < 0 || ret.Run >= len(o.Runs) {
				c.fault("%s came back in run %d, which its output does not show", o.name, ret.Run)
				continue
			}
			if printed := o.Runs[ret.Run].Start; ret.Resumed != ret.Saved || printed != ret.Saved {
				c.fault("run %d of %s began at iteration %d (it printed %d), its checkpoint was of %d", ret.Run, o.name, ret.Resumed, printed, ret.Saved)
			}
		}
		if len(o.view.Returns) != o.view.Restart {
			c.fault("%s was restarted %d times, %d returns were seen", o.name, o.view.Restart, len(o.view.Returns))
		}
		if o.view.LostIters != 0 {
			c.fault("%s lost %d iterations", o.name, o.view.LostIters)
		}
	}
	c.detail = fmt.Sprintf("%d returns", returns)
	return c
}

func (r *result) stoppedEarly() check {
	c := check{what: "the metric job stopped early"}
	for _, o := range r.jobs {
		if o.target == "" {
			continue
		}
		c.detail = fmt.Sprintf("at iteration %d of at most %d", o.EndIter, o.iters)
		if o.EndIter == 0 || o.EndIter > o.iters*3/4 {
			c.fault("%s ended at iteration %d of %d", o.name, o.EndIter, o.iters)
		}
	}
	return c
}

func (r *result) allCompleted() check {
	c := check{what: "every job completed"}
	for _, o := range r.jobs {
		switch {
		case o.plain():
			if o.acct.State != "COMPLETED" || o.acct.Exit != 0 {
				c.fault("%s: %s, exit %d", o.name, o.acct.State, o.acct.Exit)
			}
		case o.view.Phase != bridge.Completed || o.view.SlurmState != "COMPLETED":
			c.fault("%s: %s, Slurm says %s, %s", o.name, o.view.Phase, o.view.SlurmState, o.view.Exit)
		}
		if o.target == "" && o.EndIter != o.iters {
			c.fault("%s ended at iteration %d of %d", o.name, o.EndIter, o.iters)
		}
	}
	return c
}

func (r *result) nothingLeft() check {
	c := check{what: "no job was left held, delayed or pinned", faults: slices.Clone(r.leftovers)}
	for _, o := range r.jobs {
		if o.view.Changed.Any() {
			c.fault("%s still carries %+v", o.name, o.view.Changed)
		}
		for _, e := range o.view.Events {
			if e.What == "illegal-step" {
				c.fault("%s took a step that the table of phases does not know: %s", o.name, e.Text)
			}
		}
	}
	return c
}

func (r *result) healthy() check {
	a := r.status.Actions
	c := check{what: "the daemon is well", detail: fmt.Sprintf("%d cycles, %d rounds, %d writes", r.status.Cycle, a.Rounds, a.Done)}
	if !r.alive {
		c.fault("it has ended")
	}
	for _, t := range []string{r.status.Trouble, r.status.Suspect} {
		if t != "" {
			c.fault("%s", t)
		}
	}
	if a.BadPlans > 0 {
		c.fault("%d of its plans were refused by its own check", a.BadPlans)
	}
	for i, line := range r.errorLines {
		if i == 3 {
			c.fault("and %d more lines", len(r.errorLines)-i)
			break
		}
		c.fault("its log says: %.200s", line)
	}
	return c
}

// plainMisses keeps the demo honest: if plain Slurm met the strict deadline too, the preemption proved nothing.
func (r *result) plainMisses() check {
	c := check{what: "plain Slurm would have missed the strict deadline"}
	for _, o := range r.jobs {
		if o.class == "strict" && o.tierMet(o.PlainEnd) >= 0 {
			c.fault("it would have ended %s at %s, before %s", o.name, r.since(o.PlainEnd), r.since(o.deadline()))
		}
	}
	return c
}
