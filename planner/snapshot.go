package planner

import "time"

// Snapshot is all that a plan may depend on. It is a value: it can be stored, printed, compared and replayed offline.
type Snapshot struct {
	Schema int           `json:"schema_version"`
	Now    time.Time     `json:"now"`
	Unit   time.Duration `json:"unit_ns"` // best-effort lease
	// SLOUnits is the length of an SLO lease in units.
	SLOUnits int `json:"slo_units"`
	// Luck is the standard deviation of the logarithm of a run's speed about what is expected of its job, as measured on this cluster; 0 when that is not known.
	Luck float64 `json:"luck,omitempty"`
	// Nodes sorted by name, Jobs by Run.
	Nodes []Node `json:"nodes"`
	Jobs  []Job  `json:"jobs"`
	// MaxPreemptions bounds the running jobs stopped or moved in one plan (checkpoints at once on shared storage); 0 = no bound.
	MaxPreemptions int `json:"max_preemptions,omitempty"`
	// HourlyPreemptions bounds the running jobs stopped or moved within any hour, Preempted is how many were within the last one;
	// JobHourlyPreemptions bounds how often one job is (Job.Preempted). 0 = no bound. See Budget and Spared.
	HourlyPreemptions    int `json:"hourly_preemptions,omitempty"`
	Preempted            int `json:"preempted,omitempty"`
	JobHourlyPreemptions int `json:"job_hourly_preemptions,omitempty"`
	// Accounts that the site grants something, sorted by name.
	Accounts []Account `json:"accounts,omitempty"`
}

// Node is a compute node as planning sees it.
type Node struct {
	Name       string   `json:"name"`
	GPUType    string   `json:"gpu_type,omitempty"`
	GPUs       int      `json:"gpus"`
	CPUs       int      `json:"cpus"`
	MemMB      int64    `json:"mem_mb"`
	Features   []string `json:"features,omitempty"`
	Partitions []string `json:"partitions,omitempty"`
	// Switch is the leaf switch or base block that the node hangs at, Above what is above that, nearest first.
	Switch string   `json:"switch,omitempty"`
	Above  []string `json:"above,omitempty"`
	// Busy are the indices of the GPUs in use now, by whomever; empty when none are or that is not known.
	Busy []int `json:"busy,omitempty"`
	// Usable is false for a node that may not take new work (down, drained, reserved, unknown state); Why says so in words.
	// Jobs already running there may stay.
	Usable bool   `json:"usable"`
	Why    string `json:"why,omitempty"`
	// Wake is how long a job that is started here now waits until the node is up (0: it is). Why says that it is powered down.
	Wake time.Duration `json:"wake_ns,omitempty"`
	// ClosesIn is when a reservation for others or a maintenance begins, from now (0: none is known): whoever could still run then, by his time
	// limit, is not started here. ClosedFor names it.
	ClosesIn  time.Duration `json:"closes_in_ns,omitempty"`
	ClosedFor string        `json:"closed_for,omitempty"`
	// Other* is held by jobs that are not in the Snapshot (unmanaged running jobs, jobs still completing).
	OtherGPUs  int   `json:"other_gpus,omitempty"`
	OtherCPUs  int   `json:"other_cpus,omitempty"`
	OtherMemMB int64 `json:"other_mem_mb,omitempty"`
	// OtherUntil is when the first of these GPUs is expected back (zero: unknown).
	OtherUntil time.Time `json:"other_until,omitzero"`
}

// JobState says what a plan may decide for a job.
type JobState string

const (
	// Waiting jobs may wait or start.
	Waiting JobState = "waiting"
	// Running jobs may be kept, stopped or moved.
	Running JobState = "running"
	// Leaving jobs were told to checkpoint: they hold their GPUs until they exit and are already lost to this plan, which
	// may count on their GPUs coming free.
	Leaving JobState = "leaving"
)

// Job is one job of a Snapshot.
type Job struct {
	Run     Run    `json:"run"`
	Name    string `json:"name,omitempty"`
	User    string `json:"user,omitempty"`
	Account string `json:"account,omitempty"`
	QOS     string `json:"qos,omitempty"`

	Class Class    `json:"class"`
	State JobState `json:"state"`
	// Tiers of an SLO job, times rising.
	Tiers []Tier `json:"tiers,omitempty"`
	// Weight multiplies the reward (accounts, price tiers); 0 means 1.
	Weight float64 `json:"weight,omitempty"`
	// ShareFactor is above 1 while the job's account has had less than its long-run share, below 1 while it has had more (0 means 1): it decides ties
	// between deadlines and multiplies all other rewards.
	ShareFactor float64 `json:"share_factor,omitempty"`
	// Submitted is the first submission; WaitingSince the moment from which ageing counts (the last time it held GPUs, or Submitted).
	Submitted    time.Time `json:"submitted"`
	WaitingSince time.Time `json:"waiting_since,omitzero"`

	// Foreign jobs are not managed: they wait in the cluster's own order and would take free GPUs by themselves. A plan may "start"
	// one, which means that its GPUs are left free for it. They are never stopped.
	Foreign bool `json:"foreign,omitempty"`
	// Blocked, when not empty, says why the job cannot start whatever the plan (user hold, dependency, begin time, limits):
	// it gets no lease and causes no victim.
	Blocked string `json:"blocked,omitempty"`
	// Preemptible is false for a job that must be kept while it runs (no checkpoint, checkpoints fail, no requeue).
	Preemptible bool `json:"preemptible"`
	// Preempted is how often the job was stopped or moved within the last hour.
	Preempted int `json:"preempted,omitempty"`
	// Started reports that the job has held GPUs before, so that its next start pays Estimate.Resume.
	Started bool `json:"started,omitempty"`

	// Unmeasured jobs run on what they asked for, and their first lease is their profile: until it has shown something it earns at least what a profiler does, whatever the
	// Class, and policies that let profilers go first let these.
	Unmeasured bool `json:"unmeasured,omitempty"`

	// Current is the placement of a Running or Leaving job, LeaseUntil the end of its lease: before it, it may only be kept.
	Current    Placement `json:"current,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`

	Needs    Needs    `json:"needs"`
	Estimate Estimate `json:"estimate"`
	// Asked is the number of GPUs that the user asked for (0: not known, the fastest shape's count is taken for it).
	Asked int `json:"asked,omitempty"`
	// Attained is the service so far, in GPU-seconds over all runs, for policies that rank by it.
	Attained float64 `json:"attained_gpu_s,omitempty"`
	// Elastic jobs may take any shape of Estimate.Speeds; others only shapes of their own GPU count (the speeds then list just these).
	Elastic bool `json:"elastic,omitempty"`
	// TimeLeft is what the job's own time limit leaves of this run (0: unlimited).
	TimeLeft time.Duration `json:"time_left_ns,omitempty"`
}

// Profiles reports whether running the job is worth it for what it shows: it is a profiler, or its first lease is its profile.
func (j Job) Profiles() bool { return j.Class == Profiler || j.Unmeasured }

// Needs is what a placement must offer besides GPUs.
type Needs struct {
	GPUType string `json:"gpu_type,omitempty"` // empty: any one type
	// CPUs and memory per GPU and per node; a share of g GPUs needs CPUsPerNode + g*CPUsPerGPU.
	CPUsPerGPU   int   `json:"cpus_per_gpu,omitempty"`
	CPUsPerNode  int   `json:"cpus_per_node,omitempty"`
	MemPerGPUMB  int64 `json:"mem_per_gpu_mb,omitempty"`
	MemPerNodeMB int64 `json:"mem_per_node_mb,omitempty"`
	Exclusive    bool  `json:"exclusive,omitempty"`
	// Partition that the nodes must belong to (empty: any).
	Partition string `json:"partition,omitempty"`
	// Features that every node must have (the conjunctive part of --constraint). A constraint that is not a plain conjunction is
	// given by AnyFeature (each node must have at least one of them).
	Features   []string `json:"features,omitempty"`
	AnyFeature []string `json:"any_feature,omitempty"`
	// Only, when not nil, lists the nodes allowed; Exclude lists nodes forbidden. Both sorted.
	Only    []string `json:"only,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// MaxNodes bounds the nodes of a placement (0: no bound).
	MaxNodes int `json:"max_nodes,omitempty"`
	// Limit is how long a run of the job may last (0: for ever).
	Limit time.Duration `json:"limit_ns,omitempty"`
}

// CPUs is what a share of g GPUs on one node needs.
func (n Needs) CPUs(g int) int { return n.CPUsPerNode + g*n.CPUsPerGPU }

// MemMB is what a share of g GPUs on one node needs.
func (n Needs) MemMB(g int) int64 { return n.MemPerNodeMB + int64(g)*n.MemPerGPUMB }

// Estimate is what the estimator believes about a job.
type Estimate struct {
	// Speeds by shape, fastest (by Mid) first, never empty for a job that may run. Unit: iterations per second.
	Speeds []ShapeSpeed `json:"speeds"`
	// Iterations left until the stop criterion.
	Iterations Interval `json:"iterations"`
	// Resume is the time from a start to the first new iteration, Checkpoint the time from the signal to freed GPUs, in seconds.
	Resume     Interval `json:"resume_s"`
	Checkpoint Interval `json:"checkpoint_s"`
	// Suspensions is the expected number of further resumes (UniSched section 4.3: n(m-n+1)/m - 1 for an SLO job; the preemption rate
	// for best effort).
	Suspensions float64 `json:"suspensions"`
	// Unsaved is the work since the last confirmed checkpoint, in seconds of run time.
	Unsaved float64 `json:"unsaved_s"`
	// Reaches is the probability that a metric target is reached within the user's maximum (1 for declared iterations).
	Reaches float64 `json:"reaches"`
	// Basis says in a few words where the numbers come from ("declared", "profile 1+2+2", "3 leases", "history").
	Basis string `json:"basis,omitempty"`
}

// ShapeSpeed is the speed of one shape in iterations per second.
type ShapeSpeed struct {
	Shape Shape    `json:"shape"`
	Speed Interval `json:"speed"`
}

// SpeedOf returns the speed of a shape, or false when the estimate does not list it.
func (e Estimate) SpeedOf(s Shape) (Interval, bool) {
	for _, x := range e.Speeds {
		if x.Shape.Equal(s) {
			return x.Speed, true
		}
	}
	return Interval{}, false
}

// RunTime is the time that the iterations left take on shape s without interruption, at quantile q of duration (0.5: mid; a higher q is a longer
// time). It returns false when the estimate does not list the shape.
func (e Estimate) RunTime(s Shape, q float64) (time.Duration, bool) {
	v, ok := e.SpeedOf(s)
	if !ok || v.At(1-q) <= 0 {
		return 0, false
	}
	return Seconds(e.Iterations.At(q) / v.At(1-q)), true
}

// maxSeconds keeps durations made from estimates far from overflow: about 30 years.
const maxSeconds = 1e9

// Seconds converts estimates to durations, capped at about 30 years; NaN and negative values become 0.
func Seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, maxSeconds) * float64(time.Second))
}
