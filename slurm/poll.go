package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// PollOptions say how a [Poller] saves work. The zero value of each but Clock is a default.
type PollOptions struct {
	// Clock times requests. It must be set.
	Clock func() time.Time
	// Share is how much of the time full lists may take: a list that took 5 s comes again after 50 s by default (10). Slow clusters get them rarer.
	Share int
	// Longest is the longest time between two full lists, however slow they are; default 10 minutes.
	Longest time.Duration
	// Fresh picks the jobs whose whole record is read at every look, also when their state stays the same: what people change of them should be seen
	// soon. nil: none. FreshTime is how long a look may spend on them, in turn when it is too short for all; default 2 s.
	Fresh     func(*Job) bool
	FreshTime time.Duration
}

// Poller looks at large clusters. While a full list is quick it reads one at every look, as [Client.State] does. Where that would take more than its share
// of the time it asks for the states of all jobs, 80 bytes each, and reads the records of those only that began, ended, changed their state, were
// written to through it, or are to be kept fresh; what people changed of other jobs, and priorities, are then as old as the last full list. A server that
// says it has too much to do, or does not answer in time, is left alone for a while that doubles from 10 s to 2 minutes: State then fails with
// [ErrRateLimited] without a request. What it can do besides is the client's.
//
// The jobs of a State are the base of the next: nobody may change them. The methods may be called from many goroutines, State from one.
type Poller struct {
	*Client
	opts PollOptions

	mu      sync.Mutex
	touched map[JobID]bool // written to since the last look

	base    []Job            // of the last look, by id
	marks   map[JobID]uint64 // of the states at that look; nil: not asked for
	unread  tally            // records of the last full list that had no id
	seen    time.Time        // SlurmTime of the last look
	at      time.Time        // of the last good look
	full    time.Time        // when the last full list came
	took    time.Duration    // how long it took
	single  time.Duration    // how long one record takes, about
	next    JobID            // whose turn it is to be read again
	stale   bool             // the controller was away: begin with a full list
	pause   time.Duration    // the last one, 0 when all is well
	resting time.Time        // until when the server is left alone
	why     string           // the error that it is left alone for
	counts  PollCounts
}

// PollCounts says what looking took so far.
type PollCounts struct {
	Full, Delta int // looks of either kind
	Records     int // single records read in the latter
	Pauses      int // times that the server was left alone
}

// NewPoller makes one. It makes no call.
func NewPoller(c *Client, o PollOptions) *Poller {
	if o.Share <= 0 {
		o.Share = 10
	}
	setDefault(&o.Longest, 10*time.Minute)
	setDefault(&o.FreshTime, 2*time.Second)
	if o.Fresh == nil {
		o.Fresh = func(*Job) bool { return false }
	}
	return &Poller{Client: c, opts: o, touched: map[JobID]bool{}, single: 20 * time.Millisecond}
}

// Counts returns the sums so far; it is for the goroutine that calls State.
func (p *Poller) Counts() PollCounts { return p.counts }

// pauses after an overload.
const (
	firstPause = 10 * time.Second
	mostPause  = 2 * time.Minute
	// quickList is a full list that is worth no saving: at one look every ten seconds.
	quickList = 500 * time.Millisecond
)

// State looks at the cluster. An error leaves what was seen before as it was; the next call may come as usual.
func (p *Poller) State(ctx context.Context, now time.Time) (State, error) {
	if wait := p.resting.Sub(now); wait > 0 && wait <= maxRetryAfter {
		return State{}, &Error{Kind: ErrRateLimited, Op: "look", After: wait,
			Msg: fmt.Sprintf("left alone for another %v, %s, since: %s", wait.Round(time.Second), p.age(now), p.why)}
	}
	s, err := p.look(ctx, now)
	p.judge(now, err)
	return s, err
}

// age says how old the last good look is.
func (p *Poller) age(now time.Time) string {
	if p.at.IsZero() {
		return "never seen yet"
	}
	return fmt.Sprintf("last seen %v ago", now.Sub(p.at).Round(time.Second))
}

// judge learns from how a look ended.
func (p *Poller) judge(now time.Time, err error) {
	if err == nil {
		p.pause, p.stale, p.at = 0, false, now
		return
	}
	slow := errors.Is(err, context.DeadlineExceeded)
	if errors.Is(err, ErrUnavailable) && !slow {
		p.stale = true // it may have lost jobs, and given their numbers to others
	}
	if !slow && !errors.Is(err, ErrRateLimited) {
		return
	}
	p.pause = min(max(2*p.pause, firstPause), mostPause)
	var e *Error
	if errors.As(err, &e) {
		p.pause = max(p.pause, e.After)
	}
	p.resting, p.why = now.Add(p.pause), err.Error()
	p.counts.Pauses++
}

// due reports whether a full list is to be read.
func (p *Poller) due(now time.Time) bool {
	age := now.Sub(p.full)
	return p.marks == nil || p.stale || age < 0 || age >= min(time.Duration(p.opts.Share)*p.took, p.opts.Longest)
}

func (p *Poller) look(ctx context.Context, now time.Time) (State, error) {
	touched := p.takeTouched()
	s, err := p.lookOnce(ctx, now, touched)
	if err != nil {
		p.touch(touched...)
	}
	return s, err
}

func (p *Poller) lookOnce(ctx context.Context, now time.Time, touched []JobID) (State, error) {
	if p.due(now) {
		return p.readAll(ctx, now, nil)
	}
	states, err := p.JobStates(ctx)
	if err != nil {
		return State{}, err
	}
	marks := marksOf(states)
	changed := p.changed(marks, touched)
	if len(marks) == 0 && len(p.base) > 0 || time.Duration(len(changed))*p.single > max(p.took, quickList) {
		return p.readAll(ctx, now, marks) // that is quicker, or safer
	}
	return p.readSome(ctx, now, marks, changed)
}

// readAll reads everything. Where that is slow, or may be, it first asks for the states, so that whatever changes in between is read again at the next look.
func (p *Poller) readAll(ctx context.Context, now time.Time, marks map[JobID]uint64) (State, error) {
	if marks == nil && (p.took > quickList || p.full.IsZero()) {
		states, err := p.JobStates(ctx)
		if err != nil {
			return State{}, err
		}
		marks = marksOf(states)
	}
	began := p.opts.Clock()
	s, err := p.Client.State(ctx, now)
	if err != nil {
		return State{}, err
	}
	p.took = p.opts.Clock().Sub(began)
	p.base, p.marks, p.full, p.seen = s.Jobs, marks, now, s.SlurmTime
	p.unread = tally{}
	for _, o := range s.Odd {
		if o.What == "job" || o.What == "job.double" {
			p.unread[o.What] = o.Count
		}
	}
	p.counts.Full++
	return s, nil
}

// readSome reads the records that changed, and in turn some of those that are to be kept fresh.
func (p *Poller) readSome(ctx context.Context, now time.Time, marks map[JobID]uint64, changed []JobID) (State, error) {
	news := make(map[JobID]*Job, len(changed))
	began := p.opts.Clock()
	for _, id := range changed {
		if err := p.readOne(ctx, id, news); err != nil {
			return State{}, err
		}
	}
	next, err := p.freshen(ctx, marks, news)
	if err != nil {
		return State{}, err
	}
	read := len(news)
	if read > 0 {
		p.single = max(p.opts.Clock().Sub(began)/time.Duration(read), time.Millisecond)
	}
	s := State{At: now, SlurmTime: p.seen, Jobs: merge(p.base, marks, news)}
	odd := maps.Clone(p.unread)
	for i := range s.Jobs {
		odd.add("job", true, s.Jobs[i].Odd)
	}
	if err := p.Client.surroundings(ctx, &s, odd); err != nil {
		return State{}, err
	}
	s.Odd = odd.counts()
	p.base, p.marks, p.next, p.seen = s.Jobs, marks, next, s.SlurmTime
	p.counts.Delta++
	p.counts.Records += read
	return s, nil
}

// readOne reads one record; nil stands for a job that is gone.
func (p *Poller) readOne(ctx context.Context, id JobID, news map[JobID]*Job) error {
	j, err := p.Client.Job(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		news[id] = nil
	case err != nil:
		return err
	default:
		news[id] = &j
	}
	return nil
}

// freshen reads jobs again whose state did not change, beginning with whose turn it is, until its time is over.
func (p *Poller) freshen(ctx context.Context, marks map[JobID]uint64, news map[JobID]*Job) (next JobID, err error) {
	began := p.opts.Clock()
	first, _ := slices.BinarySearchFunc(p.base, p.next, func(j Job, id JobID) int { return cmp.Compare(j.ID, id) })
	for k := range p.base {
		j := &p.base[(first+k)%len(p.base)]
		if _, there := marks[j.ID]; !there || j.State.Finished() || !p.opts.Fresh(j) {
			continue
		}
		if _, read := news[j.ID]; read {
			continue
		}
		if p.opts.Clock().Sub(began) >= p.opts.FreshTime {
			return j.ID, nil
		}
		if err := p.readOne(ctx, j.ID, news); err != nil {
			return p.next, err
		}
	}
	return p.next, nil
}

// merge puts records into base: those in news are new, those without a mark are gone. Both are by id, and so is the result.
func merge(base []Job, marks map[JobID]uint64, news map[JobID]*Job) []Job {
	out := make([]Job, 0, len(marks))
	for _, j := range base {
		n, changed := news[j.ID]
		switch _, there := marks[j.ID]; {
		case changed && n != nil:
			out = append(out, *n)
		case !changed && there:
			out = append(out, j)
		}
		delete(news, j.ID)
	}
	for _, n := range news { // sorted right below
		if n != nil {
			out = append(out, *n)
		}
	}
	slices.SortFunc(out, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// changed lists the jobs to be read: those whose mark is new or another one, and the touched ones that are still there.
func (p *Poller) changed(marks map[JobID]uint64, touched []JobID) []JobID {
	var out []JobID
	for id, m := range marks {
		if old, known := p.marks[id]; !known || old != m || slices.Contains(touched, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// marksOf condenses the states of each job, of which an array's record may have several, into one number.
func marksOf(states []JobState) map[JobID]uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	out := make(map[JobID]uint64, len(states))
	for _, s := range states {
		h := out[s.ID]
		if h == 0 {
			h = offset
		}
		h = (h ^ uint64(s.Task)) * prime
		for _, word := range append([]string{string(s.State)}, s.Flags...) {
			for i := range len(word) {
				h = (h ^ uint64(word[i])) * prime
			}
			h = (h ^ 0xff) * prime
		}
		out[s.ID] = h
	}
	return out
}

func (p *Poller) touch(ids ...JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.touched[id] = true
	}
}

func (p *Poller) takeTouched() []JobID {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.Sorted(maps.Keys(p.touched))
	clear(p.touched)
	return ids
}

// Update is [Client.Update]; the job is read again at the next look, whatever became of the call. So it is after the other writes.
func (p *Poller) Update(ctx context.Context, ref Ref, u Update) error {
	defer p.touch(ref.ID)
	return p.Client.Update(ctx, ref, u)
}

// Signal is [Client.Signal].
func (p *Poller) Signal(ctx context.Context, ref Ref, s Signal) error {
	defer p.touch(ref.ID)
	return p.Client.Signal(ctx, ref, s)
}

// Requeue is [Client.Requeue].
func (p *Poller) Requeue(ctx context.Context, ref Ref) error {
	defer p.touch(ref.ID)
	return p.Client.Requeue(ctx, ref)
}

// Rerun is [Client.Rerun].
func (p *Poller) Rerun(ctx context.Context, ref Ref) error {
	defer p.touch(ref.ID)
	return p.Client.Rerun(ctx, ref)
}

// ClearRequiredNodes is [Client.ClearRequiredNodes].
func (p *Poller) ClearRequiredNodes(ctx context.Context, ref Ref, tasks int) error {
	defer p.touch(ref.ID)
	return p.Client.ClearRequiredNodes(ctx, ref, tasks)
}
