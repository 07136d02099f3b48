package slurm

import (
	"strconv"
	"strings"
	"time"
)

// JobID is Slurm's own number of a job record. Numbers are reused after a
// controller crash or a wrap, so it identifies a job only together with the
// time at which the job was first seen.
type JobID int64

// String is the decimal form that Slurm's commands accept.
func (id JobID) String() string { return strconv.FormatInt(int64(id), 10) }

// Ref names one job, or one task of an array, in a call. In an array the raw
// id of the last task is the array's own, and Slurm takes that number for all
// tasks; a Ref keeps them apart. Make one with Job.Ref, or with JobID.Ref for
// a job that is no array.
type Ref struct {
	ID    JobID  // the record's raw id
	Array JobID  // 0 for a plain job
	Tasks string // "3" or "[2-4]"; "" for a plain job
}

// Ref names a job that is not part of an array.
func (id JobID) Ref() Ref { return Ref{ID: id} }

// SharesID says that the raw id stands for other tasks too.
func (r Ref) SharesID() bool { return r.Array != 0 && r.ID == r.Array }

// String is what scontrol takes: "12", "12_3", "12_[2-4]". The REST calls that
// signal and requeue take it too; the one that updates wants the raw id (HTTP
// 422 otherwise), which there means the one record.
func (r Ref) String() string {
	if r.Array == 0 || r.Tasks == "" {
		return r.ID.String()
	}
	return r.Array.String() + "_" + r.Tasks
}

// BaseState is the one word of a job's state that is not a flag.
type BaseState string

// The base states. StateUnknown stands for a missing state and for words that
// this package does not know; such a job has an entry in Job.Odd.
const (
	StateUnknown     BaseState = "UNKNOWN"
	StatePending     BaseState = "PENDING"
	StateRunning     BaseState = "RUNNING"
	StateSuspended   BaseState = "SUSPENDED"
	StateCompleted   BaseState = "COMPLETED"
	StateCancelled   BaseState = "CANCELLED"
	StateFailed      BaseState = "FAILED"
	StateTimeout     BaseState = "TIMEOUT"
	StateNodeFail    BaseState = "NODE_FAIL"
	StatePreempted   BaseState = "PREEMPTED"
	StateBootFail    BaseState = "BOOT_FAIL"
	StateDeadline    BaseState = "DEADLINE"
	StateOutOfMemory BaseState = "OUT_OF_MEMORY"
)

// Finished says whether a job in this state will never run again by itself.
func (s BaseState) Finished() bool {
	switch s {
	case StateUnknown, StatePending, StateRunning, StateSuspended, "":
		return false
	}
	return true
}

// The job flags that callers branch on. Slurm has more; all are in Job.Flags.
const (
	FlagCompleting   = "COMPLETING"
	FlagConfiguring  = "CONFIGURING"
	FlagRequeued     = "REQUEUED"
	FlagRequeueHold  = "REQUEUE_HOLD"
	FlagSpecialExit  = "SPECIAL_EXIT"
	FlagLaunchFailed = "LAUNCH_FAILED"
	FlagResizing     = "RESIZING"
	FlagStopped      = "STOPPED"
	FlagRevoked      = "REVOKED"
)

// MinMax is a range of counts. Max 0 means that Slurm shows no upper bound.
type MinMax struct {
	Min, Max int
}

// Request is what a job asks for, as the controller holds it now. Zero means
// not asked for.
type Request struct {
	Nodes       MinMax
	Tasks       int
	CPUsPerTask int
	CPUs        int // total

	// TasksPerNode is --ntasks-per-node, TasksPerGPU is --ntasks-per-gpu; 0: not asked for. On 24.11 any change to a waiting job with tasks per GPU that does not
	// name their number sets it to that of the nodes (seen; scontrol release does it, too).
	TasksPerNode, TasksPerGPU int

	MinCPUsPerNode int
	MemPerNodeMB   int64 // MiB
	MemPerCPUMB    int64 // MiB
	TmpDiskMB      int64 // MiB per node

	// The TRES strings as Slurm writes them.
	TRESPerJob, TRESPerNode, TRESPerSocket, TRESPerTask, TRESReq string

	// GPUs is the total over all nodes, from tres_req_str where it holds GPUs,
	// else derived from the per-job, per-node or per-task strings.
	GPUs    int
	GPUType string // "" when any type will do
	// OtherGRES says that shards, MPS or MIG slices are asked for.
	OtherGRES bool

	// Exclusive says that no other job may share the nodes.
	Exclusive     bool
	Contiguous    bool
	Switches      int // at most that many leaf switches, 0 = no wish
	RequiredNodes []string
	ExcludedNodes []string
}

// NodeGPUs is what a job holds on one node.
type NodeGPUs struct {
	Node  string
	Type  string // "" when untyped
	Count int
	// Indices are the device numbers in rising order; empty when Slurm does
	// not say.
	Indices []int
	// Other says that the entry is a shard, MPS or MIG allocation.
	Other bool
}

// Job is one job record. Times are zero when unset.
type Job struct {
	ID         JobID
	ArrayJobID JobID // 0 for a plain job
	// ArrayTask is the task's number, -1 for a plain job and for the record
	// that stands for all tasks still to be split off.
	ArrayTask       int
	ArrayTaskString string // "1-4%1" on the record of the waiting tasks
	HetJobID        JobID  // the leader's id, 0 for a plain job
	HetJobOffset    int

	Name, User, Account, Partition, QOS   string
	Comment, AdminComment, Constraint     string
	Reservation, Licenses, Dependency     string
	Command, WorkDir, SubmitLine          string
	StdOut                                string
	UID                                   int64
	Cluster, FedOrigin, Container, Prefer string

	State  BaseState
	Flags  []string // sorted, without doubles
	Reason string   // Slurm's word; "" for None
	// Held is Slurm's hold flag, of a pending or of a running job.
	Held     bool
	Priority int64
	Nice     int64
	Restarts int
	// Requeue says whether the job may be requeued.
	Requeue bool

	// Begin is the begin time of a waiting job, zero when it has none: Slurm
	// shows it as an eligible time later than the submission.
	Submit, Eligible, Begin time.Time
	Start, End, Deadline    time.Time
	LastSched, PreemptedAt  time.Time

	// TimeLimit is 0 when Unlimited or not known.
	TimeLimit time.Duration
	Unlimited bool

	Request Request

	// Nodes are the allocated nodes in Slurm's order, which is that of
	// NodeGPUs. Both are empty while the job waits.
	Nodes    []string
	NodeGPUs []NodeGPUs
	// AllocGPUs is the total of tres_alloc_str.
	AllocGPUs int
	AllocCPUs int

	// ExitCode and ExitSignal are 0 when the job has not ended.
	ExitCode, ExitSignal int

	// Batch is false for salloc and srun.
	Batch     bool
	Cron      bool
	Federated bool

	// Odd names the fields that could not be understood, sorted. A job with
	// any is to be left alone.
	Odd []string
}

// Ref names the record in calls.
func (j Job) Ref() Ref {
	switch {
	case j.ArrayJobID == 0:
		return Ref{ID: j.ID}
	case j.ArrayTask >= 0:
		return Ref{ID: j.ID, Array: j.ArrayJobID, Tasks: strconv.Itoa(j.ArrayTask)}
	}
	tasks, _, _ := strings.Cut(j.ArrayTaskString, "%")
	if tasks == "" {
		return Ref{ID: j.ID, Array: j.ArrayJobID}
	}
	return Ref{ID: j.ID, Array: j.ArrayJobID, Tasks: "[" + tasks + "]"}
}

// HasFlag reports whether the state carries the flag.
func (j *Job) HasFlag(flag string) bool { return has(j.Flags, flag) }

// IsArray reports whether the record belongs to a job array.
func (j *Job) IsArray() bool { return j.ArrayJobID != 0 }

// IsHet reports whether the record is the leader or a component of a
// heterogeneous job.
func (j *Job) IsHet() bool { return j.HetJobID != 0 }

// GPUs are a node's devices of one type.
type GPUs struct {
	Type  string
	Count int
	Used  int
	// UsedIndices are the device numbers in use, rising; empty when not shown.
	UsedIndices []int
	// Sockets are the sockets that the devices hang on, rising; empty when not
	// shown.
	Sockets []int
	// MIG says that the devices are slices of a GPU.
	MIG bool
}

// NodeState is the one word of a node's state that is not a flag.
type NodeState string

// The base states of a node.
const (
	NodeUnknown   NodeState = "UNKNOWN"
	NodeIdle      NodeState = "IDLE"
	NodeMixed     NodeState = "MIXED"
	NodeAllocated NodeState = "ALLOCATED"
	NodeDown      NodeState = "DOWN"
	NodeError     NodeState = "ERROR"
	NodeFuture    NodeState = "FUTURE"
)

// Node is one compute node.
type Node struct {
	Name  string
	State NodeState
	Flags []string // sorted, without doubles
	// Usable says that Slurm would start a job there now. False for down,
	// draining, failing, silent, powered-down and maintenance nodes, and for
	// every state word that this package does not know.
	Usable bool
	// PoweredDown says that the node is asleep and could be woken.
	PoweredDown bool
	Reason      string
	Reservation string
	Topology    string

	CPUs, AllocCPUs     int
	Sockets             int
	MemMB, AllocMemMB   int64 // MiB
	GPUs                []GPUs
	OtherGRES           bool // shards or MPS are configured
	Features, Available []string
	Partitions          []string
	Weight              int64
	Boot                time.Time
	// Odd names the fields that could not be understood, sorted. Such a node
	// is not Usable.
	Odd []string
}

// HasFlag reports whether the state carries the flag.
func (n *Node) HasFlag(flag string) bool { return has(n.Flags, flag) }

// TotalGPUs is the number of whole GPUs configured.
func (n *Node) TotalGPUs() int {
	sum := 0
	for _, g := range n.GPUs {
		if !g.MIG {
			sum += g.Count
		}
	}
	return sum
}

// UsedGPUs is the number of whole GPUs that the node says are in use.
func (n *Node) UsedGPUs() int {
	sum := 0
	for _, g := range n.GPUs {
		if !g.MIG {
			sum += g.Used
		}
	}
	return sum
}

// Partition is one partition. Limits are 0 when there is none.
type Partition struct {
	Name    string
	Up      bool
	Default bool
	Nodes   []string
	// MaxNodes bounds a job's nodes, MinNodes is the least; 0 = no limit.
	MinNodes, MaxNodes   int
	MaxTime, DefaultTime time.Duration
	QOS                  string // the partition's own
	AllowedQOS           []string
	DeniedQOS            []string
	AllowedAccounts      []string
	DeniedAccounts       []string
	AllowedGroups        []string
	Tier                 int // PriorityTier
	JobFactor            int // PriorityJobFactor
	PreemptMode          []string
	GraceTime            time.Duration
	Exclusive            bool
	MaxCPUsPerNode       int
	Odd                  []string
}

// Reservation is one advance reservation.
type Reservation struct {
	Name       string
	Start, End time.Time
	Nodes      []string
	Users      []string
	Accounts   []string
	Partition  string
	Flags      []string // sorted
	Odd        []string
}

// JobState is the cheap answer of the poll: id, state and flags.
type JobState struct {
	// ID is the raw id. All waiting tasks of an array have the array's id and
	// one JobState each.
	ID JobID
	// Task is the task's number, -1 for a plain job.
	Task  int
	State BaseState
	Flags []string
	Odd   []string
}

// OddCount is how often a field or record could not be understood.
type OddCount struct {
	// What is "job.priority" for a field and "job" for a whole record; it never
	// holds text of users or of the server.
	What  string
	Count int
}

// State is everything that was read from the cluster in one go. It is a value:
// nothing in it changes after it was returned.
type State struct {
	// At is the local time of receipt, given by the caller; SlurmTime is the
	// controller's time of the last change of the jobs, zero when not shown.
	At, SlurmTime time.Time
	Release       string // "26.05.5"
	API           string // "v0.0.45"
	Cluster       string

	Jobs         []Job         // by id
	Nodes        []Node        // by name
	Partitions   []Partition   // by name
	Reservations []Reservation // by name
	Odd          []OddCount    // by What
}

func has(sorted []string, want string) bool {
	for _, s := range sorted {
		if s == want {
			return true
		}
	}
	return false
}
