package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/planner"
)

// What the folder of rounds may hold; the oldest go first.
const (
	maxRounds     = 200
	maxRoundBytes = 256 << 20
)

// round is one stored round: what was seen and what was decided. `unisched plan --snapshot` reads it.
type round struct {
	Schema   int              `json:"schema_version"`
	Snapshot planner.Snapshot `json:"snapshot"`
	Plan     planner.Plan     `json:"plan"`
}

// rounds stores every new plan with its snapshot, so that a strange decision can be made again offline. It is for one goroutine.
type rounds struct {
	dir  string
	last string // name of the round stored last
}

// keep stores the view's plan unless it is the one stored last.
func (r *rounds) keep(v *bridge.View) error {
	if v == nil || v.LastPlan.ID == "" || !v.LastPlan.Now.Equal(v.Snapshot.Now) {
		return nil
	}
	name := v.LastPlan.Now.UTC().Format("20060102T150405.000Z") + "-" + v.LastPlan.ID + ".json"
	if name == r.last || strings.ContainsAny(v.LastPlan.ID, "/\x00") {
		return nil
	}
	raw, err := json.Marshal(round{Schema: 1, Snapshot: v.Snapshot, Plan: v.LastPlan})
	if err != nil {
		return fmt.Errorf("round %s: %w", name, err)
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path+".tmp", append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	r.last = name
	return r.rotate()
}

// rotate removes the oldest rounds beyond the bounds, and what a crash left half written. The newest always stays.
func (r *rounds) rotate() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("rounds: %w", err)
	}
	slices.Reverse(entries) // names begin with the time: newest first
	kept, bytes := 0, int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		ours := strings.HasSuffix(e.Name(), ".json")
		if ours {
			kept, bytes = kept+1, bytes+info.Size()
		}
		half := strings.HasSuffix(e.Name(), ".json.tmp")
		if half || ours && kept > 1 && (kept > maxRounds || bytes > maxRoundBytes) {
			if err := os.Remove(filepath.Join(r.dir, e.Name())); err != nil {
				return fmt.Errorf("rounds: %w", err)
			}
		}
	}
	return nil
}

// withRounds stores rounds after each cycle, besides what done does. A full disk costs rounds, never a cycle.
func withRounds(dir string, view func() *bridge.View, done func(time.Time, error), failed func(error)) func(time.Time, error) {
	r := &rounds{dir: dir}
	return func(now time.Time, err error) {
		done(now, err)
		if err := r.keep(view()); err != nil {
			failed(err)
		}
	}
}
