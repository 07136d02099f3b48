// Package check judges a site: what slurm.conf, accounting, slurmrestd, the nodes and this host must be like for UniSched to work, as
// findings that say what is wrong, what to change and where. Facts in, findings out.
//
// It refuses to look at anything itself and to change anything: package gather collects the facts, each one alone, so that what cannot be
// seen costs only the findings that rest on it and is reported as such. `unisched check` calls it.
package check

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"unisched/bridge"
	"unisched/bridge/siteconfig"
	"unisched/slurm"
)

// Severity says how bad a finding is.
type Severity string

// The severities, worst first.
const (
	Error   Severity = "error"   // UniSched does not work, or harms jobs, until this is changed
	Warning Severity = "warning" // it works worse than it could, or soon will not
	Unseen  Severity = "unseen"  // could not be looked at
	Note    Severity = "note"    // worth knowing
	OK      Severity = "ok"
)

var order = []Severity{Error, Warning, Unseen, Note, OK}

// Finding is one row of the check.
type Finding struct {
	ID       string   `json:"id"` // stable: "requeue-exit"
	Severity Severity `json:"severity"`
	What     string   `json:"what"`            // what was found
	Fix      string   `json:"fix,omitempty"`   // what to change
	Where    string   `json:"where,omitempty"` // "/etc/slurm/slurm.conf:31", "GET /slurm/v0.0.45/conf"
	Have     string   `json:"have,omitempty"`  // the line as it is
	Want     []string `json:"want,omitempty"`  // the lines of slurm.conf as they should be
	Run      []string `json:"run,omitempty"`   // commands that do it
}

// Seen is one fact, or why it is not known. The zero value was never looked for.
type Seen[T any] struct {
	V   T
	Err error
	Did bool // looked for; with Err nil, V holds
}

// See wraps the result of a look.
func See[T any](v T, err error) Seen[T] { return Seen[T]{v, err, true} }

// ErrNotAsked is the reason of all that rests on something that is known to be away.
var ErrNotAsked = errors.New("not asked, as Slurm cannot be")

func (s Seen[T]) ok() bool { return s.Did && s.Err == nil }

// Line is where a setting stands in a file.
type Line struct {
	File string
	N    int
	Text string
}

// Dir is what a folder and the file system below it are like.
type Dir struct {
	Path             string
	Exists, IsDir    bool
	UID              uint32
	Mode             uint32 // permission bits
	FS               string // "tmpfs", "ext4", or the magic number
	Volatile         bool   // its files are gone after a reboot
	FreeMB, FreeFile int64
}

// File is what a file that holds a secret or a program is like.
type File struct {
	Path string
	UID  uint32
	Mode uint32
	Size int64
	Text string // of scripts only, cut short
}

// Skew is how far the controller's clock is ahead of ours, known up to Err.
type Skew struct {
	Ahead, Err time.Duration
}

// Watcher is a node's watcher as the daemon has heard of it.
type Watcher struct {
	Node, Version string
	Ahead         time.Duration // of its clock
}

// Facts is what gather found. A fact that nobody looked for leaves its findings out.
type Facts struct {
	Now      time.Time
	Version  string // of this program
	Site     siteconfig.Site
	SiteFrom string
	SiteErr  error

	Surface    Seen[slurm.Surface]
	Pong       Seen[slurm.Pong]
	Config     Seen[slurm.Config]
	Lines      map[string]Line // of slurm.conf, by key in lower case, as far as the file is on this host
	Rights     Seen[slurm.Rights]
	Partitions Seen[[]slurm.Partition]
	QOS        Seen[slurm.QOS] // of the profile partition
	Caps       Seen[[]slurm.GPUCap]
	Slurmds    Seen[[]slurm.Slurmd]
	Jobs       Seen[int] // records that the controller holds
	Skew       Seen[Skew]

	Token     Seen[slurm.Token]
	TokenFile Seen[File]
	NodeKey   Seen[File]
	JWTKey    Seen[File] // where it lies on this host
	GresConf  Seen[string]
	Lua       Seen[string] // job_submit.lua
	Scripts   map[string]File
	StateDir  Seen[Dir]
	DaemonUID Seen[uint32] // who the daemon runs as, or will
	Solver    Seen[time.Duration]
	Scontrol  Seen[string]
	Daemon    Seen[bridge.View]
	Watchers  Seen[[]Watcher]
}

// Run judges the facts. The findings come worst first, then in the order of the rules; every rule that could be applied gives at least one.
func Run(f Facts) []Finding {
	r := &report{facts: f}
	for _, rule := range []func(*report){
		site, restd, token, rights, clock, stateDir, solver, secrets, scontrolWorks, daemon, watchers,
		slurmConf, hooks, partitions, caps, slurmds,
	} {
		rule(r)
	}
	slices.SortStableFunc(r.findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return r.findings
}

// Worst is the highest severity among the findings, OK when there are none.
func Worst(findings []Finding) Severity {
	at := len(order) - 1
	for _, f := range findings {
		at = min(at, slices.Index(order, f.Severity))
	}
	return order[at]
}

// report collects findings.
type report struct {
	facts    Facts
	findings []Finding
}

func (r *report) add(f Finding) { r.findings = append(r.findings, f) }

func (r *report) ok(id, what string) { r.add(Finding{ID: id, Severity: OK, What: what}) }

// unseen reports a fact that could not be had, and says whether it is so.
func unseen[T any](r *report, id, what string, s Seen[T]) bool {
	if s.Did && s.Err != nil {
		r.add(Finding{ID: id, Severity: Unseen, What: what + ": " + s.Err.Error()})
	}
	return !s.ok()
}
