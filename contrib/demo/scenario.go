package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
	"unisched/planner"
)

// spec is one job of the scenario as its user wrote it.
type spec struct {
	letter byte // in the text chart
	name   string
	user   string
	class  string // as shown: strict, soft, besteffort, plain
	wish   string // what the comment says; empty: a plain job
	gpus   []string
	shape  planner.Shape
	limit  int // minutes
	iters  int64
	target string // stops early at this metric
	train  []string
	note   string // why it is here, for the reader
}

// metricMax is the user's maximum of the metric job. It must stop well before it.
const metricMax = 1500

// strictDeadline is counted from the strict job's submission. The daemon knows nothing of the job but its time limit and takes it for 75 s (it runs for
// 30), and the leases of the long jobs may bind it for two units: it starts 45 s after its submission at the latest, and ends with a unit or more to
// spare. Whoever waits until the long jobs are done is late by as much.
const strictDeadline = 120 * time.Second

// The long jobs come first and take all GPUs. Declared speeds: seconds per iteration on one GPU, times a factor per number of GPUs, times a factor
// when the GPUs span nodes. Two short ones slip in while the long ones are measured.
var opening = []spec{
	{letter: 'R', name: "resnet", user: "alice", class: "besteffort", wish: "class=besteffort,batch=global,ckpt=USR1+99,stop=iters:1280", gpus: []string{"--nodes=2", "--gpus-per-node=4"},
		shape: planner.Shape{4, 4}, limit: 5, iters: 1280, train: []string{"--step-time", "0.6", "--scaling", "1:1.0,2:0.55,4:0.30,8:0.17", "--cross-node", "1.15"},
		note: "long, on 2 nodes; measured on 1, 2 and 1+1 GPUs first"},
	{letter: 'B', name: "bert", user: "bob", class: "besteffort", wish: "class=besteffort,batch=global,ckpt=USR1+99,stop=iters:1280", gpus: []string{"--gpus=4"},
		shape: planner.Shape{4}, limit: 5, iters: 1280, train: []string{"--step-time", "0.4", "--scaling", "1:1.0,2:0.55,4:0.30", "--cross-node", "1.15"},
		note: "long, on 4 GPUs; measured first"},
	{letter: 'T', name: "tune-1", user: "alice", class: "besteffort", wish: "ckpt=USR1+99,stop=iters:90", gpus: []string{"--gpus-per-node=1"},
		shape: planner.Shape{1}, limit: 1, iters: 90, train: []string{"--step-time", "0.2"}, note: "short, on 1 GPU"},
	{letter: 'U', name: "tune-2", user: "bob", class: "besteffort", wish: "ckpt=USR1+99,stop=iters:80", gpus: []string{"--gpus-per-node=1"},
		shape: planner.Shape{1}, limit: 1, iters: 80, train: []string{"--step-time", "0.2", "--seed", "2"}, note: "short, on 1 GPU"},
}

// These arrive when every GPU is taken.
var later = []spec{
	{letter: 'M', name: "metric", user: "alice", class: "besteffort", wish: fmt.Sprintf("stop=metric:val_acc>=0.92,max=%d,ckpt=USR1+99", metricMax), gpus: []string{"--gpus-per-node=1"},
		shape: planner.Shape{1}, limit: 3, iters: metricMax, target: "val_acc>=0.92", train: []string{"--step-time", "0.1", "--lr", "0.01", "--eval-every", "20"},
		note: "stops when the validation accuracy reaches 0.92"},
	{letter: 'F', name: "soft", user: "bob", class: "soft", wish: "class=soft,deadlines=now+80s:100/now+120s:60/now+180s:20,batch=global,ckpt=USR1+99,stop=iters:180,profile=skip", gpus: []string{"--gpus-per-node=2"},
		shape: planner.Shape{2}, limit: 1, iters: 180, train: []string{"--step-time", "0.25", "--scaling", "1:1.0,2:0.55"}, note: "worth less the later it ends"},
	{letter: 'P', name: "plain", user: "bob", class: "plain", gpus: []string{"--gpus-per-node=2"}, shape: planner.Shape{2}, limit: 1, iters: 100,
		train: []string{"--step-time", "0.35", "--scaling", "1:1.0,2:0.55"}, note: "says nothing to UniSched"},
	{letter: 'S', name: "strict", user: "alice", class: "strict", wish: fmt.Sprintf("class=strict,deadline=now+%ds,batch=global,ckpt=USR1+99,stop=iters:240,profile=skip", int(strictDeadline.Seconds())),
		gpus: []string{"--nodes=1", "--gpus-per-node=4"}, shape: planner.Shape{4}, limit: 2, iters: 240,
		train: []string{"--step-time", "0.4", "--scaling", "1:1.0,2:0.55,4:0.30"}, note: "can only be in time if somebody makes room"},
}

// played is a job that was submitted.
type played struct {
	spec
	id   int
	view bridge.JobView // newest, of a managed job
	acct lab.Accounted  // newest, of a plain job
}

func (j *played) plain() bool { return j.wish == "" }

// over reports whether the job has ended.
func (j *played) over() bool {
	if j.plain() {
		return !j.acct.End.IsZero()
	}
	return j.view.Phase.Ended()
}

// scenario plays the jobs and watches them.
type scenario struct {
	l     *lab.Lab
	p     *progress
	jobs  []*played
	began time.Time // first submission
	plan  string    // the newest one recorded
}

func newScenario(l *lab.Lab, p *progress) *scenario { return &scenario{l: l, p: p} }

// play submits everything and returns when all jobs have ended.
func (s *scenario) play(ctx context.Context) error {
	s.began = time.Now().Truncate(time.Second) // Slurm's times are whole seconds
	if err := s.submit(opening); err != nil {
		return err
	}
	s.p.say("the two long jobs are measured on one and two GPUs, then take all twelve; the short ones slip in between")
	if err := s.watch(ctx, "the long jobs to hold every GPU", s.full); err != nil {
		return err
	}
	s.p.say("every GPU is taken for more than two minutes: four more jobs arrive")
	if err := s.submit(later); err != nil {
		return err
	}
	return s.watch(ctx, "all jobs to end", s.done)
}

func (s *scenario) submit(specs []spec) error {
	for _, sp := range specs {
		job := sp.job()
		id, err := s.l.Submit(sp.user, job)
		if err != nil {
			return fmt.Errorf("job %s: %w", sp.name, err)
		}
		s.jobs = append(s.jobs, &played{spec: sp, id: id})
		comment := ""
		if sp.wish != "" {
			comment = "\n             --comment=unisched:" + sp.wish
		}
		s.p.say("%s %-7s job %d of %s: %s\n             sbatch --time=%d %s%s", clock(time.Since(s.began)), sp.name, id, sp.user, sp.note, sp.limit, strings.Join(sp.gpus, " "), comment)
	}
	return nil
}

// job is the spec as a submission.
func (sp spec) job() lab.Job {
	wish := sp.wish
	if wish != "" {
		wish = "unisched:" + wish
	}
	args := append([]string{"--job-name=" + sp.name, fmt.Sprintf("--time=%d", sp.limit)}, sp.gpus...)
	train := append([]string{"--iters", fmt.Sprint(sp.iters)}, sp.train...)
	if sp.target != "" {
		train = append(train, "--target", sp.target)
	}
	if !strings.HasPrefix(strings.Join(sp.gpus, " "), "--gpus=") {
		return lab.Digits(wish, args, train...)
	}
	// digits.sbatch asks for one GPU per node; a job that asks for a number of GPUs in all must not.
	text := "#!/bin/bash\n#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output=digits-%j.out\nexec python3 " + lab.DigitsDir + "/train.py --ckpt ckpt-$SLURM_JOB_ID " +
		strings.Join(train, " ") + "\n"
	return lab.Job{Args: append(args, "--comment="+wish), Text: text}
}

// full reports whether the two long jobs run on what they asked for and nothing is left.
func (s *scenario) full(v bridge.View) (bool, error) {
	for _, j := range s.jobs[:2] {
		if j.over() {
			return false, fmt.Errorf("job %s ended before every GPU was taken: %s %s", j.name, j.view.Phase, j.view.Why)
		}
		if j.view.Phase != bridge.Running || j.view.Placement.GPUs() != j.shape.GPUs() || j.view.Iter == 0 {
			return false, nil
		}
	}
	return v.GPUs.Free == 0, nil
}

func (s *scenario) done(bridge.View) (bool, error) {
	for _, j := range s.jobs {
		if !j.over() {
			return false, nil
		}
		if !j.plain() && j.view.Phase != bridge.Completed {
			return false, fmt.Errorf("job %s (%d) ended as %s: %s %s", j.name, j.id, j.view.Phase, j.view.Exit, j.view.Why)
		}
	}
	return true, nil
}

// watch looks at everything twice a second until cond says so.
func (s *scenario) watch(ctx context.Context, what string, cond func(bridge.View) (bool, error)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := s.look(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if err == nil {
			if ok, err := cond(v); ok || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// look refreshes what is known of the jobs and tells of what has changed.
func (s *scenario) look(ctx context.Context) (bridge.View, error) {
	v, err := s.l.Control().Status(ctx)
	if err != nil {
		return v, err
	}
	views, err := s.l.Jobs(ctx)
	if err != nil {
		return v, err
	}
	for _, j := range s.jobs {
		if j.plain() {
			if err := s.lookPlain(j); err != nil {
				return v, err
			}
			continue
		}
		for _, view := range views {
			if int(view.ID) == j.id {
				s.tell(j, view)
				j.view = view
			}
		}
	}
	s.p.status(s.line(v))
	return v, s.record(ctx)
}

// record keeps what every plan was made from, beside the daemon's log: what a failed demo is explained with.
func (s *scenario) record(ctx context.Context) error {
	plan, err := s.l.Control().Plan(ctx)
	if err != nil || plan.ID == s.plan {
		return err
	}
	snapshot, err := s.l.Control().Snapshot(ctx)
	if err != nil {
		return err
	}
	s.plan = plan.ID
	text, err := json.MarshalIndent(struct {
		Plan     planner.Plan     `json:"plan"`
		Snapshot planner.Snapshot `json:"snapshot"`
	}{plan, snapshot}, "", " ")
	if err != nil {
		return err
	}
	dir := filepath.Join(s.l.Dir, "plans")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, plan.Now.UTC().Format("150405.000")+".json"), text, 0o644)
}

func (s *scenario) lookPlain(j *played) error {
	if j.over() {
		return nil
	}
	a, err := s.l.Sacct(j.id)
	if err != nil {
		return nil // accounting is a little behind
	}
	if a.Start.IsZero() != j.acct.Start.IsZero() {
		s.event(j, "started by Slurm on "+a.Nodes)
	}
	if !a.End.IsZero() {
		s.event(j, strings.ToLower(a.State))
		if a.State != "COMPLETED" {
			return fmt.Errorf("the plain job %d ended as %s", j.id, a.State)
		}
	}
	j.acct = a
	return nil
}

// tell says what has changed about a job.
func (s *scenario) tell(j *played, now bridge.JobView) {
	if now.Phase == j.view.Phase {
		return
	}
	text := string(now.Phase)
	switch {
	case now.Phase == bridge.Admitted, now.Phase == bridge.Waiting && j.view.Phase == bridge.Admitted, now.Phase == bridge.Requeueing:
		return // the next phase says it all
	case now.Phase.OnGPUs() && now.Phase != bridge.Checkpointing:
		text += " on " + now.Placement.String()
		if now.Restart > 0 && now.Iter > 0 {
			text += fmt.Sprintf(", from iteration %d", now.SavedIter)
		}
	case now.Phase == bridge.Checkpointing:
		text += fmt.Sprintf(" at iteration %d", now.Iter)
	}
	if now.Why != "" {
		text += " (" + now.Why + ")"
	}
	s.event(j, text)
}

func (s *scenario) event(j *played, text string) {
	s.p.say("%s %-7s %s", clock(time.Since(s.began)), j.name, text)
}

// line is the status in one line of at most 80 columns.
func (s *scenario) line(v bridge.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %2d/%d GPUs", clock(time.Since(s.began)), v.GPUs.Total-v.GPUs.Free, v.GPUs.Total)
	for _, j := range s.jobs {
		fmt.Fprintf(&b, " %c:%s", j.letter, j.brief())
	}
	return b.String()
}

// brief is a job's state in four characters or less.
func (j *played) brief() string {
	switch {
	case j.over():
		return "done"
	case j.plain():
		if j.acct.Start.IsZero() {
			return "wait"
		}
		return "run"
	}
	switch j.view.Phase {
	case bridge.Running:
		return fmt.Sprintf("%d%%", 100*j.view.Iter/max(j.iters, 1))
	case bridge.Profiling:
		return "prof"
	case bridge.Checkpointing, bridge.Requeueing:
		return "save"
	case bridge.Starting:
		return "go"
	}
	return "wait"
}

// where says in which state each job was last seen, for a failure.
func (s *scenario) where() string {
	var b strings.Builder
	for _, j := range s.jobs {
		if j.plain() {
			fmt.Fprintf(&b, "\n  %-7s job %d: %s", j.name, j.id, j.acct.State)
			continue
		}
		v := j.view
		fmt.Fprintf(&b, "\n  %-7s job %d: %s %s; Slurm says %s %s; iteration %d; %s %s", j.name, j.id, v.Phase, v.Why, v.SlurmState, v.SlurmReason, v.Iter,
			v.Target.Reason.Text, v.Blocked)
	}
	return b.String()
}

// clock is a time since the beginning as m:ss.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	if s < 0 {
		return "-" + clock(-d)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
