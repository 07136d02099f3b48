package slurm

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Update changes one job. It is sent once; see the kinds of Error for what a
// failure means. REST takes the raw id here and changes the one record that has
// it: seen on 24.11 and 26.05 for the last task of an array and for the record
// of the waiting tasks, while other tasks ran.
func (c *Client) Update(ctx context.Context, ref Ref, u Update) error {
	const op = "update job"
	if err := checkRef(op, ref); err != nil {
		return err
	}
	if err := u.Check(); err != nil {
		return err
	}
	_, err := c.do(ctx, call{op: op, method: "POST", path: "/job/" + ref.ID.String(), body: u.body(),
		write: true, timeout: c.opts.Timeouts.Write})
	return err
}

// SignalName is one of the signals that a job may be sent. There is none that
// kills, and no empty one: a cancel call without a signal is SIGKILL.
type SignalName string

// The signals of Signal.
const (
	USR1 SignalName = "USR1"
	USR2 SignalName = "USR2"
	TERM SignalName = "TERM"
	INT  SignalName = "INT"
	HUP  SignalName = "HUP"
	QUIT SignalName = "QUIT"
	CONT SignalName = "CONT"
)

// SignalNames are all of them.
func SignalNames() []SignalName { return []SignalName{USR1, USR2, TERM, INT, HUP, QUIT, CONT} }

// Signal is a signal and who gets it: only the batch shell, or the shell, its
// children and all steps.
type Signal struct {
	Name      SignalName
	BatchOnly bool
}

// Signal sends a signal to a running job. The answer's HTTP status says
// nothing; the truth is in its status list, which this method reads.
func (c *Client) Signal(ctx context.Context, ref Ref, s Signal) error {
	const op = "signal job"
	if err := checkRef(op, ref); err != nil {
		return err
	}
	if !slices.Contains(SignalNames(), s.Name) {
		return &Error{Kind: ErrInvalid, Op: op, Msg: "signal " + strconv.Quote(string(s.Name))}
	}
	if strings.HasPrefix(ref.Tasks, "[") || ref.SharesID() && ref.Tasks == "" {
		return &Error{Kind: ErrInvalid, Op: op, Msg: "the tasks of an array are signalled one by one"}
	}
	query := url.Values{"signal": {"SIG" + string(s.Name)}}
	if s.BatchOnly {
		query.Set("flags", "BATCH_JOB")
	}
	_, err := c.do(ctx, call{op: op, method: "DELETE", path: "/job/" + ref.String(), query: query,
		write: true, timeout: c.opts.Timeouts.Write})
	return err
}

// restRequeue is the first version with POST /jobs/requeue.
const restRequeue = "v0.0.45"

// Requeue sends a running job back to the queue, and never a finished one:
// Slurm would run it again. Where REST cannot do it, scontrol does.
func (c *Client) Requeue(ctx context.Context, ref Ref) error {
	const op = "requeue job"
	if err := checkRef(op, ref); err != nil {
		return err
	}
	if strings.HasPrefix(ref.Tasks, "[") || ref.SharesID() && ref.Tasks == "" {
		return &Error{Kind: ErrInvalid, Op: op, Msg: "the tasks of an array are requeued one by one"}
	}
	version, err := c.Version(ctx)
	if err != nil {
		return err
	}
	if versionNumber(version) < versionNumber(restRequeue) {
		return c.opts.Scontrol.run(ctx, op, "requeue", "Incomplete", ref.String())
	}
	body := map[string]any{"jobs": []string{ref.String()}, "flags": []string{"Incomplete"}}
	_, err = c.do(ctx, call{op: op, method: "POST", path: "/jobs/requeue", body: body,
		write: true, timeout: c.opts.Timeouts.Write})
	return err
}

// versionNumber is the last part of "v0.0.45".
func versionNumber(version string) int {
	n, _ := strconv.Atoi(version[strings.LastIndexByte(version, '.')+1:])
	return n
}

// ClearRequiredNodes takes the pin off a waiting job, which REST cannot do. tasks above 0 is the number of its tasks, written along: see [Request.TasksPerGPU].
func (c *Client) ClearRequiredNodes(ctx context.Context, ref Ref, tasks int) error {
	const op = "clear required nodes"
	if err := checkRef(op, ref); err != nil {
		return err
	}
	args := []string{"update", "JobId=" + ref.String(), "ReqNodeList="}
	if tasks > 0 {
		args = append(args, "NumTasks="+strconv.Itoa(tasks))
	}
	return c.opts.Scontrol.run(ctx, op, args...)
}

// SubmitRequest is a batch job, for tests and experiments.
type SubmitRequest struct {
	Name, Account, Partition, Comment string
	Script                            string // begins with #!
	WorkDir, StdOut                   string
	Env                               []string // at least PATH when empty
	Nodes                             string   // "1" or "1-2"
	Tasks                             int
	TRESPerNode, TRESPerJob           string
	TimeLimit                         time.Duration
	Array                             string
	Hold, Requeue                     bool
	BeginTime                         time.Time
}

// Submit hands a batch job in and returns its id.
func (c *Client) Submit(ctx context.Context, s SubmitRequest) (JobID, error) {
	const op = "submit job"
	if s.Script == "" || s.WorkDir == "" {
		return 0, &Error{Kind: ErrInvalid, Op: op, Msg: "a script and a working directory are needed"}
	}
	job := map[string]any{"script": s.Script, "current_working_directory": s.WorkDir, "environment": s.Env, "requeue": s.Requeue}
	if len(s.Env) == 0 {
		job["environment"] = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	for key, value := range map[string]string{"name": s.Name, "account": s.Account, "partition": s.Partition,
		"comment": s.Comment, "standard_output": s.StdOut, "nodes": s.Nodes, "tres_per_node": s.TRESPerNode,
		"tres_per_job": s.TRESPerJob, "array": s.Array} {
		if value != "" {
			job[key] = value
		}
	}
	if s.Tasks > 0 {
		job["tasks"] = s.Tasks
	}
	if s.TimeLimit > 0 {
		job["time_limit"] = boxed(minutesUp(s.TimeLimit))
	}
	if s.Hold {
		job["hold"] = true
	}
	if !s.BeginTime.IsZero() {
		job["begin_time"] = boxed(s.BeginTime.Unix())
	}
	a, err := c.do(ctx, call{op: op, method: "POST", path: "/job/submit", body: map[string]any{"job": job},
		write: true, timeout: c.opts.Timeouts.Write})
	if err != nil {
		return 0, err
	}
	id := readNumberOr(a.rest["job_id"])
	if id.n <= 0 {
		return 0, &Error{Kind: ErrUnknownOutcome, Op: op, HTTP: 200, Msg: "no job id in the answer"}
	}
	return JobID(id.n), nil
}

func checkRef(op string, ref Ref) error {
	if ref.ID <= 0 || ref.Array < 0 || ref.Tasks != "" && ref.Array == 0 ||
		strings.Trim(ref.Tasks, "0123456789-,[]:") != "" {
		return &Error{Kind: ErrInvalid, Op: op, Msg: "job reference " + strconv.Quote(ref.String())}
	}
	return nil
}
