package planner

import (
	"slices"
	"strings"
)

// Account is what a site grants one account.
type Account struct {
	Name string `json:"name"`
	// MaxGPUs bounds the GPUs that its managed jobs hold at once (0: no bound). Foreign jobs are the cluster's own business and stay outside.
	MaxGPUs int `json:"max_gpus,omitempty"`
	// OtherGPUs are held by jobs of the account that are not in the Snapshot.
	OtherGPUs int `json:"other_gpus,omitempty"`
	// Share is the part of all service that the account is to have in the long run, Used the part that it had (0..1), for people to read; what they
	// mean for a job is in Job.ShareFactor.
	Share float64 `json:"share,omitempty"`
	Used  float64 `json:"used,omitempty"`
}

// Quota is the bound on the GPUs that one account's jobs may hold by a plan.
type Quota struct {
	Account string
	Max     int
	// Room is Max less what jobs outside of the snapshot hold, but never less than what the account's jobs run on now: a quota stops nobody, it only
	// lets nobody more in.
	Room int
}

// Quotas lists the quotas of a snapshot by account name; of an account named twice the first counts.
func (s Snapshot) Quotas() []Quota {
	var out []Quota
	for _, a := range s.Accounts {
		if a.MaxGPUs > 0 {
			out = append(out, Quota{a.Name, a.MaxGPUs, max(0, a.MaxGPUs-max(0, a.OtherGPUs))})
		}
	}
	slices.SortStableFunc(out, func(a, b Quota) int { return strings.Compare(a.Account, b.Account) })
	out = slices.CompactFunc(out, func(a, b Quota) bool { return a.Account == b.Account })
	held := make([]int, len(out))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if q := QuotaOf(out, j); q >= 0 && j.State == Running {
			held[q] += j.Current.GPUs()
		}
	}
	for q := range out {
		out[q].Room = max(out[q].Room, held[q])
	}
	return out
}

// QuotaOf is the index of the quota that a job counts towards, -1 for none.
func QuotaOf(qs []Quota, j *Job) int {
	if j.Foreign {
		return -1
	}
	q, ok := slices.BinarySearchFunc(qs, j.Account, func(q Quota, name string) int { return strings.Compare(q.Account, name) })
	if !ok {
		return -1
	}
	return q
}

// Budget is how many running jobs a plan may stop or move: what shared storage bears at once, and what is left of the site's budget of this hour.
// bounded is false when the site sets neither.
func (s Snapshot) Budget() (n int, bounded bool) {
	if s.MaxPreemptions > 0 {
		n, bounded = s.MaxPreemptions, true
	}
	if s.HourlyPreemptions > 0 {
		left := max(0, s.HourlyPreemptions-s.Preempted)
		if !bounded || left < n {
			n, bounded = left, true
		}
	}
	return n, bounded
}

// Spared reports whether a running job has been preempted so often within the hour that it may only be kept.
func (s *Snapshot) Spared(j *Job) bool {
	return s.JobHourlyPreemptions > 0 && j.Preempted >= s.JobHourlyPreemptions
}
