//go:build sweep

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// within is how many cycles after a fault everything must be accounted for again.
const within = 3

// play is the whole of a world: its script, and then until every job has ended.
func (s *stage) play() {
	s.t.Helper()
	acts := s.set.script
	began, after := s.sim.Now(), 0
	for s.sim.Now().Sub(began) < s.set.limit && !s.t.Failed() {
		for len(acts) > 0 && s.sim.Now().Sub(began) >= acts[0].at && acts[0].do(s) {
			acts = acts[1:]
		}
		if err := s.step(); err != nil && !errors.Is(err, journal.ErrLocked) && !errors.Is(err, errDisk) {
			s.t.Errorf("step at %s: %v", s.sim.Now().Format("15:04:05"), err)
		}
		if s.second != nil && s.b != nil {
			_ = s.second.Step(context.Background(), s.sim.Now())
		}
		if s.b != nil && (s.since < 0 || s.since >= within) {
			for _, why := range s.faults() {
				s.t.Errorf("%s, cycle %d (%d after the fault): %s", s.sim.Now().Format("15:04:05"), s.cycle, s.since, why)
			}
		}
		if done := s.over(); done && len(acts) == 0 {
			if after++; after > 6 {
				break
			}
		}
	}
	if s.t.Failed() {
		return
	}
	if !s.recording() && !s.rest && s.way.cycle == 0 && s.way.mode != "ends within" && s.way.mode != startsWithin {
		s.t.Errorf("the fault did not come: %d effects", s.n)
	}
	s.ends()
}

// over says that every job has ended; one that a person holds is released first.
func (s *stage) over() bool {
	for name, id := range s.ids {
		j := s.job(name)
		if s.userHolds[id] && s.sim.Now().Sub(s.heldAt) > 6*time.Minute && j.State == slurm.StatePending {
			if !j.Held {
				s.t.Errorf("job %s: its user's hold is gone", name)
			}
			delete(s.userHolds, id)
			s.sim.Release(id)
		}
		if j.ID != 0 && !j.State.Finished() {
			return false
		}
	}
	return true
}

// faults are the things of which the daemon does not know, or that it has left on a job.
func (s *stage) faults() (out []string) {
	wrong := func(name, format string, args ...any) {
		out = append(out, "job "+name+": "+fmt.Sprintf(format, args...))
	}
	now := s.sim.Now()
	looked := map[slurm.JobID]slurm.Job{}
	for _, j := range s.shown.Jobs {
		looked[j.ID] = j
	}
	for name, id := range s.ids {
		j, want, v := s.job(name), s.submitted[name], s.known(name)
		if done := s.sim.Iteration(id); j.ID != 0 && done < s.confirmed[name] {
			wrong(name, "iteration %d, below its confirmed checkpoint of %d", done, s.confirmed[name])
		}
		s.confirmed[name] = max(s.confirmed[name], v.SavedIter)
		if j.ID == 0 || j.State.Finished() {
			continue
		}
		if !strings.Contains(j.Comment, "unisched") {
			if j.Held || j.Nice != want.Nice || j.Partition != want.Partition || len(j.Request.RequiredNodes) > 0 {
				wrong(name, "a plain job was changed")
			}
			continue
		}
		if l, ok := looked[id]; ok && !s.lies { // a look that shows less than there is cannot be agreed with
			if v.ID == 0 {
				wrong(name, "nobody knows it")
			} else if v.Restart != l.Restarts {
				wrong(name, "it is in run %d, the daemon thinks in %d", l.Restarts, v.Restart)
			} else if !agree(l, v.Phase) {
				wrong(name, "it is %s, the daemon thinks %s", l.State, v.Phase)
			}
		}
		pending, moved := j.State == slurm.StatePending, j.Restarts != v.Restart // moved: since the look, by a call of this cycle
		ch := v.Changed
		if j.Held && !s.userHolds[id] {
			_, signalled := s.signals[oneRun{id, j.Restarts}]
			switch {
			case !ch.Hold:
				wrong(name, "held, and the daemon does not know")
			case v.Phase != bridge.Checkpointing && v.Phase != bridge.Requeueing:
				wrong(name, "held while %s", v.Phase)
			case !pending && !signalled && !j.HasFlag(slurm.FlagCompleting) && s.b.View().Suspect == "":
				wrong(name, "held, and not signalled")
			}
		}
		if j.Nice != want.Nice && !ch.Nice {
			wrong(name, "nice %d, and the daemon does not know", j.Nice)
		}
		if len(j.Request.RequiredNodes) > 0 && len(ch.Pinned) == 0 {
			wrong(name, "pinned to %v, and the daemon does not know", j.Request.RequiredNodes)
		}
		if pending && !moved && len(j.Request.RequiredNodes) > 0 && v.Phase != bridge.Starting && v.Phase != bridge.Requeueing {
			if s.pinned[name]++; s.pinned[name] > 1 { // it is settled in one cycle and unpinned in the next
				wrong(name, "pinned to %v while %s", j.Request.RequiredNodes, v.Phase)
			}
		} else {
			delete(s.pinned, name)
		}
		if q, o := j.Request, want.Request; !ch.Reshape && (j.Partition != want.Partition || q.TRESPerNode != o.TRESPerNode || q.TRESPerJob != o.TRESPerJob ||
			q.Tasks != o.Tasks || q.Nodes.Min != o.Nodes.Min) {
			wrong(name, "another request than its user's, and the daemon does not know: %s %+v", j.Partition, q)
		}
		if ahead := j.Eligible.Sub(now); pending && ahead > s.cfg.Delay+time.Second && (j.Restarts == 0 && now.Sub(j.Submit) > time.Minute || ahead > 3*time.Minute) && !s.bySlurm(j) {
			wrong(name, "delayed by %v", ahead)
		}
	}
	return out
}

// known is what the daemon shows of a job: of two jobs that had the same id, the one of its user, and that has not ended.
func (s *stage) known(name string) (out bridge.JobView) {
	for _, v := range s.b.View().Jobs {
		if v.ID == s.ids[name] && v.User == s.submitted[name].User && (out.ID == 0 || !v.Phase.Ended()) {
			out = v
		}
	}
	return out
}

// bySlurm says that a begin time is the one that Slurm itself sets at a requeue.
func (s *stage) bySlurm(j slurm.Job) bool {
	return j.Restarts > 0 && j.Eligible.Sub(j.Submit) <= 122*time.Second
}

func agree(j slurm.Job, p bridge.Phase) bool {
	switch {
	case j.HasFlag(slurm.FlagCompleting):
		return true
	case j.State == slurm.StatePending:
		return p == bridge.Waiting || p == bridge.Admitted || p == bridge.Requeueing || p == bridge.Starting || p == bridge.Released
	case j.State == slurm.StateRunning:
		return p == bridge.Running || p == bridge.Profiling || p == bridge.Checkpointing || p == bridge.Released
	}
	return p.Ended() || p == bridge.Released || p == bridge.Requeueing
}

// ends looks at the whole of a play: everybody has run once to the end, and nothing is left.
func (s *stage) ends() {
	ends, starts, back := map[slurm.JobID][]string{}, map[slurm.JobID]int{}, map[slurm.JobID]int{}
	for _, e := range s.sim.History() {
		switch word, _, _ := strings.Cut(e.What, " "); word {
		case "end":
			ends[e.Job] = append(ends[e.Job], strings.Fields(e.What)[1])
		case "start":
			starts[e.Job]++
		}
	}
	for _, e := range s.sim.History() {
		if strings.HasPrefix(e.What, "rerun") {
			back[e.Job]++
		}
	}
	for name, id := range s.ids {
		j := s.job(name)
		want := string(s.expect[name])
		if want == "" {
			want = string(slurm.StateCompleted)
		}
		if n := len(ends[id]); n == 0 || ends[id][n-1] != want {
			s.t.Errorf("job %s (now %q): ended %v, its user expects %s", name, j.State, ends[id], want)
		} else if n != 1+back[id] {
			s.t.Errorf("job %s ended %v with %d reruns", name, ends[id], back[id])
		}
		done := 0
		for _, e := range ends[id] {
			if e == string(slurm.StateCompleted) {
				done++
			}
		}
		if done > 1 {
			s.t.Errorf("job %s ran to its end %d times", name, done)
		}
		if v := s.view(name); v.LostIters > 0 && !s.cut[name] && !s.set.lossy && s.expect[name] == "" {
			s.t.Errorf("job %s lost %d iterations", name, v.LostIters)
		}
	}
	for _, e := range s.shrunk() {
		s.t.Errorf("a running job lost nodes: %s", e)
	}
	s.clean()
}

// last is the newest job.
func (s *stage) last() (id slurm.JobID) {
	for _, i := range s.ids {
		id = max(id, i)
	}
	return id
}

// meddle is what a person or Slurm does between a look and the calls that follow it.
func (s *stage) meddle(state slurm.State) slurm.State {
	s.since = 0
	id := s.way.job
	name := ""
	for n, i := range s.ids {
		if i == id {
			name = n
		}
	}
	j, _ := s.sim.Job(context.Background(), id)
	switch s.way.mode {
	case "cancelled":
		if !j.State.Finished() {
			s.sim.Cancel(id)
			s.expect[name] = slurm.StateCancelled
		}
	case "held by its user":
		if !j.Held && !j.State.Finished() {
			s.sim.Hold(id)
			s.userHolds[id], s.heldAt = true, s.sim.Now()
		}
	case "its hold is taken off":
		if j.Held && !s.userHolds[id] && j.State == slurm.StateRunning && !j.HasFlag(slurm.FlagCompleting) {
			s.sim.Release(id)
		}
	case "requeued by its user":
		if j.State == slurm.StateRunning && !j.HasFlag(slurm.FlagCompleting) && !j.Held {
			_ = s.sim.Requeue(context.Background(), j.Ref())
			s.cut[name] = true
		}
	case "requeued, and running again":
		if j.State == slurm.StateRunning && !j.HasFlag(slurm.FlagCompleting) && !j.Held {
			_ = s.sim.Requeue(context.Background(), j.Ref())
			s.cut[name] = true
			for range 8 {
				s.sim.Advance(s.sim.Now().Add(500 * time.Millisecond))
				if j, _ := s.sim.Job(context.Background(), id); j.State == slurm.StatePending && j.Eligible.After(s.sim.Now()) {
					_ = s.sim.Update(context.Background(), j.Ref(), slurm.Update{BeginTime: slurm.Some(time.Time{})})
				}
			}
		}
	case "4 s pass":
		s.sim.Advance(s.sim.Now().Add(4 * time.Second))
	case "its id is another's":
		if s.last() == id && j.State == slurm.StatePending { // the controller crashed before it had saved the newest job
			s.sim.Forget(id)
			delete(s.ids, name)
			s.submit("another's", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Body: training(60), User: "eve", UID: 1009, TimeLimit: time.Hour, Nice: 3, Comment: "unisched:ckpt=none,profile=skip"})
			s.submitted["another's"] = s.job("another's")
		}
	case "a second daemon":
		if s.second = s.start(); s.second != nil {
			s.t.Errorf("two daemons own the journal")
		}
	case "a look without nodes":
		s.lies, state.Nodes = true, nil
	case "a look at half the nodes":
		s.lies, state.Nodes = true, state.Nodes[:len(state.Nodes)/2]
	case "an old look":
		s.lies, state.SlurmTime = true, state.SlurmTime.Add(-10*time.Minute)
	}
	return state
}
