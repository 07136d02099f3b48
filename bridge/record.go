package bridge

import (
	"slices"
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// Record is all that we know of one job beyond what Slurm shows: the memory that must survive a restart. It is journalled before every
// call that changes the job, already in the state that the call is meant to reach (write-ahead): what a call
// may have done is never forgotten, and what it did not do shows in the next snapshot.
type Record struct {
	Job slurm.JobID `json:"job"`
	// UID, FirstSubmit and Restart identify the job: Slurm reuses ids, and a requeue changes the submit time.
	UID         int64     `json:"uid"`
	FirstSubmit time.Time `json:"first_submit"`
	Submit      time.Time `json:"submit"` // as last seen
	Restart     int       `json:"restart"`

	// Array and Task name the task of a job array that it is; 0 and 0 for a plain job. One task's Job is the array's own number: only Ref tells them apart.
	Array slurm.JobID `json:"array,omitempty"`
	Task  int         `json:"task,omitempty"`
	// Remainder says that it stands for the tasks of an array that have not started yet.
	Remainder bool `json:"remainder,omitempty"`

	Name, User, Account, QOS string
	// Comment is the wish as it stood at admission; deadlines never change after it.
	Comment string       `json:"comment,omitempty"`
	Wish    comment.Wish `json:"wish"`

	Phase Phase     `json:"phase"`
	Since time.Time `json:"since"`
	// Why explains the phase where it needs words (unmanaged, blocked, signal-ineffective, profile-failed).
	Why string `json:"why,omitempty"`

	Original Original `json:"original"`
	Changed  Changed  `json:"changed"`
	Profile  Profile  `json:"profile"`
	Target   Target   `json:"target"`

	// The run in progress, or the last one.
	LeaseUntil time.Time         `json:"lease_until,omitzero"`
	Placement  planner.Placement `json:"placement,omitempty"`
	Run        RunProgress       `json:"run"`

	// What earlier runs and this one showed.
	Iter        int64                `json:"iter"` // highest iteration reported by any run
	Saved       int64                `json:"saved"`
	Samples     []estimator.Sample   `json:"samples,omitempty"`
	Curve       []estimator.Point    `json:"curve,omitempty"`
	Resumes     []estimator.SRSample `json:"resumes,omitempty"`
	Checkpoints []estimator.SRSample `json:"checkpoints,omitempty"`
	GradBytes   float64              `json:"grad_bytes,omitempty"`
	// CheckpointBytes is the size of the newest checkpoint, Batch the samples per GPU and iteration; as the job reports them.
	CheckpointBytes float64 `json:"checkpoint_bytes,omitempty"`
	Batch           float64 `json:"batch,omitempty"`
	// Key names the kind of job in the history; Taught is what of it the cluster's memory holds already.
	Key    estimator.Key `json:"key,omitzero"`
	Taught Taught        `json:"taught,omitzero"`
	// Held is how long ended runs held GPUs, in seconds, profile runs aside; Forecasts what was forecast, oldest first.
	Held      float64              `json:"held_s,omitempty"`
	Forecasts []estimator.Forecast `json:"forecasts,omitempty"`

	Started        bool      `json:"started,omitempty"` // has held GPUs before
	LastOnGPUs     time.Time `json:"last_on_gpus,omitzero"`
	Preemptions    int       `json:"preemptions"`
	Strikes        int       `json:"strikes"` // signals without a checkpoint
	NoPreempt      string    `json:"no_preempt,omitempty"`
	LostIters      int64     `json:"lost_iters"`
	LaunchFailures int       `json:"launch_failures,omitempty"`
	Returns        []Return  `json:"returns,omitempty"`
	Stays          []Stay    `json:"stays,omitempty"`
	GPUSeconds     float64   `json:"gpu_seconds"`
	Base           int64     `json:"base_priority,omitempty"` // Slurm's priority without our nice
	BlockedTill    time.Time `json:"blocked_till,omitzero"`
	Blocked        string    `json:"blocked,omitempty"`
	BlockedBy      string    `json:"blocked_by,omitempty"` // one of the Block constants, or ""

	// Releasing asks for the job to be given back for good.
	Releasing bool `json:"releasing,omitempty"`
	// Rerun asks for a failed job to be put back into the queue: what failed was our doing.
	Rerun      bool `json:"rerun,omitempty"`
	RerunTries int  `json:"rerun_tries,omitempty"`
	// LostSince is when it was seen cancelled or preempted after an action of ours; it may still come back.
	LostSince time.Time `json:"lost_since,omitzero"`

	Ended  time.Time `json:"ended,omitzero"`
	Exit   string    `json:"exit,omitempty"`
	Events []Event   `json:"events,omitempty"`

	// Estimate is the newest one; derived, kept for showing.
	Estimate planner.Estimate `json:"estimate"`

	// BeginWas is the begin time that our last delay replaced: Slurm may still show it.
	BeginWas time.Time `json:"begin_was,omitzero"`

	// DoubtTill is until when a call of ours with an unknown outcome may still arrive.
	DoubtTill time.Time `json:"doubt_till,omitzero"`
	// Late is what such a call may still do to the job although no snapshot shows it.
	Late Changed `json:"late,omitzero"`
	// StartFailures counts starts in a row that Slurm did not carry out, Loops runs in a row that went back to the queue by themselves without progress.
	StartFailures int `json:"start_failures,omitempty"`
	Loops         int `json:"loops,omitempty"`
	// SubmitSlack is by how much clocks were set back since it is known: so much earlier may it seem to be submitted when it comes back.
	SubmitSlack time.Duration `json:"submit_slack,omitempty"`
	// Returned says that a run of it that was asked to leave has gone back to the queue as agreed.
	Returned bool `json:"returned,omitempty"`
	// ResumeFailures counts runs that failed while they came back from a move of ours.
	ResumeFailures int `json:"resume_failures,omitempty"`
	// Avoid are nodes that the job is kept off for a while.
	Avoid []Avoid `json:"avoid,omitempty"`

	// Demoted says why it is planned as best effort although it asked for deadlines, Reserved what it declared, Judged what it was judged on.
	Demoted  Demotion    `json:"demoted,omitzero"`
	Reserved Reservation `json:"reserved,omitzero"`
	Judged   int         `json:"judged,omitempty"`
	// Armed says that it waits without a delay, ahead of plain jobs by nice.
	Armed bool `json:"armed,omitempty"`
	// Doubted says why its reports are not planned with, Doubts what they are held against.
	Doubted string `json:"doubted,omitempty"`
	Doubts  Doubts `json:"doubts,omitzero"`
	// CommentSeen is the newest comment seen, "" while it is that of the admission.
	CommentSeen string `json:"comment_seen,omitempty"`

	dirty bool
	made  madeFrom // of Estimate
	work  work     // measured of its GPUs, not in Doubts yet
	left  leftTime // derived from Estimate
	// shownAt is where the snapshot of cycle shownIn has the job; shapes are those of shapeKey.
	shownAt  int
	shownIn  int64
	shapes   []planner.Shape
	shapeKey shapeKey
}

// Original holds the values to restore: the job as its user submitted it.
type Original struct {
	Nice          int64         `json:"nice"`
	Partition     string        `json:"partition"`
	Nodes         slurm.MinMax  `json:"nodes"`
	Tasks         int           `json:"tasks"`
	TRESPerNode   string        `json:"tres_per_node,omitempty"`
	TRESPerJob    string        `json:"tres_per_job,omitempty"`
	TRESPerTask   string        `json:"tres_per_task,omitempty"`
	GPUs          int           `json:"gpus"`
	TasksPerNode  int           `json:"tasks_per_node,omitempty"`
	TasksPerGPU   int           `json:"tasks_per_gpu,omitempty"`
	RequiredNodes []string      `json:"required_nodes,omitempty"`
	TimeLimit     time.Duration `json:"time_limit"`
	Begin         time.Time     `json:"begin,omitzero"` // the user's own
}

// Changed is what we have done, or may have done, to the job in Slurm and must undo before it is plain again.
type Changed struct {
	Hold    bool      `json:"hold,omitempty"`
	Begin   time.Time `json:"begin,omitzero"` // the begin time that we set
	Nice    bool      `json:"nice,omitempty"`
	NiceIs  int64     `json:"nice_is,omitempty"`
	Pinned  []string  `json:"pinned,omitempty"`
	Reshape bool      `json:"reshape,omitempty"` // nodes, tasks, TRES or partition differ from the original
	// Wrote are the placements for which the request was written since it was last seen as the original, the newest last: of one of them, or of several when a call did not
	// arrive, is what differs. Without any (a record of before they were kept) anything may be ours.
	Wrote []planner.Placement `json:"wrote,omitempty"`
}

// Any reports whether there is anything to undo.
func (c Changed) Any() bool {
	return c.Hold || !c.Begin.IsZero() || c.Nice || len(c.Pinned) > 0 || c.Reshape
}

// Profile is the state of measuring a new job.
type Profile struct {
	Steps []planner.Shape `json:"steps,omitempty"` // still to be measured, in order
	Done  bool            `json:"done,omitempty"`
	Note  string          `json:"note,omitempty"` // why there was none, or how it ended
	// FirstLease says that the first lease is the profile: of a job that needs one GPU anyway.
	FirstLease bool `json:"first_lease,omitempty"`
}

// Needed reports whether the job still waits for a profile run.
func (p Profile) Needed() bool { return !p.Done && len(p.Steps) > 0 }

// Target is what the newest plan wants for the job.
type Target struct {
	Decision  planner.Decision  `json:"decision,omitempty"`
	Placement planner.Placement `json:"placement,omitempty"`
	Until     time.Time         `json:"until,omitzero"`
	Rank      int               `json:"rank"`
	Tier      int               `json:"tier"`
	Plan      string            `json:"plan,omitempty"`
	Reason    planner.Reason    `json:"reason"`
	StartBy   time.Time         `json:"start_by,omitzero"`
	Finish    time.Time         `json:"finish,omitzero"`
}

// RunProgress is what one run has reported.
type RunProgress struct {
	Start     time.Time `json:"start,omitzero"` // Slurm's start time
	Profile   bool      `json:"profile,omitempty"`
	Ready     time.Time `json:"ready,omitzero"` // first progress line: only then may it be signalled
	FirstIter int64     `json:"first_iter"`     // iteration at which it started or resumed
	FirstAt   time.Time `json:"first_at,omitzero"`
	LastIter  int64     `json:"last_iter"`
	LastAt    time.Time `json:"last_at,omitzero"`
	// Every is the longest time between two of its reports, of the newer ones: older ones count less and less.
	Every     time.Duration `json:"every_ns,omitempty"`
	Signalled time.Time     `json:"signalled,omitzero"`
	// AskedBy is the first look after the signal: by then it was sent. Signalled is the beginning of its cycle, which may be minutes of slow calls before.
	AskedBy      time.Time `json:"asked_by,omitzero"`
	Heard        bool      `json:"heard,omitempty"`  // Slurm or the job says that the signal was delivered
	Resent       bool      `json:"resent,omitempty"` // it was sent a second time, since nobody did
	CheckpointAt time.Time `json:"checkpoint_at,omitzero"`
	SavedIter    int64     `json:"saved_iter"`
	Done         bool      `json:"done,omitempty"`     // it said that it has met its own stop criterion
	Requeued     time.Time `json:"requeued,omitzero"`  // when we asked Slurm to requeue it
	Rejoined     bool      `json:"rejoined,omitempty"` // its resume was counted
	Extended     bool      `json:"extended,omitempty"`
	Freed        time.Time `json:"freed,omitzero"` // when a released job's GPUs were first seen free
}

// Stay is a time during which one run held GPUs.
type Stay struct {
	Run       int               `json:"run"`
	From      time.Time         `json:"from"`
	To        time.Time         `json:"to,omitzero"` // zero: still there
	Placement planner.Placement `json:"placement"`
	Profile   bool              `json:"profile,omitempty"`
	Cut       bool              `json:"cut,omitempty"` // the plan ended it
}

// clockSkew is what the clocks of nodes may be behind ours.
const clockSkew = time.Second

// answered reports whether the run has saved a checkpoint since it was asked to. The time of the line is the node's, that of the signal is ours.
func (r RunProgress) answered() bool {
	return !r.Signalled.IsZero() && !r.CheckpointAt.Before(r.Signalled.Add(-clockSkew))
}

// asked is for how long the run has known of the signal, at least; 0 when there was none, or no look since.
func (r RunProgress) asked(now time.Time) time.Duration {
	if r.Signalled.IsZero() || r.AskedBy.IsZero() {
		return 0
	}
	return now.Sub(r.AskedBy)
}

// Return is one restart after a run that was cut: a job that loses nothing comes back at the iteration that its checkpoint saved.
type Return struct {
	Run     int       `json:"run"`
	At      time.Time `json:"at"`
	Reached int64     `json:"reached"` // highest iteration reported before
	Saved   int64     `json:"saved"`   // iteration of the last checkpoint reported (0: none)
	Resumed int64     `json:"resumed"` // iteration at which this run began
}

// Event is one thing that happened to a job, for its user to read.
type Event struct {
	N    int       `json:"n"` // rises within the job, without gaps
	At   time.Time `json:"at"`
	Run  int       `json:"run"`
	What string    `json:"what"`
	Text string    `json:"text,omitempty"`
	// Action is the journal's id of the action that it tells of, "" when it tells of none.
	Action string `json:"action_id,omitempty"`
}

// The bounds of what one record keeps.
const (
	maxEvents  = 200
	maxSamples = 64
	maxCurve   = 2000
	maxSR      = 32
	maxStays   = 200
)

// ID names the run in progress (or, of a waiting job, the next one).
func (r *Record) ID() planner.Run {
	return planner.Run{Job: planner.JobID(r.Job), Restart: r.Restart}
}

// Ref is what Slurm prints for the job: 12, 12_3.
func (r *Record) Ref() string {
	ref := slurm.Ref{ID: r.Job, Array: r.Array}
	if r.Array != 0 {
		ref.Tasks = itoa(int64(r.Task))
	}
	return ref.String()
}

// Class is the class under which the job is planned now.
func (r *Record) Class() planner.Class {
	if r.Profile.Needed() && r.Phase != Running {
		return planner.Profiler
	}
	return planner.Class(r.Wish.Class)
}

// note adds an event.
func (r *Record) note(now time.Time, what, text string) {
	n := 1
	if len(r.Events) > 0 {
		n = r.Events[len(r.Events)-1].N + 1
	}
	r.Events = append(r.Events, Event{N: n, At: now, Run: r.Restart, What: what, Text: text})
	if n := len(r.Events) - maxEvents; n > 0 {
		r.Events = slices.Delete(r.Events, 1, n+1) // the first event, the admission, stays
	}
	r.dirty = true
}

// sign gives the events noted since an earlier state of the record the id of the action that they tell of.
func (r *Record) sign(was *Record, id string) {
	last := 0
	if n := len(was.Events); n > 0 {
		last = was.Events[n-1].N
	}
	for i := len(r.Events) - 1; i >= 0 && r.Events[i].N > last; i-- {
		if r.Events[i].Action == "" {
			r.Events[i].Action = id
		}
	}
}

// enter changes the phase. An illegal change is a broken invariant of ours: it is made, since Slurm's word is what counts, but noted so that
// tests see it.
func (r *Record) enter(now time.Time, p Phase, why string) {
	if r.Phase == p {
		if r.Why != why && why != "" {
			r.Why, r.dirty = why, true
		}
		return
	}
	if !Legal(r.Phase, p) {
		r.note(now, "illegal-step", string(r.Phase)+" -> "+string(p))
	}
	r.Phase, r.Since, r.Why = p, now, why
	r.note(now, string(p), why)
}
