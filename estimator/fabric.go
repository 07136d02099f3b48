package estimator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"unisched/planner"
)

// Fabric is what a cluster's jobs have taught about it: a prior for the next ones. It is a value that callers store as JSON and pass in; [Fabric.Learn] returns
// the next one. The zero Fabric is a cluster of which nothing is known.
type Fabric struct {
	Schema int `json:"schema_version"`
	// Lessons about the step-time model, oldest first, one per job.
	Lessons []Lesson `json:"lessons,omitempty"`
	// Without names published lessons that this Fabric must not use: those of a model that is about to be predicted from others.
	Without []string `json:"without,omitempty"`
	// Resumes and Checkpoints are the newest measurements of all jobs.
	Resumes     []SRSample `json:"resumes,omitempty"`
	Checkpoints []SRSample `json:"checkpoints,omitempty"`
	// Runs are the run times of classes of jobs, sorted by name.
	Runs []RunClass `json:"runs,omitempty"`
	// BestEffortLeases and BestEffortCuts count the leases of best-effort jobs that ended and how many of these ended in a preemption.
	BestEffortLeases int `json:"besteffort_leases,omitempty"`
	BestEffortCuts   int `json:"besteffort_cuts,omitempty"`
	// Luck is how much the speeds of one job's runs differ.
	Luck Luck `json:"luck,omitzero"`
}

// Ready is a Fabric with its fits made: what costs most of an estimate and does not depend on the job that asks. A Ready is made anew when its Fabric has learnt.
type Ready struct {
	fabric             Fabric
	prior              speedPrior
	resume, checkpoint costFit
}

// Costs are the costs of a resume and of a checkpoint of the job, in seconds, as [Ready.Estimate] gives them.
func (r *Ready) Costs(j Job) (resume, checkpoint planner.Interval) {
	return r.resume.of(j, j.Resumes, min(finiteOr(j.RestoreHint, 0), 1e5)), r.checkpoint.of(j, j.Checkpoints, 0)
}

// Ready makes the fits.
func (f Fabric) Ready() *Ready {
	return &Ready{f, f.population().forJob(), fitCost(resumeKind, f.Resumes), fitCost(checkpointKind, f.Checkpoints)}
}

// maxFabricSamples bounds each list of a Fabric.
const maxFabricSamples = 512

// Outcome is what one job, or one lease of it, taught.
type Outcome struct {
	// Key names the job (user, script and name, say): a newer outcome of the same key replaces the older.
	Key string `json:"key,omitempty"`
	Job Job    `json:"job"`
	// NewResumes and NewCheckpoints are measurements not yet learnt.
	NewResumes     []SRSample `json:"new_resumes,omitempty"`
	NewCheckpoints []SRSample `json:"new_checkpoints,omitempty"`
	// RunSeconds is the whole run time of the job at the requested shape, when it has become known (0: not).
	RunSeconds float64 `json:"run_s,omitempty"`
	// LeasesEnded and Cuts count leases of a best-effort job since the last call: ended, and ended by preemption.
	LeasesEnded int `json:"leases_ended,omitempty"`
	Cuts        int `json:"cuts,omitempty"`
	// Again are two runs of one job on the same GPUs, one after the other: how fast each was.
	Again []Sample `json:"again,omitempty"`
}

// Learn returns the Fabric after one more outcome. f is not changed.
func (f Fabric) Learn(o Outcome, now time.Time) Fabric {
	out := f
	out.Schema = 1
	out.Resumes = keepLast(f.Resumes, o.NewResumes)
	out.Checkpoints = keepLast(f.Checkpoints, o.NewCheckpoints)
	out.Lessons = f.learnSpeed(o, now)
	out.Runs = f.learnRun(o.Job, o.RunSeconds, now)
	if len(o.Again) == 2 {
		out.Luck = f.Luck.compare(o.Again[0], o.Again[1])
	}
	if o.LeasesEnded > 0 && o.Cuts >= 0 && o.Cuts <= o.LeasesEnded {
		out.BestEffortLeases += o.LeasesEnded
		out.BestEffortCuts += o.Cuts
		if out.BestEffortLeases > 1000 { // old rates fade
			out.BestEffortLeases /= 2
			out.BestEffortCuts /= 2
		}
	}
	return out
}

// learnSpeed returns the lessons after one more job. Its own earlier lesson is set aside first, so that nothing counts twice.
func (f Fabric) learnSpeed(o Outcome, now time.Time) []Lesson {
	if !Teaches(o.Job.Samples) {
		return f.Lessons
	}
	rest := slices.DeleteFunc(slices.Clone(f.Lessons), func(l Lesson) bool { return l.Key == o.Key || !l.valid() })
	without := f
	without.Lessons = rest
	prior := without.population().forJob()
	post := without.speed(&prior, o.Job, maxLearn)
	if l, ok := post.lesson(o.Key, now); ok {
		l.Exchange = post.exchange(o.Job.GradBytes)
		rest = append(rest, l)
	}
	if n := len(rest) - maxLessons; n > 0 {
		rest = rest[n:]
	}
	return rest
}

// Teaches reports whether measurements say anything about the cluster: how several GPUs work together, or how one does at another batch size. One GPU at
// one batch size tells about its job alone.
func Teaches(samples []Sample) bool {
	for i := range samples {
		if samples[i].Shape.GPUs() > 1 || samples[i].Batch != samples[0].Batch {
			return true
		}
	}
	return false
}

func keepLast(old, add []SRSample) []SRSample {
	out := slices.Clone(old)
	for _, s := range add {
		if s.valid() {
			out = append(out, s)
		}
	}
	if n := len(out) - maxFabricSamples; n > 0 {
		out = slices.Clone(out[n:])
	}
	return out
}

// basis says in a few words where an estimate comes from.
func basis(j Job, post speedPosterior, left iterations, by string) string {
	var parts []string
	n := post.counts
	switch {
	case n.leases > 0:
		parts = append(parts, fmt.Sprintf("speed from %d lease samples", n.leases))
	case n.profile > 0:
		parts = append(parts, fmt.Sprintf("speed from %d profile steps", n.profile))
	case n.past > 0:
		parts = append(parts, "speed from earlier jobs")
	case by != "":
		parts = append(parts, by)
	case j.DeclaredSeconds > 0:
		parts = append(parts, "speed from the declared run time")
	case j.LimitSeconds > 0:
		parts = append(parts, "speed from the time limit")
	default:
		parts = append(parts, "speed unknown")
	}
	parts = append(parts, left.basis)
	return strings.Join(parts, ", ")
}
