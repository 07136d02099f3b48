// Package account keeps what became of every job that has ended, one line each in files that are rotated, and sums those lines up: how many deadlines were
// met, how late jobs were, how long they took, and what Slurm charged for GPU time that served nobody.
//
// It refuses to decide and to guess: nothing is planned from it, figures without jobs are absent, and what the records cannot tell is said so. A full disk costs
// history, never a cycle. The daemon appends to it when jobs end; `unisched report slo` and `unisched postmortem` read it, also while no daemon runs.
package account

import (
	"cmp"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// Entry is one job that has ended. Times are instants, durations seconds.
type Entry struct {
	Schema  int           `json:"schema_version"`
	Job     slurm.JobID   `json:"job_id"`
	Ref     string        `json:"ref"`
	Name    string        `json:"name,omitempty"`
	User    string        `json:"user,omitempty"`
	Account string        `json:"account,omitempty"`
	Class   planner.Class `json:"class"`
	GPUs    int           `json:"gpus"` // as submitted

	Submitted time.Time      `json:"submitted"` // the first time
	Ended     time.Time      `json:"ended"`
	Phase     bridge.Phase   `json:"phase"` // completed, failed or cancelled
	Exit      string         `json:"exit,omitempty"`
	Why       string         `json:"why,omitempty"`
	Tiers     []planner.Tier `json:"tiers,omitempty"`
	// Met is the index of the deadline met, -1 none; absent for jobs without deadlines and where the end was not seen.
	Met  *int   `json:"met,omitempty"`
	Stop string `json:"stop,omitempty"` // the criterion in words

	Preemptions int    `json:"preemptions"`
	Strikes     int    `json:"strikes"` // checkpoints asked for that did not come
	NoPreempt   string `json:"no_preempt,omitempty"`
	Profile     string `json:"profile,omitempty"` // how its measuring ended
	Iter        int64  `json:"iter"`
	LostIters   int64  `json:"lost_iters"`
	// GPUSeconds is all that its runs held; HeldS how long runs held GPUs, profile runs aside.
	GPUSeconds float64 `json:"gpu_s"`
	HeldS      float64 `json:"held_s"`
	// ResumeS and CheckpointS are what one resume and one checkpoint of it are believed to take.
	ResumeS     float64 `json:"resume_s"`
	CheckpointS float64 `json:"checkpoint_s"`
	// Speeds by shape as believed at its end, iterations per second.
	Speeds    []planner.ShapeSpeed `json:"speeds,omitempty"`
	Stays     []bridge.Stay        `json:"stays,omitempty"`
	Returns   []bridge.Return      `json:"returns,omitempty"`
	Forecasts []estimator.Forecast `json:"forecasts,omitempty"`
	Events    []bridge.Event       `json:"events,omitempty"`
}

// The bounds of one entry.
const (
	maxText    = 256
	maxStays   = 200
	maxReturns = 64
	maxEvents  = 80
	maxSpeeds  = 32
)

// Of is the entry of an ended job; false for one that has not ended, was never ours, or whose end is not known.
func Of(j *bridge.JobView) (Entry, bool) {
	if !j.Phase.Ended() || j.Ended.IsZero() || j.Submitted.IsZero() {
		return Entry{}, false
	}
	e := Entry{Schema: bridge.ViewSchema, Job: j.ID, Ref: j.Ref, Name: clip(j.Name), User: clip(j.User), Account: clip(j.Account), Class: j.Class, GPUs: j.GPUs,
		Submitted: j.Submitted, Ended: j.Ended, Phase: j.Phase, Exit: clip(j.Exit), Why: clip(j.Why), Tiers: j.Tiers, Met: j.Met, Stop: clip(j.Stop), Preemptions: j.Preemptions,
		Strikes: j.Strikes, NoPreempt: clip(j.NoPreempt), Profile: clip(j.Profile.Note), Iter: j.Iter, LostIters: j.LostIters, GPUSeconds: j.GPUSeconds, HeldS: j.Held,
		ResumeS: j.Estimate.Resume.Mid, CheckpointS: j.Estimate.Checkpoint.Mid, Speeds: head(j.Estimate.Speeds, maxSpeeds), Stays: tail(j.Stays, maxStays),
		Returns: tail(j.Returns, maxReturns), Forecasts: j.Forecasts}
	for _, ev := range ends(j.Events, maxEvents) {
		ev.Text = clip(ev.Text)
		e.Events = append(e.Events, ev)
	}
	return e, true
}

// ends keeps the first quarter and the newest of a list that is too long: how a job began, and how it came to its end.
func ends(list []bridge.Event, most int) []bridge.Event {
	if len(list) <= most {
		return list
	}
	return slices.Concat(list[:most/4], list[len(list)-(most-most/4):])
}

func head[T any](list []T, most int) []T { return list[:min(len(list), most)] }
func tail[T any](list []T, most int) []T { return list[max(len(list)-most, 0):] }

func clip(s string) string { return s[:min(len(s), maxText)] }

// Last is the deadline after which nothing is gained; zero without one.
func (e Entry) Last() time.Time {
	if len(e.Tiers) == 0 {
		return time.Time{}
	}
	return e.Tiers[len(e.Tiers)-1].At
}

// Late is how long after its last deadline a job ended, negative when before; false without deadlines.
func (e Entry) Late() (time.Duration, bool) {
	if len(e.Tiers) == 0 {
		return 0, false
	}
	return e.Ended.Sub(e.Last()), true
}

// Missed reports whether the job is one of those that met no deadline; a job that its user cancelled asks for nothing any more.
func (e Entry) Missed() bool {
	return e.Met != nil && *e.Met < 0 && e.Phase != bridge.Cancelled
}

// Value is the share of its full value that a job with deadlines earned, 0..1.
func (e Entry) Value() float64 {
	if e.Met == nil || *e.Met < 0 || *e.Met >= len(e.Tiers) || !(e.Tiers[0].Value > 0) {
		return 0
	}
	return e.Tiers[*e.Met].Value / e.Tiers[0].Value
}

// Charge is where the GPU time of a job went, in GPU-seconds.
type Charge struct {
	// Held is what all runs held: what Slurm's fairshare charges. Shown is the part that sacct shows without --duplicates: the last run.
	Held  float64 `json:"held_gpu_s"`
	Shown float64 `json:"sacct_gpu_s"`
	// Profile was held by profile runs, whose iterations count as progress all the same.
	Profile float64 `json:"profile_gpu_s"`
	// Lost was spent on iterations that had to be done again; Resume and Checkpoint on loading and saving around preemptions, by the job's own believed costs.
	Lost       float64 `json:"lost_gpu_s"`
	Resume     float64 `json:"resume_gpu_s"`
	Checkpoint float64 `json:"checkpoint_gpu_s"`
	// Useful is what remains.
	Useful float64 `json:"useful_gpu_s"`
}

// Charge splits the GPU time of a job.
func (e Entry) Charge() Charge {
	c := Charge{Held: e.GPUSeconds}
	runs, gpus := 0, 0.0
	for i, s := range e.Stays {
		if s.To.Before(s.From) {
			continue
		}
		held := s.To.Sub(s.From).Seconds() * float64(s.Placement.GPUs())
		if i == len(e.Stays)-1 {
			c.Shown = held
		}
		if s.Profile {
			c.Profile += held
			continue
		}
		runs, gpus = runs+1, gpus+held
	}
	mean := float64(e.GPUs) // GPUs held on average while it ran
	if e.HeldS > 0 && gpus > 0 && len(e.Stays) < maxStays {
		mean = gpus / e.HeldS
	}
	if done := e.Iter + e.LostIters; e.LostIters > 0 && done > 0 {
		c.Lost = e.HeldS * float64(e.LostIters) / float64(done) * mean
	}
	c.Resume = float64(max(runs-1, 0)) * max(e.ResumeS, 0) * mean
	c.Checkpoint = float64(max(e.Preemptions, 0)) * max(e.CheckpointS, 0) * mean
	c.Useful = max(c.Held-c.Profile-c.Lost-c.Resume-c.Checkpoint, 0)
	return c
}

// Plus adds two charges.
func (c Charge) Plus(o Charge) Charge {
	return Charge{c.Held + o.Held, c.Shown + o.Shown, c.Profile + o.Profile, c.Lost + o.Lost, c.Resume + o.Resume, c.Checkpoint + o.Checkpoint, c.Useful + o.Useful}
}

// Sort orders entries by their end, then job.
func Sort(list []Entry) {
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.Job, b.Job)) })
}
