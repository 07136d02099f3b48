package bridge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// admit looks at a job for the first time. It returns nil for a plain job, an Unmanaged record for a job that asks for us but
// cannot be managed, else an Admitted one.
func (b *Bridge) admit(now time.Time, job *slurm.Job) *Record {
	if job.State.Finished() {
		return nil
	}
	wish, err := comment.Parse(job.Comment, comment.Context{
		Now: job.Submit, Zone: b.cfg.Zone, First: job.Submit, RequestGPUs: job.Request.GPUs,
	})
	if errors.Is(err, comment.ErrNone) {
		return nil
	}
	rec := &Record{
		Job: job.ID, UID: job.UID, FirstSubmit: job.Submit, Submit: job.Submit, Restart: job.Restarts,
		Name: job.Name, User: job.User, Account: job.Account, QOS: job.QOS, Comment: job.Comment, Wish: wish,
		Since: now, Original: originalOf(job), dirty: true,
	}
	if job.IsArray() && job.ArrayTask >= 0 {
		rec.Array, rec.Task = job.ArrayJobID, job.ArrayTask
	}
	if rec.Changed.Begin = pluginBegin(job); rec.Changed.Begin.IsZero() && job.Restarts == 0 && job.Begin.After(now) {
		rec.Original.Begin = job.Begin
	}
	rec.Remainder = waitingTasks(job)
	if err == nil {
		err = b.unmanageable(job, wish)
	}
	if err != nil {
		rec.Phase = Unmanaged
		rec.Why = err.Error()
		rec.note(now, string(Unmanaged), rec.Why)
		b.log(now, "info", "unmanaged", job.ID, "%v", err)
		return rec
	}
	rec.Phase = Admitted
	rec.Key = b.keyOf(job)
	b.planProfile(rec, job)
	b.skipProfiled(now, rec)
	rec.note(now, string(Admitted), fmt.Sprintf("class %s, %s", wish.Class, profileText(rec.Profile)))
	if !rec.Profile.Needed() {
		rec.Phase = Waiting
	}
	if why := b.whyNotPreempted(rec, job); why != "" && job.State == slurm.StatePending {
		rec.note(now, "not-preemptible", why)
	}
	if advice := LauncherAdvice(job.SubmitLine, wish.Ckpt); advice != "" {
		rec.note(now, "launcher", advice)
	}
	b.log(now, "info", "admitted", job.ID, "class %s, %d GPUs, %s", wish.Class, job.Request.GPUs, profileText(rec.Profile))
	b.rouse("a new job")
	return rec
}

// waitingTasks reports whether the record stands for the tasks of an array that have not started yet: it has no run of its own, and whatever is done to it is done to all.
func waitingTasks(job *slurm.Job) bool { return job.IsArray() && job.ArrayTask < 0 }

func originalOf(job *slurm.Job) Original {
	q := job.Request
	return Original{
		Nice: job.Nice, Partition: job.Partition, Nodes: q.Nodes, Tasks: q.Tasks, TRESPerNode: q.TRESPerNode, TRESPerJob: q.TRESPerJob,
		TRESPerTask: q.TRESPerTask, GPUs: q.GPUs, TasksPerNode: q.TasksPerNode, TasksPerGPU: q.TasksPerGPU, RequiredNodes: slices.Clone(q.RequiredNodes), TimeLimit: job.TimeLimit,
	}
}

// pluginToken is what the job_submit plugin leaves in admin_comment: the begin time that it set.
var pluginToken = regexp.MustCompile(`(?:^|\s)unisched-begin=([0-9]{1,12})(?:\s|$)`)

// pluginBegin is the begin time that the submit plugin gave the job, zero when it gave none or somebody has changed it since.
func pluginBegin(job *slurm.Job) time.Time {
	m := pluginToken.FindStringSubmatch(job.AdminComment)
	if m == nil {
		return time.Time{}
	}
	sec, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || job.Begin.Unix() != sec {
		return time.Time{}
	}
	return job.Begin
}

// unmanageable says why a job that asks for us must be left to plain Slurm.
func (b *Bridge) unmanageable(job *slurm.Job, wish comment.Wish) error {
	q := job.Request
	switch {
	case len(job.Odd) > 0:
		return fmt.Errorf("fields that we do not understand: %s", strings.Join(job.Odd, ", "))
	case job.IsHet():
		return errors.New("heterogeneous jobs are not managed")
	case waitingTasks(job):
		return errors.New("the waiting tasks of a job array are left to Slurm, which starts them in its own order: each task is managed once it has started")
	case !job.Batch:
		return errors.New("interactive jobs (salloc, srun) are not managed: use sbatch")
	case job.Cron:
		return errors.New("scrontab jobs are not managed")
	case job.Federated:
		return errors.New("federated jobs are not managed")
	case q.OtherGRES:
		return errors.New("shards, MPS and MIG slices are not managed")
	case q.GPUs <= 0:
		return errors.New("it asks for no GPUs")
	case !slices.Contains(b.cfg.Partitions, job.Partition):
		return fmt.Errorf("partition %q is not managed (managed: %s)", job.Partition, strings.Join(b.cfg.Partitions, ", "))
	case job.Reservation != "":
		return errors.New("it runs in a reservation")
	case !job.Deadline.IsZero(): // Slurm ends a waiting job at once when its begin time and its time limit together pass that (seen)
		return errSlurmDeadline
	}
	if b.onMixedNodesOnly(job.Partition, q.GPUType) {
		return fmt.Errorf("it asks for GPUs of type %s, which partition %s has only on nodes with several types: Slurm finds it a place", q.GPUType, job.Partition)
	}
	if _, err := constraintOf(job.Constraint); err != nil {
		return err
	}
	return nil
}

var errSlurmDeadline = errors.New("it has a deadline of Slurm's own (--deadline), by which Slurm ends it whatever it waits for: write deadline= instead")

// planProfile decides whether and how a new job is measured (system: profiling takes at most two GPUs).
func (b *Bridge) planProfile(rec *Record, job *slurm.Job) {
	p := &rec.Profile
	shapes := b.shapesOf(rec)
	limit := job.TimeLimit
	switch {
	case b.cfg.ProfilePartition == "":
		p.Note = "no profile partition"
	case rec.Wish.Profile == comment.ProfileSkip:
		p.Note = "profile=skip"
	case rec.Wish.Parallel == comment.FixedParallel:
		p.Note = "parallel=fixed: measured in its first lease"
	case rec.Wish.Ckpt.None:
		p.Note = "it cannot checkpoint (no ckpt=): measured in its first lease"
	case !job.Requeue:
		p.Note = "submitted with --no-requeue"
	case job.State != slurm.StatePending || job.Restarts > 0:
		p.Note = "already started: measured in its leases"
	case limit > 0 && limit <= 2*b.cfg.Unit:
		p.Note = "shorter than two units"
	case b.overLimit(job):
		p.Note = "its time limit is over MaxTime of partition " + b.cfg.ProfilePartition + ": measured in its first lease"
	case slices.ContainsFunc(shapes, func(s planner.Shape) bool { return s.GPUs() <= 1 }):
		p.Note = "its first lease is its profile"
		p.FirstLease = len(shapes) == 1 && shapes[0].GPUs() == 1
	case !reshapable(rec.Original):
		p.Note = "asks for GPUs per task or socket, or tasks per GPU: measured in its first lease"
	default:
		p.Steps = b.profileSteps(shapes)
		return
	}
	p.Done = true
}

// profileSteps are the shapes that a job is measured on: one GPU, two of one node, two of two nodes when it may span nodes, and where more are allowed, as many of one node as
// the job itself uses.
func (b *Bridge) profileSteps(shapes []planner.Shape) []planner.Shape {
	most := b.cfg.ProfileGPUs
	if most == 0 {
		most = 2
	}
	steps := []planner.Shape{{1}}
	if most >= 2 {
		steps = append(steps, planner.Shape{2})
		if slices.ContainsFunc(shapes, func(s planner.Shape) bool { return len(s) > 1 }) {
			steps = append(steps, planner.Shape{1, 1})
		}
	}
	node := 0
	for _, s := range shapes {
		node = max(node, s[0])
	}
	if node = min(node, most); node > 2 {
		steps = append(steps, planner.Shape{node})
	}
	return steps
}

func profileText(p Profile) string {
	if p.Needed() {
		return fmt.Sprintf("profile on %v", p.Steps)
	}
	return "no profile: " + p.Note
}

// reshapable reports whether the request can be rewritten for another number of GPUs: rewriting one that also asks for something else (a list) would lose
// that.
func reshapable(o Original) bool {
	return o.TRESPerTask == "" && o.TasksPerGPU == 0 && (o.TRESPerNode != "" || o.TRESPerJob != "") && !strings.Contains(o.TRESPerNode+o.TRESPerJob, ",")
}

// profileStepOver removes the step just measured; a step without a sample is not repeated.
func (b *Bridge) profileStepOver(now time.Time, rec *Record) {
	p := &rec.Profile
	if len(p.Steps) > 0 {
		p.Steps = slices.Delete(p.Steps, 0, 1)
	}
	if len(p.Steps) == 0 {
		p.Done, p.Note = true, "profiled"
		rec.note(now, "profiled", rec.Estimate.Basis)
	}
	rec.dirty = true
}

// overLimit reports whether the profile partition would never start the job, whose time limit goes along: Slurm keeps it pending for that.
func (b *Bridge) overLimit(job *slurm.Job) bool {
	return slices.ContainsFunc(b.seen.Partitions, func(p slurm.Partition) bool {
		return p.Name == b.cfg.ProfilePartition && p.MaxTime > 0 && (job.Unlimited || job.TimeLimit > p.MaxTime)
	})
}

// maxProfileRefusals is how often Slurm may leave a profile run pending with its GPUs free.
const maxProfileRefusals = 3

// profileRefused gives the profile of a job up that Slurm does not start, at once where the partition's limits or the request are to blame: its own
// request may start all the same, and nobody asked for the profile.
func (r *Record) profileRefused(now time.Time, job *slurm.Job, why string) {
	if !r.Profile.Needed() || r.StartFailures < maxProfileRefusals && !job.Held && !strings.HasPrefix(job.Reason, "Partition") {
		return
	}
	r.Profile = Profile{Done: true, Note: "profile given up: " + why}
	r.Blocked, r.BlockedTill, r.StartFailures = "", now, 0
	r.note(now, "profile-refused", why)
}

// profilePatience is how many units a profile step may wait for its GPUs.
const profilePatience = 3

// profileStepSkipped leaves a step out that found no place for long: measuring less is better than waiting more.
func (b *Bridge) profileStepSkipped(now time.Time, rec *Record) {
	p := &rec.Profile
	rec.note(now, "profile-skipped", fmt.Sprintf("no place for step %v within %v", p.Steps[0], profilePatience*b.cfg.Unit))
	p.Steps = slices.Delete(p.Steps, 0, 1)
	rec.Since = now
	if len(p.Steps) == 0 {
		p.Done, p.Note = true, "profiled in part: no place for the last step"
		if len(rec.Samples) == 0 {
			p.Note = "no place for a profile: measured in its first lease"
		}
		rec.enter(now, Waiting, "")
	}
}

// stepTime is how long one profile step measures: all steps together take about one profile time.
func (b *Bridge) stepTime(rec *Record) time.Duration {
	n := 3
	if b.cfg.ProfileGPUs > 2 {
		n = 4
	} else if b.cfg.ProfileGPUs == 1 {
		n = 1
	}
	return max(b.cfg.ProfileTime/time.Duration(n), time.Second)
}

// constraintOf reads --constraint: a conjunction of features (all nodes have every one), or a plain disjunction (each node has at least one).
func constraintOf(c string) (featureRule, error) {
	if c == "" {
		return featureRule{}, nil
	}
	if strings.ContainsAny(c, "[]()*!") || strings.Contains(c, "&") && strings.Contains(c, "|") {
		return featureRule{}, fmt.Errorf("constraint %q is more than features joined by & or by |", c)
	}
	if strings.Contains(c, "|") {
		return featureRule{any: strings.Split(c, "|")}, nil
	}
	return featureRule{all: strings.FieldsFunc(c, func(r rune) bool { return r == '&' || r == ',' })}, nil
}

type featureRule struct{ all, any []string }
