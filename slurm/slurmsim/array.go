package slurmsim

import (
	"slices"
	"strconv"
	"strings"

	"unisched/slurm"
)

// A job array is one record, under the array's number, for all tasks that have not started. Each task that starts is split off as a record with a number of its own; the last
// one takes the array's record over, and with it its number. Calls that name a job by that bare number alone mean every task.

// split makes a record of the first waiting task of an array's own record, which is the record itself when there is only one.
func (c *Cluster) split(j *job) *job {
	task := j.waiting[0]
	if len(j.waiting) == 1 {
		j.waiting, j.task = nil, task
		c.touch(j)
		return j
	}
	j.waiting = slices.Clone(j.waiting[1:])
	c.touch(j)
	t := *j
	c.lastID++
	t.id, t.task, t.waiting, t.queued = c.lastID, task, nil, false
	t.view = slurm.Job{}
	c.add(&t)
	c.sorted = append(c.sorted, &t)
	c.note(&t, "task %d of %d", task, j.array)
	c.touch(&t)
	c.rouse() // for the others
	return &t
}

// meant are the records that a call names: all tasks of an array by its bare number.
func (c *Cluster) meant(ref slurm.Ref) []*job {
	var out []*job
	for _, j := range c.sorted {
		if j.id == ref.ID || ref.Tasks == "" && j.array != 0 && j.array == ref.ID {
			out = append(out, j)
		}
	}
	return out
}

// tasksText is the list of waiting tasks as Slurm writes it, without ranges.
func tasksText(tasks []int) string {
	var parts []string
	for _, t := range tasks {
		parts = append(parts, strconv.Itoa(t))
	}
	return strings.Join(parts, ",")
}
