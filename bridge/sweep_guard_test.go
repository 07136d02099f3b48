//go:build sweep

package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"unisched/slurm"
)

// guarded is Slurm as the daemon of a stage reaches it. It says on its own, from what Slurm truly holds at that instant, whether a call is right.
type guarded struct{ s *stage }

// State is one look. What a person does right after it, or a call of the dead daemon that arrives only now, the daemon has not seen.
func (g guarded) State(ctx context.Context, now time.Time) (slurm.State, error) {
	s := g.s
	s.cycle++
	if s.since >= 0 {
		s.since++
	}
	state, err := s.sim.State(ctx, now)
	s.lies = false
	truth := state
	if at := s.way.cycle; at > 0 && at == s.cycle {
		state = s.meddle(state)
	}
	s.shown, s.runs = state, map[slurm.JobID]slurm.Job{}
	for _, j := range truth.Jobs {
		s.runs[j.ID] = j
	}
	if s.late != nil {
		s.late()
		s.late = nil
	}
	return state, err
}

func (g guarded) Job(ctx context.Context, id slurm.JobID) (slurm.Job, error) {
	return g.s.sim.Job(ctx, id)
}

// wrong is what must never be: the call is written down with the failure.
func (g guarded) wrong(id slurm.JobID, op, why string) {
	g.s.t.Errorf("%s: %s to job %d: %s", g.s.sim.Now().Format("15:04:05"), op, id, why)
}

// look judges a call by the job as it is.
func (g guarded) look(ref slurm.Ref, op string, disruptive bool) (slurm.Job, bool) {
	s := g.s
	j, err := s.sim.Job(context.Background(), ref.ID)
	if err != nil {
		g.wrong(ref.ID, op, "Slurm does not know it")
		return j, false
	}
	if want := s.runs[ref.ID]; j.Restarts != want.Restarts || j.UID != want.UID {
		g.wrong(ref.ID, op, "it is another run, or another job, than at the look")
	}
	if disruptive && s.lies {
		g.wrong(ref.ID, op, "on the word of a snapshot that cannot be trusted")
	}
	if !strings.Contains(j.Comment, "unisched") {
		g.wrong(ref.ID, op, "it is a plain job")
	}
	return j, true
}

func (g guarded) Update(ctx context.Context, ref slurm.Ref, u slurm.Update) error {
	op := "update" + updateText(u)
	j, ok := g.look(ref, op, u.Hold.Set && u.Hold.Value || u.RequiredNodes != nil)
	pending, running := j.State == slurm.StatePending && !j.HasFlag(slurm.FlagCompleting), j.State == slurm.StateRunning && !j.HasFlag(slurm.FlagCompleting)
	switch {
	case !ok:
	case !pending && (u.RequiredNodes != nil || u.BeginTime.Set || u.Nodes.Set || u.Tasks.Set || u.Partition.Set || u.TRESPerNode.Set || u.TRESPerJob.Set):
		g.wrong(ref.ID, op, "it is "+string(j.State)+", not pending")
	case u.Hold.Set && u.Hold.Value && !running:
		g.wrong(ref.ID, op, "it is "+string(j.State)+", not running")
	case u.Hold.Set && u.Hold.Value && j.Held:
		g.wrong(ref.ID, op, "somebody else holds it")
	case u.Hold.Set && !u.Hold.Value && g.s.userHolds[ref.ID]:
		g.wrong(ref.ID, op, "its user holds it")
	}
	return g.s.call(ref.ID, op, func() error {
		if g.s.way.mode == startsWithin && g.s.n == g.s.way.effect { // after the last look that anybody could take
			for range 20 {
				if j, _ := g.s.sim.Job(ctx, ref.ID); j.State != slurm.StatePending {
					break
				}
				g.s.sim.Advance(g.s.sim.Now().Add(500 * time.Millisecond))
			}
		}
		return g.s.wire.Update(ctx, ref, u)
	})
}

func (g guarded) Signal(ctx context.Context, ref slurm.Ref, sig slurm.Signal) error {
	const op = "signal"
	j, ok := g.look(ref, op, true)
	run := oneRun{ref.ID, j.Restarts}
	last, again := g.s.signals[run]
	switch {
	case !ok:
	case j.State != slurm.StateRunning || j.HasFlag(slurm.FlagCompleting):
		g.wrong(ref.ID, op, "it is "+string(j.State)+", not running")
	case !j.Held:
		g.wrong(ref.ID, op, "nobody holds it: it would not come back held")
	case again && g.s.sim.Now().Sub(last) < 10*time.Second:
		g.wrong(ref.ID, op, "for the second time within 10 s")
	}
	g.s.signals[run] = g.s.sim.Now()
	return g.s.call(ref.ID, op, func() error { return g.s.wire.Signal(ctx, ref, sig) })
}

func (g guarded) Requeue(ctx context.Context, ref slurm.Ref) error {
	const op = "requeue"
	j, ok := g.look(ref, op, true)
	if ok && (j.State != slurm.StateRunning || j.HasFlag(slurm.FlagCompleting)) {
		g.wrong(ref.ID, op, "it is "+string(j.State)+", not running")
	}
	return g.s.call(ref.ID, op, func() error {
		if g.s.way.mode == "ends within" && g.s.n == g.s.way.effect { // after the last look that anybody could take
			for range 600 {
				if j, _ := g.s.sim.Job(ctx, ref.ID); j.State.Finished() && !j.HasFlag(slurm.FlagCompleting) {
					break
				}
				g.s.sim.Advance(g.s.sim.Now().Add(time.Second))
			}
		}
		return g.s.requeue(ctx, ref)
	})
}

func (g guarded) Rerun(ctx context.Context, ref slurm.Ref) error {
	const op = "rerun"
	if j, ok := g.look(ref, op, true); ok && (!j.State.Finished() || j.State == slurm.StateCancelled) {
		g.wrong(ref.ID, op, "it is "+string(j.State))
	}
	return g.s.call(ref.ID, op, func() error { return g.s.wire.Rerun(ctx, ref) })
}

func (g guarded) ClearRequiredNodes(ctx context.Context, ref slurm.Ref, tasks int) error {
	const op = "unpin"
	if j, ok := g.look(ref, op, false); ok && j.State != slurm.StatePending {
		g.wrong(ref.ID, op, "it is "+string(j.State)+", not pending")
	}
	return g.s.call(ref.ID, op, func() error { return g.s.wire.ClearRequiredNodes(ctx, ref, tasks) })
}

// call is one call as an effect, with what can go wrong with it.
func (s *stage) call(id slurm.JobID, op string, do func() error) error {
	s.before(op, id)
	mine := !s.rest && s.way.effect == s.n
	switch {
	case mine && s.way.mode == "late": // it is on its way when the daemon dies, and arrives when the next one has looked
		s.late = func() { _ = do() }
		s.die()
	case mine && s.way.mode == "unknown, not done":
		s.rest, s.since = true, 0
		return slurmError(slurm.ErrUnknownOutcome, 0)
	case mine && s.way.mode == "unknown, done late": // slurmctld is slow: its caller has given up, and looks once more, before it comes to it
		s.rest, s.since = true, 0
		s.late = func() { _ = do() }
		return slurmError(slurm.ErrUnknownOutcome, 0)
	case mine && s.way.mode == "refused":
		s.rest, s.since = true, 0
		return slurmError(slurm.ErrRefused, 2072)
	}
	err := do()
	if mine && s.way.mode == "unknown, done" && err == nil {
		s.rest, s.since = true, 0
		return slurmError(slurm.ErrUnknownOutcome, 0)
	}
	if s.hit("after") || s.way.mode == diesBroken && s.cycle < s.brokenTo && !s.died {
		s.die()
	}
	return err
}

// requeueServer is slurmrestd for one call: what a requeue means depends on the flags that the real client sends.
type requeueServer struct {
	*httptest.Server
	client     *slurm.Client
	incomplete bool
}

func (s *stage) requeue(ctx context.Context, ref slurm.Ref) error {
	if s.server == nil {
		r := &requeueServer{}
		r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			var body struct{ Flags []string }
			r.incomplete = json.NewDecoder(q.Body).Decode(&body) == nil && len(body.Flags) == 1 && body.Flags[0] == "Incomplete"
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"status":[],"errors":[],"warnings":[],"meta":{"plugin":{"data_parser":"data_parser/v0.0.45"},"slurm":{"release":"26.05.5"}}}`))
		}))
		s.t.Cleanup(r.Close)
		c, err := slurm.New(slurm.Options{URL: r.URL, Version: "v0.0.45"})
		if err != nil {
			s.t.Fatal(err)
		}
		r.client, s.server = c, r
	}
	if err := s.server.client.Requeue(ctx, ref); err != nil {
		return errors.Join(errors.New("the client of the sweep"), err)
	}
	if s.server.incomplete {
		return s.wire.Requeue(ctx, ref)
	}
	return s.wire.Rerun(ctx, ref)
}
