package slurmsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/slurm"
)

// request is what a job asks for now.
type request struct {
	nodes, maxNodes int // maxNodes 0: no bound
	tasks           int
	perNode, perJob int // GPUs; one of the two may be 0
	required        []string
	excluded        []string
}

// gpus is the total asked for.
func (q request) gpus() int {
	if q.perNode > 0 {
		return q.perNode * max(q.nodes, 1)
	}
	return q.perJob
}

// job is one job. Times are exact here and cut to seconds where they are shown.
type job struct {
	id    slurm.JobID
	sub   Submission
	first time.Time

	state       slurm.BaseState
	completing  bool
	configuring bool // its nodes are waking
	reason      string
	held        bool
	base        int64 // priority without nice
	nice, age   int64
	restarts    int
	requeue     bool
	partition   string
	req         request
	limit       time.Duration
	begin       time.Time // details->begin_time
	after       slurm.JobID
	submit      time.Time
	start, end  time.Time
	exit, sig   int
	requeueing  bool // the run that is completing goes back to the queue
	lastNodes   []*node
	lastEnd     time.Time

	array   slurm.JobID // 0: a plain job
	task    int         // of a record that is one task
	waiting []int       // the tasks of the array's own record that have not started yet

	alloc  []share
	run    *run
	saved  int64 // iteration of the last checkpoint on disk
	queued bool

	changed int64 // the version of the last change
	fresh   bool  // view is up to date
	view    slurm.Job
}

// share is what a job holds on one node.
type share struct {
	node *node
	gpus int
	cpus int
}

func (j *job) pending() bool  { return j.state == slurm.StatePending }
func (j *job) finished() bool { return j.state.Finished() }

func (j *job) priority() int64 {
	if j.held {
		return 0
	}
	return max(j.base-j.nice+j.age, 1)
}

// grow gives a waiting job the age that it has against one that became eligible when the clock of all began: two jobs differ by the same at any time.
func (c *Cluster) grow(j *job) {
	eligible := j.submit
	if j.begin.After(eligible) {
		eligible = j.begin
	}
	j.age = int64(float64(c.cfg.AgePerHour) * (ageHorizon - eligible.Sub(c.cfg.Start).Hours()))
}

// ageHorizon is the hour against which ages are counted, so that they are positive.
const ageHorizon = 1000

// cpus is the number of CPUs: one per task, at least one per node.
func (j *job) cpus() int { return max(j.req.tasks*max(j.sub.CPUsPerTask, 1), max(j.req.nodes, 1)) }

// shown is the job as Slurm shows it.
func (c *Cluster) shownJob(j *job) slurm.Job {
	if j.fresh {
		return j.view
	}
	v := slurm.Job{
		ID: j.id, ArrayTask: -1, Name: j.sub.Name, User: j.sub.User, Account: j.sub.Account, Partition: j.partition, QOS: cmp.Or(j.sub.QOS, "normal"),
		Comment: j.sub.Comment, Constraint: j.sub.Constraint, AdminComment: j.sub.adminComment, UID: j.sub.UID, Cluster: "sim", Batch: !j.sub.Interactive,
		State: j.state, Reason: j.reason, Held: j.held, Priority: j.priority(), Nice: j.nice, Restarts: j.restarts, Requeue: j.requeue,
		Submit: second(j.submit), Eligible: second(j.begin), Start: second(j.start), End: second(j.end), Deadline: second(j.sub.Deadline), TimeLimit: j.limit, Unlimited: j.limit == 0,
		ExitCode: j.exit, ExitSignal: j.sig,
	}
	switch v.ArrayJobID = j.array; {
	case len(j.waiting) > 0:
		v.ArrayTaskString = tasksText(j.waiting)
	case j.array != 0:
		v.ArrayTask = j.task
	}
	if j.completing {
		v.Flags = append(v.Flags, slurm.FlagCompleting)
	}
	if j.configuring && j.run != nil {
		v.Flags = append(v.Flags, slurm.FlagConfiguring)
	}
	if j.reason == "BeginTime" {
		v.Begin = second(j.begin)
	}
	if j.after != 0 {
		v.Dependency = "afterany:" + j.after.String() + "(unfulfilled)"
	}
	if j.run != nil && j.limit > 0 && !j.completing {
		v.End = second(j.start.Add(j.limit)) // the expected end
	}
	q := j.req
	v.Request = slurm.Request{
		Nodes: slurm.MinMax{Min: max(q.nodes, 1), Max: q.maxNodes}, Tasks: q.tasks, TasksPerGPU: j.sub.TasksPerGPU, CPUsPerTask: max(j.sub.CPUsPerTask, 1), CPUs: j.cpus(), GPUs: q.gpus(),
		TRESPerNode: gresText(q.perNode), TRESPerJob: gresText(q.perJob), RequiredNodes: slices.Clone(q.required), ExcludedNodes: slices.Clone(q.excluded),
		TRESReq: fmt.Sprintf("cpu=%d,node=%d,gres/gpu=%d", j.cpus(), max(q.nodes, 1), q.gpus()),
	}
	for _, s := range j.alloc {
		v.Nodes = append(v.Nodes, s.node.Name)
		if s.gpus > 0 {
			v.NodeGPUs = append(v.NodeGPUs, slurm.NodeGPUs{Node: s.node.Name, Count: s.gpus})
		}
		v.AllocGPUs += s.gpus
		v.AllocCPUs += s.cpus
	}
	if len(j.alloc) > 0 {
		v.Request.Nodes = slurm.MinMax{Min: len(j.alloc)} // Slurm shows the allocated number then
	}
	j.view, j.fresh = v, true
	return v
}

func gresText(n int) string {
	if n == 0 {
		return ""
	}
	return "gres/gpu:" + strconv.Itoa(n)
}

// gresNumber reads "gres/gpu:4"; 0 for "".
func gresNumber(s string) int {
	n, err := strconv.Atoi(s[strings.LastIndexByte(s, ':')+1:])
	if err != nil {
		return 0
	}
	return n
}
