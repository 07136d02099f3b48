package bridge

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/bridge/journal"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// lore is what the cluster's jobs have taught: the fabric (how step times and suspension costs behave here) and the history (what jobs of one kind measured before).
// Both are bounded values, journalled when they change, so that a restarted daemon does not begin anew.
type lore struct {
	fabric  estimator.Fabric
	history estimator.History
	// version rises when estimates made before are out of date.
	version versions
	at      time.Time   // the beginning of the unit in which the versions last rose
	dirty   bool        // the fabric differs from the journal's
	speeds  bool        // in its step times
	runs    bool        // in its run times
	lessons int         // taught since the last round
	refits  int         // estimates made anew in this unit only because the lore has grown
	turn    slurm.JobID // the last one that the lore has reached
	// luckOf counts the pairs of runs that each user's jobs have taught on luckDay.
	luckOf  map[string]int
	luckDay time.Time
	// ready are the fits of the fabric as it was at these versions.
	ready    *estimator.Ready
	readyFor versions
}

// versions count the changes of the lore in what it says of step times, of suspensions and of run times.
type versions struct{ speeds, costs, runs int64 }

// fits are the fits of the fabric, made once a version.
func (b *Bridge) fits() *estimator.Ready {
	l := &b.lore
	if l.ready == nil || l.readyFor != l.version {
		l.ready, l.readyFor = l.fabric.Ready(), l.version
	}
	return l.ready
}

// concerns reports whether what others taught since its estimate was made says anything about the speed of a job: step times of several GPUs do not of a job of one, nor run times
// of others of one that was measured.
func (l *lore) concerns(rec *Record) bool {
	made := rec.made.lore
	if made.speeds < 0 || made.runs != l.version.runs && len(rec.Samples) == 0 {
		return true
	}
	return made.speeds != l.version.speeds && slices.ContainsFunc(rec.Estimate.Speeds, func(s planner.ShapeSpeed) bool { return s.Shape.GPUs() > 1 })
}

// Taught says what of a job has gone into the lore.
type Taught struct {
	// Shapes counts the shapes and batch sizes of the samples taught, Doublings is log2 of the iterations measured.
	Shapes    int `json:"shapes,omitempty"`
	Doublings int `json:"doublings,omitempty"`
	// ResumesDue counts the newest measured resumes that were not taught yet.
	ResumesDue int `json:"resumes_due,omitempty"`
	// Run says that its run time was taught.
	Run bool `json:"run,omitempty"`
	// Leases of the run in progress are counted already.
	Leases int `json:"leases,omitempty"`
	// Compared is when the newest run began whose speed was held against the run before.
	Compared time.Time `json:"compared,omitzero"`
	// Pairs counts the comparisons.
	Pairs int `json:"pairs,omitempty"`
}

// Bounds of one round's learning. A lesson takes about a millisecond.
const (
	maxLessons  = 8  // of running jobs, per round
	maxEndings  = 64 // of ended jobs, between two rounds
	maxKeyBytes = 128
)

// keyOf names the kind of a job: who, which script with which arguments, under which name, on which GPUs. A job from standard input has no script; its name then speaks for it.
func (b *Bridge) keyOf(job *slurm.Job) estimator.Key {
	short := func(s string) string { return s[:min(len(s), maxKeyBytes)] }
	k := estimator.Key{User: short(cmp.Or(job.User, strconv.FormatInt(job.UID, 10))), Name: short(job.Name), GPUType: short(job.Request.GPUType)}
	if job.Command != "" {
		h := fnv.New64a()
		h.Write([]byte(job.Command))
		k.Script = strconv.FormatUint(h.Sum64(), 16)
	}
	if k.GPUType == "" {
		k.GPUType = short(b.onlyType(job.Partition))
	}
	return k
}

// onlyType is the GPU type of a partition whose nodes have one type, else "".
func (b *Bridge) onlyType(partition string) string {
	found := ""
	for _, n := range b.seen.Nodes {
		if !slices.Contains(n.Partitions, partition) {
			continue
		}
		for _, g := range n.GPUs {
			if g.MIG || found != "" && g.Type != found {
				return ""
			}
			found = g.Type
		}
	}
	return found
}

// endsKey is the key under which the iterations of jobs are kept that met the same stop criterion.
func endsKey(rec *Record) estimator.Key {
	k := rec.Key
	k.Name += " until " + stopText(rec)
	return k
}

// pastKey is a key as the journal writes it.
func pastKey(k estimator.Key) string {
	return fmt.Sprintf("%q %q %q %q", k.User, k.Script, k.Name, k.GPUType)
}

// prime gives a job what earlier ones of its kind left behind.
func (b *Bridge) prime(now time.Time, rec *Record, j estimator.Job) estimator.Job {
	if past, ok := b.lore.history.Find(rec.Key, now); ok {
		j = past.Prime(j)
	}
	if j.Stop.Kind == estimator.Metric {
		if past, ok := b.lore.history.Find(endsKey(rec), now); ok {
			j.PastEnds = past.Ends
		}
	}
	return j
}

// skipProfiled leaves out the profile steps of a new job that earlier ones of its kind have answered.
func (b *Bridge) skipProfiled(now time.Time, rec *Record) {
	past, ok := b.lore.history.Find(rec.Key, now)
	p := &rec.Profile
	if ok && p.FirstLease && past.Answers(planner.Shape{1}) {
		p.FirstLease, p.Note = false, fmt.Sprintf("measured in %d earlier jobs", past.Jobs)
	}
	if !ok || !p.Needed() {
		return
	}
	n := len(p.Steps)
	p.Steps = slices.DeleteFunc(p.Steps, past.Answers)
	if len(p.Steps) == n {
		return
	}
	rec.note(now, "history", fmt.Sprintf("%d of %d profile steps are known from %d earlier jobs", n-len(p.Steps), n, past.Jobs))
	if len(p.Steps) == 0 {
		p.Steps, p.Done, p.Note = nil, true, fmt.Sprintf("measured in %d earlier jobs", past.Jobs)
	}
}

// learn teaches the fabric, once a unit, what running jobs have measured since: each when it has seen another shape or twice the iterations, at most maxLessons of them.
func (b *Bridge) learn(now time.Time) {
	b.lore.lessons = 0
	edge := now.Truncate(b.cfg.Unit)
	if !edge.After(b.lore.at) {
		return
	}
	b.lore.at, b.lore.refits = edge, 0
	left, leases := maxLessons, 0
	for _, rec := range b.known() {
		if left > 0 && rec.Phase.Ours() && b.teach(now, rec) {
			left--
		}
		b.teachRun(now, rec)
		if rec.Phase == Running {
			leases += rec.newLeases(now, b.cfg.Unit)
		}
	}
	b.learnLeases(now, leases, 0)
	if !b.lore.dirty {
		return
	}
	b.lore.version.costs++
	if b.lore.speeds {
		b.lore.version.speeds++
	}
	if b.lore.runs {
		b.lore.version.runs++
	}
	b.audit = append(b.audit, entry(now, kindFabric, "fabric", b.lore.fabric))
	b.lore.dirty, b.lore.speeds, b.lore.runs = false, false, false
}

// teach gives the fabric the lesson of one job. It returns false when the job has nothing new.
func (b *Bridge) teach(now time.Time, rec *Record) bool {
	o := estimator.Outcome{Key: pastKey(rec.Key)}
	if n := min(rec.Taught.ResumesDue, len(rec.Resumes)); n > 0 {
		o.NewResumes = rec.Resumes[len(rec.Resumes)-n:]
	}
	shapes, doublings := rec.Taught.Shapes, rec.Taught.Doublings
	if estimator.Teaches(rec.Samples) {
		shapes, doublings = weigh(rec.Samples)
	}
	grown := shapes > rec.Taught.Shapes || doublings > rec.Taught.Doublings
	if !grown && len(o.NewResumes) == 0 {
		return false
	}
	if grown {
		o.Job = b.prime(now, rec, estimator.Job{Requested: planner.Shape{max(rec.Original.GPUs, 1)}, Scale: estimator.Scale(rec.Wish.Batch), Samples: rec.Samples, GradBytes: rec.GradBytes})
		o.Job.Resumes, o.Job.Checkpoints = nil, nil
	}
	b.lore.fabric = b.lore.fabric.Learn(o, now)
	b.lore.dirty, b.lore.speeds = true, b.lore.speeds || grown
	rec.Taught.Shapes, rec.Taught.Doublings, rec.Taught.ResumesDue = shapes, doublings, 0
	rec.dirty = true
	return true
}

// teachRun teaches how long a job runs in all, once: as soon as its speed has been measured and its iterations are declared, or when it has completed. Waiting for the end alone would
// teach the short ones first.
func (b *Bridge) teachRun(now time.Time, rec *Record) {
	if rec.Taught.Run || b.parts.Estimator != nil || len(rec.Estimate.Speeds) == 0 {
		return
	}
	seconds := 0.0
	speed, ok := rec.Estimate.SpeedOf(b.shapesOf(rec)[0])
	switch n := rec.Wish.Stop.Iterations; {
	case rec.Phase == Completed && rec.Held > 0:
		seconds = rec.Held
	case rec.Phase.Ours() && len(rec.Samples) > 0 && !rec.Profile.Needed() && n > 0 && ok && speed.Mid > 0 && rec.made.input.samples > 0:
		seconds = float64(n) / speed.Mid
	default:
		return
	}
	b.lore.fabric = b.lore.fabric.Learn(estimator.Outcome{Job: estimator.Job{Requested: b.shapesOf(rec)[0], Kinds: rec.kinds(), WindowSeconds: rec.window(), LimitSeconds: rec.Original.TimeLimit.Seconds()},
		RunSeconds: seconds}, now)
	b.lore.dirty, b.lore.runs = true, true
	rec.Taught.Run, rec.dirty = true, true
}

// kinds name those that a job is likely to run about as long as: its user's, and its user's of that name.
func (r *Record) kinds() []string {
	return []string{"user " + r.Key.User, "user " + r.Key.User + " name " + r.Key.Name}
}

// window is the time from the submission to the last deadline, in seconds; 0 without one.
func (r *Record) window() float64 {
	n := len(r.Wish.Tiers)
	if n == 0 {
		return 0
	}
	return max(r.Wish.Tiers[n-1].At.Sub(r.FirstSubmit).Seconds(), 0)
}

// weigh says how much was measured.
func weigh(samples []estimator.Sample) (shapes, doublings int) {
	type place struct {
		shape string
		batch float64
	}
	seen := map[place]bool{}
	n := 0
	for _, s := range samples {
		seen[place{s.Shape.String(), s.Batch}] = true
		n = min(n+max(s.N, 0), math.MaxInt32)
	}
	return len(seen), int(math.Log2(float64(max(n, 1))))
}

// learnCheckpoint teaches what one checkpoint took, from the signal to freed GPUs.
func (b *Bridge) learnCheckpoint(now time.Time, s estimator.SRSample) {
	b.lore.fabric = b.lore.fabric.Learn(estimator.Outcome{NewCheckpoints: []estimator.SRSample{s}}, now)
	b.lore.dirty = true
}

// savingBeside counts the other jobs that are writing a checkpoint.
func (b *Bridge) savingBeside(rec *Record) int {
	n := 0
	for _, o := range b.records {
		if o != rec && o.Phase == Checkpointing && !o.Run.Signalled.IsZero() {
			n++
		}
	}
	return n
}

// learnLease counts the last leases of a run that is over, and keeps its time on GPUs. Only the last one may have been cut.
func (b *Bridge) learnLease(now time.Time, rec *Record, at time.Time) {
	run := rec.Run
	if run.Start.IsZero() || run.Profile || !at.After(run.Start) {
		return
	}
	rec.Held += at.Sub(run.Start).Seconds()
	n, cut := rec.newLeases(at, b.cfg.Unit), 0
	if rec.Phase == Checkpointing && rec.cuttable() {
		n, cut = max(n, 1), 1
	}
	rec.Taught.Leases = 0
	b.learnLeases(now, n, cut)
}

// learnLeases teaches how often the lease of a best-effort job that can be preempted ends in a preemption.
func (b *Bridge) learnLeases(now time.Time, ended, cuts int) {
	if ended > 0 {
		b.lore.fabric = b.lore.fabric.Learn(estimator.Outcome{LeasesEnded: ended, Cuts: cuts}, now)
		b.lore.dirty = true
	}
}

// newLeases counts the leases of the run that have ended by an instant and were not counted before.
func (r *Record) newLeases(at time.Time, unit time.Duration) int {
	if r.Run.Start.IsZero() || r.Run.Profile || !r.cuttable() {
		return 0
	}
	n := int(min(max(at.Sub(r.Run.Start), 0)/unit, 100000)) - r.Taught.Leases
	if n <= 0 {
		return 0
	}
	r.Taught.Leases += n
	return n
}

// cuttable reports whether the job is one of those whose leases may end in a preemption.
func (r *Record) cuttable() bool {
	return planner.Class(r.Wish.Class) == planner.BestEffort && !r.Wish.Ckpt.None && r.NoPreempt == ""
}

// heldSeconds is how long the job has held GPUs, profile runs aside.
func (r *Record) heldSeconds(now time.Time) float64 {
	s := r.Held
	if (r.Phase == Running || r.Phase == Checkpointing) && !r.Run.Profile && !r.Run.Start.IsZero() {
		s += max(now.Sub(r.Run.Start).Seconds(), 0)
	}
	return s
}

// gpuSeconds is the service that the job has had, profile runs and the run in progress included.
func (r *Record) gpuSeconds(now time.Time) float64 {
	s := r.GPUSeconds
	if r.Phase.OnGPUs() && !r.Run.Start.IsZero() {
		s += max(now.Sub(r.Run.Start).Seconds(), 0) * float64(r.Placement.GPUs())
	}
	return s
}

// keepPast keeps what an ended job measured for the next one of its kind. The iteration at which it met a metric target counts only when its curve shows it.
func (b *Bridge) keepPast(now time.Time, rec *Record) {
	if b.lore.lessons++; b.lore.lessons > maxEndings || rec.Key == (estimator.Key{}) {
		return
	}
	b.teach(now, rec)
	b.teachRun(now, rec)
	j := estimator.Job{Samples: rec.Samples, Resumes: rec.Resumes, Checkpoints: rec.Checkpoints}
	if len(j.Samples) > 0 {
		b.store(now, rec.Key, j, 0)
	}
	if end := metAt(rec); end > 0 && rec.Phase == Completed {
		b.store(now, endsKey(rec), estimator.Job{}, end)
	}
}

// metAt is the first reported iteration at which the metric had reached its target, 0 when none had.
func metAt(rec *Record) int64 {
	s := stopOf(rec.Wish)
	if s.Kind != estimator.Metric {
		return 0
	}
	end := int64(0)
	for _, p := range rec.Curve {
		if met := s.Up && p.Value >= s.Target || !s.Up && p.Value <= s.Target; met && (end == 0 || p.Iter < end) {
			end = p.Iter
		}
	}
	return end
}

// store changes the history and journals what changed in it.
func (b *Bridge) store(now time.Time, k estimator.Key, j estimator.Job, end int64) {
	old := b.lore.history.Pasts
	b.lore.history = b.lore.history.Remember(k, j, end, now)
	for _, rec := range b.records {
		if rec.Key.User == k.User && rec.Key.Script == k.Script && rec.Key.GPUType == k.GPUType && strings.HasPrefix(k.Name, rec.Key.Name) {
			rec.made.lore.speeds = -1 // one of its kind, or with the same target
		}
	}
	if p, ok := b.lore.history.Find(k, now); ok {
		b.audit = append(b.audit, entry(now, kindPast, pastKey(k), p))
	}
	kept := b.lore.history.Pasts
	if len(kept) >= len(old)+1 {
		return
	}
	for i := range old { // aged out, or one too many; both lists are sorted by key
		for len(kept) > 0 && kept[0].Key.Compare(old[i].Key) < 0 {
			kept = kept[1:]
		}
		if len(kept) == 0 || kept[0].Key != old[i].Key {
			b.audit = append(b.audit, journal.Entry{Kind: kindPast, Key: pastKey(old[i].Key), At: now.UTC(), Data: []byte("null")})
		}
	}
}
