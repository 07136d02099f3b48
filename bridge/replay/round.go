// Package replay holds what a daemon writes down in each round (what it saw, what it planned, who has ended since) and turns a folder of that back into
// history: what really happened, how good the forecasts were, and a trace of jobs with their true run times that any policy can be tried on.
//
// It refuses to run a policy and to judge one by anything but figures and thresholds that were handed to it. The daemon writes rounds with it; `unisched
// replay` reads them.
package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/planner"
)

// Round is one stored round. `unisched plan --snapshot` reads it as well.
type Round struct {
	Schema   int              `json:"schema_version"`
	Snapshot planner.Snapshot `json:"snapshot"`
	Plan     planner.Plan     `json:"plan"`
	// Ended are the jobs that ended since the round before.
	Ended []Outcome `json:"ended,omitempty"`
}

// Outcome is what came true of one job. It is known once the job has ended.
type Outcome struct {
	Job       planner.JobID  `json:"job"`
	User      string         `json:"user,omitempty"`
	Account   string         `json:"account,omitempty"`
	Class     planner.Class  `json:"class"`
	GPUs      int            `json:"gpus"`
	Submitted time.Time      `json:"submitted"`
	Tiers     []planner.Tier `json:"tiers,omitempty"`
	Begin     time.Time      `json:"begin,omitzero"` // first time on GPUs; zero: never
	End       time.Time      `json:"end"`
	// Ran is how long its runs held GPUs, in seconds, profile runs aside.
	Ran         float64 `json:"ran_s"`
	Completed   bool    `json:"completed"`
	Preemptions int     `json:"preemptions"`
}

// EndedSince are the jobs of a view that ended after an instant, or at it.
func EndedSince(v *bridge.View, since time.Time) []Outcome {
	var out []Outcome
	for _, j := range v.Jobs {
		if !j.Phase.Ended() || j.Ended.Before(since) || j.Ended.IsZero() {
			continue
		}
		o := Outcome{Job: planner.JobID(j.ID), User: j.User, Account: j.Account, Class: j.Class, GPUs: j.GPUs, Submitted: j.Submitted, Tiers: j.Tiers, End: j.Ended,
			Ran: j.Held, Completed: j.Phase == bridge.Completed, Preemptions: j.Preemptions}
		if len(j.Stays) > 0 {
			o.Begin = j.Stays[0].From
		}
		out = append(out, o)
	}
	return out
}

// Name is the file of a round: names sort by time. It is empty for a round that cannot be stored under one.
func (r Round) Name() string {
	if r.Plan.ID == "" || strings.ContainsAny(r.Plan.ID, "/\x00") {
		return ""
	}
	return r.Plan.Now.UTC().Format("20060102T150405.000Z") + "-" + r.Plan.ID + ".json"
}

// Store writes a round into a folder, which it makes: whole, or not at all.
func (r Round) Store(dir string) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("round %s: %w", r.Plan.ID, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	path := filepath.Join(dir, r.Name())
	if err := os.WriteFile(path+".tmp", append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	return nil
}

// Bounds on what is read.
const (
	maxFile  = 256 << 20
	maxFiles = 200_000
)

// ErrNone means that a folder holds no rounds.
var ErrNone = errors.New("no rounds")

// Records are folders of rounds, open for reading. Rounds are large: they are read one by one.
type Records struct {
	files []string // by name, that is by time
}

// Open lists the rounds of folders; a round that is in several counts once.
func Open(dirs ...string) (Records, error) {
	var r Records
	seen := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return r, fmt.Errorf("rounds: %w", err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") && !seen[e.Name()] && e.Type().IsRegular() {
				seen[e.Name()] = true
				r.files = append(r.files, filepath.Join(dir, e.Name()))
			}
		}
	}
	slices.SortFunc(r.files, func(a, b string) int {
		return cmp.Or(cmp.Compare(filepath.Base(a), filepath.Base(b)), cmp.Compare(a, b))
	})
	switch {
	case len(r.files) == 0:
		return r, fmt.Errorf("%s: %w", strings.Join(dirs, ", "), ErrNone)
	case len(r.files) > maxFiles:
		return r, fmt.Errorf("%d rounds, at most %d", len(r.files), maxFiles)
	}
	return r, nil
}

// Len is the number of rounds.
func (r Records) Len() int { return len(r.files) }

// Read reads one round.
func (r Records) Read(i int) (Round, error) {
	f, err := os.Open(r.files[i])
	if err != nil {
		return Round{}, fmt.Errorf("round: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err != nil {
		return Round{}, fmt.Errorf("round %s: %w", filepath.Base(r.files[i]), err)
	}
	return Parse(raw, filepath.Base(r.files[i]))
}

// Parse reads a round from its text; name is for messages.
func Parse(raw []byte, name string) (Round, error) {
	var x Round
	if err := json.Unmarshal(raw, &x); err != nil {
		return Round{}, fmt.Errorf("round %s: %w", name, err)
	}
	if x.Snapshot.Now.IsZero() || x.Snapshot.Unit <= 0 {
		return Round{}, fmt.Errorf("round %s: no snapshot in it", name)
	}
	return x, nil
}
