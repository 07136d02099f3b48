package replay

import (
	"fmt"
	"time"

	"unisched/bridge"
	"unisched/bridge/sim"
)

// Thresholds are what a site asks for before the daemon may act on more jobs.
type Thresholds struct {
	// MinSpan and MinJobs are how much history there must be: time, and jobs that completed.
	MinSpan time.Duration
	MinJobs int
	// MaxTimeouts and MaxCached bound the share of rounds whose solver proved nothing in time, and of those that used an old plan.
	MaxTimeouts, MaxCached float64
	// MaxBEJCT bounds the mean completion time of best-effort jobs, over what happened; MaxPreemptions those of a job on average; MaxHoles the share of usable
	// GPU time that stayed free.
	MaxBEJCT, MaxPreemptions, MaxHoles float64
	// MaxForecastError bounds the mean relative error of the run time left, MinCoverage the truths within the 80 % interval.
	MaxForecastError, MinCoverage float64
	// MaxMiss is by how much the weighted miss may exceed what happened, as a fraction of all deadline value.
	MaxMiss float64
}

// DefaultThresholds are those of a site that sets nothing.
func DefaultThresholds() Thresholds {
	return Thresholds{MinSpan: 24 * time.Hour, MinJobs: 50, MaxTimeouts: 0.1, MaxCached: 0.2, MaxBEJCT: 1, MaxPreemptions: 3, MaxHoles: 0.1, MaxForecastError: 0.3,
		MinCoverage: 0.6, MaxMiss: 0}
}

// Validate says what is wrong, every fault at once, by key.
func (t Thresholds) Validate() []error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(t.MinSpan >= 0 && t.MinSpan <= 366*24*time.Hour, "replay.min_span %v is not within 0s..8784h", t.MinSpan)
	bad(t.MinJobs >= 1, "replay.min_jobs %d is below 1", t.MinJobs)
	for _, x := range []struct {
		key    string
		v, top float64
	}{{"max_timeouts", t.MaxTimeouts, 1}, {"max_cached", t.MaxCached, 1}, {"max_be_jct", t.MaxBEJCT, 100}, {"max_preemptions", t.MaxPreemptions, 1000},
		{"max_holes", t.MaxHoles, 1}, {"max_forecast_error", t.MaxForecastError, 100}, {"min_coverage", t.MinCoverage, 1}, {"max_miss", t.MaxMiss, 1}} {
		bad(x.v >= 0 && x.v <= x.top, "replay.%s %v is not within 0..%v", x.key, x.v, x.top)
	}
	return errs
}

// Condition is one thing that a stage asks for.
type Condition struct {
	What  string  `json:"what"`
	Value string  `json:"value"`
	Asked string  `json:"asked"`
	Met   bool    `json:"met"`
	Is    float64 `json:"is"`
	Limit float64 `json:"limit"`
}

// Verdict says whether a stage may be entered. A stage asks for its own conditions and for those of the stages before it.
type Verdict struct {
	Stage      bridge.Stage `json:"stage"`
	Ready      bool         `json:"ready"`
	Conditions []Condition  `json:"conditions"`
}

// Judge compares what happened, and what a policy would have done with it, with the thresholds; the verdicts come in the order of the stages.
func Judge(h *History, f sim.Figures, t Thresholds) []Verdict {
	at := func(ok bool, what string, is, limit float64, format string, sign string) Condition {
		return Condition{What: what, Value: fmt.Sprintf(format, is), Asked: sign + " " + fmt.Sprintf(format, limit), Met: ok, Is: is, Limit: limit}
	}
	most := func(what string, is, limit float64, format string) Condition {
		return at(is <= limit, what, is, limit, format, "at most")
	}
	// none is a condition on jobs of which there were none: nothing speaks against it.
	none := func(what string) Condition {
		return Condition{What: what, Value: "none seen", Asked: "–", Met: true}
	}
	rounds := float64(max(h.Rounds, 1))
	done := 0
	for _, o := range h.Outcomes {
		if o.Completed {
			done++
		}
	}
	span := h.Until.Sub(h.From)
	canary := []Condition{
		at(span >= t.MinSpan, "hours of records", span.Hours(), t.MinSpan.Hours(), "%.1f", "at least"),
		at(done >= t.MinJobs, "jobs completed", float64(done), float64(t.MinJobs), "%.0f", "at least"),
		most("rounds without a proof in time", float64(h.Timeouts)/rounds, t.MaxTimeouts, "%.3f"),
		most("rounds with an old plan", float64(h.Cached)/rounds, t.MaxCached, "%.3f"),
		most("plans refused", float64(f.BadPlans), 0, "%.0f"),
	}
	best := []Condition{none("best-effort JCT over what happened"), none("preemptions per job"), none("share of GPU holes")}
	if f.BEJCTMean != nil && h.Happened.BEJCTMean != nil && *h.Happened.BEJCTMean > 0 {
		best[0] = most("best-effort JCT over what happened", *f.BEJCTMean / *h.Happened.BEJCTMean, t.MaxBEJCT, "%.2f")
	}
	if f.PreemptMean != nil {
		best[1] = most("preemptions per job", *f.PreemptMean, t.MaxPreemptions, "%.2f")
	}
	if f.HoleShare != nil {
		best[2] = most("share of GPU holes", *f.HoleShare, t.MaxHoles, "%.3f")
	}
	miss := func(what string, is, was *float64) Condition {
		if is == nil || was == nil {
			return none(what)
		}
		return most(what, *is-*was, t.MaxMiss, "%+.4f")
	}
	soft := []Condition{none("forecast error"), miss("soft miss over what happened", f.SoftMiss, h.Happened.SoftMiss)}
	if e := h.Happened.ForecastError; e != nil {
		soft[0] = most("forecast error", *e, t.MaxForecastError, "%.3f")
	}
	strict := []Condition{miss("strict miss over what happened", f.StrictMiss, h.Happened.StrictMiss), none("truths within the 80 % interval")}
	if c := h.Happened.ForecastCover; c != nil {
		strict[1] = at(*c >= t.MinCoverage, "truths within the 80 % interval", *c, t.MinCoverage, "%.3f", "at least")
	}
	var out []Verdict
	ready := true
	for _, s := range []struct {
		stage bridge.Stage
		asks  []Condition
	}{{bridge.Canary, canary}, {bridge.StageBestEffort, best}, {bridge.StageSoft, soft}, {bridge.StageStrict, strict}} {
		for _, c := range s.asks {
			ready = ready && c.Met
		}
		out = append(out, Verdict{s.stage, ready, s.asks})
	}
	return out
}

// Next is the stage after one, "" after the last.
func Next(s bridge.Stage) bridge.Stage {
	return map[bridge.Stage]bridge.Stage{bridge.Shadow: bridge.Canary, bridge.Canary: bridge.StageBestEffort, bridge.StageBestEffort: bridge.StageSoft,
		bridge.StageSoft: bridge.StageStrict}[s]
}
