package bridge

import (
	"fmt"
	"strings"
	"time"

	"unisched/slurm"
)

// Slurm names a limit of an association or a QOS only after it has tried to start a job. So that such a job costs a victim once and not again and
// again, what was found is remembered until somebody of the same group lets GPUs go, for an hour at most (ten minutes when it is a licence or the
// like); nobody of the group who asks for as much is tried meanwhile. It is forgotten with the daemon, which learns it again.

// limitMemo is one limit found.
type limitMemo struct {
	group  string
	job    slurm.JobID
	reason string
	until  time.Time
	gpus   int   // jobs of fewer GPUs may still fit
	held   group // what the group held when it was found
}

// group is what the running jobs of a group hold.
type group struct{ jobs, gpus int }

const (
	limitMemory = time.Hour
	otherMemory = 10 * time.Minute
	maxLimits   = 10000
)

// shared reports whether a reason names a limit of an association or a QOS.
func shared(reason string) bool {
	return strings.HasPrefix(reason, "Assoc") || strings.HasPrefix(reason, "QOS") || strings.HasPrefix(reason, "Max")
}

// groupOf names those who share the limit behind a reason with a job. Reasons are Slurm's words: AssocGrpGRES, QOSMaxGRESPerUser, QOSGrpJobsLimit,
// MaxGRESPerAccount ... Nested accounts are not known here; their own jobs come to the same end one by one.
func groupOf(reason string, job *slurm.Job) string {
	qos := "QOS " + job.QOS
	switch {
	case forbidsGroup(reason):
		return "account " + job.Account + " of user " + job.User
	case strings.HasSuffix(reason, "PerJob"), !shared(reason):
		return fmt.Sprintf("job %d", job.ID)
	case strings.Contains(reason, "PerUser"):
		return qos + " of user " + job.User
	case strings.Contains(reason, "PerAcc"): // PerAccount, PerAcct
		return qos + " of account " + job.Account
	case strings.HasPrefix(reason, "QOS"):
		return qos
	case strings.HasPrefix(reason, "AssocMax"):
		return "account " + job.Account + " of user " + job.User
	}
	return "account " + job.Account
}

// limitGroups are all groups that a job may belong to.
func limitGroups(job *slurm.Job) [6]string {
	qos := "QOS " + job.QOS
	return [6]string{fmt.Sprintf("job %d", job.ID), qos + " of user " + job.User, qos + " of account " + job.Account, qos,
		"account " + job.Account + " of user " + job.User, "account " + job.Account}
}

// learnLimit remembers that Slurm keeps a job waiting for a limit.
func (b *Bridge) learnLimit(now time.Time, job slurm.Job) {
	m := limitMemo{group: groupOf(job.Reason, &job), job: job.ID, reason: job.Reason, until: now.Add(otherMemory), gpus: job.Request.GPUs}
	if job.Partition == b.cfg.ProfilePartition { // the limit of a QOS that its own partition does not have
		m.group = fmt.Sprintf("job %d", job.ID)
	} else if shared(job.Reason) {
		m.until = now.Add(limitMemory)
	}
	if strings.Contains(job.Reason, "Jobs") {
		m.gpus = 0 // a limit on the number of jobs holds for the smallest
	}
	m.held = b.heldBy(m.group)
	if old, ok := b.limits[m.group]; ok {
		m.gpus = min(m.gpus, old.gpus)
	} else if len(b.limits) >= maxLimits {
		return
	}
	if b.limits == nil {
		b.limits = map[string]limitMemo{}
	}
	b.limits[m.group] = m
}

// forgetLimits drops what may no longer hold.
func (b *Bridge) forgetLimits(now time.Time) {
	for key, m := range b.limits {
		held := b.heldBy(key)
		if !now.Before(m.until) || held.gpus < m.held.gpus || held.jobs < m.held.jobs {
			delete(b.limits, key)
		}
	}
}

func (b *Bridge) heldBy(key string) group {
	var g group
	for i := range b.seen.Jobs {
		job := &b.seen.Jobs[i]
		if job.State != slurm.StateRunning && job.State != slurm.StateSuspended {
			continue
		}
		for _, k := range limitGroups(job) {
			if k == key {
				g.jobs++
				for _, n := range job.NodeGPUs {
					g.gpus += n.Count
				}
			}
		}
	}
	return g
}

// limitOn says which limit found before keeps the job waiting, "" for none.
func (b *Bridge) limitOn(job slurm.Job) string {
	if len(b.limits) == 0 {
		return ""
	}
	for _, key := range limitGroups(&job) {
		m, ok := b.limits[key]
		switch {
		case !ok || job.Request.GPUs < m.gpus:
		case m.job == job.ID:
			return "Slurm would keep it waiting: " + m.reason
		default:
			return fmt.Sprintf("Slurm would keep it waiting as it does job %d of %s: %s", m.job, key, m.reason)
		}
	}
	return ""
}
