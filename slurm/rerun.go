package slurm

import (
	"context"
	"strings"
)

// Rerun puts a job that has ended badly back into the queue under its own id: Slurm runs it again from its script. It is for jobs that
// failed through our doing, and refuses a reference to a whole array. The caller has just read that the job is finished and was not cancelled; Slurm itself
// would also rerun a completed one.
func (c *Client) Rerun(ctx context.Context, ref Ref) error {
	const op = "rerun job"
	if err := checkRef(op, ref); err != nil {
		return err
	}
	if strings.HasPrefix(ref.Tasks, "[") || ref.SharesID() && ref.Tasks == "" {
		return &Error{Kind: ErrInvalid, Op: op, Msg: "the tasks of an array are rerun one by one"}
	}
	version, err := c.Version(ctx)
	if err != nil {
		return err
	}
	if versionNumber(version) < versionNumber(restRequeue) {
		return c.opts.Scontrol.run(ctx, op, "requeue", ref.String())
	}
	_, err = c.do(ctx, call{op: op, method: "POST", path: "/jobs/requeue", body: map[string]any{"jobs": []string{ref.String()}},
		write: true, timeout: c.opts.Timeouts.Write})
	return err
}
