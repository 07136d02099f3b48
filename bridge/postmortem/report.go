package postmortem

import (
	"fmt"
	"strconv"
	"time"

	"unisched/bridge"
	"unisched/planner"
)

// Cause is what made a job late. The set is closed.
type Cause string

// The causes, in the order in which they are listed when they weigh the same.
const (
	User       Cause = "user"       // held, submitted too late, declared wrongly, no checkpoint, failed by itself
	Fault      Cause = "fault"      // nodes, Slurm or the daemon away, the solver without a plan
	Capacity   Cause = "capacity"   // nobody could have met it: GPUs were with jobs that could not wait or be stopped, or a limit of the site
	Reward     Cause = "reward"     // others were worth more, or it was stopped for them
	Speed      Cause = "speed"      // it was believed to be faster
	Iterations Cause = "iterations" // it was believed to need fewer iterations
	Topology   Cause = "topology"   // no hole of its shape, or a slower placement than the best
	Profile    Cause = "profile"    // it waited to be measured, or was measured on fewer GPUs
	Unknown    Cause = "unknown"    // no records tell
)

// Causes are all causes in their order.
func Causes() []Cause {
	return []Cause{User, Fault, Capacity, Reward, Speed, Iterations, Topology, Profile, Unknown}
}

// How a share was found.
const (
	Computed = "computed" // the lateness that remains without this delay, from the times of the records
	Rule     = "rule"     // attributed by rule: the records do not let it be computed
)

// Line is one piece of evidence.
type Line struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`
}

// Part is one cause with its share.
type Part struct {
	Cause Cause `json:"cause"`
	// DelayS is how much later the job ended through it; WithoutS how late it would have been without.
	DelayS   float64 `json:"delay_s"`
	WithoutS float64 `json:"late_without_s"`
	// Share of the lateness, 0..1; all shares add up to 1.
	Share    float64 `json:"share"`
	How      string  `json:"how"`
	Evidence []Line  `json:"evidence"`
}

// Report is the answer of `unisched postmortem`.
type Report struct {
	Schema  int           `json:"schema_version"`
	Job     string        `json:"job"`
	Name    string        `json:"name"`
	User    string        `json:"user"`
	Account string        `json:"account"`
	Class   planner.Class `json:"class"`
	GPUs    int           `json:"gpus"`

	Submitted time.Time    `json:"submitted"`
	Deadline  time.Time    `json:"deadline,omitzero"` // the one that was missed
	Ended     time.Time    `json:"ended"`
	Phase     bridge.Phase `json:"phase"`
	Exit      string       `json:"exit"`
	// LateS is how late it was; WindowS the time from the submission to the deadline; NeedS the run time that it needs without a pause on its best placement.
	LateS   float64 `json:"late_s"`
	WindowS float64 `json:"window_s"`
	NeedS   float64 `json:"need_s"`
	Missed  bool    `json:"missed"`
	// Cause weighs most; Verdict says it in a sentence.
	Cause   Cause    `json:"cause,omitempty"`
	Verdict string   `json:"verdict"`
	Parts   []Part   `json:"parts"`
	Notes   []string `json:"notes"`
}

// maxLines bounds the evidence of one cause.
const maxLines = 8

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// span writes seconds.
func span(s float64) string { return bridge.Span(planner.Seconds(s)) }

func line(at time.Time, format string, args ...any) Line {
	return Line{at, fmt.Sprintf(format, args...)}
}
