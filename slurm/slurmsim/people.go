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

// Submission is what sbatch is told.
type Submission struct {
	Name, User, Account, Partition, Comment, Constraint string
	QOS                                                 string // default normal
	UID                                                 int64
	// Nodes is --nodes (0: not given), GPUs is --gpus, GPUsPerNode is --gpus-per-node; give one of the two.
	Nodes, GPUs, GPUsPerNode int
	Tasks, CPUsPerTask       int // default 1
	TasksPerGPU              int // 0: as many as Tasks says
	// TimeLimit is --time; 0 and below: unlimited.
	TimeLimit       time.Duration
	Begin           time.Time
	Deadline        time.Time // --deadline
	Hold, NoRequeue bool
	Interactive     bool
	// Array is the number of tasks of a job array, 1 to Array (0: a plain job).
	Array int
	After slurm.JobID // --dependency=afterany
	Nice  int64
	// Priority is what multifactor computes, without nice (default 1000).
	Priority int64
	Body     Body

	adminComment string
}

// Submit hands in a job and returns its id.
func (c *Cluster) Submit(s Submission) slurm.JobID {
	c.lastID++
	id := c.lastID
	if s.Partition == "" {
		s.Partition = "gpu"
	}
	if s.TasksPerGPU > 0 {
		s.Tasks = s.TasksPerGPU * max(s.GPUs, s.GPUsPerNode*max(s.Nodes, 1))
	}
	s.Tasks, s.CPUsPerTask = max(s.Tasks, 1), max(s.CPUsPerTask, 1)
	if s.Priority == 0 {
		s.Priority = 1000
	}
	j := &job{id: id, sub: s, first: c.now, state: slurm.StatePending, base: s.Priority, nice: s.Nice, requeue: !s.NoRequeue, partition: s.Partition,
		req:   request{nodes: max(s.Nodes, 1), maxNodes: s.Nodes, tasks: s.Tasks, perNode: s.GPUsPerNode, perJob: s.GPUs},
		limit: max(s.TimeLimit, 0), begin: c.now, submit: c.now, held: s.Hold, after: s.After,
	}
	for task := range s.Array {
		j.array, j.waiting = id, append(j.waiting, task+1)
	}
	if c.cfg.SubmitDelay > 0 && strings.Contains(s.Comment, "unisched") && s.Begin.IsZero() && s.Deadline.IsZero() {
		s.Begin = second(c.now.Add(c.cfg.SubmitDelay))
		j.sub.adminComment = "unisched-begin=" + strconv.FormatInt(s.Begin.Unix(), 10)
	}
	if s.Begin.After(c.now) {
		j.begin, j.reason = second(s.Begin), "BeginTime"
	}
	if other := c.byID(s.After); s.After != 0 && (other == nil || other.finished()) {
		j.after = 0
	} else if s.After != 0 {
		c.waits[s.After] = append(c.waits[s.After], j)
		j.reason = "Dependency"
	}
	if s.Hold {
		j.reason = "JobHeldUser"
	}
	c.add(j)
	c.sorted = append(c.sorted, j)
	if !s.Deadline.IsZero() {
		c.deadlined = append(c.deadlined, j)
	}
	c.note(j, "submit")
	c.touch(j)
	c.enqueue(j)
	return id
}

// Cancel is scancel.
func (c *Cluster) Cancel(id slurm.JobID) {
	j := c.byID(id)
	switch {
	case j == nil || j.finished():
	case j.requeueing: // it does not come back
		j.requeueing = false
		c.finish(j, slurm.StateCancelled, 0, 15)
	case j.run == nil:
		c.finish(j, slurm.StateCancelled, 0, 0)
		c.rouse()
	default:
		c.finish(j, slurm.StateCancelled, 0, 15)
		c.completes(j)
		c.rouse()
	}
}

// Hold and Release are those of the job's owner; an owner may not release an admin's hold.
func (c *Cluster) Hold(id slurm.JobID) {
	if j := c.byID(id); j != nil && !j.finished() {
		c.hold(j, true, "JobHeldUser")
		c.touch(j)
		c.enqueue(j)
	}
}

// Release takes a user's hold off.
func (c *Cluster) Release(id slurm.JobID) {
	if j := c.byID(id); j != nil && j.held && j.reason != "JobHeldAdmin" {
		c.hold(j, false, "")
		c.touch(j)
		c.enqueue(j)
	}
}

// SetBegin is the owner's scontrol update StartTime.
func (c *Cluster) SetBegin(id slurm.JobID, t time.Time) {
	if j := c.byID(id); j != nil && j.pending() {
		j.begin = second(t)
		c.touch(j)
		c.enqueue(j)
	}
}

// Drain takes a node out of service for new jobs; Down kills what runs there, noticed after the node's time-out; Resume brings it back.
func (c *Cluster) Drain(name, reason string) {
	n := c.byNode[name]
	n.drained, n.reason = true, reason
	c.version++
	c.rouse()
}

// Down lets a node die.
func (c *Cluster) Down(name string) {
	n := c.byNode[name]
	for j := range n.holders {
		if j.run != nil { // its processes are gone at once; Slurm does not know yet
			j.run.over = true
			c.stopTransfer(j.run)
		}
	}
	c.at(c.now.Add(c.cfg.NodeTimeout), func() {
		n.up, n.reason = false, "Not responding"
		c.version++
		var lost []*job
		for j := range n.holders {
			lost = append(lost, j)
		}
		slices.SortFunc(lost, func(a, b *job) int { return int(a.id - b.id) })
		for _, j := range lost {
			switch {
			case j.completing:
			case j.requeue:
				c.goesBack(j, "node failure")
			default:
				c.finish(j, slurm.StateNodeFail, 0, 0)
				c.completes(j)
			}
		}
		c.rouse()
	})
}

// Resume brings a node back.
func (c *Cluster) Resume(name string) {
	n := c.byNode[name]
	n.up, n.drained, n.reason = true, false, ""
	c.version++
	c.rouse()
}

// Forget makes a job vanish without a trace and lets its id be used again, as a controller that crashed before it saved its state does.
func (c *Cluster) Forget(id slurm.JobID) {
	j := c.byID(id)
	c.dequeue(j)
	c.stopRun(j)
	c.free(j)
	j.completing, j.requeueing, j.state = false, false, slurm.StateCancelled
	c.drop(j)
	if c.lastID == id {
		c.lastID--
	}
}

// add makes a new job known.
func (c *Cluster) add(j *job) {
	for slurm.JobID(len(c.jobs)) <= j.id {
		c.jobs = append(c.jobs, nil)
	}
	c.jobs[j.id] = j
}

// byID is the job of an id, nil when it is not known.
func (c *Cluster) byID(id slurm.JobID) *job {
	if id <= 0 || int64(id) >= int64(len(c.jobs)) {
		return nil
	}
	return c.jobs[id]
}

func (c *Cluster) drop(j *job) {
	c.jobs[j.id] = nil
	if i, ok := slices.BinarySearchFunc(c.sorted, j.id, func(x *job, id slurm.JobID) int { return int(x.id - id) }); ok {
		c.sorted = slices.Delete(c.sorted, i, i+1)
	}
	c.version++
	c.changed = c.now
}

// Finished is the number of jobs that have ended, the forgotten ones included.
func (c *Cluster) Finished() int { return c.finished }

// Check reports what can never be right: a node that gives out more than it has.
func (c *Cluster) Check() error {
	for _, n := range c.nodes {
		held := 0
		for _, g := range n.holders {
			held += g
		}
		if n.freeGPUs < 0 || n.freeCPUs < 0 || held+n.freeGPUs != n.GPUs {
			return fmt.Errorf("node %s: %d GPUs held, %d free of %d", n.Name, held, n.freeGPUs, n.GPUs)
		}
	}
	return nil
}

// Unfinished is the number of jobs that are not over.
func (c *Cluster) Unfinished() int {
	n := 0
	for _, j := range c.sorted {
		if !j.finished() {
			n++
		}
	}
	return n
}

// FreeGPUs is the number of GPUs that nobody holds, on whatever node.
func (c *Cluster) FreeGPUs() int {
	n := 0
	for _, x := range c.nodes {
		n += x.freeGPUs
	}
	return n
}

// Edit is what an owner may change of a waiting job with scontrol update; zero fields stay as they are.
type Edit struct {
	GPUs, GPUsPerNode int
	Nodes             int
	Required          []string
	Nice              int64
	Partition         string
	NoRequeue         bool
	NoGPUs            bool
	Comment           string
	QOS, Account      string
}

// Edit changes a job as its owner would.
func (c *Cluster) Edit(id slurm.JobID, e Edit) {
	j := c.byID(id)
	if j == nil || j.finished() {
		return
	}
	if e.NoRequeue {
		j.requeue = false
	}
	j.sub.Comment, j.sub.QOS, j.sub.Account = cmp.Or(e.Comment, j.sub.Comment), cmp.Or(e.QOS, j.sub.QOS), cmp.Or(e.Account, j.sub.Account)
	if e.Nice != 0 {
		j.nice = e.Nice
	}
	if j.pending() {
		if e.NoGPUs {
			j.req.perJob, j.req.perNode = 0, 0
		}
		if e.GPUs > 0 {
			j.req.perJob = e.GPUs
		}
		if e.GPUsPerNode > 0 {
			j.req.perNode = e.GPUsPerNode
		}
		if e.Nodes > 0 {
			j.req.nodes, j.req.maxNodes = e.Nodes, e.Nodes
		}
		if len(e.Required) > 0 {
			j.req.required = slices.Clone(e.Required)
			j.req.nodes, j.req.maxNodes = len(e.Required), len(e.Required)
		}
		if e.Partition != "" {
			j.partition = e.Partition
		}
	}
	c.touch(j)
	c.enqueue(j)
}
