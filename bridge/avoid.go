package bridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// Avoid is a node that a job is kept off for a while, after it failed there.
type Avoid struct {
	Node string    `json:"node"`
	Till time.Time `json:"till"`
}

const (
	// avoidFor is how long a job is kept off a node on which it could not be launched, or from which it came back at once.
	avoidFor = 15 * time.Minute
	maxAvoid = 16
	// launchReason is what Slurm says of a job that it holds since a launch failed; nothing but a release ever starts it again.
	launchReason = "launch_failed_requeued_held"
	// maxLaunchFailures is how often such a job is released for another try; more, and it is the job's own.
	maxLaunchFailures = 5
)

// avoid keeps the job off these nodes for a while.
func (r *Record) avoid(now time.Time, p planner.Placement) {
	r.Avoid = slices.DeleteFunc(r.Avoid, func(a Avoid) bool { return !a.Till.After(now) || p.On(a.Node) > 0 })
	for _, s := range p {
		r.Avoid = keep(r.Avoid, maxAvoid, Avoid{s.Node, now.Add(avoidFor)})
	}
	r.dirty = true
}

// where is the placement of the run that is on, or was about to begin.
func (r *Record) where() planner.Placement {
	if r.Phase == Starting {
		return r.Target.Placement
	}
	return r.Placement
}

// launchFailed takes charge of a job that Slurm holds since a node could not launch it: it tries another node, later each time.
func (b *Bridge) launchFailed(now time.Time, rec *Record, job *slurm.Job, at planner.Placement) {
	if !job.Held || !b.launchHeld(job, at) || rec.Changed.Hold || !b.acts(rec) || rec.Phase == Released || rec.LaunchFailures >= maxLaunchFailures {
		return
	}
	rec.LaunchFailures++
	rec.BlockedTill = now.Add(backoff(rec.LaunchFailures - 1))
	rec.Blocked = fmt.Sprintf("it could not be launched on %s (%d of %d times): tried elsewhere from %s on", at, rec.LaunchFailures, maxLaunchFailures,
		rec.BlockedTill.In(b.cfg.Zone).Format(time.TimeOnly))
	rec.Changed.Hold = true // Slurm's, but ours to undo from now on
	rec.avoid(now, at)
	rec.note(now, "launch-failed", rec.Blocked)
	b.log(now, "warn", "launch-failed", rec.Job, "%s", rec.Blocked)
}

// launchHeld reports whether Slurm holds the job since a node could not launch it. Slurm 24.11 shows such a hold as one of the user (seen); the node that it was
// about to run on, which slurmctld drains with a reason of its own, tells the two apart.
func (b *Bridge) launchHeld(job *slurm.Job, at planner.Placement) bool {
	if strings.ReplaceAll(job.Reason, " ", "_") == launchReason {
		return true
	}
	return strings.HasPrefix(job.Reason, "JobHeldUser") && job.Restarts > 0 && slices.ContainsFunc(b.seen.Nodes, func(n slurm.Node) bool {
		return !n.Usable && at.On(n.Name) > 0 && slices.ContainsFunc(launchDrains, func(r string) bool { return strings.HasPrefix(strings.ToLower(n.Reason), r) })
	})
}

// launchDrains are the beginnings of the reasons with which slurmctld drains a node that could not launch a job, in lower case.
var launchDrains = []string{"prolog error", "batch job complete failure", "batch launch failure"}

// forbidden are the nodes that a waiting job must not be planned on: those that it avoids, and those with a reservation that begins before it must have
// ended, on which Slurm would not start it. Sorted.
func (b *Bridge) forbidden(rec *Record, job *slurm.Job, at time.Time) []string {
	var out []string
	for _, a := range rec.Avoid {
		if a.Till.After(at) {
			out = append(out, a.Node)
		}
	}
	for _, r := range b.seen.Reservations {
		if before(job, r, at) {
			out = append(out, r.Nodes...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// before reports whether a job that began now might still run when the reservation, which is not its own, begins.
func before(job *slurm.Job, r slurm.Reservation, now time.Time) bool {
	return r.Name != job.Reservation && r.End.After(now) && (job.Unlimited || job.TimeLimit <= 0 || now.Add(job.TimeLimit).After(r.Start))
}

// reservedAway says which reservation keeps the job from all nodes that it could use; "" when there are others.
func (b *Bridge) reservedAway(now time.Time, rec *Record, job *slurm.Job) string {
	if len(b.seen.Reservations) == 0 {
		return ""
	}
	var by slurm.Reservation
	for _, n := range b.seen.Nodes {
		if !slices.Contains(n.Partitions, rec.Original.Partition) || len(rec.Original.RequiredNodes) > 0 && !slices.Contains(rec.Original.RequiredNodes, n.Name) {
			continue
		}
		i := slices.IndexFunc(b.seen.Reservations, func(r slurm.Reservation) bool { return slices.Contains(r.Nodes, n.Name) && before(job, r, now) })
		if i < 0 {
			return ""
		}
		if r := b.seen.Reservations[i]; by.Name == "" || r.Start.Before(by.Start) {
			by = r
		}
	}
	limit := "it has no time limit"
	if job.TimeLimit > 0 && !job.Unlimited {
		limit = fmt.Sprintf("its time limit is %v", job.TimeLimit)
	}
	switch {
	case by.Name == "":
		return ""
	case !by.Start.After(now):
		return fmt.Sprintf("its nodes are reserved (%s) until %s", by.Name, by.End.In(b.cfg.Zone).Format("2006-01-02 15:04 MST"))
	}
	return fmt.Sprintf("Slurm cannot be sure that it ends before the reservation %s at %s: %s; scontrol update JobId=%s TimeLimit= with less than %v lets it start", by.Name,
		by.Start.In(b.cfg.Zone).Format("2006-01-02 15:04 MST"), limit, job.ID, by.Start.Sub(now).Truncate(time.Minute))
}
