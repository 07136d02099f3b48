package planner

import (
	"fmt"
	"time"
)

// Decision is what a plan says about a job for the round that begins now.
type Decision string

const (
	// Wait: the job does not hold GPUs after this round's changes. For a Leaving job it is the only possible decision.
	Wait Decision = "wait"
	// Start: a waiting job gets Placement. For a Foreign job: these GPUs are left free for it.
	Start Decision = "start"
	// Keep: a running job stays where it is.
	Keep Decision = "keep"
	// Stop: a running job checkpoints and returns to the queue.
	Stop Decision = "stop"
	// Move: a running job checkpoints and starts again at Placement, elsewhere unless the entry says Anew.
	Move Decision = "move"
)

// Lease is a right to run: from, until, where.
type Lease struct {
	Run       Run       `json:"run"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	Placement Placement `json:"placement"`
}

// Reason says why a job waits, stops or runs, as a stable code and a sentence for people.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Reason codes. They are stable: scripts and tests read them.
const (
	ReasonRuns        = "runs"         // holds a lease and keeps it
	ReasonStarts      = "starts"       // gets a lease now
	ReasonOutbid      = "outbid"       // others earn more with these GPUs now
	ReasonNoHole      = "no-hole"      // enough GPUs are free but not in a shape it can use
	ReasonFull        = "full"         // every GPU is held by a job in mid-lease or one that cannot be preempted
	ReasonNeverFits   = "never-fits"   // no node set of this cluster can ever hold it
	ReasonBlocked     = "blocked"      // held, dependent, limited: see the text
	ReasonMidLease    = "mid-lease"    // its lease has not ended
	ReasonNoPreempt   = "no-preempt"   // it cannot be preempted
	ReasonLeaving     = "leaving"      // is writing its checkpoint
	ReasonPreempted   = "preempted"    // makes room for others
	ReasonLate        = "late"         // no deadline of it can be met any more
	ReasonLetThrough  = "let-through"  // GPUs are left free for a job that is not managed
	ReasonBudget      = "budget"       // the preemption budget of this round or hour is used up
	ReasonSpared      = "spared"       // was preempted as often as a job may be within an hour
	ReasonQuota       = "quota"        // its account holds as many GPUs as it may
	ReasonNodeTrouble = "node-trouble" // must leave a node that is not usable
)

// Entry is the decision for one job of the snapshot.
type Entry struct {
	Run      Run      `json:"run"`
	Decision Decision `json:"decision"`
	// Placement for Start, Keep and Move.
	Placement Placement `json:"placement,omitempty"`
	// Anew says that a Move leads to where the job runs: its run ends here, and it starts again on the same GPUs, at the cost of any other move.
	Anew bool `json:"anew,omitempty"`
	// LeaseUntil is the end of the lease given (or still running).
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	// Rank orders starts: Slurm's order must follow it. Lower goes first. Every job has a distinct rank.
	Rank int `json:"rank"`
	// Tier is the index of the deadline that the plan counts on (-1: none).
	Tier int `json:"tier"`
	// StartBy and Finish are what the unrolled plan expects (zero: not within its horizon).
	StartBy time.Time `json:"start_by,omitzero"`
	Finish  time.Time `json:"finish,omitzero"`
	Reason  Reason    `json:"reason"`
}

// Plan is a value: it can be printed, stored, compared and replayed. It holds exactly one Entry per job of its snapshot, in the
// snapshot's order (by Run).
type Plan struct {
	Schema int       `json:"schema_version"`
	ID     string    `json:"id"`
	Now    time.Time `json:"now"`
	// Made is when the plan was made: rounds are planned for the boundary at which they fall, and come a little later. Set by whoever keeps the plan; nothing
	// depends on it.
	Made    time.Time     `json:"made,omitzero"`
	Unit    time.Duration `json:"unit_ns"`
	Entries []Entry       `json:"entries"`
	// Leases is the plan unrolled over the coming units, by From, then Run: what the Gantt shows and what later rounds fall back on.
	Leases []Lease `json:"leases"`
	// Candidate names the way the plan was found ("milp", "rounded", "last", "llf", "slack-srsf", ...), Margin how much its objective beats the
	// best other candidate's.
	Candidate string      `json:"candidate"`
	Objective float64     `json:"objective"`
	Margin    float64     `json:"margin"`
	Scores    []Score     `json:"scores,omitempty"`
	Solver    SolverStats `json:"solver"`
}

// Score is one candidate of a round.
type Score struct {
	Candidate string  `json:"candidate"`
	Objective float64 `json:"objective"`
	SLOMet    int     `json:"slo_met"`
	Note      string  `json:"note,omitempty"` // why it was out (violated row, packing failure)
}

// SolverStats describes the solver's part. Wall-clock fields never influence a plan.
type SolverStats struct {
	Status string        `json:"status"` // "optimal", "time-limit", "node-limit", "failed", "skipped"
	Error  string        `json:"error,omitempty"`
	Rows   int           `json:"rows"`
	Cols   int           `json:"cols"`
	Bound  float64       `json:"bound"`
	Gap    float64       `json:"gap"` // relative, of the packed plan to Bound; -1: no bound known
	Build  time.Duration `json:"build_ns"`
	Solve  time.Duration `json:"solve_ns"`
	Pack   time.Duration `json:"pack_ns"`
}

// Asked reports whether a solver was asked at all; records of foreign origin may have no status.
func (s SolverStats) Asked() bool { return s.Status != "skipped" && s.Status != "" }

// Proven reports that no better plan was missed for want of a solution: nobody was asked, or the optimum was found within the gap.
func (s SolverStats) Proven() bool { return !s.Asked() || s.Status == "optimal" }

// Of returns the entry of a run.
func (p Plan) Of(r Run) (Entry, bool) {
	for _, e := range p.Entries {
		if e.Run == r {
			return e, true
		}
	}
	return Entry{}, false
}

// Violation is one way in which a plan breaks its snapshot.
type Violation struct {
	Run  Run    `json:"run,omitzero"`
	Node string `json:"node,omitempty"`
	What string `json:"what"`
}

func (v Violation) Error() string {
	switch {
	case v.Node != "" && v.Run != (Run{}):
		return fmt.Sprintf("job %s on node %s: %s", v.Run, v.Node, v.What)
	case v.Node != "":
		return fmt.Sprintf("node %s: %s", v.Node, v.What)
	case v.Run != (Run{}):
		return fmt.Sprintf("job %s: %s", v.Run, v.What)
	}
	return v.What
}
