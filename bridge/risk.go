package bridge

import (
	"time"

	"unisched/planner"
)

// Risk says why a job will not do what its user wants. The set is closed.
type Risk string

// The risks, worst first.
const (
	RiskMissed    Risk = "missed"     // it has ended and met no deadline
	RiskNeverFits Risk = "never-fits" // no set of nodes can ever hold it
	RiskLate      Risk = "late"       // no deadline of it can be met any more, says the plan
	RiskNoSlack   Risk = "no-slack"   // even without a pause it would end after its last deadline
	RiskPlan      Risk = "plan"       // the plan expects its end after its last deadline
	RiskDemoted   Risk = "demoted"    // its deadlines are not planned for: see [Demotion]
)

// RiskKind says what speaks against the job, "" when nothing does, and by how much its last deadline would be missed where that is known.
func (j *JobView) RiskKind() (Risk, time.Duration) {
	last := j.LastDeadline()
	switch {
	case j.Phase == Unmanaged || j.Phase == Released:
	case j.Phase.Ended():
		if j.Met != nil && *j.Met < 0 {
			return RiskMissed, 0
		}
	case j.Target.Reason.Code == planner.ReasonNeverFits:
		return RiskNeverFits, 0
	case j.Target.Reason.Code == planner.ReasonLate:
		return RiskLate, 0
	case j.Demoted != nil:
		return RiskDemoted, 0
	case last.IsZero():
	case j.Laxity < 0:
		return RiskNoSlack, -j.Laxity
	case !j.Forecast.IsZero() && j.Forecast.After(last):
		return RiskPlan, j.Forecast.Sub(last)
	}
	return "", 0
}
