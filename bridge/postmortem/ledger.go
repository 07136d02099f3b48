package postmortem

import (
	"cmp"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/planner"
)

// ledger is where the time of a job went, by cause, in seconds of delay.
type ledger struct {
	c     *Case
	delay map[Cause]float64 // ranged over by Causes alone
	lines map[Cause][]Line
	rule  map[Cause]bool
	// trusted is the waiting in rounds whose plan counted on the deadline all the same: the estimate said that there was time.
	trusted map[Cause]float64
	// hopeless is the waiting after every deadline was given up: what made that so is among the other delays.
	hopeless float64
	last     map[Cause]string // text of the newest line, so that rounds alike make one
}

func newLedger(c *Case) *ledger {
	return &ledger{c: c, delay: map[Cause]float64{}, lines: map[Cause][]Line{}, rule: map[Cause]bool{}, trusted: map[Cause]float64{}, last: map[Cause]string{}}
}

// add books a delay with its evidence; text that repeats the line before is left out.
func (l *ledger) add(cause Cause, seconds float64, at Line) {
	if seconds > 0 {
		l.delay[cause] += seconds
	}
	l.tell(cause, at)
}

func (l *ledger) tell(cause Cause, at Line) {
	if at.Text == "" || l.last[cause] == at.Text || len(l.lines[cause]) >= maxLines {
		return
	}
	l.last[cause] = at.Text
	l.lines[cause] = append(l.lines[cause], at)
}

// waits are the times without GPUs.
func (c *Case) waits() []Span {
	at := c.Job.Submitted
	var out []Span
	for _, s := range c.Job.Stays {
		if s.From.After(at) {
			out = append(out, Span{From: at, To: s.From})
		}
		if s.To.After(at) {
			at = s.To
		}
	}
	if c.Job.Ended.After(at) {
		out = append(out, Span{From: at, To: c.Job.Ended})
	}
	return out
}

// overlap is how long two spans have in common, in seconds.
func overlap(a, b Span) float64 {
	from, to := later(a.From, b.From), b.To
	if a.To.Before(to) {
		to = a.To
	}
	return max(to.Sub(from).Seconds(), 0)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// cut takes spans out of others.
func cut(list, holes []Span) []Span {
	for _, h := range holes {
		var out []Span
		for _, s := range list {
			if overlap(s, h) == 0 {
				out = append(out, s)
				continue
			}
			if h.From.After(s.From) {
				out = append(out, Span{From: s.From, To: h.From})
			}
			if h.To.Before(s.To) {
				out = append(out, Span{From: h.To, To: s.To})
			}
		}
		list = out
	}
	return list
}

// waiting books the times without GPUs: what kept it waiting is asked of the round that the time follows.
func (l *ledger) waiting() {
	c := l.c
	waits := c.waits()
	for _, o := range c.Outages {
		sum := 0.0
		for _, w := range waits {
			sum += overlap(w, o)
		}
		if sum > 0 {
			l.add(Fault, sum, line(o.From, "Slurm did not answer for %s while it waited: %s", span(o.To.Sub(o.From).Seconds()), cmp.Or(o.What, "no reason kept")))
		}
	}
	waits = cut(waits, c.Outages)
	looks := c.Looks
	for _, w := range waits {
		l.between(w, looks)
	}
}

// maxGap is how many units may lie between two rounds before the daemon counts as away.
const maxGap = 3

// between books one wait.
func (l *ledger) between(w Span, looks []Look) {
	c := l.c
	at := w.From
	for i := range looks {
		k := &looks[i]
		until := c.Job.Ended
		if n := c.after(k.At); !n.IsZero() {
			until = n
		}
		if c.Unit > 0 && until.Sub(k.At) > maxGap*c.Unit {
			until = k.At.Add(maxGap * c.Unit)
		}
		s := Span{From: later(k.At, at), To: until}
		if d := overlap(w, s); d > 0 {
			l.gap(Span{From: at, To: later(w.From, k.At)})
			l.look(k, d)
			at = later(at, s.From).Add(planner.Seconds(d))
		}
	}
	l.gap(Span{From: at, To: w.To})
}

// after is the first round after an instant; zero: there is none.
func (c *Case) after(at time.Time) time.Time {
	i, _ := slices.BinarySearchFunc(c.Rounds, at, func(r, t time.Time) int {
		if r.After(t) {
			return 1
		}
		return -1
	})
	if i < len(c.Rounds) {
		return c.Rounds[i]
	}
	return time.Time{}
}

// gap books waiting that no round saw: the moments until the first one are nobody's, a long time without any is the daemon's absence when rounds lie on both sides.
func (l *ledger) gap(s Span) {
	d := s.To.Sub(s.From).Seconds()
	if d <= 0 {
		return
	}
	c := l.c
	before := slices.ContainsFunc(c.Rounds, func(t time.Time) bool { return !t.After(s.From) })
	if before && c.Unit > 0 && d > c.Unit.Seconds() && !c.after(s.To.Add(-time.Nanosecond)).IsZero() {
		l.add(Fault, d, line(s.From, "no round was planned for %s while it waited: the daemon was away", span(d)))
		return
	}
	text := Line{}
	if c.Unit == 0 || d > c.Unit.Seconds() {
		text = line(s.From, "it waited %s; no round of that time is kept", span(d))
	}
	l.add(Unknown, d, text)
}

// look books waiting that follows one round.
func (l *ledger) look(k *Look, d float64) {
	cause, text := k.cause()
	switch {
	case cause == "":
		l.hopeless += d
		l.tell(Capacity, line(k.At, "no deadline could be met any more: it waited behind everybody who could still gain"))
		return
	case cause == Fault && k.Solver != "":
		l.rule[Fault] = true
	}
	if (cause == Reward || cause == Capacity) && k.Tier >= 0 && k.Blocked == "" {
		l.trusted[cause] += d
	}
	l.add(cause, d, line(k.At, "%s", text))
}

// cause says whose doing it is that the job waits after a round, "" when it waits since nothing can be gained any more.
func (k *Look) cause() (Cause, string) {
	code := k.Reason.Code
	switch {
	case k.Blocked != "":
		return blockCause(k.Blocked), k.Blocked
	case code == planner.ReasonNeverFits:
		if k.Down > 0 {
			return Fault, "it fits nowhere while nodes are away: " + k.DownNode
		}
		return User, "it asks for what this cluster never has: " + k.Reason.Text
	case code == planner.ReasonLate:
		return "", ""
	case code == planner.ReasonNodeTrouble:
		return Fault, "it had to leave its nodes: " + k.Reason.Text
	case k.Solver != "" && k.Decision == planner.Wait:
		return Fault, k.Solver
	case k.Profiles && k.Decision == planner.Wait:
		return Profile, "it waited to be measured: " + cmp.Or(k.Reason.Text, "no round chose it")
	case k.Decision == planner.Start || k.Decision == planner.Move || k.Decision == planner.Keep:
		return Capacity, "it was let go to Slurm and waited for its GPUs to come free"
	case code == planner.ReasonQuota:
		return Capacity, "a limit of its account: " + k.Reason.Text
	case code == planner.ReasonBudget || code == planner.ReasonSpared:
		return Reward, "the site bounds preemptions: " + k.Reason.Text
	case code == planner.ReasonNoHole, k.Free >= k.Asked:
		return Topology, "GPUs were free, but in no shape that it can use: " + itoa(int64(k.Free)) + " free, " + itoa(int64(k.Asked)) + " asked for"
	case k.Free+k.Yield >= k.Asked:
		return Reward, "jobs without a deadline, or with a later one, held " + itoa(int64(k.Yield)) + " GPUs, the largest: " + k.Holder + "; " + itoa(int64(k.Asked)) + " asked for"
	case k.Free+k.Yield+k.Down >= k.Asked && k.Down > 0:
		return Fault, itoa(int64(k.Down)) + " GPUs were away, else there had been room: " + k.DownNode
	}
	return Capacity, itoa(int64(k.Firm)) + " GPUs were with jobs due no later, or that cannot be stopped; " + itoa(int64(k.Free+k.Yield)) + " others, " + itoa(int64(k.Asked)) + " asked for"
}

// blockCause tells the user's own doing from Slurm's limits and from starts that failed.
func blockCause(why string) Cause {
	for _, p := range []struct {
		head  string
		cause Cause
	}{{"held (JobHeldAdmin)", Capacity}, {"held", User}, {"waits for ", User}, {"begin time ", User}, {"it could not be launched", Fault}, {"it came back to the queue by itself", User},
		{"Slurm refused to start it", Fault}} {
		if len(why) >= len(p.head) && why[:len(p.head)] == p.head {
			return p.cause
		}
	}
	return Capacity // a limit, a reservation
}

// running books what its runs took beyond the work itself, and returns the work: the run time that it needs without a pause on its best placement.
func (l *ledger) running() (need float64) {
	e := l.c.Job
	best := 0.0
	for _, v := range e.Speeds {
		if v.Shape.GPUs() == e.GPUs {
			best = max(best, v.Speed.Mid)
		}
	}
	need = e.HeldS
	book := func(cause Cause, d float64, at Line) {
		if d = min(d, need); d > 0 {
			need -= d
			l.add(cause, d, at)
		}
	}
	before := bridge.Stay{}
	for _, s := range e.Stays {
		d := s.To.Sub(s.From).Seconds()
		if s.Profile {
			if g := float64(s.Placement.GPUs()); e.GPUs > 0 && g < float64(e.GPUs) {
				l.add(Profile, d*(1-g/float64(e.GPUs)), line(s.From, "it was measured on %s for %s", s.Placement, span(d)))
			}
			continue
		}
		speed := speedOf(e.Speeds, s.Placement.Shape())
		if best > 0 && speed > 0 && speed < best {
			cause, what := Topology, "a slower placement"
			if s.Placement.GPUs() < e.GPUs {
				cause, what = Reward, "fewer GPUs"
			}
			book(cause, d*(1-speed/best), line(s.From, "%s: on %s for %s at %.0f %% of its best speed", what, s.Placement.Shape(), span(d), 100*speed/best))
		}
		if !before.From.IsZero() {
			cause, text := l.restart(before)
			book(cause, e.ResumeS, line(s.From, "%s; loading again took about %s", text, span(e.ResumeS)))
		}
		before = s
	}
	if e.Preemptions > 0 && e.CheckpointS > 0 {
		book(Reward, float64(e.Preemptions)*e.CheckpointS, line(time.Time{}, "saving for %d preemptions took about %s each", e.Preemptions, span(e.CheckpointS)))
	}
	l.repeated(book)
	return max(need, 0)
}

// restart says whose doing it was that a run ended before the job was done.
func (l *ledger) restart(s bridge.Stay) (Cause, string) {
	if s.Cut {
		return Reward, "its run on " + s.Placement.String() + " was ended for others"
	}
	for i := range l.c.Looks {
		k := &l.c.Looks[i]
		if k.At.Before(s.To.Add(-l.c.Unit)) || k.At.After(s.To.Add(2*l.c.Unit)) {
			continue
		}
		for _, n := range s.Placement.Names() {
			if slices.Contains(k.Unusable, n) {
				return Fault, "node " + n + " failed under it"
			}
		}
	}
	return Fault, "its run on " + s.Placement.String() + " was ended by Slurm, or by hand"
}

// repeated books iterations that were done twice.
func (l *ledger) repeated(book func(Cause, float64, Line)) {
	e := l.c.Job
	total := float64(e.Iter + e.LostIters)
	if e.LostIters <= 0 || total <= 0 {
		return
	}
	pace := e.HeldS / total // seconds an iteration
	noCkpt := slices.ContainsFunc(e.Events, func(ev bridge.Event) bool {
		return ev.What == "not-preemptible" && len(ev.Text) > 8 && ev.Text[:8] == "no ckpt="
	})
	left := e.LostIters
	for _, r := range e.Returns {
		lost := min(r.Reached-r.Resumed, left)
		if lost <= 0 {
			continue
		}
		left -= lost
		cause, text := Fault, "its run was ended"
		if i := slices.IndexFunc(e.Stays, func(s bridge.Stay) bool { return s.Run == r.Run-1 && !s.Profile }); i >= 0 {
			cause, text = l.restart(e.Stays[i])
		}
		switch {
		case noCkpt:
			cause, text = User, text+", and it saves no checkpoints"
		case r.Saved == 0:
			cause, text = User, text+", and it had saved no checkpoint"
		}
		book(cause, float64(lost)*pace, line(r.At, "%s: %d iterations were done again, %s", text, lost, span(float64(lost)*pace)))
	}
	if left > 0 {
		book(Fault, float64(left)*pace, line(time.Time{}, "%d iterations were done again; the records do not say why", left))
	}
}

func speedOf(list []planner.ShapeSpeed, s planner.Shape) float64 {
	for _, v := range list {
		if v.Shape.Equal(s) {
			return v.Speed.Mid
		}
	}
	return 0
}
