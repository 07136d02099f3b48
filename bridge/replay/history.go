package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"unisched/bridge/sim"
	"unisched/bridge/sim/trace"
	"unisched/estimator"
	"unisched/planner"
)

// History is what a folder of rounds tells.
type History struct {
	From, Until time.Time
	Rounds      int
	Unit        time.Duration
	SLOUnits    int
	// Timeouts counts rounds whose solver proved nothing in time, Cached those of them that used the plan before, and those that used a fallback. They are of the
	// policy that made the plans. (The plan before may also simply be the best one: that is no fault.)
	Timeouts, Cached int
	Solves           []time.Duration
	// Nodes of the cluster as planned on, each of PerNode GPUs; Note says what that leaves out.
	Nodes, PerNode int
	Note           string
	// Outcomes are the jobs that ended, by submission; Open counts those seen that had not.
	Outcomes []Outcome
	Open     int
	// Happened are the figures of what really happened, in the simulator's terms.
	Happened sim.Figures
	// Forecast scores what was forecast of the running jobs.
	Forecast estimator.ForecastReport

	last map[planner.JobID]planner.Job // as last seen
	ran  map[planner.JobID]planner.Shape
}

// maxForecasts bounds the forecasts kept of one job.
const maxForecasts = 64

// Load reads all rounds once. told, unless nil, hears how many of how many are read.
func Load(r Records, told func(done, all int)) (*History, error) {
	h := &History{last: map[planner.JobID]planner.Job{}, ran: map[planner.JobID]planner.Shape{}}
	ended := map[planner.JobID]Outcome{}
	started := map[planner.JobID]time.Time{}
	forecasts := map[planner.JobID][]estimator.Forecast{}
	var holes, held float64
	var sizes, free []int
	before := 0 // hole of the round before
	other := 0.0
	for i := range r.Len() {
		x, err := r.Read(i)
		if err != nil {
			return nil, err
		}
		if told != nil {
			told(i+1, r.Len())
		}
		s := x.Snapshot
		if h.Rounds == 0 {
			h.From = s.Now
		}
		span := s.Unit
		if h.Rounds > 0 {
			span = min(max(s.Now.Sub(h.Until), 0), 2*s.Unit) // a daemon that was away saw nothing
		}
		h.Until, h.Unit, h.SLOUnits = s.Now, s.Unit, max(s.SLOUnits, 1)
		h.Rounds++
		h.solver(x.Plan)
		for _, o := range x.Ended {
			if o.End.After(o.Submitted) {
				ended[o.Job] = o
			}
		}
		sum, perNode, others := 0, 0, 0
		for _, n := range s.Nodes {
			if n.Usable {
				sum, perNode, others = sum+n.GPUs, max(perNode, n.GPUs), others+n.OtherGPUs
			}
		}
		sizes, free = append(sizes, sum), append(free, perNode)
		other += float64(others)
		hole, used := h.look(s, sum-others, started, forecasts)
		// A hole lasts from one round to the next when both see it: somebody who has just arrived is no hole.
		holes += float64(min(hole, before)) * span.Seconds()
		held += float64(used) * span.Seconds()
		before = hole
	}
	h.size(sizes, free, other)
	h.close(ended, forecasts)
	h.Happened = h.figures(holes, held, sizes)
	return h, nil
}

// solver books the solver's part of a round.
func (h *History) solver(p planner.Plan) {
	if p.Candidate == "last" && !p.Solver.Proven() || p.Candidate == "fallback" {
		h.Cached++
	}
	if p.Solver.Asked() {
		h.Solves = append(h.Solves, p.Solver.Solve)
	}
	if !p.Solver.Proven() {
		h.Timeouts++
	}
}

// look takes what a snapshot shows: free GPUs that waiting jobs could have had, GPUs held by jobs of ours, and a forecast for each running one.
func (h *History) look(s planner.Snapshot, total int, started map[planner.JobID]time.Time, forecasts map[planner.JobID][]estimator.Forecast) (hole, used int) {
	var waits []int
	for _, j := range s.Jobs {
		id := j.Run.Job
		if !j.Foreign {
			h.last[id] = j
		}
		gpus := max(j.Asked, 1)
		switch {
		case j.State == planner.Waiting && j.Blocked == "":
			waits = append(waits, gpus)
		case j.State != planner.Waiting:
			used += j.Current.GPUs()
		}
		if j.State != planner.Running || j.Foreign {
			continue
		}
		if started[id].IsZero() {
			started[id] = s.Now
		}
		h.ran[id] = j.Current.Shape()
		v, ok := j.Estimate.SpeedOf(j.Current.Shape())
		if j.Class == planner.Profiler || !ok || !(v.Low > 0) || len(forecasts[id]) >= maxForecasts {
			continue
		}
		if k := len(forecasts[id]); k > 0 && s.Now.Sub(forecasts[id][k-1].At) < max(s.Unit, s.Now.Sub(started[id])/16) {
			continue
		}
		d, ok := estimator.DurationOf(j.Estimate, j.Current.Shape())
		if ok {
			forecasts[id] = append(forecasts[id], estimator.Forecast{Job: id, Class: j.Class, GPUs: gpus, At: s.Now, Left: d.Interval()})
		}
	}
	slices.Sort(waits)
	for _, g := range waits {
		if hole+g > total-used {
			break
		}
		hole += g
	}
	return hole, used
}

// size settles the cluster that the jobs are tried on: nodes alike, as many as the median round had GPUs on usable nodes, less what jobs of others held.
func (h *History) size(sizes, perNode []int, other float64) {
	slices.Sort(sizes)
	slices.Sort(perNode)
	total := sizes[len(sizes)/2]
	h.PerNode = max(perNode[len(perNode)/2], 1)
	away := other / float64(len(sizes))
	h.Nodes = max(int(math.Round((float64(total)-away)/float64(h.PerNode))), 1)
	h.Note = fmt.Sprintf("%d GPUs on usable nodes, %.1f of them held by jobs that are not planned", total, away)
}

// close joins forecasts with truths.
func (h *History) close(ended map[planner.JobID]Outcome, forecasts map[planner.JobID][]estimator.Forecast) {
	for _, o := range ended {
		h.Outcomes = append(h.Outcomes, o)
	}
	slices.SortFunc(h.Outcomes, func(a, b Outcome) int { return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Job, b.Job)) })
	for id := range h.last {
		if _, ok := ended[id]; !ok {
			h.Open++
		}
	}
	var fs []estimator.Forecast
	var done []estimator.Finished
	for _, o := range h.Outcomes {
		// The time on GPUs until a forecast is known of jobs that ran in one piece, which all do while the daemon only looks.
		if !o.Completed || o.Preemptions > 0 || o.Begin.IsZero() {
			continue
		}
		done = append(done, estimator.Finished{Job: o.Job, Ran: o.Ran, At: o.End})
		for _, f := range forecasts[o.Job] {
			// Nobody is measured while the daemon only looks: the first unit stands for the profile. What is left of the last unit is no matter of planning, and
			// relative errors of seconds say nothing.
			f.Ran = f.At.Sub(o.Begin).Seconds()
			if f.Ran >= h.Unit.Seconds() && o.Ran-f.Ran >= h.Unit.Seconds() {
				fs = append(fs, f)
			}
		}
	}
	h.Forecast = estimator.ScoreForecasts(fs, done)
}

// figures are what happened to the jobs that ended.
func (h *History) figures(holes, held float64, sizes []int) sim.Figures {
	var all []sim.Outcome
	for _, o := range h.Outcomes {
		all = append(all, o.simulated(h.From))
	}
	f := sim.Summarize(all)
	f.Name, f.Rounds, f.SolverTimeouts, f.CachedRounds = "happened", h.Rounds, h.Timeouts, h.Cached
	f.HoleGPU, f.HeldGPU = holes, held
	if span := h.Until.Sub(h.From).Seconds(); span > 0 {
		u := held / (span * float64(max(sizes[len(sizes)/2], 1)))
		f.Utilization = &u
	}
	if held+holes > 0 {
		share := holes / (held + holes)
		f.HoleShare = &share
	}
	for _, g := range h.Forecast.Groups {
		if g.By == "all" {
			f.Forecasts, f.ForecastError, f.ForecastBias, f.ForecastCover = g.N, &g.Error, &g.Bias, &g.Coverage
		}
	}
	return f
}

// simulated is an outcome in the simulator's terms.
func (o Outcome) simulated(from time.Time) sim.Outcome {
	s := sim.Outcome{ID: strconv.FormatInt(int64(o.Job), 10), User: o.User, Account: o.Account, Class: o.Class, GPUs: o.GPUs, Submit: o.Submitted.Sub(from),
		Duration: planner.Seconds(o.Ran), Begin: -1, End: -1, Tier: -1, Preemptions: o.Preemptions, Held: o.Ran * float64(o.GPUs)}
	// The records may begin after a submission: times since then would be negative, and count as none.
	shift := max(-s.Submit, 0)
	s.Submit += shift
	if !o.Begin.IsZero() {
		s.Begin = o.Begin.Sub(from) + shift
	}
	if o.Completed {
		s.End = o.End.Sub(from) + shift
	}
	if len(o.Tiers) > 0 {
		s.Due, s.Miss = o.Tiers[0].At.Sub(o.Submitted), 1
		for i, t := range o.Tiers {
			if o.Completed && !o.End.Truncate(time.Second).After(t.At) {
				s.Tier, s.Miss = i, 1-t.Value/o.Tiers[0].Value
				break
			}
		}
	}
	return s
}

// Trace are the jobs that completed, with their true run times, and the speeds that were believed of their shapes: what any policy can be tried on.
func (h *History) Trace() ([]trace.Job, sim.Speeds) {
	speeds := sim.Published()
	speeds.Slowdown = map[string]map[int]map[int]float64{}
	var out []trace.Job
	first := time.Time{}
	for _, o := range h.Outcomes {
		if !o.Completed || !(o.Ran >= 1) || o.GPUs <= 0 {
			continue
		}
		if first.IsZero() {
			first = o.Submitted
		}
		id := strconv.FormatInt(int64(o.Job), 10)
		j := trace.Job{ID: id, User: o.User, Account: o.Account, GPUs: o.GPUs, Submit: o.Submitted.Sub(first), Class: o.Class, Model: id}
		if j.Class == "" {
			j.Class = planner.BestEffort
		}
		for _, t := range o.Tiers {
			j.Tiers = append(j.Tiers, trace.Tier{After: t.At.Sub(o.Submitted), Value: t.Value})
		}
		rel := 1.0
		if seen, ok := h.last[o.Job]; ok {
			speeds.Slowdown[id], rel = slowdown(seen, o.GPUs, h.ran[o.Job])
			j.Checkpoint, j.Resume = planner.Seconds(seen.Estimate.Checkpoint.Mid), planner.Seconds(seen.Estimate.Resume.Mid)
			j.Fixed = !seen.Preemptible && len(seen.Estimate.Speeds) > 0
		}
		j.Duration = max(planner.Seconds(o.Ran*rel), time.Second)
		j.Iterations = max(int64(j.Duration/time.Second), 1)
		out = append(out, j)
	}
	return out, speeds
}

// slowdown is the believed relative speed of a job by number of nodes, and how much faster than on its own placement it would have been on the fewest.
func slowdown(j planner.Job, gpus int, ran planner.Shape) (map[int]map[int]float64, float64) {
	best := 0.0
	for _, s := range j.Estimate.Speeds {
		if s.Shape.GPUs() == gpus {
			best = max(best, s.Speed.Mid)
		}
	}
	rows, rel := map[int]float64{}, 1.0
	for _, s := range j.Estimate.Speeds {
		if s.Shape.GPUs() != gpus || !(best > 0) {
			continue
		}
		v := s.Speed.Mid / best
		if n := len(s.Shape); n > 1 {
			rows[n] = max(rows[n], min(v, 1))
		}
		if s.Shape.Equal(ran) && v > 0 {
			rel = v
		}
	}
	return map[int]map[int]float64{gpus: rows}, rel
}
