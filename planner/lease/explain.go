package lease

import (
	"fmt"
	"math"

	"unisched/planner"
)

// Explanation is why a plan treats one job as it does: what the model knew of it and every way there was.
type Explanation struct {
	Run planner.Run `json:"run"`
	// UnitsLeft is the work left in units at the best shape, Suspension what one suspension now would cost, Slack the units to spare until the
	// first deadline that can still be met (absent: none).
	UnitsLeft  float64  `json:"units_left"`
	Suspension float64  `json:"suspension_units"`
	Slack      *float64 `json:"slack_units,omitempty"`
	// Age is the reward gained by waiting, over all of the job's GPUs.
	Age  float64 `json:"age_reward"`
	Ways []Way   `json:"ways"`
	// ToRun says in words what would have to change for the job to run now; empty when it does.
	ToRun []string `json:"to_run,omitempty"`
}

// Way is one column of the job.
type Way struct {
	Decision planner.Decision `json:"decision"`
	Shape    string           `json:"shape,omitempty"`
	Speed    float64          `json:"relative_speed,omitempty"`
	Tier     int              `json:"tier"`
	Reward   float64          `json:"reward"`
	Left     float64          `json:"units_left_after"`
	Chosen   bool             `json:"chosen"`
	// Breaks lists the rows that would no longer hold if only this job changed to this way.
	Breaks []string `json:"breaks,omitempty"`
}

// Explain rebuilds the model of a plan and looks at one job in it. It is false for a job that is not in the plan, or a plan that is not for this
// snapshot.
func Explain(s planner.Snapshot, p planner.Plan, run planner.Run, cfg Config) (Explanation, bool) {
	if len(p.Entries) != len(s.Jobs) {
		return Explanation{}, false
	}
	in, l := explainer(s, p, cfg)
	for ji := range in.jobs {
		if in.jobs[ji].Run == run && p.Entries[ji].Run == run {
			return in.explain(l, ji), true
		}
	}
	return Explanation{}, false
}

// ExplainAll explains every job of a plan, in its order; nothing when the plan is not for this snapshot.
func ExplainAll(s planner.Snapshot, p planner.Plan, cfg Config) []Explanation {
	if len(p.Entries) != len(s.Jobs) {
		return nil
	}
	in, l := explainer(s, p, cfg)
	out := make([]Explanation, len(in.jobs))
	for ji := range in.jobs {
		out[ji] = in.explain(l, ji)
	}
	return out
}

// explainer is the model of a plan and the plan's choice in it.
func explainer(s planner.Snapshot, p planner.Plan, cfg Config) (*instance, *ledger) {
	in := newInstance(s, cfg.filled())
	l := newLedger(in)
	for ji := range in.jobs {
		l.add(ji, l.choice[ji], -1)
		l.choice[ji] = in.columnOf(ji, p.Entries[ji])
		l.add(ji, l.choice[ji], 1)
	}
	return in, l
}

// columnOf finds the column that an entry stands for.
func (in *instance) columnOf(ji int, e planner.Entry) int {
	j := &in.jobs[ji]
	best := j.base
	for ci, c := range j.cols {
		same := false
		switch e.Decision {
		case planner.Wait, planner.Stop:
			same = c.kind == wait
		case planner.Keep:
			same = c.kind == keep
		case planner.Start, planner.Move:
			same = c.kind == start && j.opts[c.opt].shape.Equal(e.Placement.Shape())
		}
		if same && c.tier == e.Tier {
			return ci
		}
		if same && c.tier < 0 {
			best = ci
		}
	}
	return best
}

func (in *instance) explain(l *ledger, ji int) Explanation {
	j := &in.jobs[ji]
	x := Explanation{Run: j.Run, UnitsLeft: j.n, Suspension: j.ov, Age: in.age(j)}
	if slack := j.laxity(); !math.IsInf(slack, 0) {
		x.Slack = &slack
	}
	mine := l.choice[ji]
	l.add(ji, mine, -1)
	least := -1
	for ci, c := range j.cols {
		w := Way{Tier: c.tier, Reward: c.obj, Left: c.left, Chosen: ci == mine}
		switch c.kind {
		case wait:
			w.Decision = planner.Wait
			if j.State == planner.Running {
				w.Decision = planner.Stop
			}
		case keep:
			w.Decision, w.Shape, w.Speed = planner.Keep, j.curr.shape.String(), j.curr.phi
		case start:
			o := j.opts[c.opt]
			w.Decision, w.Shape, w.Speed = planner.Start, o.shape.String(), o.phi
			if j.State == planner.Running {
				w.Decision = planner.Move
			}
		}
		if ci != mine {
			l.add(ji, ci, 1)
			w.Breaks = l.broken()
			l.add(ji, ci, -1)
		}
		x.Ways = append(x.Ways, w)
		if c.kind != wait && (least < 0 || len(w.Breaks) < len(x.Ways[least].Breaks)) {
			least = ci
		}
	}
	l.add(ji, mine, 1)
	if j.cols[mine].kind == wait {
		x.ToRun = in.toRun(j, x, least)
	}
	return x
}

func (in *instance) toRun(j *job, x Explanation, least int) []string {
	switch {
	case j.idle != "":
		return []string{j.idleWhy}
	case least < 0:
		return []string{"a shape that this cluster can hold"}
	case len(x.Ways[least].Breaks) > 0:
		return x.Ways[least].Breaks
	}
	return []string{"a hole of the right form: GPUs are free, but not where and how it can use them"}
}

// broken names the rows that do not hold.
func (l *ledger) broken() []string {
	var out []string
	pool := func(p int) string {
		if len(l.in.pools) == 1 {
			return ""
		}
		return fmt.Sprintf(" among the %d GPUs that start at node %s", l.in.pools[p].gpus, l.in.s.Nodes[l.in.pools[p].nodes[0]].Name)
	}
	for p := range l.in.ruled {
		if d := l.use[p] - l.room[p]; d > 0 {
			out = append(out, fmt.Sprintf("%d more GPUs free%s", d, pool(p)))
		}
		for k, size := range l.in.sizes {
			if d := l.need[p][k] - max(0, l.offer[p][k]); d > 0 {
				out = append(out, fmt.Sprintf("%d more blocks of %d GPUs on one node%s", d, size, pool(p)))
			}
		}
		for k, tau := range l.in.taus {
			if d := l.pre[p][k] - l.preCap[p][k]; d > 1e-9 {
				out = append(out, fmt.Sprintf("%.1f fewer GPU-units of work due within %.0f units%s", d, tau, pool(p)))
				break // later rows say the same
			}
		}
	}
	return append(out, l.accounts.broken(l.in)...)
}
