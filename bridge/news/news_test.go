package news

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/planner"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) time.Time { return noon.Add(d) }

// brief is a Change without what the test does not look at.
type brief struct {
	Job                            int64
	Events                         []string
	Preempted, Unconfirmed         int
	AtRisk, Missed, Ended, Profile bool
}

func briefs(cs []Change) []brief {
	var out []brief
	for _, c := range cs {
		b := brief{int64(c.Job.ID), nil, c.Preempted, c.Unconfirmed, c.AtRisk, c.Missed, c.Ended, !c.ProfileBegan.IsZero()}
		for _, e := range c.Events {
			b.Events = append(b.Events, e.What)
		}
		out = append(out, b)
	}
	return out
}

func event(n int, at time.Duration, what string) bridge.Event {
	return bridge.Event{N: n, At: in(at), What: what}
}

func TestNext(t *testing.T) {
	deadline := []planner.Tier{{At: in(time.Hour), Value: 100}}
	no, yes := -1, 0
	old := bridge.JobView{ID: 7, Submitted: in(-time.Hour), Phase: bridge.Running, Preemptions: 3, Strikes: 1, Tiers: deadline, Laxity: -time.Second,
		Events: []bridge.Event{event(4, -time.Hour, "admitted"), event(5, time.Second, "running")}}
	gone := bridge.JobView{ID: 8, Phase: bridge.Completed, Ended: in(-time.Minute), Tiers: []planner.Tier{{At: in(-2 * time.Minute)}}, Met: &no}
	fresh := bridge.JobView{ID: 9, Submitted: in(2 * time.Second), Phase: bridge.Admitted, Tiers: deadline, Laxity: time.Hour,
		Events: []bridge.Event{event(1, 2*time.Second, "admitted")}}
	edit := func(j bridge.JobView, do func(*bridge.JobView)) bridge.JobView { do(&j); return j }
	steps := []struct {
		name string
		at   time.Duration
		jobs []bridge.JobView
		want []brief
	}{
		{"the first view: only what is younger than the daemon", time.Second, []bridge.JobView{old, gone}, []brief{{Job: 7, Events: []string{"running"}}}},
		{"the same again", time.Second, []bridge.JobView{old, gone}, nil},
		{"a new job, all of it", 3 * time.Second, []bridge.JobView{fresh, old}, []brief{{Job: 9, Events: []string{"admitted"}}}},
		{"its profile begins; the other is preempted and stays at risk", 4 * time.Second, []bridge.JobView{
			edit(fresh, func(j *bridge.JobView) { j.Events = append(j.Events, event(2, 4*time.Second, "profiling")) }),
			edit(old, func(j *bridge.JobView) { j.Preemptions, j.Strikes = 4, 2 })},
			[]brief{{Job: 7, Preempted: 1, Unconfirmed: 1}, {Job: 9, Events: []string{"profiling"}, Profile: true}}},
		{"a second profile step is no first one; a risk", 5 * time.Second, []bridge.JobView{edit(fresh, func(j *bridge.JobView) {
			j.Events, j.Laxity = []bridge.Event{event(1, 2*time.Second, "admitted"), event(2, 4*time.Second, "profiling"), event(3, 5*time.Second, "profiling")}, -time.Minute
		})}, []brief{{Job: 9, Events: []string{"profiling"}, AtRisk: true}}},
		{"the risk is over", 6 * time.Second, []bridge.JobView{edit(fresh, func(j *bridge.JobView) { j.Events = []bridge.Event{event(3, 5*time.Second, "profiling")} })}, nil},
		{"the deadline passes while it runs", 2 * time.Hour, []bridge.JobView{edit(fresh, func(j *bridge.JobView) { j.Phase = bridge.Running; j.Events = nil })}, []brief{{Job: 9, Missed: true}}},
		{"it ends: missed already", 3 * time.Hour, []bridge.JobView{edit(fresh, func(j *bridge.JobView) { j.Phase, j.Met, j.Events = bridge.Completed, &no, nil })}, []brief{{Job: 9, Ended: true}}},
		{"another job under its id", 4 * time.Hour, []bridge.JobView{{ID: 9, Submitted: in(3 * time.Hour), Phase: bridge.Completed, Met: &yes, Tiers: deadline}}, []brief{{Job: 9, Ended: true}}},
	}
	w := New(noon)
	if got := w.Next(&bridge.View{}); got != nil {
		t.Errorf("before the first cycle: %v", got)
	}
	for k, s := range steps {
		v := &bridge.View{Cycle: int64(k + 1), At: in(s.at), Jobs: s.jobs}
		if d := cmp.Diff(s.want, briefs(w.Next(v))); d != "" {
			t.Errorf("%s: %s", s.name, d)
		}
	}
	if len(w.jobs) != 1 {
		t.Errorf("%d jobs are remembered, one is shown", len(w.jobs))
	}
}

func TestAtRisk(t *testing.T) {
	v := &bridge.View{Jobs: []bridge.JobView{
		{Class: planner.Strict, Phase: bridge.Waiting, Tiers: []planner.Tier{{At: in(time.Hour)}}, Forecast: in(2 * time.Hour)},
		{Class: planner.Strict, Phase: bridge.Waiting, Tiers: []planner.Tier{{At: in(time.Hour)}}, Forecast: in(time.Minute)},
		{Class: planner.BestEffort, Phase: bridge.Waiting, Target: bridge.Target{Reason: planner.Reason{Code: planner.ReasonNeverFits}}},
	}}
	if d := cmp.Diff(map[planner.Class]int{planner.Strict: 1}, AtRisk(v)); d != "" {
		t.Error(d)
	}
}
