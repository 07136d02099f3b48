package slurmsim

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"unisched/hooks/progress"
	"unisched/slurm"
)

// Trap says what a job does when the checkpoint signal reaches it.
type Trap uint8

// The behaviours of training scripts.
const (
	// Saves: writes a checkpoint and exits with Body.Exit, or the site's code.
	Saves Trap = iota
	// NoTrap: the signal kills it.
	NoTrap
	// Ignores: nothing happens.
	Ignores
	// RunsOn: writes a checkpoint and goes on training.
	RunsOn
)

// Body is what a job does on its GPUs. The zero value trains nothing and ends at once.
type Body struct {
	// Iterations after which it is done, counted from its very first start.
	Iterations int64
	// Step is the true time of one iteration on so many GPUs per node; nil: a second.
	Step func(perNode []int) time.Duration
	// StepOf, when set, is the Step of a certain run, by its restart count.
	StepOf func(perNode []int, restart int) time.Duration
	// Ready is the time from the start to the first progress line; Resume comes on top when there is a checkpoint to read. Save is what writing one takes.
	Ready, Resume, Save time.Duration
	// ResumeOn, when set, is the Resume on so many GPUs.
	ResumeOn func(gpus int) time.Duration
	// Every is the time between progress lines (default 10 s), SaveEvery the iterations between checkpoints on its own account (0: none). With Ramp
	// the first line comes after a tenth of Every and each interval doubles until it is Every: news is dense while little is known.
	Every     time.Duration
	Ramp      bool
	SaveEvery int64
	Trap      Trap
	// Exit is the code after a saved checkpoint; nil: the site's RequeueExit.
	Exit *int
	// NeedGPUs makes it fail (exit 1, out of memory) on fewer GPUs; Silent lets it write no progress lines; Fail is the exit code at its end.
	NeedGPUs int
	Silent   bool
	Fail     int
	// Says, when set, is the iteration that it claims to have reached when it has truly reached this one; Hides lets it write no checkpoint lines, although it saves.
	Says  func(iter int64) int64
	Hides bool
	// FailResumes is how many of its first restarts end with exit 1 while they read the checkpoint.
	FailResumes int
	// Busy, when set, is how busy the nodes measure its GPUs to be, 0..1.
	Busy *float64
	// Metric is reported under this name, by iteration.
	Metric string
	Curve  func(iter int64) float64
}

// run is one run of a body.
type run struct {
	j      *job
	step   time.Duration
	from   int64     // iteration at which it began
	since  time.Time // when it (last) began to train
	ready  time.Time // zero before the first line
	saving bool
	over   bool
	saved  int64     // last multiple of SaveEvery written
	told   time.Time // when its nodes last told how busy its GPUs were
}

// begins starts a job on its nodes.
func (c *Cluster) begins(j *job, shares []share) {
	if len(j.waiting) > 0 {
		j = c.split(j)
	}
	c.dequeue(j)
	c.take(j, shares)
	j.state, j.reason, j.start, j.end = slurm.StateRunning, "", c.now, time.Time{}
	j.exit, j.sig = 0, 0
	c.note(j, "start %s", placementText(shares))
	c.touch(j)
	c.tell(j, Began, j.saved)
	r := &run{j: j}
	j.run = r
	var per []int
	gpus := 0
	for _, s := range shares {
		per = append(per, s.gpus)
		gpus += s.gpus
	}
	b := j.sub.Body
	r.step = time.Second
	switch {
	case b.StepOf != nil:
		r.step = max(b.StepOf(per, j.restarts), time.Microsecond)
	case b.Step != nil:
		r.step = max(b.Step(per), time.Microsecond)
	}
	j.configuring = false
	launch := func() { c.launches(j, r, shares, gpus) }
	if !c.powersUp(j, r, launch) {
		launch()
	}
}

// launches starts the script of a run whose nodes are up.
func (c *Cluster) launches(j *job, r *run, shares []share, gpus int) {
	b := j.sub.Body
	if j.limit > 0 {
		c.watchLimit(r)
	}
	if second(c.now).Equal(second(j.lastEnd)) && slices.ContainsFunc(shares, func(s share) bool { return slices.Contains(j.lastNodes, s.node) }) {
		// slurmd takes a credential made in the second of the last run's end for one of that run, and refuses to launch.
		c.at(c.now.Add(50*time.Millisecond), func() { r.ends(c, slurm.StateFailed, 0, 53) })
		return
	}
	if c.launchFails(j) {
		return
	}
	load := time.Duration(0)
	switch {
	case j.saved <= 0:
	case b.ResumeOn != nil:
		load = b.ResumeOn(gpus)
	default:
		load = b.Resume
	}
	loaded := func() {
		if gpus < b.NeedGPUs || j.saved > 0 && j.restarts <= b.FailResumes {
			r.exits(c, 1)
			return
		}
		r.trains(c, j.saved)
	}
	if c.cfg.Streams <= 0 || load <= 0 {
		c.at(c.now.Add(b.Ready+load), loaded)
		return
	}
	c.at(c.now.Add(b.Ready), func() {
		if !r.over {
			c.moves(r, load, loaded)
		}
	})
}

// watchLimit ends a run when its time limit, as it stands then, has passed.
func (c *Cluster) watchLimit(r *run) {
	j := r.j
	c.at(j.start.Add(j.limit), func() {
		if !r.over && j.limit > 0 && !c.now.Before(j.start.Add(j.limit)) {
			r.ends(c, slurm.StateTimeout, 0, 15)
		}
	})
}

// trains begins the iterations after the script has loaded its state.
func (r *run) trains(c *Cluster, from int64) {
	if r.over {
		return
	}
	r.from, r.since, r.ready, r.saved = from, c.now, c.now, from
	c.tell(r.j, Trained, from)
	r.say(c, progress.Line{Kind: progress.Ready, HasIter: true, Iter: from, Resumed: from > 0})
	r.goOn(c)
}

// goOn plans the next line and the end of training from here.
func (r *run) goOn(c *Cluster) {
	b, since := r.j.sub.Body, r.since
	if left := b.Iterations - r.from; left > 0 {
		c.at(since.Add(time.Duration(left)*r.step), func() { r.done(c, since) })
	} else {
		c.at(c.now, func() { r.done(c, since) })
	}
	every := b.Every
	if every <= 0 {
		every = 10 * time.Second
	}
	gap := every
	if b.Ramp {
		gap = every / 10
	}
	var line func()
	line = func() {
		if r.over || r.saving || !r.since.Equal(since) {
			return
		}
		r.report(c)
		gap = min(2*gap, every)
		c.at(c.now.Add(gap), line)
	}
	c.at(c.now.Add(gap), line)
}

// iter is the number of iterations done by now.
func (r *run) iter(now time.Time) int64 {
	if r.ready.IsZero() {
		return r.j.saved
	}
	if r.saving {
		return r.from
	}
	return min(r.from+int64(now.Sub(r.since)/r.step), max(r.j.sub.Body.Iterations, r.from))
}

func (r *run) report(c *Cluster) {
	b, n := r.j.sub.Body, r.iter(c.now)
	if b.SaveEvery > 0 && n/b.SaveEvery > r.saved/b.SaveEvery {
		r.saved = n / b.SaveEvery * b.SaveEvery
		r.j.saved = r.saved
		r.say(c, progress.Line{Kind: progress.Checkpoint, HasIter: true, Iter: r.saved})
	}
	l := progress.Line{Kind: progress.Progress, HasIter: true, Iter: n}
	if b.Curve != nil {
		if v := b.Curve(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
			l.Metrics = []progress.Metric{{Name: b.Metric, Value: v}}
		}
	}
	r.say(c, l)
}

// done is the end of training, unless something came in between.
func (r *run) done(c *Cluster, since time.Time) {
	if r.over || r.saving || !r.since.Equal(since) {
		return
	}
	r.report(c)
	r.say(c, progress.Line{Kind: progress.Done, HasIter: true, Iter: r.iter(c.now), Reason: "iters"})
	r.exits(c, r.j.sub.Body.Fail)
}

// signal reaches the script.
func (r *run) signal(c *Cluster, name slurm.SignalName) {
	b := r.j.sub.Body
	switch {
	case r.over || r.saving:
	case b.Trap == NoTrap || r.ready.IsZero(): // its handler is not installed (yet)
		r.ends(c, slurm.StateFailed, 0, signalNumber(name))
	case b.Trap == Ignores:
	default:
		r.from = r.iter(c.now)
		r.saving = true
		c.tell(r.j, Signalled, r.from)
		r.say(c, progress.Line{Kind: progress.Signal, Signal: string(name)})
		asked := c.now
		c.moves(r, b.Save, func() { r.savedIt(c, max(c.now.Sub(asked), 0)) })
	}
}

// savedIt is the end of a checkpoint that a signal asked for.
func (r *run) savedIt(c *Cluster, took time.Duration) {
	if r.over {
		return
	}
	b := r.j.sub.Body
	r.saving, r.since, r.saved = false, c.now, r.from
	r.j.saved = r.from
	r.say(c, progress.Line{Kind: progress.Checkpoint, HasIter: true, Iter: r.from, Seconds: took.Seconds()})
	if b.Trap == RunsOn {
		r.goOn(c)
		return
	}
	code := c.cfg.RequeueExit
	if b.Exit != nil {
		code = *b.Exit
	}
	r.exits(c, code)
}

func (r *run) say(c *Cluster, l progress.Line) {
	j := r.j
	b := j.sub.Body
	if b.Silent || len(j.alloc) == 0 || b.Hides && l.Kind == progress.Checkpoint {
		return
	}
	if b.Says != nil && l.HasIter {
		l.Iter = b.Says(l.Iter)
	}
	l.Time = c.now
	text, err := l.JSON()
	if err != nil {
		panic("slurmsim: " + err.Error()) // a line of our own making
	}
	report := progress.JobReport{Job: int64(j.id), Restart: j.restarts, UID: int(j.sub.UID), Node: j.alloc[0].node.Name, Lines: []json.RawMessage{text}}
	if b.Busy != nil {
		report.Usage = &progress.Usage{Seconds: c.now.Sub(cmp.Or(r.told, j.start)).Seconds(), GPUs: j.alloc[0].gpus, Busy: *b.Busy}
		r.told = c.now
	}
	c.reports = append(c.reports, report)
}

// exits is the end of the batch script with a code.
func (r *run) exits(c *Cluster, code int) {
	switch {
	case r.over:
	case code == c.cfg.RequeueExit && r.j.requeue:
		c.goesBack(r.j, "exit "+itoa(code))
	case code == 0:
		r.ends(c, slurm.StateCompleted, 0, 0)
	default:
		r.ends(c, slurm.StateFailed, code, 0)
	}
}

// ends is the end of a job for good.
func (r *run) ends(c *Cluster, state slurm.BaseState, code, sig int) {
	if r.over {
		return
	}
	c.finish(r.j, state, code, sig)
	c.completes(r.j)
}

// finish makes a job a finished one.
func (c *Cluster) finish(j *job, state slurm.BaseState, code, sig int) {
	c.dequeue(j)
	c.stopRun(j)
	j.state, j.exit, j.sig, j.end = state, code, sig, c.now
	c.tell(j, Ended, j.saved)
	if len(j.alloc) > 0 || state != slurm.StateCancelled { // one that never started keeps the reason for which it waited
		j.reason = ""
	}
	if state == slurm.StateFailed {
		j.reason = "NonZeroExitCode"
		if sig > 0 {
			j.reason = "RaisedSignal"
		}
	}
	c.note(j, "end %s exit %d signal %d", state, code, sig)
	c.finished++
	c.touch(j)
	c.forgets(j, c.now.Add(c.cfg.MinJobAge))
	for _, w := range c.waits[j.id] {
		if w.after == j.id {
			w.after = 0
			c.touch(w)
			c.enqueue(w)
		}
	}
	delete(c.waits, j.id)
}

// purgeInterval is how often slurmctld looks for old jobs.
const purgeInterval = time.Minute

// forgets drops a finished job at a time; one that is still completing is kept until its nodes are done with it.
func (c *Cluster) forgets(j *job, at time.Time) {
	id, end := j.id, j.end
	c.at(at, func() {
		if j.finished() && j.end.Equal(end) && c.byID(id) == j && !j.completing {
			c.drop(j)
		}
	})
}

func (c *Cluster) stopRun(j *job) {
	if j.run != nil {
		c.tell(j, Left, j.run.iter(c.now))
		j.run.over = true
		c.stopTransfer(j.run)
		j.lastEnd = c.now
	}
	j.run = nil
}

// goesBack sends a running job back to the queue. The restart count rises now, while the submit time and the begin time change when the nodes
// are done with it.
func (c *Cluster) goesBack(j *job, why string) {
	c.stopRun(j)
	j.state, j.requeueing, j.end, j.reason = slurm.StatePending, true, c.now, ""
	if j.held {
		j.reason = "JobHeldAdmin"
	}
	j.restarts++
	c.note(j, "requeue: %s", why)
	c.completes(j)
}

// completes is the COMPLETING time of a job's nodes.
func (c *Cluster) completes(j *job) {
	if len(j.alloc) == 0 {
		return
	}
	j.completing = true
	c.touch(j)
	took := c.cfg.Completing
	for _, s := range j.alloc {
		took = max(took, s.node.epilog)
	}
	c.at(c.now.Add(took), func() { c.cleaned(j) })
}

func (c *Cluster) cleaned(j *job) {
	if !j.completing {
		return
	}
	j.completing = false
	c.tell(j, Freed, j.saved)
	c.free(j)
	if j.requeueing {
		j.requeueing = false
		c.requeued(j)
	}
	if old := j.end.Add(c.cfg.MinJobAge); j.finished() && !old.After(c.now) {
		c.forgets(j, c.now.Add(purgeInterval))
	}
	c.touch(j)
	c.rouse()
}

// requeued is the moment from which a job waits anew.
func (c *Cluster) requeued(j *job) {
	j.submit = c.now
	if second(j.submit).Equal(second(j.start)) {
		j.submit = j.submit.Add(time.Second)
	}
	j.start, j.end = time.Time{}, time.Time{}
	j.begin = c.now.Add(c.cfg.RequeueDelay)
	c.enqueue(j)
}
