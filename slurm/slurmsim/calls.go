package slurmsim

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/slurm"
)

func itoa(n int) string { return strconv.Itoa(n) }

func refuse(op string, kind error, code int, msg string) error {
	return &slurm.Error{Kind: kind, Op: op, HTTP: 500, Code: code, Msg: msg}
}

// State shows the whole cluster. The answer shares nothing that changes later.
func (c *Cluster) State(_ context.Context, now time.Time) (slurm.State, error) {
	if c.shownAt != c.version {
		c.answer()
	}
	s := c.shown
	s.At = now
	return s, nil
}

// answer makes the next answer of State. With Reuse, what has not changed since the answer that it is written over stays.
func (c *Cluster) answer() {
	s := slurm.State{SlurmTime: second(c.changed), Release: "24.11.5", API: "v0.0.42", Cluster: "sim"}
	at := int64(-1)
	if c.cfg.Reuse {
		s.Jobs, s.Nodes, s.Partitions, at = c.spare.Jobs, c.spare.Nodes[:0], c.spare.Partitions, c.spareAt
	}
	n := len(s.Jobs)
	s.Jobs = slices.Grow(s.Jobs[:0], len(c.sorted))[:len(c.sorted)]
	for i, j := range c.sorted {
		if at < j.changed || i >= n || s.Jobs[i].ID != j.id {
			s.Jobs[i] = c.shownJob(j)
		}
	}
	s.Nodes = slices.Grow(s.Nodes, len(c.nodes))
	for _, n := range c.nodes {
		s.Nodes = append(s.Nodes, c.shownNode(n))
	}
	if len(s.Partitions) == 0 || !c.cfg.Reuse {
		s.Partitions = nil
		for _, p := range c.parts {
			s.Partitions = append(s.Partitions, c.shownPartition(p))
		}
	}
	s.Reservations = nil
	for _, r := range c.reserved {
		if r.End.After(c.now) {
			s.Reservations = append(s.Reservations, r)
		}
	}
	c.spare, c.spareAt = c.shown, c.shownAt
	c.shown, c.shownAt = s, c.version
}

// known finds a job for a call.
func (c *Cluster) known(op string, id slurm.JobID) (*job, error) {
	if j := c.byID(id); j != nil {
		return j, nil
	}
	return nil, refuse(op, slurm.ErrNotFound, 2017, "Invalid job id specified")
}

// Job shows one job.
func (c *Cluster) Job(_ context.Context, id slurm.JobID) (slurm.Job, error) {
	j, err := c.known("get job", id)
	if err != nil {
		return slurm.Job{}, err
	}
	return c.shownJob(j), nil
}

// Update changes one job. As in Slurm it is not atomic: what was changed before a refusal stays changed.
func (c *Cluster) Update(_ context.Context, ref slurm.Ref, u slurm.Update) error {
	const op = "update job"
	if err := u.Check(); err != nil {
		return err
	}
	j, err := c.known(op, ref.ID)
	if err != nil {
		return err
	}
	if j.finished() {
		return refuse(op, slurm.ErrFinished, 2084, "Job has already finished")
	}
	defer func() {
		c.touch(j)
		c.enqueue(j)
	}()
	for _, part := range []func(*job, slurm.Update) error{c.updateRequest, c.updateTimes, c.updatePriority} {
		if err := part(j, u); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) updateRequest(j *job, u slurm.Update) error {
	const op = "update job"
	notPending := refuse(op, slurm.ErrNotPending, 2073, "Job is no longer pending execution")
	pending := j.pending()
	if u.Partition.Set {
		if !pending {
			return notPending
		}
		if _, ok := c.partition(u.Partition.Value); !ok {
			return refuse(op, slurm.ErrRefused, 2000, "Invalid partition name specified")
		}
		j.partition = u.Partition.Value
	}
	if !pending && c.shrinks(j, u) { // before anything else of the call is refused, a partition aside (seen)
		return notPending
	}
	if u.TRESPerNode.Set || u.TRESPerJob.Set || u.Tasks.Set || u.ExcludedNodes.Set {
		if !pending {
			return notPending
		}
	}
	if u.RequiredNodes != nil || u.Nodes.Set {
		if !pending {
			return refuse(op, slurm.ErrRefused, 2018, "Invalid node name specified")
		}
		for _, n := range u.RequiredNodes {
			if c.byNode[n] == nil {
				return refuse(op, slurm.ErrRefused, 2018, "Invalid node name specified")
			}
		}
	}
	if u.RequiredNodes != nil {
		j.req.required = slices.Clone(u.RequiredNodes)
		slices.Sort(j.req.required)
		j.req.nodes, j.req.maxNodes = len(u.RequiredNodes), len(u.RequiredNodes)
	}
	if u.Nodes.Set {
		j.req.nodes, j.req.maxNodes = u.Nodes.Value, max(u.Nodes.Value, u.NodesTo.Value)
	}
	if u.TRESPerNode.Set {
		j.req.perNode = gresNumber(u.TRESPerNode.Value)
	}
	if u.TRESPerJob.Set {
		j.req.perJob = gresNumber(u.TRESPerJob.Value)
	}
	if q := j.req; q.perNode > 0 && q.perJob > 0 && q.perNode*max(q.nodes, 1) != q.perJob {
		return refuse(op, slurm.ErrRefused, 2072, "Invalid generic resource (gres) specification")
	}
	if pending {
		c.recount(j, u.Tasks)
	}
	if u.ExcludedNodes.Set {
		j.req.excluded = slices.Clone(u.ExcludedNodes.Value)
	}
	return nil
}

// recount sets the number of tasks. A call that does not name it sets that of a job with tasks per GPU to its nodes, whatever else it is about (seen on 24.11).
func (c *Cluster) recount(j *job, tasks slurm.Opt[int]) {
	switch {
	case tasks.Set:
		j.req.tasks = tasks.Value
	case j.sub.TasksPerGPU > 0:
		j.req.tasks = max(j.req.nodes, 1)
	}
}

// shrinks lets a running job give up nodes, as a smaller number or a part of its nodes in an update does, whatever else is refused of it: here the training dies of it.
func (c *Cluster) shrinks(j *job, u slurm.Update) bool {
	if j.run == nil || j.completing {
		return false
	}
	kept := len(j.alloc)
	if u.Nodes.Set && u.NodesTo.Value <= u.Nodes.Value {
		kept = u.Nodes.Value
	}
	if u.RequiredNodes != nil {
		kept = len(u.RequiredNodes)
		for _, name := range u.RequiredNodes {
			if !slices.ContainsFunc(j.alloc, func(s share) bool { return s.node.Name == name }) {
				return false
			}
		}
	}
	if kept >= len(j.alloc) {
		return false
	}
	c.note(j, "shrunk to %d nodes", kept)
	j.run.ends(c, slurm.StateFailed, 0, 9)
	return true
}

func (c *Cluster) updateTimes(j *job, u slurm.Update) error {
	if u.BeginTime.Set {
		if !j.pending() {
			return refuse("update job", slurm.ErrNotPending, 2073, "Job is no longer pending execution")
		}
		j.begin = c.now
		if u.BeginTime.Value.After(c.now) {
			j.begin = second(u.BeginTime.Value)
		}
		if j.reason == "BeginTime" {
			j.reason = ""
		}
	}
	if u.TimeLimit.Set {
		j.limit = (u.TimeLimit.Value + time.Minute - 1).Truncate(time.Minute)
		if r := j.run; r != nil {
			c.watchLimit(r)
		}
	}
	if u.Requeue.Set {
		j.requeue = u.Requeue.Value
	}
	return nil
}

func (c *Cluster) updatePriority(j *job, u slurm.Update) error {
	if u.Nice.Set {
		j.nice = u.Nice.Value
	}
	if u.Hold.Set && u.Hold.Value != j.held {
		c.hold(j, u.Hold.Value, "JobHeldAdmin")
	}
	if u.Priority.Set {
		if j.held {
			return refuse("update job", slurm.ErrRefused, 2042, "Job is in held state, pending scheduler release")
		}
		j.base = u.Priority.Value + j.nice
	}
	return nil
}

func (c *Cluster) hold(j *job, on bool, why string) {
	j.held = on
	if !j.pending() {
		return
	}
	j.reason = ""
	if on {
		j.reason = why
	}
}

// Signal sends a signal to a running job, or to every task of an array that is named by its bare number.
func (c *Cluster) Signal(_ context.Context, ref slurm.Ref, s slurm.Signal) error {
	const op = "signal job"
	j, err := c.known(op, ref.ID)
	if err != nil {
		return err
	}
	for _, other := range c.meant(ref) {
		if other != j && other.run != nil {
			c.note(other, "signal %s", s.Name)
			other.run.signal(c, s.Name)
		}
	}
	if !slices.Contains(slurm.SignalNames(), s.Name) {
		return &slurm.Error{Kind: slurm.ErrInvalid, Op: op, Msg: "signal " + strconv.Quote(string(s.Name))}
	}
	switch {
	case j.finished():
		return refuse(op, slurm.ErrFinished, 2021, "Job/step already completing or completed")
	case j.run == nil:
		return refuse(op, slurm.ErrRefused, 2020, "Job is pending execution")
	}
	c.note(j, "signal %s", s.Name)
	j.run.signal(c, s.Name)
	return nil
}

// Requeue sends an unfinished job back to the queue; a finished job is refused.
func (c *Cluster) Requeue(_ context.Context, ref slurm.Ref) error {
	const op = "requeue job"
	j, err := c.known(op, ref.ID)
	switch {
	case err != nil:
		return err
	case j.finished() || j.completing:
		return refuse(op, slurm.ErrFinished, 2021, "Job/step already completing or completed")
	case !j.requeue:
		return refuse(op, slurm.ErrRefused, 2037, "Requested operation is presently disabled")
	case j.pending(): // nothing changes, and that is no error
		return nil
	}
	for _, other := range c.meant(ref) {
		if other != j && other.run != nil {
			c.goesBack(other, "asked for with its array")
		}
	}
	c.goesBack(j, "asked for")
	return nil
}

// Rerun puts a finished job back into the queue. As in Slurm it is the same call as Requeue without its guard: a running job goes back too.
func (c *Cluster) Rerun(_ context.Context, ref slurm.Ref) error {
	const op = "rerun job"
	j, err := c.known(op, ref.ID)
	switch {
	case err != nil:
		return err
	case j.completing:
		return refuse(op, slurm.ErrRefused, 2021, "Job/step already completing or completed")
	case !j.requeue:
		return refuse(op, slurm.ErrRefused, 2037, "Requested operation is presently disabled")
	case j.pending():
		return nil
	case !j.finished():
		c.goesBack(j, "asked for")
		return nil
	}
	j.state, j.reason = slurm.StatePending, ""
	j.exit, j.sig = 0, 0
	j.restarts++
	c.finished--
	c.note(j, "rerun")
	c.requeued(j)
	c.touch(j)
	return nil
}

// ClearRequiredNodes takes the node list off a pending job.
func (c *Cluster) ClearRequiredNodes(_ context.Context, ref slurm.Ref, tasks int) error {
	const op = "clear required nodes"
	j, err := c.known(op, ref.ID)
	switch {
	case err != nil:
		return err
	case j.finished():
		return refuse(op, slurm.ErrFinished, 2084, "Job has already finished")
	case !j.pending():
		return refuse(op, slurm.ErrNotPending, 2073, "Job is no longer pending execution")
	}
	j.req.required = nil
	c.recount(j, slurm.Opt[int]{Set: tasks > 0, Value: tasks})
	c.touch(j)
	c.enqueue(j)
	return nil
}

func signalNumber(n slurm.SignalName) int {
	return map[slurm.SignalName]int{slurm.HUP: 1, slurm.INT: 2, slurm.QUIT: 3, slurm.USR1: 10, slurm.USR2: 12, slurm.TERM: 15, slurm.CONT: 18}[n]
}

func placementText(shares []share) string {
	var parts []string
	for _, s := range shares {
		parts = append(parts, s.node.Name+":"+itoa(s.gpus))
	}
	return strings.Join(parts, ",")
}
