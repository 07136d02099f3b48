package plantest

import (
	"fmt"
	"slices"
	"time"

	"unisched/planner"
)

// World is a cluster in which every plan is carried out at once and every estimate is true: enough to see what a policy does over
// many rounds, far from a simulator. Jobs stop and start in no time, except that a resume costs Estimate.Resume.
type World struct {
	planner.Snapshot
	Began, Finished map[planner.JobID]time.Time
	Stops           map[planner.JobID]int
}

// NewWorld starts at the snapshot.
func NewWorld(s planner.Snapshot) *World {
	return &World{Snapshot: s, Began: map[planner.JobID]time.Time{}, Finished: map[planner.JobID]time.Time{}, Stops: map[planner.JobID]int{}}
}

// Add submits a job now.
func (w *World) Add(j planner.Job) {
	j.Submitted, j.WaitingSince = w.Now, w.Now
	w.Jobs = append(w.Jobs, j)
	slices.SortFunc(w.Jobs, func(a, b planner.Job) int { return a.Run.Compare(b.Run) })
}

// Round plans, checks, applies the plan and lets one unit pass.
func (w *World) Round(plan func(planner.Snapshot) planner.Plan) (planner.Plan, error) {
	s := w.Snapshot
	s.Jobs = slices.Clone(w.Jobs)
	p := plan(s)
	if v := planner.Check(s, p); len(v) > 0 {
		return p, fmt.Errorf("at %s: %w", w.Now.Format(time.TimeOnly), v[0])
	}
	var left []planner.Job
	for i, j := range w.Jobs {
		e := p.Entries[i]
		run := w.Unit.Seconds()
		switch e.Decision {
		case planner.Start, planner.Move:
			if e.Decision == planner.Move {
				w.Stops[j.Run.Job]++
			}
			if j.Started {
				run -= j.Estimate.Resume.Mid
			}
			if _, ok := w.Began[j.Run.Job]; !ok {
				w.Began[j.Run.Job] = w.Now
			}
			j.State, j.Started, j.Current, j.LeaseUntil = planner.Running, true, e.Placement, e.LeaseUntil
		case planner.Keep:
			j.LeaseUntil = e.LeaseUntil
		case planner.Stop:
			w.Stops[j.Run.Job]++
			j.State, j.Current, j.LeaseUntil, j.WaitingSince = planner.Waiting, nil, time.Time{}, w.Now
		}
		if j.State == planner.Running {
			v, _ := j.Estimate.SpeedOf(j.Current.Shape())
			need := j.Estimate.Iterations.Mid / v.Mid
			j.Attained += w.Unit.Seconds() * float64(j.Current.GPUs())
			if need <= run {
				w.Finished[j.Run.Job] = w.Now.Add(w.Unit - time.Duration((run-need)*float64(time.Second)))
				continue
			}
			j.Estimate.Iterations = planner.Exactly(j.Estimate.Iterations.Mid - run*v.Mid) // a resume may last for longer than a unit
			j.WaitingSince = w.Now.Add(w.Unit)
		}
		left = append(left, j)
	}
	w.Jobs = left
	w.Now = w.Now.Add(w.Unit)
	return p, nil
}
