// Package lease is UniSched's own policy: it turns a snapshot into a plan with the lease model F4 (a mixed-integer program over this
// round's choices with prefix rows for the deadlines to come), a handful of greedy candidates in the same model, an exact packer, and an
// unrolled forecast.
//
// It refuses to fail: whatever the solver does, Plan returns a plan that planner.Check accepts, at worst one that keeps everything and
// starts greedily. It reads no clock and starts no process; the solver is given to it as a function. The daemon, the simulator and
// the offline planner all call Policy.Plan.
package lease

import (
	"context"
	"fmt"
	"slices"

	"unisched/planner"
	"unisched/planner/milp"
)

// Policy makes plans. Its only memory is the last plan, from which the "last" candidate is made, and how often the solver failed of
// late; see Reset. It is not safe for concurrent use.
type Policy struct {
	cfg    Config
	solve  milp.Solver
	last   planner.Plan
	failed int // rounds in a row in which the solver failed
	rest   int // rounds for which it is left alone
}

// After failures in a row the solver is left alone for some rounds: greedy candidates and the last plan decide.
const (
	failuresToRest = 3
	roundsOfRest   = 12
)

// New returns the policy. Without a solver the greedy candidates decide alone.
func New(cfg Config, solve milp.Solver) *Policy { return &Policy{cfg: cfg.filled(), solve: solve} }

// Reset replaces the remembered plan; the zero Plan forgets it. After Reset(p) the next Plan depends on p and its snapshot alone, which is how
// a stored round is replayed.
func (p *Policy) Reset(last planner.Plan) { p.last, p.failed, p.rest = last, 0, 0 }

// Last returns the remembered plan.
func (p *Policy) Last() planner.Plan { return p.last }

// Plan decides the round that begins at s.Now. It never fails: the result passes planner.Check. Lease ends lie on unit boundaries, see
// planner.LeaseEnd: an SLO job's lease is SLOUnits units, any other's one, and a job kept past its lease gets the new end.
func (p *Policy) Plan(ctx context.Context, s planner.Snapshot) planner.Plan {
	plan := p.robust(ctx, s)
	if v := planner.Check(s, plan); len(v) > 0 {
		plan = Fallback(s)
		plan.Scores = []planner.Score{{Candidate: "rejected", Note: v[0].Error()}}
	}
	p.last = plan
	return plan
}

// robust plans; when a start was taken back because a foreign job would take GPUs that it counted on, it plans again with that foreign job in
// place, so that other victims can be found, and keeps the better plan.
func (p *Policy) robust(ctx context.Context, s planner.Snapshot) planner.Plan {
	plan, raced := p.best(ctx, s)
	if len(raced) == 0 {
		return plan
	}
	then := s
	then.Jobs = slices.Clone(s.Jobs)
	for i := range then.Jobs {
		j := &then.Jobs[i]
		if e := plan.Entries[i]; e.Decision == planner.Start && slices.Contains(raced, j.Run) {
			j.State, j.Current = planner.Running, e.Placement
		}
	}
	again, more := p.best(ctx, then)
	if len(more) > 0 || again.Objective <= plan.Objective {
		return plan
	}
	for i := range s.Jobs {
		e := &again.Entries[i]
		if s.Jobs[i].State == planner.Waiting && e.Decision == planner.Keep {
			e.Decision, e.Reason = planner.Start, plan.Entries[i].Reason
		}
	}
	return again
}

// best builds the candidates and takes the one that earns most once packed; ties go to the one that meets more deadlines, then to the
// earlier in the list. It also names the foreign jobs for which a start of the winner was taken back.
func (p *Policy) best(ctx context.Context, s planner.Snapshot) (planner.Plan, []planner.Run) {
	clock := p.cfg.Clock
	t0 := clock()
	in := newInstance(s, p.cfg)
	stats := planner.SolverStats{Status: "skipped"}
	t1 := clock()
	cands, proven := p.unaided(in)
	unaided := len(cands)
	t2 := clock()
	stats.Build = t1.Sub(t0)
	if proven {
		stats.Status, stats.Bound, stats.Gap = "optimal", in.ceiling(), gap(cands[unaided-1].obj, in.ceiling())
		p.failed = 0
	} else if p.awake(&stats) {
		cands = p.search(ctx, in, cands, &stats)
		p.count(stats)
		if p.cfg.SingleCandidate && len(cands) > unaided {
			cands = cands[unaided:]
		}
		stats.Build += clock().Sub(t2) - stats.Solve
	}
	stats.Pack = t2.Sub(t1)
	slices.SortStableFunc(cands, func(a, b packed) int {
		switch {
		case better(a, b):
			return -1
		case better(b, a):
			return 1
		}
		return 0
	})
	t3 := clock()
	cands[0] = in.promote(in.grow(cands[0]))
	plan := in.plan(cands[0])
	stats.Pack += clock().Sub(t3)
	if stats.Gap >= 0 {
		stats.Bound = max(stats.Bound, cands[0].obj)
	}
	for _, c := range cands {
		plan.Scores = append(plan.Scores, planner.Score{Candidate: c.name, Objective: c.obj, SLOMet: c.met, Note: c.note})
	}
	if len(cands) > 1 {
		plan.Margin = cands[0].obj - cands[1].obj
	}
	plan.Solver = stats
	var raced []planner.Run
	for _, run := range cands[0].raced {
		raced = append(raced, run)
	}
	slices.SortFunc(raced, planner.Run.Compare)
	return plan, raced
}

// unaided makes the candidates that need no solver, until one is proven to be as good as any: in most rounds that are brought forward the first.
func (p *Policy) unaided(in *instance) (cands []packed, proven bool) {
	if choice, ok := in.shifted(p.last); ok {
		cands = append(cands, in.pack("last", choice))
		if in.proven(cands[0]) {
			return cands, true
		}
	}
	for _, way := range []struct {
		name string
		of   func() []int
	}{{"llf", in.leastLaxity}, {"slack-srsf", in.slackSRSF}} {
		r := in.pack(way.name, way.of())
		if cands = append(cands, r); in.proven(r) {
			return cands, true
		}
	}
	return cands, false
}

// awake reports whether the solver is to be asked this round.
func (p *Policy) awake(stats *planner.SolverStats) bool {
	if p.solve == nil {
		return false
	}
	if p.rest > 0 {
		p.rest--
		stats.Error = fmt.Sprintf("solver left alone for %d more rounds after %d failures", p.rest, failuresToRest)
		return false
	}
	return true
}

// count keeps book of failures.
func (p *Policy) count(stats planner.SolverStats) {
	if stats.Status != "failed" {
		p.failed = 0
		return
	}
	if p.failed++; p.failed >= failuresToRest {
		p.failed, p.rest = 0, roundsOfRest
	}
}

// better orders candidates.
func better(a, b packed) bool {
	const tie = 1e-9
	if d := a.obj - b.obj; d > tie || d < -tie {
		return d > 0
	}
	return a.met > b.met
}

// Fallback is the plan that needs no thought: every running job stays, everybody else waits.
func Fallback(s planner.Snapshot) planner.Plan {
	p := planner.Plan{Schema: schema, Now: s.Now, Unit: s.Unit, Candidate: "fallback", Solver: planner.SolverStats{Status: "failed"}}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := planner.Entry{Run: j.Run, Decision: planner.Wait, Rank: i, Tier: -1,
			Reason: planner.Reason{Code: planner.ReasonOutbid, Text: "this round only keeps what runs"}}
		if j.State == planner.Running {
			e.Decision, e.Placement = planner.Keep, j.Current
			e.LeaseUntil = planner.LeaseEnd(s.Now, s.Unit, 1)
			if s.MidLease(j) {
				e.LeaseUntil = j.LeaseUntil
			}
			e.Reason = planner.Reason{Code: planner.ReasonRuns, Text: "keeps its place"}
		}
		p.Entries = append(p.Entries, e)
	}
	return p
}
