// Package control is the daemon's unix socket: HTTP with JSON documents, for the command line and for scripts, and a page for people that reads the same
// documents (there, and on a TCP address of the loopback when the site asks for one).
//
// It refuses to decide anything: reads come from the last published view, writes are orders that the loop carries out in its
// next cycle. Who may connect is a matter of the socket's file mode; who may give orders is checked against the peer's uid.
package control

import "unisched/bridge"

// Paths of the API. All documents carry schema_version.
const (
	PathStatus   = "/v1/status"   // GET: bridge.View without jobs and plan
	PathJobs     = "/v1/jobs"     // GET: Jobs
	PathJob      = "/v1/jobs/"    // GET + id (12, 12_3): Job
	PathPlan     = "/v1/plan"     // GET: planner.Plan
	PathSnapshot = "/v1/snapshot" // GET: planner.Snapshot
	PathOrder    = "/v1/order"    // POST Order: Result
	PathForecast = "/v1/forecast" // GET [?since=RFC 3339]: estimator.ForecastReport
	PathBoard    = "/v1/board"    // GET, with ETag: Board
	PathHistory  = "/v1/history/" // GET + id: History
	PathExplain  = "/v1/explain/" // GET + id: ask.Explanation
	PathPlanDiff = "/v1/plandiff" // GET: planner.PlanDiff of the last two plans
	PathWhatIf   = "/v1/whatif"   // POST ask.Question: ask.Answer
)

// paths are those of the API, for whoever asks for another.
var paths = []string{PathStatus, PathJobs, PathPlan, PathPlanDiff, PathSnapshot, PathForecast, PathBoard, PathHistory, PathExplain, PathWhatIf, PathOrder}

// Status is the answer of PathStatus. The two fields shadow those of the view and are never set.
type Status struct {
	bridge.View
	NoJobs *struct{} `json:"jobs,omitempty"`
	NoPlan *struct{} `json:"plan,omitempty"`
}

// Jobs is the answer of PathJobs.
type Jobs struct {
	Schema int              `json:"schema_version"`
	Jobs   []bridge.JobView `json:"jobs"`
}

// Job is the answer of PathJob.
type Job struct {
	Schema int            `json:"schema_version"`
	Job    bridge.JobView `json:"job"`
}

// Result is the answer to an order.
type Result struct {
	Schema int    `json:"schema_version"`
	OK     bool   `json:"ok"`
	Text   string `json:"text"`
}

// Problem is the body of every answer that is not 2xx.
type Problem struct {
	Schema int    `json:"schema_version"`
	Error  string `json:"error"`
}
