package lease

import (
	"slices"
	"time"

	"unisched/planner"
)

// Work is what is left of a job in a play-out: units of time at its best shape, and the GPUs of that shape (or of where it runs).
type Work struct {
	Units float64
	GPUs  int
}

// PlayList plays a plain preemptive list scheduler to the end: at every unit all jobs that may move are sorted by key, less first, and take
// what they find, who runs in place when possible. It returns the first round as a plan, whose tiers are those that the play met and whose
// Objective is what these columns earn in the model, and when each job ends (zero: never). It is the yardstick of bench: a greedy scheduler
// with perfect knowledge of its own future and none of the model's rows.
func PlayList(s planner.Snapshot, cfg Config, key func(j planner.Job, w Work, now time.Time) float64) (planner.Plan, []time.Time) {
	in := newInstance(s, cfg.filled())
	p := planner.Plan{Schema: schema, Now: in.s.Now, Unit: in.s.Unit, Candidate: "list", Entries: make([]planner.Entry, len(in.jobs))}
	f := in.forecast()
	f.key = func(ji int, now time.Time) float64 {
		j := &in.jobs[ji]
		w := Work{Units: f.left[ji], GPUs: j.curr.gpus}
		if len(j.opts) > 0 {
			w.GPUs = j.opts[0].gpus
		}
		return key(*j.Job, w, now)
	}
	for ji := range in.jobs {
		e := planner.Entry{Decision: planner.Wait, Tier: -1}
		if j := &in.jobs[ji]; j.State == planner.Running {
			e = planner.Entry{Decision: planner.Keep, Placement: j.Current, LeaseUntil: j.LeaseUntil, Tier: -1}
		}
		f.seat(ji, e)
		f.order = append(f.order, claim{rank: ji, ji: ji})
	}
	f.slot(in.s.Now)
	for ji := range in.jobs {
		p.Entries[ji] = in.listed(ji, f)
	}
	f.run(maxPlayedUnits)
	for ji := range in.jobs {
		e, j := &p.Entries[ji], &in.jobs[ji]
		for t, tier := range j.Tiers {
			if j.Class.SLO() && !f.ended[ji].IsZero() && !f.ended[ji].After(tier.At) {
				e.Tier = t
				break
			}
		}
		p.Objective += j.cols[in.columnOf(ji, *e)].obj
	}
	return p, f.ended
}

// listed is the decision that the first slot of a list came to.
func (in *instance) listed(ji int, f *forecast) planner.Entry {
	j := &in.jobs[ji]
	e := planner.Entry{Run: j.Run, Decision: planner.Wait, Placement: f.place[ji], LeaseUntil: in.leaseUntil(j), Rank: ji, Tier: -1}
	switch {
	case j.State == planner.Running && len(e.Placement) == 0:
		e.Decision = planner.Stop
	case j.State == planner.Running && slices.Equal(e.Placement, j.Current):
		e.Decision = planner.Keep
	case j.State == planner.Running:
		e.Decision = planner.Move
	case len(e.Placement) > 0:
		e.Decision = planner.Start
	}
	return e
}
