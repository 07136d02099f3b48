package estimator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// Forecast is what was predicted for one job at one moment: a record to keep, so that errors are measured for ever.
type Forecast struct {
	Job   planner.JobID `json:"job"`
	Class planner.Class `json:"class"`
	GPUs  int           `json:"gpus"`
	At    time.Time     `json:"at"`
	// Left is the predicted remaining duration at the shape it runs on, in seconds; Ran how long it had run then.
	Left planner.Interval `json:"left_s"`
	Ran  float64          `json:"ran_s"`
	// Finish is the predicted end on the clock, waiting included; zero: none was predicted.
	Finish time.Time `json:"finish,omitzero"`
}

// Finished is the truth about a job: how long it ran in all, in seconds, counted like Forecast.Ran, and when it ended.
type Finished struct {
	Job planner.JobID `json:"job"`
	Ran float64       `json:"ran_s"`
	At  time.Time     `json:"at,omitzero"`
}

// ForecastGroup is the accuracy of a group of forecasts.
type ForecastGroup struct {
	// By is "all", "class", "gpus", "age", "age class" or "age gpus"; Value the value of the group ("50% strict", "25% 5-8").
	By    string `json:"by"`
	Value string `json:"value"`
	N     int    `json:"n"`
	// Error is the mean of |predicted - true| / true of the remaining duration, Bias that of (predicted - true) / true, Coverage the part inside the 80 % interval.
	Error    float64 `json:"mean_rel_error"`
	Bias     float64 `json:"mean_rel_bias"`
	Coverage float64 `json:"coverage_80"`
	// FinishN forecasts also named the end on the clock; FinishError is the mean of |predicted - true| / true of the time until then.
	FinishN     int     `json:"finish_n"`
	FinishError float64 `json:"finish_mean_rel_error"`
}

// ForecastReport is the answer of "unisched report forecast".
type ForecastReport struct {
	Schema int             `json:"schema_version"`
	Groups []ForecastGroup `json:"groups"`
	// Jumps counts forecasts whose predicted total left the 80 % interval of the forecast before; Pending the forecasts of jobs that have not finished.
	Jumps   int `json:"jumps"`
	Pending int `json:"pending"`
}

// ages are the groups of a forecast by the part of the job that was done.
var ages = []struct {
	below float64
	name  string
}{{0.125, "start"}, {0.375, "25%"}, {0.625, "50%"}, {0.875, "75%"}, {math.Inf(1), "end"}}

// doubling is the range of GPU counts between two powers of two: 1, 2, 3-4, 5-8, ...
func doubling(gpus int) string {
	high := 1
	for high < gpus && high < 1<<20 {
		high *= 2
	}
	if high <= 2 {
		return itoa(high)
	}
	return itoa(high/2+1) + "-" + itoa(high)
}

// minLeft is the shortest remaining duration, in seconds, that a relative error makes sense of.
const minLeft = 1

// ScoreForecasts compares forecasts with what happened, whole and by class, GPU count and age.
func ScoreForecasts(fs []Forecast, done []Finished) ForecastReport {
	truth := make(map[planner.JobID]Finished, len(done))
	for _, d := range done {
		if d.Ran > 0 && d.Ran < maxSeconds {
			truth[d.Job] = d
		}
	}
	rep := ForecastReport{Schema: 1, Groups: []ForecastGroup{}, Jumps: Jumps(fs)}
	type sum struct{ n, err, bias, cover, finishN, finish float64 }
	type key struct{ by, value string }
	sums := map[key]*sum{}
	for _, f := range fs {
		end, ok := truth[f.Job]
		if !ok {
			rep.Pending++
			continue
		}
		total, left := end.Ran, end.Ran-f.Ran
		if !(left >= minLeft) || !(f.Left.Mid >= 0) || !(f.Left.Mid <= maxSeconds) {
			continue
		}
		age := ages[slices.IndexFunc(ages, func(a struct {
			below float64
			name  string
		}) bool {
			return f.Ran/total < a.below
		})].name
		rel := (f.Left.Mid - left) / left
		until := end.At.Sub(f.At).Seconds()
		timed := !f.Finish.IsZero() && !end.At.IsZero() && until >= minLeft
		for _, k := range []key{{"all", ""}, {"class", string(f.Class)}, {"gpus", itoa(f.GPUs)}, {"age", age},
			{"age class", age + " " + string(f.Class)}, {"age gpus", age + " " + doubling(f.GPUs)}} {
			s := sums[k]
			if s == nil {
				s = &sum{}
				sums[k] = s
			}
			s.n++
			s.err += math.Abs(rel)
			s.bias += rel
			if f.Left.Low <= left && left <= f.Left.High {
				s.cover++
			}
			if timed {
				s.finishN++
				s.finish += math.Abs(f.Finish.Sub(end.At).Seconds()) / until
			}
		}
	}
	for k, s := range sums {
		rep.Groups = append(rep.Groups, ForecastGroup{k.by, k.value, int(s.n), s.err / s.n, s.bias / s.n, s.cover / s.n, int(s.finishN), s.finish / max(s.finishN, 1)})
	}
	slices.SortFunc(rep.Groups, func(a, b ForecastGroup) int {
		return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Value, b.Value))
	})
	return rep
}

// Jumps counts forecasts whose predicted total run time lies outside of the 80 % interval of the same job's forecast before, and by more than a tenth of it.
func Jumps(fs []Forecast) int {
	sorted := slices.Clone(fs)
	slices.SortStableFunc(sorted, func(a, b Forecast) int { return cmp.Or(cmp.Compare(a.Job, b.Job), a.At.Compare(b.At)) })
	n := 0
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Job == sorted[i-1].Job && Jump(sorted[i-1], sorted[i]) {
			n++
		}
	}
	return n
}

// Jump reports whether b breaks with what a, the forecast of the same job before, said.
func Jump(a, b Forecast) bool {
	total := b.Ran + b.Left.Mid
	return (total < a.Ran+a.Left.Low || total > a.Ran+a.Left.High) && math.Abs(total-a.Ran-a.Left.Mid) > 0.1*(a.Ran+a.Left.Mid)
}
