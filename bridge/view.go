package bridge

import (
	"time"

	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// ViewSchema is the schema_version of every document that the control socket and `-o json` give out. It rises when a field changes
// its meaning or goes away, not when one is added.
const ViewSchema = 1

// View is what the last Step saw and decided: a value, published whole, read by the control socket without a lock.
type View struct {
	Schema int       `json:"schema_version"`
	At     time.Time `json:"at"`
	Cycle  int64     `json:"cycle"`
	Stage  Stage     `json:"stage"`
	// Stages are those of partitions that have their own.
	Stages   []PartitionStage `json:"stages,omitempty"`
	Paused   bool             `json:"paused"`
	Unit     time.Duration    `json:"unit_ns"`
	Cluster  string           `json:"cluster"`
	Slurm    string           `json:"slurm_release"`
	API      string           `json:"api"`
	SeenAt   time.Time        `json:"seen_at,omitzero"`   // the last good snapshot
	Trouble  string           `json:"trouble,omitempty"`  // why the newest look at Slurm failed
	Standby  string           `json:"standby,omitempty"`  // who is at work in this instance's place; all else is empty then
	Suspect  string           `json:"suspect,omitempty"`  // why nothing disruptive is done now
	NextPlan time.Time        `json:"next_plan,omitzero"` // the next unit boundary
	GPUs     GPUCount         `json:"gpus"`
	Counts   []PhaseCount     `json:"phases"`
	Jobs     []JobView        `json:"jobs"`
	Actions  ActionCounts     `json:"actions"`
	LastPlan planner.Plan     `json:"plan"`
	// Budgets are those of accounts whose strict jobs have one.
	Budgets []Budget `json:"budgets,omitempty"`
	// Standstills are the partitions in which nobody is preempted, since who was did not come back.
	Standstills []Standstill `json:"standstills,omitempty"`
	// Snapshot is what LastPlan was made from, Before the plan before it.
	Snapshot planner.Snapshot `json:"-"`
	Before   planner.Plan     `json:"-"`
	Nodes    []NodeView       `json:"-"`
	Loads    []Load           `json:"-"` // oldest first, one a unit
	// Basis is what a question about a job that does not exist is answered from.
	Basis *Basis `json:"-"`
}

// GPUCount sums up the managed partitions.
type GPUCount struct {
	Total   int `json:"total"` // on usable nodes
	Managed int `json:"managed"`
	Other   int `json:"other"`
	Free    int `json:"free"`
	// Holes are the free ones on nodes that are in use in part.
	Holes int `json:"holes"`
}

// PhaseCount is the number of jobs in a phase.
type PhaseCount struct {
	Phase Phase `json:"phase"`
	Jobs  int   `json:"jobs"`
}

// ActionCounts counts writes since the daemon started.
type ActionCounts struct {
	Done     int64 `json:"done"`
	Refused  int64 `json:"refused"`
	Unknown  int64 `json:"unknown"`
	Rounds   int64 `json:"rounds"`
	Greedy   int64 `json:"rounds_without_solver"`
	BadPlans int64 `json:"plans_refused"`
	// Jumps counts estimates that left the 80 % interval of the same job's forecast before.
	Jumps int64 `json:"estimate_jumps"`
	// Preemptions counts runs that ended because they were asked to leave, profile runs aside, and Lost the jobs that did not come back from that.
	Preemptions int64 `json:"preemptions"`
	Lost        int64 `json:"preempted_lost"`
	// Checkpoints asked for: confirmed by the job's own line or by its return to the queue; neither within the time; the job failed at the signal.
	CheckpointsConfirmed   int64 `json:"checkpoints_confirmed"`
	CheckpointsUnconfirmed int64 `json:"checkpoints_unconfirmed"`
	CheckpointsFailed      int64 `json:"checkpoints_failed"`
	// Doubted counts jobs whose reports are not planned with any more, Stalls those that made no iteration while their GPUs were busy.
	Doubted int64 `json:"doubted"`
	Stalls  int64 `json:"stalls"`
	// Suspect counts looks at Slurm that were not to be trusted, a first look after trouble aside.
	Suspect int64 `json:"suspect_snapshots"`
}

// JobView is one job as people see it.
type JobView struct {
	ID      slurm.JobID   `json:"id"`
	Ref     string        `json:"ref"` // as Slurm prints it: 12, 12_3
	Restart int           `json:"restart"`
	Name    string        `json:"name"`
	User    string        `json:"user"`
	Account string        `json:"account"`
	Class   planner.Class `json:"class"`
	Phase   Phase         `json:"phase"`
	Since   time.Time     `json:"since"`
	Why     string        `json:"why,omitempty"`
	// Slurm is the state and reason that Slurm shows.
	SlurmState  string `json:"slurm_state"`
	SlurmReason string `json:"slurm_reason,omitempty"`

	GPUs       int               `json:"gpus"`
	Placement  planner.Placement `json:"placement,omitempty"`
	LeaseUntil time.Time         `json:"lease_until,omitzero"`
	Submitted  time.Time         `json:"submitted"`
	Tiers      []planner.Tier    `json:"tiers,omitempty"`
	Target     Target            `json:"target"`
	Estimate   planner.Estimate  `json:"estimate"`
	// Forecast is the expected finish; zero when the plan does not reach that far. ForecastLow and ForecastHigh are its 80 % interval.
	Forecast     time.Time `json:"forecast,omitzero"`
	ForecastLow  time.Time `json:"forecast_low,omitzero"`
	ForecastHigh time.Time `json:"forecast_high,omitzero"`
	// Left is the run time left on the shape it holds (or would get), further resumes included, in seconds.
	Left planner.Interval `json:"left_s"`
	// Laxity is the time between the expected end of uninterrupted work from now and the last deadline still possible.
	Laxity time.Duration `json:"laxity_ns,omitempty"`

	Iter        int64     `json:"iter"`
	SavedIter   int64     `json:"saved_iter"`
	Preemptions int       `json:"preemptions"`
	Strikes     int       `json:"strikes"`
	NoPreempt   string    `json:"no_preempt,omitempty"`
	LostIters   int64     `json:"lost_iters"`
	Returns     []Return  `json:"returns,omitempty"`
	Stays       []Stay    `json:"stays,omitempty"` // the last one is open while it runs
	GPUSeconds  float64   `json:"gpu_seconds"`
	Ended       time.Time `json:"ended,omitzero"`
	Exit        string    `json:"exit,omitempty"`
	// Met is the index of the deadline tier met (-1 none) of an ended SLO job.
	Met     *int    `json:"met,omitempty"`
	Changed Changed `json:"changed"`
	Blocked string  `json:"blocked,omitempty"`
	// BlockedBy is one of the Block constants where one fits.
	BlockedBy string `json:"blocked_by,omitempty"`
	// Doubted says why its reports of progress are not planned with, "" while they are.
	Doubted string `json:"doubted,omitempty"`
	// Demoted says why it is planned as best effort although its user asked for deadlines. Reserved are the GPU-hours that it declared with them.
	Demoted  *Demotion `json:"demoted,omitempty"`
	Reserved float64   `json:"reserved_gpu_hours,omitempty"`
	// Watched says that it is ours but not acted on: the stage does not let us, or we are paused.
	Watched bool `json:"watched,omitempty"`
	// Releasing says that it is being given back for good; while it runs its node list stays.
	Releasing bool    `json:"releasing,omitempty"`
	Profile   Profile `json:"profile"`
	Stop      string  `json:"stop"` // the criterion in words
	// Held is how long it has held GPUs, in seconds; Forecasts what was forecast of it.
	Held      float64              `json:"held_s"`
	Forecasts []estimator.Forecast `json:"-"`
	Events    []Event              `json:"events,omitempty"`
	// Curve is the target metric as reported, thinned out.
	Curve []estimator.Point `json:"-"`
}
