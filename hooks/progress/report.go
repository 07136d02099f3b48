package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"unisched/hooks/gpu"
)

// Bounds on one report. A watcher with more to say sends several.
const (
	SchemaVersion   = 1
	MaxReportBytes  = 1 << 20 // the whole body
	MaxJobLines     = 1000    // lines of one job in one report
	MaxReportJobs   = 4096
	maxNodeBytes    = 255
	maxVersionBytes = 128
)

// ErrReport is wrapped by every error that DecodeReport returns.
var ErrReport = errors.New("node report")

// Report is what one watcher sends to the daemon: POST <url>/v1/report. (Instance, Seq) names a report; a watcher
// that restarts takes a new Instance and sends the current runs from their beginning, so receivers must take lines
// twice without harm.
type Report struct {
	SchemaVersion int         `json:"schema_version"`
	Node          string      `json:"node"`              // where the watcher runs
	Instance      string      `json:"instance"`          // random, one per watcher start
	Seq           uint64      `json:"seq"`               // 1, 2, ... within Instance
	Sent          time.Time   `json:"sent"`              // RFC 3339 with nanoseconds, the watcher's clock
	Version       string      `json:"version,omitempty"` // of the watcher's program
	Jobs          []JobReport `json:"jobs"`
	GPUs          *gpu.Report `json:"gpus,omitempty"` // the newest look at the node's GPUs, when there was one since the last report
}

// JobReport carries the new lines of one run (job and restart count) on one node, in the order they were written.
type JobReport struct {
	Job     int64             `json:"job"`
	Restart int               `json:"restart"`
	UID     int               `json:"uid"`
	Node    string            `json:"node"`
	Lines   []json.RawMessage `json:"lines"`   // each one for Parse
	Dropped int               `json:"dropped"` // lines left out since the last report of this run: invalid or over a bound
	// Usage is what the node measured of the run's GPUs since its last report; absent where nothing is measured, which is not the same as 0.
	Usage *Usage `json:"usage,omitempty"`
	// Skipped counts bytes beside those lines that nobody looked at: the job writes more than can be read.
	Skipped int64 `json:"skipped_bytes,omitempty"`
}

// Usage is how busy the GPUs of one run on one node were for a while.
type Usage struct {
	Seconds float64 `json:"seconds"` // how long it was measured, at most MaxUsage
	GPUs    int     `json:"gpus"`
	Busy    float64 `json:"busy"` // mean utilisation of these GPUs, 0..1
}

// MaxUsage bounds the time that one report measures, in seconds.
const MaxUsage = 86400

// Reply is the daemon's answer to a report. Resync asks the watcher to send its current runs from their beginning;
// HTTP status 409 says the same.
type Reply struct {
	Resync bool `json:"resync,omitempty"`
}

// Encode returns the body of the report. It is an error for the body to exceed MaxReportBytes.
func (r Report) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if len(b) > MaxReportBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrReport, len(b), MaxReportBytes)
	}
	return b, nil
}

// DecodeReport reads and checks a body. The lines inside are not parsed: a receiver calls Parse on each and counts
// the bad ones, so that one line never costs the report.
func DecodeReport(body []byte) (Report, error) {
	if len(body) > MaxReportBytes {
		return Report{}, fmt.Errorf("%w: %d bytes, at most %d", ErrReport, len(body), MaxReportBytes)
	}
	var r Report
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&r); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if dec.More() {
		return Report{}, fmt.Errorf("%w: text after the object", ErrReport)
	}
	if err := r.check(); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	return r, nil
}

func (r Report) check() error {
	switch {
	case r.SchemaVersion != SchemaVersion:
		return fmt.Errorf("schema_version %d, want %d", r.SchemaVersion, SchemaVersion)
	case !ValidNode(r.Node):
		return fmt.Errorf("node %.64q", r.Node)
	case len(r.Instance) > 64 || !validWord(r.Instance, ""):
		return fmt.Errorf("instance %.64q", r.Instance)
	case len(r.Version) > maxVersionBytes || strings.ContainsFunc(r.Version, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("version %.64q", r.Version)
	case len(r.Jobs) > MaxReportJobs:
		return fmt.Errorf("%d jobs, at most %d", len(r.Jobs), MaxReportJobs)
	}
	if r.GPUs != nil {
		if err := r.GPUs.Check(); err != nil {
			return err
		}
	}
	for _, j := range r.Jobs {
		switch {
		case j.Job <= 0 || j.Restart < 0 || j.UID < 0 || j.Dropped < 0 || j.Skipped < 0:
			return fmt.Errorf("job %d restart %d uid %d: out of range", j.Job, j.Restart, j.UID)
		case !ValidNode(j.Node):
			return fmt.Errorf("job %d: node %.64q", j.Job, j.Node)
		case len(j.Lines) > MaxJobLines:
			return fmt.Errorf("job %d: %d lines, at most %d", j.Job, len(j.Lines), MaxJobLines)
		case j.Usage != nil && !j.Usage.valid():
			return fmt.Errorf("job %d: usage is out of range", j.Job)
		}
	}
	return nil
}

func (u Usage) valid() bool {
	return u.Seconds >= 0 && u.Seconds <= MaxUsage && u.GPUs >= 0 && u.GPUs <= 1024 && u.Busy >= 0 && u.Busy <= 1
}

// ValidNode says whether s may be a Slurm node name: letters, digits and _.- with no leading dot, so that it is also
// one harmless path element.
func ValidNode(s string) bool {
	return len(s) <= maxNodeBytes && validWord(s, "") && s[0] != '.' && s[0] != '-'
}
