package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"unisched/planner"
	"unisched/planner/reward"
	"unisched/slurm"
)

// AccountGrant is what the site grants one account. The zero value grants nothing special.
type AccountGrant struct {
	// MaxGPUs bounds the GPUs that the account's managed jobs hold at once, what its other jobs hold counted in (0: no bound).
	MaxGPUs int
	// Weight multiplies the rewards of its jobs (0: 1).
	Weight float64
	// Share is the part of all service that it is to have in the long run, 0..1 (0: it has no target).
	Share float64
	// StrictGPUHours is what its strict jobs may reserve within the budget's window (0: what [Admission] says).
	StrictGPUHours float64
}

// QOSGrant is what the site says of one QOS: Price multiplies the rewards of its jobs (0: 1).
type QOSGrant struct{ Price float64 }

// maxGrants bounds the accounts and QOS that a site names.
const maxGrants = 10000

// validGrants says what is wrong with the grants, every fault at once.
func (c Config) validGrants() []error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	weight := func(w float64) bool { return w == 0 || w >= 0.001 && w <= 1000 }
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(c.Accounts)) {
		g := c.Accounts[name]
		bad(g.MaxGPUs >= 0 && g.MaxGPUs <= 1<<20, "accounts.%s.max_gpus %d is not within 0..1048576", name, g.MaxGPUs)
		bad(weight(g.Weight), "accounts.%s.weight %v is not within 0.001..1000", name, g.Weight)
		bad(g.Share >= 0 && g.Share <= 1, "accounts.%s.share %v is not within 0..1", name, g.Share)
		bad(g.StrictGPUHours >= 0 && g.StrictGPUHours <= 1e12, "accounts.%s.strict_gpu_hours %v is not within 0..1e12", name, g.StrictGPUHours)
		sum += g.Share
	}
	bad(!(sum > 1+1e-9), "the shares of all accounts are %v together, more than 1", math.Round(sum*1000)/1000)
	for _, name := range slices.Sorted(maps.Keys(c.QOS)) {
		bad(weight(c.QOS[name].Price), "qos.%s.price %v is not within 0.001..1000", name, c.QOS[name].Price)
	}
	bad(len(c.Accounts) <= maxGrants && len(c.QOS) <= maxGrants, "more than %d accounts or qos", maxGrants)
	bad(c.ShareHalfLife >= time.Hour && c.ShareHalfLife <= 5*365*24*time.Hour, "share_half_life %v is not within 1h..43800h", c.ShareHalfLife)
	bad(c.MaxPreemptionsPerHour >= 0 && c.MaxJobPreemptionsPerHour >= 0, "max_preemptions_per_hour and max_job_preemptions_per_hour must not be negative")
	bad(c.MinRun >= 0 && c.MinRun <= 24*time.Hour, "min_run %v is not within 0s..24h", c.MinRun)
	return errs
}

// accounts are the site's grants with what accounts hold outside of the plan and what they have had.
func (b *Bridge) accounts(at time.Time, planned []bool) []planner.Account {
	if len(b.cfg.Accounts) == 0 {
		return nil
	}
	held := make(map[string]int, len(b.cfg.Accounts)) // lookup only
	for i := range b.seen.Jobs {
		job := &b.seen.Jobs[i]
		if job.State != slurm.StateRunning && job.State != slurm.StateSuspended || planned[i] {
			continue
		}
		for _, g := range job.NodeGPUs {
			held[job.Account] += g.Count
		}
	}
	used := b.usedShares(at)
	var out []planner.Account
	for _, name := range slices.Sorted(maps.Keys(b.cfg.Accounts)) {
		g := b.cfg.Accounts[name]
		out = append(out, planner.Account{Name: name, MaxGPUs: g.MaxGPUs, OtherGPUs: held[name], Share: g.Share, Used: used[name]})
	}
	return out
}

// usedShares is the part of the GPU time of all managed jobs that each account has had; what was used a half-life ago counts half. It rests on the
// records alone, so that it survives a restart; jobs whose records are gone no longer count.
func (b *Bridge) usedShares(at time.Time) map[string]float64 {
	sum, used := 0.0, map[string]float64{} // used: lookup only
	add := func(rec *Record) {
		age := time.Duration(0)
		if last := cmp.Or(rec.Ended, rec.LastOnGPUs); !rec.Phase.OnGPUs() && last.Before(at) {
			age = at.Sub(last)
		}
		s := rec.gpuSeconds(at) * math.Exp2(-age.Seconds()/b.cfg.ShareHalfLife.Seconds())
		used[rec.Account] += s
		sum += s
	}
	for _, rec := range b.known() { // sums of floats depend on their order
		add(rec)
	}
	for _, rec := range b.past {
		add(rec)
	}
	if sum > 0 {
		for name := range used {
			used[name] /= sum
		}
	}
	return used
}

// shareFactors are the factors of jobs whose accounts have a share.
func shareFactors(accounts []planner.Account) map[string]float64 {
	out := make(map[string]float64, len(accounts)) // lookup only
	for _, a := range accounts {
		if a.Share > 0 {
			out[a.Name] = reward.Share(a.Share, a.Used)
		}
	}
	return out
}

// cuts is how often the plan stopped or moved a job within the hour before at, now being so included.
func (r *Record) cuts(at time.Time) int {
	n := 0
	for i := range r.Stays {
		if s := &r.Stays[i]; s.Cut && at.Sub(s.To) < time.Hour {
			n++
		}
	}
	if r.Phase == Checkpointing && !r.Run.Profile {
		n++
	}
	return n
}

// preempted sums up the preemptions of the last hour.
func (b *Bridge) preempted(at time.Time) int {
	n := 0
	for _, rec := range b.known() {
		n += rec.cuts(at)
	}
	for _, rec := range b.pastCut {
		n += rec.cuts(at)
	}
	return n
}

// everCut reports whether cuts can be above 0, now or later, of a record that changes no more.
func (r *Record) everCut() bool {
	return r.Phase == Checkpointing || slices.ContainsFunc(r.Stays, func(s Stay) bool { return s.Cut })
}

// minRun is the end of a lease, or of the time that every run is given before it may be stopped.
func (b *Bridge) minRun(rec *Record, until time.Time) time.Time {
	if least := rec.Run.Start.Add(b.cfg.MinRun); b.cfg.MinRun > 0 && !rec.Run.Start.IsZero() && least.After(until) {
		return least
	}
	return until
}
