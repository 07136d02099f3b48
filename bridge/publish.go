package bridge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm"
)

// View is the last published view; never nil.
func (b *Bridge) View() *View { return b.view.Load() }

// publish makes the view that the control socket shows.
func (b *Bridge) publish(now time.Time) {
	b.finishReleases(now)
	if b.trouble == "" && b.view.Load().Trouble == "" && now.Sub(b.shown) < b.cfg.ViewEvery && !now.Before(b.shown) {
		return
	}
	b.shown = now
	v := &View{
		Schema: ViewSchema, At: now, Cycle: b.cycle, Stage: b.staging.Default, Stages: b.staging.list(), Paused: b.paused, Unit: b.cfg.Unit, Cluster: b.seen.Cluster,
		Slurm: b.seen.Release, API: b.seen.API, SeenAt: b.seen.At, Trouble: b.trouble, Suspect: b.suspect,
		NextPlan: now.Truncate(b.cfg.Unit).Add(b.cfg.Unit), Actions: b.counts, LastPlan: b.plan, Snapshot: b.snapshot, GPUs: b.gpuCount(), Standstills: b.standstills(),
	}
	v.Budgets = b.budgets(now)
	jobs := make(map[slurm.JobID]*slurm.Job, len(b.seen.Jobs)) // lookup only
	for i := range b.seen.Jobs {
		jobs[b.seen.Jobs[i].ID] = &b.seen.Jobs[i]
	}
	gone := &slurm.Job{} // what Slurm shows of a job that it has forgotten
	phases := map[Phase]int{}
	all := b.allRecords()
	slices.SortStableFunc(all, func(a, c *Record) int { return cmp.Compare(a.Job, c.Job) })
	v.Jobs = make([]JobView, 0, len(all))
	for _, rec := range all {
		v.Jobs = append(v.Jobs, b.jobView(now, rec, cmp.Or(jobs[rec.Job], gone)))
		phases[rec.Phase]++
	}
	for p, n := range phases {
		v.Counts = append(v.Counts, PhaseCount{p, n})
	}
	slices.SortFunc(v.Counts, func(a, c PhaseCount) int { return cmp.Compare(a.Phase, c.Phase) })
	v.Before, v.Nodes, v.Basis = b.before, b.nodeViews(), b.newBasis()
	b.keepLoad(v)
	v.Loads = b.loads
	b.view.Store(v)
}

func (b *Bridge) gpuCount() GPUCount {
	var g GPUCount
	ours, used := make(map[string]bool, len(b.seen.Nodes)), make(map[string]int, len(b.seen.Nodes))
	for i := range b.seen.Nodes {
		n := &b.seen.Nodes[i]
		our := b.ourNode(n)
		if our && n.Usable {
			g.Total += n.TotalGPUs()
		}
		ours[n.Name] = our
	}
	for i := range b.seenRecs {
		j := &b.seen.Jobs[i]
		if !holds(j) {
			continue
		}
		rec := b.seenRecs[i]
		for _, a := range j.NodeGPUs {
			used[a.Node] += a.Count
			switch {
			case !ours[a.Node]:
			case rec != nil && rec.Phase.OnGPUs():
				g.Managed += a.Count
			default:
				g.Other += a.Count
			}
		}
	}
	g.Free = max(g.Total-g.Managed-g.Other, 0)
	for i := range b.seen.Nodes {
		n := &b.seen.Nodes[i]
		if used := used[n.Name]; ours[n.Name] && n.Usable && used > 0 {
			g.Holes += max(n.TotalGPUs()-used, 0)
		}
	}
	return g
}

// jobView is one job as people see it.
func (b *Bridge) jobView(now time.Time, rec *Record, job *slurm.Job) JobView {
	v := JobView{
		ID: rec.Job, Ref: rec.Ref(), Restart: rec.Restart, Name: rec.Name, User: rec.User, Account: rec.Account, Class: planner.Class(rec.Wish.Class),
		Phase: rec.Phase, Since: rec.Since, Why: rec.Why, SlurmState: string(job.State), SlurmReason: job.Reason, GPUs: rec.Original.GPUs,
		Placement: rec.Placement, LeaseUntil: rec.LeaseUntil, Submitted: rec.FirstSubmit, Target: rec.Target, Estimate: rec.Estimate,
		Iter: rec.Iter, SavedIter: rec.Saved, Preemptions: rec.Preemptions, Strikes: rec.Strikes, NoPreempt: b.whyNotPreempted(rec, job), LostIters: rec.LostIters,
		Returns: slices.Clone(rec.Returns), Stays: slices.Clone(rec.Stays), GPUSeconds: rec.gpuSeconds(now), Changed: rec.Changed, Events: slices.Clone(rec.Events),
		Blocked: rec.Blocked, BlockedBy: rec.BlockedBy, Watched: rec.Phase.Ours() && !b.acts(rec), Profile: rec.Profile, Stop: stopText(rec), Held: rec.heldSeconds(now), Forecasts: rec.Forecasts, Curve: thinned(rec.Curve),
	}
	if rec.Phase.Ended() { // the record of a job that was put back keeps how its last run ended
		v.Ended, v.Exit = rec.Ended, rec.Exit
	}
	v.Reserved, v.Doubted = rec.Reserved.GPUHours, rec.Doubted
	if d := rec.Demoted; d.Kind != "" {
		v.Demoted = &d
	}
	if v.Releasing = rec.Releasing && rec.Phase.Ours(); v.Releasing {
		v.Why = "released: plain Slurm's from now on"
		if rec.onlyPinned() && len(rec.Changed.Pinned) > 0 {
			v.Why += "; its node list is taken off should it come back to the queue"
		}
	}
	if rec.Phase.OnGPUs() && !rec.Run.Start.IsZero() {
		v.Stays = append(v.Stays, Stay{Run: rec.Restart, From: rec.Run.Start, Placement: rec.Placement, Profile: rec.Run.Profile})
	}
	v.Tiers = tiersOf(rec.Wish)
	b.outlook(&v, now, rec)
	return v
}

// outlook fills in what is expected of a job, or how its deadlines came out.
func (b *Bridge) outlook(v *JobView, now time.Time, rec *Record) {
	if rec.Phase.Ended() {
		if tiers := rec.promised(); len(tiers) > 0 && rec.Exit != endUnseen {
			met := -1
			if rec.Phase == Completed {
				met = slices.IndexFunc(tiers, func(t planner.Tier) bool { return !rec.Ended.After(t.At) })
			}
			v.Met = &met
		}
		return
	}
	if !rec.Phase.Ours() || len(rec.Estimate.Speeds) == 0 {
		return
	}
	left, ok := b.leftOf(now, rec)
	if !ok {
		return
	}
	v.Left = left.Interval
	v.Forecast, v.ForecastLow, v.ForecastHigh = rec.finish(now, left)
	work := planner.Seconds(left.quantile)
	for _, t := range v.Tiers {
		if v.Laxity = t.At.Sub(now) - work; v.Laxity >= 0 {
			break
		}
	}
}

// promised are the deadlines that count in the end: those of a job that was demoted for an overrun still do, those of one that was never admitted with them do not.
func (r *Record) promised() []planner.Tier {
	if r.Demoted.Kind == Overrun {
		return r.Demoted.Tiers
	}
	return tiersOf(r.Wish)
}

// whyNotPreempted is the reason in words why a job of ours is not preempted, "" when it may be.
func (b *Bridge) whyNotPreempted(rec *Record, job *slurm.Job) string {
	switch {
	case rec.NoPreempt != "":
		return rec.NoPreempt
	case !rec.Phase.Ours():
		return ""
	case b.stopped(rec.Original.Partition) != "":
		return b.stopped(rec.Original.Partition)
	case rec.Wish.Ckpt.None:
		return "no ckpt= in its comment: it cannot save its work"
	case len(job.Odd) > 0:
		return "Slurm shows fields of it that we do not understand (" + strings.Join(job.Odd, ", ") + "): nobody knows what a signal would do"
	case job.ID != 0 && !job.Requeue:
		return "submitted with --no-requeue: it could not come back"
	case job.State == slurm.StateRunning && job.Held && !rec.Changed.Hold:
		return "its user or an admin holds it: it would come back held"
	case rec.Phase.OnGPUs() && !rec.canBeSignalled() && !b.mayEvict(rec):
		return "no sign of life of this run yet (no progress line): a signal might kill it"
	case !job.Deadline.IsZero():
		return errSlurmDeadline.Error()
	case job.State == slurm.StateSuspended:
		return "suspended: it would not hear the signal"
	case rec.Phase == Profiling && b.profileRisks(rec) != "":
		return b.profileRisks(rec) + ": its profile run ends without a signal"
	case rec.Phase == Running && b.risksOthers(rec) != "":
		return b.risksOthers(rec)
	case rec.Phase == Running:
		return b.noWayBack(rec, job)
	}
	return ""
}

func stopText(rec *Record) string {
	switch s := rec.Wish.Stop; s.Kind {
	case "iters":
		return itoa(s.Iterations) + " iterations"
	case "metric":
		return s.Metric + string(s.Op) + trim(s.Target) + ", at most " + itoa(rec.Wish.Max) + " iterations"
	}
	return "not declared"
}
