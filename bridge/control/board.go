package control

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"unisched/bridge"
	"unisched/estimator"
	"unisched/planner"
	"unisched/slurm"
)

// Board is the answer of PathBoard: all that one screen shows of the cluster, in one document and without what only a job's own page needs.
type Board struct {
	Schema  int                 `json:"schema_version"`
	At      time.Time           `json:"at"`
	Cycle   int64               `json:"cycle"`
	Cluster string              `json:"cluster"`
	Slurm   string              `json:"slurm_release"`
	Stage   bridge.Stage        `json:"stage"`
	Paused  bool                `json:"paused"`
	Trouble string              `json:"trouble,omitempty"`
	Suspect string              `json:"suspect,omitempty"`
	UnitS   float64             `json:"unit_s"`
	Plan    BoardPlan           `json:"plan"`
	GPUs    bridge.GPUCount     `json:"gpus"`
	Phases  []bridge.PhaseCount `json:"phases"`
	Nodes   []bridge.NodeView   `json:"nodes"`
	Jobs    []BoardJob          `json:"jobs"`
	// Leases are stays of the last LeaseHours and what the plan foresees, by From, then job.
	Leases     []BoardLease  `json:"leases"`
	LeaseHours float64       `json:"lease_hours"`
	Loads      []bridge.Load `json:"loads"`
	Events     []BoardEvent  `json:"events"` // newest first
	// Forecast scores the forecasts made at mid-run of jobs that ended within LeaseHours: near a job's end a relative error says little.
	Forecast *estimator.ForecastGroup `json:"forecast,omitempty"`
	Pending  int                      `json:"forecast_pending"`
}

// BoardPlan says of the newest plan when and how it was made.
type BoardPlan struct {
	ID        string    `json:"id"`
	Made      time.Time `json:"made,omitzero"`
	Next      time.Time `json:"next,omitzero"`
	Candidate string    `json:"candidate"`
	Solver    string    `json:"solver"`
	Error     string    `json:"error,omitempty"`
}

// BoardJob is one job in short.
type BoardJob struct {
	ID       slurm.JobID   `json:"id"`
	Ref      string        `json:"ref"`
	Name     string        `json:"name"`
	User     string        `json:"user"`
	Account  string        `json:"account"`
	Class    planner.Class `json:"class"`
	Phase    bridge.Phase  `json:"phase"`
	Code     string        `json:"code,omitempty"` // of the plan's reason
	GPUs     int           `json:"gpus"`
	Where    string        `json:"where,omitempty"`
	Until    time.Time     `json:"lease_until,omitzero"`
	Submit   time.Time     `json:"submitted,omitzero"`
	StartBy  time.Time     `json:"start_by,omitzero"`
	Forecast time.Time     `json:"forecast,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`
	Due      time.Time     `json:"due,omitzero"` // the deadline counted on, else the last
	// Slack is from the expected end to Due, in seconds; absent without both.
	Slack *float64 `json:"slack_s,omitempty"`
	Risk  bool     `json:"risk,omitempty"`
	Met   *int     `json:"met,omitempty"`
	Rank  int      `json:"rank"`
}

// BoardLease is a stay of one run, or what the plan foresees.
type BoardLease struct {
	Job   slurm.JobID       `json:"job"`
	Run   int               `json:"run"`
	Kind  string            `json:"kind"` // past, now, plan
	From  time.Time         `json:"from"`
	To    time.Time         `json:"to"`
	Place planner.Placement `json:"place"`
	Probe bool              `json:"profile,omitempty"`
}

// BoardEvent is what happened to one job.
type BoardEvent struct {
	bridge.Event
	Job slurm.JobID `json:"job"`
	Ref string      `json:"ref"`
}

// Bounds of a board.
const (
	boardHours     = 24
	maxBoardLeases = 20000
	maxBoardEvents = 300
	maxBoardEnded  = 500
)

// boardOf makes the board of a view. It is the same for equal views.
func boardOf(v *bridge.View) Board {
	b := Board{
		Schema: bridge.ViewSchema, At: v.At, Cycle: v.Cycle, Cluster: v.Cluster, Slurm: v.Slurm, Stage: v.Stage, Paused: v.Paused, Trouble: v.Trouble,
		Suspect: v.Suspect, UnitS: v.Unit.Seconds(), GPUs: v.GPUs, Phases: v.Counts, Nodes: v.Nodes, LeaseHours: boardHours, Loads: v.Loads,
		Plan: BoardPlan{v.LastPlan.ID, cmp.Or(v.LastPlan.Made, v.LastPlan.Now), v.NextPlan, v.LastPlan.Candidate, v.LastPlan.Solver.Status, v.LastPlan.Solver.Error},
		Jobs: []BoardJob{}, Leases: []BoardLease{}, Events: []BoardEvent{},
	}
	ended := 0
	for i := len(v.Jobs) - 1; i >= 0; i-- { // of those that have ended only the newest
		j := &v.Jobs[i]
		if j.Phase.Ended() {
			if ended++; ended > maxBoardEnded {
				continue
			}
		}
		b.Jobs = append(b.Jobs, boardJob(j))
		b.addStays(j)
		b.addEvents(j)
	}
	slices.Reverse(b.Jobs)
	b.addPlan(v.LastPlan)
	slices.SortStableFunc(b.Leases, func(x, y BoardLease) int { return cmp.Or(x.From.Compare(y.From), cmp.Compare(x.Job, y.Job)) })
	if n := len(b.Leases) - maxBoardLeases; n > 0 {
		b.Leases = b.Leases[n:]
	}
	slices.SortStableFunc(b.Events, func(x, y BoardEvent) int { return cmp.Or(y.At.Compare(x.At), cmp.Compare(y.Job, x.Job)) })
	b.Events = b.Events[:min(len(b.Events), maxBoardEvents)]
	r := v.ForecastReport(v.At.Add(-boardHours * time.Hour))
	b.Pending = r.Pending
	if i := slices.IndexFunc(r.Groups, func(g estimator.ForecastGroup) bool { return g.By == "age" && g.Value == "50%" }); i >= 0 {
		b.Forecast = &r.Groups[i]
	}
	return b
}

func boardJob(j *bridge.JobView) BoardJob {
	x := BoardJob{ID: j.ID, Ref: j.Ref, Name: j.Name, User: j.User, Account: j.Account, Class: j.Class, Phase: j.Phase, GPUs: j.GPUs, Submit: j.Submitted,
		Forecast: j.Forecast, Ended: j.Ended, Met: j.Met, Due: j.Due(), Risk: j.Risk() != "", Rank: j.Target.Rank}
	if j.Phase.OnGPUs() {
		x.Where, x.Until = j.Placement.String(), j.LeaseUntil
	}
	if j.Phase.Ours() {
		x.Code, x.StartBy = j.Target.Reason.Code, j.Target.StartBy
	}
	end := j.Forecast
	if !j.Ended.IsZero() {
		end = j.Ended
	}
	if !end.IsZero() && !x.Due.IsZero() {
		s := x.Due.Sub(end).Seconds()
		x.Slack = &s
	}
	return x
}

func (b *Board) addStays(j *bridge.JobView) {
	for _, s := range j.Stays {
		l := BoardLease{Job: j.ID, Run: s.Run, Kind: "past", From: s.From, To: s.To, Place: s.Placement, Probe: s.Profile}
		if s.To.IsZero() {
			l.Kind, l.To = "now", b.At
		}
		if b.At.Sub(l.To) < boardHours*time.Hour && len(l.Place) > 0 {
			b.Leases = append(b.Leases, l)
		}
	}
}

func (b *Board) addEvents(j *bridge.JobView) {
	for _, e := range j.Events[max(0, len(j.Events)-20):] {
		b.Events = append(b.Events, BoardEvent{e, j.ID, j.Ref})
	}
}

// addPlan adds what the plan foresees from now on.
func (b *Board) addPlan(p planner.Plan) {
	for _, l := range p.Leases {
		if from := b.At; l.Until.After(from) {
			if l.From.After(from) {
				from = l.From
			}
			b.Leases = append(b.Leases, BoardLease{Job: slurm.JobID(l.Run.Job), Run: l.Run.Restart, Kind: "plan", From: from, To: l.Until, Place: l.Placement})
		}
	}
}

// boards keeps the newest board as bytes: many pages may look at it, and it is made once a view.
type boards struct {
	mu   sync.Mutex
	of   *bridge.View
	raw  []byte
	etag string
	err  error
}

func (b *boards) get(v *bridge.View) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of != v {
		b.of = v
		b.raw, b.err = json.Marshal(boardOf(v))
		sum := sha256.Sum256(b.raw)
		b.etag = `"` + hex.EncodeToString(sum[:8]) + `"`
	}
	return b.raw, b.etag, b.err
}
