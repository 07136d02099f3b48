package bridge

import (
	"fmt"
	"time"
)

// Span writes a duration in at most two units: 3h05m, 4m10s, 2d03h.
func Span(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// LastDeadline is the last of the job's deadlines, zero when it has none.
func (j *JobView) LastDeadline() time.Time {
	if len(j.Tiers) == 0 {
		return time.Time{}
	}
	return j.Tiers[len(j.Tiers)-1].At
}

// Due is the deadline that counts now: the one met, the one that the plan counts on, else the first that is still ahead, else the last. Zero: it has none.
func (j *JobView) Due() time.Time {
	switch n := len(j.Tiers); {
	case n == 0:
		return time.Time{}
	case j.Met != nil && *j.Met >= 0 && *j.Met < n:
		return j.Tiers[*j.Met].At
	case j.Target.Decision != "" && j.Target.Tier >= 0 && j.Target.Tier < n && !j.Phase.Ended():
		return j.Tiers[j.Target.Tier].At
	case j.Phase.Ended() || j.Forecast.IsZero():
		return j.Tiers[n-1].At
	}
	for _, t := range j.Tiers {
		if !t.At.Before(j.Forecast) {
			return t.At
		}
	}
	return j.LastDeadline()
}

// Risk is RiskKind in words, "" when nothing speaks against the job.
func (j *JobView) Risk() string {
	kind, by := j.RiskKind()
	switch kind {
	case RiskMissed:
		return "no deadline was met"
	case RiskNeverFits:
		return "no set of nodes of this cluster can ever hold it"
	case RiskLate:
		return "no deadline of it can be met any more"
	case RiskNoSlack:
		return fmt.Sprintf("even without a pause it would end %s after its last deadline", Span(by))
	case RiskDemoted:
		return fmt.Sprintf("it asked for class %s and is planned as best effort: %s", j.Demoted.Asked, j.Demoted.Why)
	case RiskPlan:
		return fmt.Sprintf("the plan expects its end %s after its last deadline", Span(by))
	}
	return ""
}
