package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/bridge/replay"
)

// What the folder of rounds may hold; the oldest go first. A week of rounds of five minutes, where they are small.
const (
	maxRounds     = 2100
	maxRoundBytes = 256 << 20
)

// rounds stores every new plan with its snapshot and the jobs that ended since the one before, so that a strange decision can be made again offline and
// any policy be tried on what happened (`unisched replay`). It is for one goroutine.
type rounds struct {
	dir  string
	most int       // rounds kept; 0: maxRounds
	last string    // name of the round stored last
	at   time.Time // of the view that it was taken from
}

// keep stores the view's plan unless it is the one stored last.
func (r *rounds) keep(v *bridge.View) error {
	if v == nil || v.LastPlan.ID == "" || !v.LastPlan.Now.Equal(v.Snapshot.Now) {
		return nil
	}
	x := replay.Round{Schema: 1, Snapshot: v.Snapshot, Plan: v.LastPlan, Ended: replay.EndedSince(v, r.at)}
	name := x.Name()
	if name == "" || name == r.last {
		return nil
	}
	if err := x.Store(r.dir); err != nil {
		return err
	}
	r.last, r.at = name, v.At
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
		if half || ours && kept > 1 && (kept > cmp.Or(r.most, maxRounds) || bytes > maxRoundBytes) {
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
