package estimator

import (
	"time"

	"unisched/planner"
)

// Advance brings an estimate up to date when nothing of the job has changed but time and progress: more iterations were done since it was made. It costs next to
// nothing, where [Fabric.Estimate] fits anew. j is the job as it is now; e is not changed.
func (f Fabric) Advance(e planner.Estimate, j Job, more int64, now time.Time) planner.Estimate {
	e.Iterations = e.Iterations.Less(float64(max(more, 0)))
	e.Unsaved = min(finiteOr(j.UnsavedSeconds, 0), maxSeconds)
	e.Suspensions = min(max(f.suspensions(j, e, now), 0), 1e6)
	return e
}
