package postmortem

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/account"
	"unisched/bridge/events"
	"unisched/bridge/replay"
	"unisched/planner"
)

var (
	noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	unit = 5 * time.Minute
)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func ptr[T any](v T) *T { return &v }

func on(node string, gpus int) planner.Placement {
	return planner.Placement{{Node: node, GPUs: gpus}}
}

func stay(run, from, to int, p planner.Placement) bridge.Stay {
	return bridge.Stay{Run: run, From: at(from), To: at(to), Placement: p}
}

// world is a story about job 7 of 4 GPUs: it needs 60 minutes at 1 iteration a second, arrives at noon and is due after 90 minutes, on two nodes of 4 GPUs, with
// rounds every 5 minutes as long as it waits.
type world struct {
	job    account.Entry
	rounds func(minute int, r *replay.Round)
	events []events.Event
	skip   func(minute int) bool // rounds that never were
}

// base is the story with a start at minute start and one run.
func base(start int) world {
	end := start + 60
	return world{job: account.Entry{Job: 7, Ref: "7", Class: planner.Strict, GPUs: 4, Submitted: noon, Ended: at(end), Phase: bridge.Completed, Exit: "COMPLETED, exit 0", Met: ptr(-1),
		Tiers: []planner.Tier{{At: at(90), Value: 100}}, Iter: 3600, HeldS: 3600, Stop: "3600 iterations", Speeds: []planner.ShapeSpeed{{Shape: planner.Shape{4}, Speed: planner.Exactly(1)},
			{Shape: planner.Shape{2, 2}, Speed: planner.Exactly(0.5)}}, Stays: []bridge.Stay{stay(0, start, end, on("n1", 4))}}}
}

// other is a running job in the way.
func other(id int, class planner.Class, due int, node string, preemptible bool) planner.Job {
	j := planner.Job{Run: planner.Run{Job: planner.JobID(id)}, Class: class, State: planner.Running, Current: on(node, 4), Preemptible: preemptible}
	if class.SLO() {
		j.Tiers = []planner.Tier{{At: at(due), Value: 100}}
	}
	return j
}

// round is what a round looks like while the job waits behind the others given.
func (w world) round(minute int, others ...planner.Job) replay.Round {
	self := planner.Job{Run: planner.Run{Job: 7}, Class: planner.Strict, State: planner.Waiting, Submitted: w.job.Submitted, Tiers: w.job.Tiers, Asked: 4,
		Estimate: planner.Estimate{Iterations: planner.Exactly(3600), Speeds: []planner.ShapeSpeed{{Shape: planner.Shape{4}, Speed: planner.Exactly(1)}}, Basis: "declared"}}
	r := replay.Round{Snapshot: planner.Snapshot{Now: at(minute), Unit: unit, SLOUnits: 2, Nodes: []planner.Node{{Name: "n1", GPUs: 4, Usable: true}, {Name: "n2", GPUs: 4, Usable: true}},
		Jobs: append([]planner.Job{self}, others...)}}
	r.Plan.Solver.Status, r.Plan.Candidate = "optimal", "milp"
	r.Plan.Entries = append(r.Plan.Entries, planner.Entry{Run: self.Run, Decision: planner.Wait, Tier: -1, Reason: planner.Reason{Code: planner.ReasonOutbid, Text: "others earn more"}})
	for _, o := range others {
		r.Plan.Entries = append(r.Plan.Entries, planner.Entry{Run: o.Run, Decision: planner.Keep})
	}
	return r
}

// holders puts the same two jobs in the way in every round.
func holders(a, b planner.Job) func(w world) func(int, *replay.Round) {
	return func(w world) func(int, *replay.Round) {
		return func(minute int, r *replay.Round) { *r = w.round(minute, a, b) }
	}
}

func (w world) judge() Report {
	g := NewGatherer([]account.Entry{w.job})
	for m := 0; at(m).Before(w.job.Ended); m += 5 {
		waits := slices.ContainsFunc((&Case{Job: w.job}).waits(), func(s Span) bool { return !at(m).Before(s.From) && at(m).Before(s.To) })
		if w.skip != nil && w.skip(m) {
			continue
		}
		r := w.round(m)
		if !waits {
			r.Snapshot.Jobs[0].State, r.Snapshot.Jobs[0].Current, r.Plan.Entries[0].Decision = planner.Running, on("n1", 4), planner.Keep
		} else if w.rounds != nil {
			w.rounds(m, &r)
		}
		g.Add(r)
	}
	return Judge(g.Cases(w.events)[0])
}

// TestCauses: one story per cause, with the share that its times give.
func TestCauses(t *testing.T) {
	be := func(n string, id int) planner.Job { return other(id, planner.BestEffort, 0, n, true) }
	slo := func(n string, id int) planner.Job { return other(id, planner.Strict, 80, n, true) }
	for _, tt := range []struct {
		name  string
		world func() world
		cause Cause
		share float64
		how   string
		says  string
	}{
		{"reward: best effort held the GPUs", func() world {
			w := base(60)
			w.rounds = holders(be("n1", 1), be("n2", 2))(w)
			return w
		}, Reward, 1, Computed, "held 8 GPUs, the largest: besteffort job 1"},
		{"reward: a later deadline went first", func() world {
			w := base(60)
			w.rounds = holders(other(1, planner.Strict, 500, "n1", true), slo("n2", 2))(w)
			return w
		}, Reward, 1, Computed, "strict job 1"},
		{"reward: it was stopped for others, and its work came back late", func() world {
			w := base(0)
			w.job.Ended, w.job.Preemptions, w.job.ResumeS, w.job.CheckpointS, w.job.HeldS = at(135), 1, 60, 30, 3690
			w.job.Stays = []bridge.Stay{stay(0, 0, 30, on("n1", 4)), stay(1, 103, 135, on("n1", 4))}
			w.job.Stays[0].Cut = true
			w.rounds = holders(be("n1", 1), be("n2", 2))(w)
			return w
		}, Reward, 1, Computed, "was ended for others"},
		{"capacity: jobs due earlier held everything", func() world {
			w := base(60)
			w.rounds = holders(slo("n1", 1), slo("n2", 2))(w)
			return w
		}, Capacity, 1, Computed, "8 GPUs were with jobs due no later"},
		{"capacity: what runs cannot be stopped", func() world {
			w := base(60)
			w.rounds = holders(other(1, planner.BestEffort, 0, "n1", false), other(2, planner.BestEffort, 0, "n2", false))(w)
			return w
		}, Capacity, 1, Computed, "that cannot be stopped"},
		{"capacity: a limit of Slurm's", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) { r.Snapshot.Jobs[0].Blocked = "Slurm would keep it waiting: AssocGrpGRES" }
			return w
		}, Capacity, 1, Computed, "AssocGrpGRES"},
		{"speed: believed to be twice as fast", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) {
				*r = w.round(m, be("n1", 1), be("n2", 2))
				r.Snapshot.Jobs[0].Estimate.Speeds[0].Speed = planner.Exactly(2)
				r.Plan.Entries[0].Tier = 0
			}
			return w
		}, Speed, 1, Computed, "believed to need 30m00s (3 leases), in truth 1h00m (6)"},
		{"iterations: believed to need a third", func() world {
			w := base(60)
			w.job.Stop = "val_acc>=0.9, at most 9000 iterations"
			w.rounds = func(m int, r *replay.Round) {
				*r = w.round(m, be("n1", 1), be("n2", 2))
				r.Snapshot.Jobs[0].Estimate.Iterations = planner.Exactly(1200)
				r.Plan.Entries[0].Tier = 0
			}
			return w
		}, Iterations, 1, Computed, "by 1200 iterations left (declared), in truth 3600"},
		{"user: it declared fewer iterations than it did", func() world {
			w := base(60)
			w.job.Stop = "1200 iterations"
			w.rounds = func(m int, r *replay.Round) {
				*r = w.round(m, be("n1", 1), be("n2", 2))
				r.Snapshot.Jobs[0].Estimate.Iterations = planner.Exactly(1200)
				r.Plan.Entries[0].Tier = 0
			}
			return w
		}, User, 1, Computed, "it declared 1200 iterations and did 3600"},
		{"topology: free GPUs in no shape of its own", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) {
				*r = w.round(m, planner.Job{Run: planner.Run{Job: 1}, Class: planner.BestEffort, State: planner.Running, Current: planner.Placement{{Node: "n1", GPUs: 2}, {Node: "n2", GPUs: 2}}})
				r.Plan.Entries[0].Reason.Code = planner.ReasonNoHole
			}
			return w
		}, Topology, 1, Computed, "in no shape that it can use: 4 free, 4 asked for"},
		{"topology: a placement of half the speed", func() world {
			w := base(0)
			w.job.Ended, w.job.HeldS = at(120), 7200
			w.job.Stays = []bridge.Stay{stay(0, 0, 120, planner.Placement{{Node: "n1", GPUs: 2}, {Node: "n2", GPUs: 2}})}
			return w
		}, Topology, 1, Computed, "on 2x2 for 2h00m at 50 % of its best speed"},
		{"profile: it waited to be measured", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) { r.Snapshot.Jobs[0].Class = planner.Profiler }
			return w
		}, Profile, 1, Computed, "waited to be measured"},
		{"fault: a node is down", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) {
				*r = w.round(m, slo("n1", 1))
				r.Snapshot.Nodes[1].Usable, r.Snapshot.Nodes[1].Why = false, "down: fan"
			}
			return w
		}, Fault, 1, Computed, "4 GPUs were away, else there had been room: n2: down: fan"},
		{"fault: its node failed, and the work since the checkpoint was done again", func() world {
			w := base(0)
			w.job.Ended, w.job.HeldS, w.job.LostIters = at(120), 7200, 3600
			w.job.Stays = []bridge.Stay{stay(0, 0, 60, on("n2", 4)), stay(1, 60, 120, on("n1", 4))}
			w.job.Returns = []bridge.Return{{Run: 1, At: at(61), Reached: 3600, Saved: 1, Resumed: 0}}
			w.rounds = nil
			return w
		}, Fault, 1, Computed, "3600 iterations were done again"},
		{"fault: Slurm did not answer", func() world {
			w := base(60)
			w.events = []events.Event{{At: at(1), What: "slurm-unreachable", Text: "connection refused"}, {At: at(58), What: "slurm-back"}}
			w.skip = func(m int) bool { return m > 0 && m < 58 }
			w.rounds = holders(slo("n1", 1), slo("n2", 2))(w)
			return w
		}, Fault, 30. / 33, Computed, "Slurm did not answer for 57m00s while it waited: connection refused"},
		{"fault: no daemon ran", func() world {
			w := base(60)
			w.skip = func(m int) bool { return m > 0 && m < 55 }
			w.rounds = holders(slo("n1", 1), slo("n2", 2))(w)
			return w
		}, Fault, 0.6, Computed, "the daemon was away"},
		{"fault: the solver failed", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) {
				*r = w.round(m, be("n1", 1), be("n2", 2))
				r.Plan.Candidate, r.Plan.Solver.Status, r.Plan.Solver.Error = "fallback", "failed", "killed"
			}
			return w
		}, Fault, 1, Rule, "a plan without the solver: killed"},
		{"user: held", func() world {
			w := base(60)
			w.rounds = func(m int, r *replay.Round) { r.Snapshot.Jobs[0].Blocked = "held (JobHeldUser): release it" }
			return w
		}, User, 1, Computed, "held (JobHeldUser)"},
		{"user: submitted too late", func() world {
			w := base(0)
			w.job.Tiers[0].At = at(40)
			return w
		}, User, 1, Computed, "20m00s too late by itself"},
		{"user: no checkpoint", func() world {
			w := base(0)
			w.job.Ended, w.job.HeldS, w.job.LostIters = at(120), 7200, 3600
			w.job.Stays = []bridge.Stay{stay(0, 0, 60, on("n2", 4)), stay(1, 60, 120, on("n1", 4))}
			w.job.Returns = []bridge.Return{{Run: 1, At: at(61), Reached: 3600}}
			w.job.Events = []bridge.Event{{At: noon, What: "not-preemptible", Text: "no ckpt= in its comment: it cannot save its work"}}
			return w
		}, User, 1, Computed, "it saves no checkpoints: 3600 iterations were done again"},
		{"user: it failed", func() world {
			w := base(0)
			w.job.Phase, w.job.Exit = bridge.Failed, "FAILED, exit 1"
			return w
		}, User, 1, Rule, "FAILED, exit 1"},
		{"fault: its node failed for good", func() world {
			w := base(0)
			w.job.Phase, w.job.Exit = bridge.Failed, "NODE_FAIL, exit 0"
			return w
		}, Fault, 1, Rule, "NODE_FAIL"},
		{"unknown: no rounds are kept", func() world {
			w := base(60)
			w.skip = func(int) bool { return true }
			return w
		}, Unknown, 1, Computed, "no round of that time is kept"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.world().judge()
			if len(r.Parts) == 0 {
				t.Fatalf("no parts: %+v", r)
			}
			p := r.Parts[0]
			text := ""
			for _, e := range p.Evidence {
				text += e.Text + "\n"
			}
			if r.Cause != tt.cause || p.Cause != tt.cause || math.Abs(p.Share-tt.share) > 0.02 || p.How != tt.how || !strings.Contains(text, tt.says) || r.Verdict == "" {
				t.Errorf("%s %s %.3f, %s\n%s\n%+v", r.Verdict, p.Cause, p.Share, p.How, text, r.Parts)
			}
			sum := 0.0
			for _, p := range r.Parts {
				sum += p.Share
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("shares add up to %v", sum)
			}
		})
	}
}

// Two causes share what both made late, and the counterfactual says how late it would have been without each.
func TestTwoCauses(t *testing.T) {
	w := base(60)
	w.rounds = func(m int, r *replay.Round) {
		if m < 20 {
			r.Snapshot.Jobs[0].Blocked = "held (JobHeldUser): release it"
			return
		}
		*r = w.round(m, other(1, planner.Strict, 80, "n1", true), other(2, planner.Strict, 80, "n2", true))
	}
	type part struct {
		Cause          Cause
		Delay, Without float64
		Share          string
	}
	var got []part
	for _, p := range w.judge().Parts {
		got = append(got, part{p.Cause, p.DelayS, p.WithoutS, fmt.Sprintf("%.2f", p.Share)})
	}
	want := []part{{Capacity, 2400, 0, "0.60"}, {User, 1200, 600, "0.40"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNothingToExplain(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*account.Entry)
		says   string
	}{
		"met":         {func(e *account.Entry) { e.Met, e.Tiers[0].At = ptr(0), at(600) }, "It met its deadline, with 9h00m to spare."},
		"not seen":    {func(e *account.Entry) { e.Met = nil }, "Its end was not seen"},
		"no deadline": {func(e *account.Entry) { e.Met, e.Tiers = nil, nil }, "It has no deadline"},
	} {
		w := base(0)
		tt.change(&w.job)
		if r := w.judge(); r.Missed || r.Cause != "" || !strings.Contains(r.Verdict, tt.says) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	w := base(0)
	w.job.Phase, w.job.Exit = bridge.Cancelled, "CANCELLED"
	if r := w.judge(); r.Missed || r.Cause != User {
		t.Errorf("cancelled: %+v", r)
	}
}

// A soft job that met a later tier is late against its first.
func TestLaterTier(t *testing.T) {
	w := base(60)
	w.job.Tiers = append(w.job.Tiers, planner.Tier{At: at(200), Value: 20})
	w.job.Met = ptr(1)
	w.rounds = holders(other(1, planner.BestEffort, 0, "n1", true), other(2, planner.BestEffort, 0, "n2", true))(w)
	if r := w.judge(); !r.Missed || r.LateS != 1800 || r.Cause != Reward {
		t.Errorf("%+v", r)
	}
}
