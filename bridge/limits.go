package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"unisched/bridge/journal"
	"unisched/slurm"
)

// Slurm names a limit of an association or a QOS only after it has tried to start a job. So that such a job costs a victim once and not again and
// again, what was found is remembered until somebody of the same group lets GPUs go, for an hour at most (ten minutes when it is a licence or the
// like); nobody of the group who asks for as much is tried meanwhile. It is journalled: a restart is no reason to preempt for it again.

// limitMemo is one limit found.
type limitMemo struct {
	Job    slurm.JobID `json:"job"`
	Reason string      `json:"reason"`
	Until  time.Time   `json:"until"`
	GPUs   int         `json:"gpus"` // jobs of fewer GPUs may still fit
	Held   group       `json:"held"` // what the group held when it was found
}

// group is what the running jobs of a group hold.
type group struct {
	Jobs int `json:"jobs"`
	GPUs int `json:"gpus"`
}

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
func (b *Bridge) learnLimit(now time.Time, job *slurm.Job) {
	key, m := groupOf(job.Reason, job), limitMemo{Job: job.ID, Reason: job.Reason, Until: now.Add(otherMemory), GPUs: job.Request.GPUs}
	if job.Partition == b.cfg.ProfilePartition { // the limit of a QOS that its own partition does not have
		key = fmt.Sprintf("job %d", job.ID)
	} else if shared(job.Reason) {
		m.Until = now.Add(limitMemory)
	}
	if strings.Contains(job.Reason, "Jobs") {
		m.GPUs = 0 // a limit on the number of jobs holds for the smallest
	}
	m.Held = b.heldBy(key)
	old, ok := b.limits[key]
	if ok {
		m.GPUs = min(m.GPUs, old.GPUs)
	} else if len(b.limits) >= maxLimits {
		return
	}
	if b.limits == nil {
		b.limits = map[string]limitMemo{}
	}
	b.limits[key] = m
	if !ok || m.Job != old.Job || m.Reason != old.Reason || m.GPUs != old.GPUs || m.Held != old.Held { // seen again and again, it is written once
		b.audit = append(b.audit, entry(now, kindLimit, key, m))
	}
}

// forgetLimits drops what may no longer hold.
func (b *Bridge) forgetLimits(now time.Time) {
	for _, key := range slices.Sorted(maps.Keys(b.limits)) {
		m := b.limits[key]
		held := b.heldBy(key)
		if !now.Before(m.Until) || held.GPUs < m.Held.GPUs || held.Jobs < m.Held.Jobs {
			delete(b.limits, key)
			b.audit = append(b.audit, journal.Entry{Kind: kindLimit, Key: key, At: now.UTC(), Data: json.RawMessage("null")})
		}
	}
}

// restoreLimit takes up what a journal held: no longer than a limit found now would be remembered.
func (b *Bridge) restoreLimit(at time.Time, key string, m limitMemo) {
	if len(b.limits) >= maxLimits {
		return
	}
	if last := at.Add(limitMemory); m.Until.After(last) {
		m.Until = last
	}
	if b.limits == nil {
		b.limits = map[string]limitMemo{}
	}
	b.limits[key] = m
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
				g.Jobs++
				for _, n := range job.NodeGPUs {
					g.GPUs += n.Count
				}
			}
		}
	}
	return g
}

// limitOn says which limit found before keeps the job waiting, "" for none.
func (b *Bridge) limitOn(job *slurm.Job) string {
	if len(b.limits) == 0 {
		return ""
	}
	for _, key := range limitGroups(job) {
		m, ok := b.limits[key]
		switch {
		case !ok || job.Request.GPUs < m.GPUs:
		case m.Job == job.ID:
			return "Slurm would keep it waiting: " + m.Reason
		default:
			return fmt.Sprintf("Slurm would keep it waiting as it does job %d of %s: %s", m.Job, key, m.Reason)
		}
	}
	return ""
}
