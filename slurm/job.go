package slurm

import (
	"encoding/json"
	"strconv"
	"strings"

	"unisched/slurm/gres"
)

// jobWire holds the fields in use of one job record, not yet understood.
type jobWire struct {
	JobID           raw `json:"job_id"`
	ArrayJobID      raw `json:"array_job_id"`
	ArrayTaskID     raw `json:"array_task_id"`
	ArrayTaskString raw `json:"array_task_string"`
	HetJobID        raw `json:"het_job_id"`
	HetJobOffset    raw `json:"het_job_offset"`

	Name         raw `json:"name"`
	UserName     raw `json:"user_name"`
	Account      raw `json:"account"`
	Partition    raw `json:"partition"`
	QOS          raw `json:"qos"`
	Comment      raw `json:"comment"`
	AdminComment raw `json:"admin_comment"`
	Features     raw `json:"features"`
	Prefer       raw `json:"prefer"`
	Reservation  raw `json:"resv_name"`
	Licenses     raw `json:"licenses"`
	Dependency   raw `json:"dependency"`
	Command      raw `json:"command"`
	WorkDir      raw `json:"current_working_directory"`
	SubmitLine   raw `json:"submit_line"`
	StdOut       raw `json:"standard_output"`
	StdOutFull   raw `json:"stdout_expanded"`
	UserID       raw `json:"user_id"`
	Cluster      raw `json:"cluster"`
	FedOrigin    raw `json:"federation_origin"`
	Container    raw `json:"container"`

	State      raw `json:"job_state"`
	StateFlags raw `json:"state_flags"`
	Reason     raw `json:"state_reason"`
	Hold       raw `json:"hold"`
	Priority   raw `json:"priority"`
	Nice       raw `json:"nice"`
	Restarts   raw `json:"restart_cnt"`
	Requeue    raw `json:"requeue"`

	Submit    raw `json:"submit_time"`
	Eligible  raw `json:"eligible_time"`
	Start     raw `json:"start_time"`
	End       raw `json:"end_time"`
	Deadline  raw `json:"deadline"`
	LastSched raw `json:"last_sched_evaluation"`
	Preempted raw `json:"preempt_time"`
	TimeLimit raw `json:"time_limit"`

	NodeCount      raw `json:"node_count"`
	MaxNodes       raw `json:"max_nodes"`
	Tasks          raw `json:"tasks"`
	TasksPerNode   raw `json:"tasks_per_node"`
	TasksPerTRES   raw `json:"tasks_per_tres"`
	CPUsPerTask    raw `json:"cpus_per_task"`
	CPUs           raw `json:"cpus"`
	MinCPUsPerNode raw `json:"minimum_cpus_per_node"`
	MemPerNode     raw `json:"memory_per_node"`
	MemPerCPU      raw `json:"memory_per_cpu"`
	TmpDisk        raw `json:"minimum_tmp_disk_per_node"`
	TRESPerJob     raw `json:"tres_per_job"`
	TRESPerNode    raw `json:"tres_per_node"`
	TRESPerSocket  raw `json:"tres_per_socket"`
	TRESPerTask    raw `json:"tres_per_task"`
	TRESReq        raw `json:"tres_req_str"`
	TRESAlloc      raw `json:"tres_alloc_str"`
	Shared         raw `json:"shared"`
	Exclusive      raw `json:"exclusive"`
	Contiguous     raw `json:"contiguous"`
	Switches       raw `json:"required_switches"`
	RequiredNodes  raw `json:"required_nodes"`
	ExcludedNodes  raw `json:"excluded_nodes"`

	Nodes      raw `json:"nodes"`
	Resources  raw `json:"job_resources"`
	GresDetail raw `json:"gres_detail"`
	ExitCode   raw `json:"exit_code"`
	BatchFlag  raw `json:"batch_flag"`
	Cron       raw `json:"cron"`
	Flags      raw `json:"flags"`
}

// readJob understands one job record. ok is false when not even the id is
// known; otherwise Job.Odd names what could not be understood.
func readJob(data raw) (j Job, ok bool) {
	var w jobWire
	if !unwire(data, &w) {
		return Job{}, false
	}
	r := &record{}
	id, known := readNumber(w.JobID)
	if !known || id.n <= 0 {
		return Job{}, false
	}
	j = Job{ID: JobID(id.n)}
	r.identity(&j, &w)
	r.texts(&j, &w)
	r.status(&j, &w)
	r.times(&j, &w)
	r.request(&j, &w)
	r.allocation(&j, &w)
	j.Odd = r.notes()
	return j, true
}

func (r *record) identity(j *Job, w *jobWire) {
	j.ArrayJobID = JobID(r.integer("array_job_id", w.ArrayJobID))
	j.ArrayTaskString = r.text("array_task_string", w.ArrayTaskString)
	j.ArrayTask = -1
	if task := r.number("array_task_id", w.ArrayTaskID); task.set && j.ArrayJobID != 0 {
		j.ArrayTask = int(min(task.n, 1<<31-1))
	}
	j.HetJobID = JobID(r.integer("het_job_id", w.HetJobID))
	if j.HetJobID != 0 {
		j.HetJobOffset = r.small("het_job_offset", w.HetJobOffset)
	}
	if j.ArrayJobID < 0 || j.HetJobID < 0 {
		r.note("array_job_id")
		j.ArrayJobID, j.HetJobID = 0, 0
	}
	// A user id may use all 32 bits, so Slurm's marks are plain numbers here.
	if n, err := strconv.ParseInt(string(w.UserID), 10, 64); err == nil {
		j.UID = n
	} else {
		j.UID = r.integer("user_id", w.UserID)
	}
}

func (r *record) texts(j *Job, w *jobWire) {
	for _, t := range []struct {
		dst  *string
		name string
		f    raw
	}{
		{&j.Name, "name", w.Name}, {&j.User, "user_name", w.UserName}, {&j.Account, "account", w.Account},
		{&j.Partition, "partition", w.Partition}, {&j.QOS, "qos", w.QOS}, {&j.Comment, "comment", w.Comment},
		{&j.AdminComment, "admin_comment", w.AdminComment}, {&j.Constraint, "features", w.Features},
		{&j.Prefer, "prefer", w.Prefer}, {&j.Reservation, "resv_name", w.Reservation},
		{&j.Licenses, "licenses", w.Licenses}, {&j.Dependency, "dependency", w.Dependency},
		{&j.Command, "command", w.Command}, {&j.WorkDir, "current_working_directory", w.WorkDir},
		{&j.SubmitLine, "submit_line", w.SubmitLine}, {&j.StdOut, "stdout_expanded", w.StdOutFull},
		{&j.Cluster, "cluster", w.Cluster}, {&j.FedOrigin, "federation_origin", w.FedOrigin},
		{&j.Container, "container", w.Container},
	} {
		*t.dst = r.text(t.name, t.f)
	}
	if j.StdOut == "" {
		j.StdOut = r.text("standard_output", w.StdOut)
	}
	j.Cron = r.text("cron", w.Cron) != ""
	for _, f := range r.list("flags", w.Flags) {
		j.Cron = j.Cron || f == "CRON_JOB"
	}
	j.Federated = j.FedOrigin != ""
	j.Batch = r.boolean("batch_flag", w.BatchFlag)
}

func (r *record) status(j *Job, w *jobWire) {
	j.State, j.Flags = r.jobState(w.State, w.StateFlags)
	if j.Reason = r.text("state_reason", w.Reason); j.Reason == "None" {
		j.Reason = ""
	}
	j.Priority = r.integer("priority", w.Priority)
	j.Nice = r.integer("nice", w.Nice)
	j.Held = r.boolean("hold", w.Hold)
	j.Restarts = r.small("restart_cnt", w.Restarts)
	j.Requeue = r.boolean("requeue", w.Requeue)
	r.exit(j, w.ExitCode)
}

// exit reads the exit status, an object or the number that wait(2) gives.
func (r *record) exit(j *Job, f raw) {
	if absent(f) {
		return
	}
	var w struct {
		Number raw `json:"number"`
		Return raw `json:"return_code"`
		Signal raw `json:"signal"`
	}
	if f[0] != '{' || json.Unmarshal(f, &w) != nil || !absent(w.Number) {
		n := r.integer("exit_code", f)
		j.ExitCode, j.ExitSignal = int(n>>8&0xff), int(n&0x7f)
		return
	}
	j.ExitCode = r.small("exit_code", w.Return)
	var s struct {
		ID    raw `json:"id"`
		OldID raw `json:"signal_id"`
	}
	if absent(w.Signal) {
		return
	}
	if json.Unmarshal(w.Signal, &s) != nil {
		r.note("exit_code")
	}
	if absent(s.ID) {
		s.ID = s.OldID
	}
	j.ExitSignal = r.small("exit_code", s.ID)
}

func (r *record) times(j *Job, w *jobWire) {
	j.Submit = r.instant("submit_time", w.Submit)
	j.Eligible = r.instant("eligible_time", w.Eligible)
	j.Start = r.instant("start_time", w.Start)
	j.End = r.instant("end_time", w.End)
	j.Deadline = r.instant("deadline", w.Deadline)
	j.LastSched = r.instant("last_sched_evaluation", w.LastSched)
	j.PreemptedAt = r.instant("preempt_time", w.Preempted)
	j.TimeLimit, j.Unlimited = r.minutes("time_limit", w.TimeLimit)
	if j.State == StatePending && j.Eligible.After(j.Submit) {
		j.Begin = j.Eligible
	}
}

func (r *record) request(j *Job, w *jobWire) {
	q := &j.Request
	q.Nodes = MinMax{Min: r.small("node_count", w.NodeCount), Max: r.small("max_nodes", w.MaxNodes)}
	q.Tasks = r.small("tasks", w.Tasks)
	q.TasksPerNode, q.TasksPerGPU = tasksPer(w.TasksPerNode), tasksPer(w.TasksPerTRES)
	q.CPUsPerTask = r.small("cpus_per_task", w.CPUsPerTask)
	q.CPUs = r.small("cpus", w.CPUs)
	q.MinCPUsPerNode = r.small("minimum_cpus_per_node", w.MinCPUsPerNode)
	q.MemPerNodeMB = r.integer("memory_per_node", w.MemPerNode)
	q.MemPerCPUMB = r.integer("memory_per_cpu", w.MemPerCPU)
	q.TmpDiskMB = r.integer("minimum_tmp_disk_per_node", w.TmpDisk)
	q.TRESPerJob = r.text("tres_per_job", w.TRESPerJob)
	q.TRESPerNode = r.text("tres_per_node", w.TRESPerNode)
	q.TRESPerSocket = r.text("tres_per_socket", w.TRESPerSocket)
	q.TRESPerTask = r.text("tres_per_task", w.TRESPerTask)
	q.TRESReq = r.text("tres_req_str", w.TRESReq)
	// "none" is Slurm's word for sharing with nobody.
	for _, s := range append(r.list("shared", w.Shared), r.list("exclusive", w.Exclusive)...) {
		switch strings.ToLower(s) {
		case "none", "true", "user", "mcs", "topo":
			q.Exclusive = true
		}
	}
	q.Contiguous = r.boolean("contiguous", w.Contiguous)
	q.Switches = r.small("required_switches", w.Switches)
	q.RequiredNodes = r.hosts("required_nodes", w.RequiredNodes)
	q.ExcludedNodes = r.hosts("excluded_nodes", w.ExcludedNodes)
	r.requestGPUs(q)
}

// tasksPer reads a 16-bit number of tasks, in which Slurm's marks for "not set" are the largest values.
func tasksPer(f raw) int {
	n, known := readNumber(f)
	if !known || n.n < 0 || n.n >= 1<<16-3 {
		return 0
	}
	return int(n.n)
}

// requestGPUs finds the total and the type of the GPUs asked for.
func (r *record) requestGPUs(q *Request) {
	total, err := gres.ParseTRES(q.TRESReq)
	if err != nil {
		r.note("tres_req_str")
	}
	q.OtherGRES = total.Shared
	types := map[string]bool{}
	for _, t := range total.ByType {
		types[t.Type] = true
	}
	derived := int64(0)
	for _, part := range []struct {
		name, s string
		times   int
	}{
		{"tres_per_task", q.TRESPerTask, max(q.Tasks, 1)},
		{"tres_per_socket", q.TRESPerSocket, 0},
		{"tres_per_node", q.TRESPerNode, max(q.Nodes.Min, 1)},
		{"tres_per_job", q.TRESPerJob, 1},
	} {
		entries, err := gres.Parse(part.s)
		if err != nil {
			r.note(part.name)
			continue
		}
		sum := int64(0)
		for _, e := range entries {
			q.OtherGRES = q.OtherGRES || e.Shared()
			if e.GPU() {
				sum += e.Count
				if e.Type != "" {
					types[e.Type] = true
				}
			}
		}
		if sum > 0 && part.times == 0 && total.GPUs == 0 {
			r.note(part.name) // nobody knows the number of sockets
		}
		derived = max(derived, sum*int64(part.times))
	}
	if total.GPUs == 0 {
		total.GPUs = derived
	}
	if total.GPUs > 1<<20 || len(types) > 1 {
		r.note("tres_req_str")
	}
	q.GPUs = int(min(total.GPUs, 1<<20))
	for t := range types {
		if len(types) == 1 {
			q.GPUType = t
		}
	}
}

func (r *record) allocation(j *Job, w *jobWire) {
	if j.Nodes = r.hosts("nodes", w.Nodes); absent(w.Nodes) {
		// Older answers say it only inside job_resources, as text or object.
		if f := dig(w.Resources, "nodes"); !absent(f) {
			j.Nodes = r.hosts("job_resources", f)
		}
	}
	alloc, err := gres.ParseTRES(r.text("tres_alloc_str", w.TRESAlloc))
	if err != nil {
		r.note("tres_alloc_str")
	}
	j.AllocGPUs, j.AllocCPUs = int(min(alloc.GPUs, 1<<20)), int(min(alloc.CPUs, 1<<31-1))
	details := r.gresDetails(w.GresDetail)
	if len(details) == 0 {
		return
	}
	if len(details) != len(j.Nodes) {
		r.note("gres_detail")
		return
	}
	for i, detail := range details {
		entries, err := gres.Parse(detail)
		if err != nil {
			r.note("gres_detail")
			continue
		}
		for _, e := range entries {
			if e.GPU() || e.Shared() {
				j.NodeGPUs = append(j.NodeGPUs, NodeGPUs{Node: j.Nodes[i], Type: e.Type,
					Count: int(min(e.Count, 1<<20)), Indices: e.Indices, Other: !e.GPU()})
			}
		}
	}
}

// gresDetails is one text per node; a single text is that of the only node.
func (r *record) gresDetails(f raw) []string {
	if !absent(f) && f[0] == '"' {
		if s := r.text("gres_detail", f); s != "" {
			return []string{s}
		}
		return nil
	}
	return r.list("gres_detail", f)
}
