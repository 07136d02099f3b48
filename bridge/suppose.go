package bridge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"unisched/planner"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// Supposed is a job that does not exist, or one as it might have been asked for, treated as the loop would treat it. It belongs to one goroutine.
type Supposed struct {
	// Unmanaged says why Slurm alone would decide about it, "" when we would.
	Unmanaged string
	// Profile is what would be measured first; Job already counts as measured.
	Profile Profile
	Job     planner.Job
	b       *Bridge
	rec     *Record
	job     slurm.Job
}

// ErrNoBasis says that a view has nothing yet to answer from.
var ErrNoBasis = errors.New("the daemon has made no plan yet: try again after its first round")

// stand is a loop that can only think: it has what the view was made from, and neither Slurm nor journal.
func (v *View) stand() (*Bridge, error) {
	if v.Basis == nil || v.Snapshot.Now.IsZero() {
		return nil, ErrNoBasis
	}
	b := &Bridge{cfg: v.Basis.cfg, parts: Parts{Log: func(time.Time, Note) {}}, records: map[slurm.JobID]*Record{}, seen: v.Basis.seen, lore: v.Basis.lore, crowded: v.Basis.crowded, quiet: 1}
	b.staging = staging{Default: StageStrict} // what would become of it if we acted
	b.lore.dirty, b.lore.ready = false, nil   // the loop goes on using its fits
	return b, nil
}

// Suppose admits a job that would be submitted at now.
func (v *View) Suppose(now time.Time, job slurm.Job) (*Supposed, error) {
	b, err := v.stand()
	if err != nil {
		return nil, err
	}
	for _, j := range v.Snapshot.Jobs {
		job.ID = max(job.ID, slurm.JobID(j.Run.Job))
	}
	job.ID++
	job.State, job.Submit, job.Eligible, job.Batch = slurm.StatePending, now, now, true
	s := &Supposed{b: b, job: job}
	if s.rec = b.admit(now, &job); s.rec == nil {
		s.Unmanaged = "its comment holds nothing for UniSched"
		return s, nil
	}
	if s.rec.Phase == Unmanaged {
		s.Unmanaged = s.rec.Why
		return s, nil
	}
	if why := b.cfg.Admission.Allows(s.rec.Wish.Class, job.QOS, job.Account); why != "" {
		b.demote(now, s.rec, NotAllowed, why)
	} else {
		b.judgeSize(now, s.rec)
	}
	s.Profile = s.rec.Profile
	s.rec.Profile, s.rec.Phase = Profile{Done: true, Note: s.Profile.Note}, Waiting
	return s, s.plan(now, v.Snapshot.Now)
}

func (s *Supposed) plan(now, at time.Time) error {
	s.b.fit(now, s.rec, s.b.input(now, s.rec))
	var ok bool
	if s.Job, ok = s.b.plannerJob(at, s.rec, &s.job); !ok {
		return fmt.Errorf("job %d has no place that can be planned", s.job.ID)
	}
	return nil
}

// ErrFixed says that a job cannot be asked for on another number of GPUs.
var ErrFixed = errors.New("its request cannot be rewritten for another number of GPUs")

// SupposeGPUs is a waiting job of the snapshot as if it might run on so many GPUs alone. Its speed there is what the cluster's memory says of the ratio, times what
// is known of the job itself.
func (v *View) SupposeGPUs(now time.Time, id slurm.JobID, gpus int) (*Supposed, error) {
	b, err := v.stand()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(b.seen.Jobs, func(j slurm.Job) bool { return j.ID == id })
	k := slices.IndexFunc(v.Snapshot.Jobs, func(j planner.Job) bool { return j.Run.Job == planner.JobID(id) })
	if i < 0 || k < 0 {
		return nil, fmt.Errorf("job %d: %w", id, ErrNoSuchJob)
	}
	real, job := v.Snapshot.Jobs[k], b.seen.Jobs[i]
	job.State = slurm.StatePending
	rec := b.admit(now, &job)
	if rec == nil || rec.Phase == Unmanaged || rec.Wish.Parallel == "fixed" || !reshapable(rec.Original) {
		return nil, ErrFixed
	}
	s := &Supposed{b: b, rec: rec, job: job}
	rec.Profile, rec.Phase = Profile{Done: true}, Waiting
	rec.Wish.GPUs = []int{gpus, rec.Original.GPUs}
	slices.Sort(rec.Wish.GPUs)
	rec.shapes = nil                 // those of the request as it is
	rec.FirstSubmit = real.Submitted // a requeue changes the submit time, and deadlines count from the first
	rec.Wish.Tiers = nil
	for _, t := range real.Tiers {
		rec.Wish.Tiers = append(rec.Wish.Tiers, comment.Tier{At: t.At, Value: t.Value})
	}
	if err := s.plan(now, v.Snapshot.Now); err != nil {
		return nil, err
	}
	ratio := 1.0
	for _, x := range real.Estimate.Speeds {
		if own, ok := s.Job.Estimate.SpeedOf(x.Shape); ok && own.Mid > 0 {
			ratio = x.Speed.Mid / own.Mid
			break
		}
	}
	speeds := slices.DeleteFunc(slices.Clone(s.Job.Estimate.Speeds), func(x planner.ShapeSpeed) bool { return x.Shape.GPUs() != gpus })
	if len(speeds) == 0 {
		return nil, ErrFixed
	}
	for i := range speeds {
		sp := &speeds[i].Speed
		sp.Low, sp.Mid, sp.High = sp.Low*ratio, sp.Mid*ratio, sp.High*ratio
	}
	needs := s.Job.Needs
	s.Job = real
	s.Job.Needs, s.Job.Elastic = needs, false
	s.Job.Needs.MaxNodes = 0
	s.Job.Estimate.Speeds = speeds
	rec.Estimate = s.Job.Estimate
	return s, nil
}

// View is the supposed job as people would see it under a plan that has it.
func (s *Supposed) View(now time.Time, p planner.Plan) JobView {
	s.rec.left = leftTime{}
	if e, ok := p.Of(s.Job.Run); ok {
		s.rec.Target = Target{Decision: e.Decision, Placement: e.Placement, Until: e.LeaseUntil, Rank: e.Rank, Tier: e.Tier, Plan: p.ID, Reason: e.Reason, StartBy: e.StartBy,
			Finish: e.Finish}
	}
	v := s.b.jobView(now, s.rec, &s.job)
	v.Ref, v.Watched = "new", false
	return v
}
