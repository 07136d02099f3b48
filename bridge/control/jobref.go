package control

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"unisched/bridge"
	"unisched/slurm"
)

// Errors of [Find].
var (
	ErrBadJob   = errors.New("no job id")             // not a form that Slurm prints
	ErrNoJob    = errors.New("no such job")           // well formed, but not known to the daemon
	ErrManyJobs = errors.New("names more than one")   // an array without a task
	ErrHetJob   = errors.New("a heterogeneous job's") // the form 12+0
)

const maxRefBytes = 64

// CheckRef says whether ref is a job id in one of Slurm's forms that can name one managed job: 12 or 12_3. Others are explained.
func CheckRef(ref string) error {
	if len(ref) > maxRefBytes {
		return fmt.Errorf("%w: %d bytes long", ErrBadJob, len(ref))
	}
	if leader, part, ok := strings.Cut(ref, "+"); ok && number(leader) && number(part) {
		return fmt.Errorf("%s is %w component: those are left to plain Slurm", ref, ErrHetJob)
	}
	job, task, isTask := strings.Cut(ref, "_")
	if isTask && strings.HasPrefix(task, "[") && number(job) {
		return fmt.Errorf("%s %w: name one task, such as %s_1", ref, ErrManyJobs, job)
	}
	if !number(job) || isTask && !number(task) {
		if step, _, ok := strings.Cut(ref, "."); ok && number(step) {
			return fmt.Errorf("%w: %q is a step or a run; name the job, %s", ErrBadJob, ref, step)
		}
		return fmt.Errorf("%w: %q; write it as Slurm does: 12, or 12_3 for an array's task", ErrBadJob, ref)
	}
	return nil
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil && s[0] != '+'
}

// Find looks a job up by what Slurm prints. An array's number alone is never one of its tasks, although one task carries it as its raw
// id: what is meant for all tasks must not hit that one.
func Find(jobs []bridge.JobView, ref string) (bridge.JobView, error) {
	if err := CheckRef(ref); err != nil {
		return bridge.JobView{}, err
	}
	var tasks []string
	for _, j := range jobs {
		if j.Ref == ref {
			return j, nil
		}
		if strings.HasPrefix(j.Ref, ref+"_") && len(tasks) < 5 {
			tasks = append(tasks, j.Ref)
		}
	}
	if len(tasks) > 0 {
		return bridge.JobView{}, fmt.Errorf("%s %w: it is an array; name one task: %s", ref, ErrManyJobs, strings.Join(tasks, ", "))
	}
	if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
		for _, j := range jobs {
			if j.ID == slurm.JobID(id) {
				return j, nil
			}
		}
	}
	return bridge.JobView{}, fmt.Errorf("%w: %s is unknown to the daemon (finished long ago, not in a managed partition, or not yet seen)", ErrNoJob, ref)
}
