package bridge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"unisched/bridge/journal"
	"unisched/slurm"
)

// ReleaseReport says what ReleaseDead did. Waiting jobs are not done yet: run it again (a timer does).
type ReleaseReport struct {
	Released int      `json:"released"`
	Waiting  int      `json:"waiting"` // still writing a checkpoint, or running a profile
	Failed   []string `json:"failed,omitempty"`
}

// ReleaseDead gives every job back to plain Slurm while no daemon runs: what a daemon that died left held, delayed, pinned or reshaped. It takes the
// journal's lock, so it never works beside a living daemon ([journal.ErrLocked]). It may be run again and again.
func ReleaseDead(ctx context.Context, cfg Config, cluster Cluster, mem Memory, entries []journal.Entry, now time.Time) (ReleaseReport, error) {
	b, err := New(cfg, Parts{Cluster: cluster, Memory: mem, Policy: nil}, Restored{Entries: entries})
	if err != nil {
		return ReleaseReport{}, err
	}
	b.clockBack(now)
	b.cycle, b.quiet = 1, 0
	b.handsOff = true
	state, err := cluster.State(ctx, now)
	if err != nil {
		return ReleaseReport{}, fmt.Errorf("look at Slurm: %w", err)
	}
	b.followKnown(now, state)
	unsaved := b.persist(now) // a full disk must not keep jobs from being given back
	before := b.counts.Done
	err = b.act(ctx, now)
	if saved := b.persist(now); err == nil {
		err = saved
	}
	rep := ReleaseReport{Released: int(b.counts.Done - before)}
	if state, seen := cluster.State(ctx, now); seen == nil { // believed only when a snapshot shows it
		b.followKnown(now, state)
		if saved := b.persist(now); err == nil {
			err = saved
		}
	}
	err = cmp.Or(err, unsaved)
	for _, rec := range b.known() {
		switch {
		case !rec.Phase.Ours():
		case rec.Phase == Checkpointing || rec.Phase == Requeueing || rec.Phase == Profiling || rec.Changed.Reshape || rec.onlyPinned():
			rep.Waiting++
		case rec.Changed.Any():
			rep.Failed = append(rep.Failed, fmt.Sprintf("job %d", rec.Job))
		}
	}
	return rep, err
}

// onlyPinned reports whether nothing but our node list is left on a job that runs: it does no harm there, Slurm takes a change of it for a wish to
// shrink, and it is taken off when the job is back in the queue.
func (r *Record) onlyPinned() bool {
	c := r.Changed
	return r.Phase == Running && !c.Hold && c.Begin.IsZero() && !c.Nice
}

// followKnown is follow without admitting anybody.
func (b *Bridge) followKnown(now time.Time, s slurm.State) {
	b.seen, b.seenRecs, b.awaits = s, make([]*Record, len(s.Jobs)), awaited(s.Jobs)
	for i := range s.Jobs {
		if rec := b.records[s.Jobs[i].ID]; rec != nil && rec.same(&s.Jobs[i]) {
			b.followJob(now, rec, &s.Jobs[i])
			b.seenRecs[i], rec.shownAt, rec.shownIn = rec, i, b.cycle
		}
	}
}
