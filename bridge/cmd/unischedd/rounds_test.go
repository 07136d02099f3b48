package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/replay"
	"unisched/planner"
)

func roundView(k int) *bridge.View {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(k) * 5 * time.Minute)
	return &bridge.View{LastPlan: planner.Plan{Schema: 1, ID: fmt.Sprintf("p%d", k), Now: at},
		Snapshot: planner.Snapshot{Schema: 1, Now: at, Unit: 5 * time.Minute}}
}

// TestRounds: each plan is stored once, the newest 200 stay, half-written files go, foreign files stay.
func TestRounds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rounds")
	const most = 200
	r := &rounds{dir: dir, most: most}
	if err := r.keep(nil); err != nil {
		t.Fatal(err)
	}
	for k := range most + 5 {
		for range 2 { // a cycle without a new plan
			if err := r.keep(roundView(k)); err != nil {
				t.Fatal(err)
			}
		}
		if k == 3 {
			for _, name := range []string{"20261201T120000.000Z-x.json.tmp", "note.txt"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != most+1 {
		t.Fatalf("%d files, error %v", len(entries), err)
	}
	first, last := entries[0].Name(), entries[len(entries)-2].Name()
	if first != "20261201T122500.000Z-p5.json" || entries[len(entries)-1].Name() != "note.txt" {
		t.Errorf("oldest %s, last %s", first, entries[len(entries)-1].Name())
	}
	raw, err := os.ReadFile(filepath.Join(dir, last))
	var got replay.Round
	if err := errors.Join(err, json.Unmarshal(raw, &got)); err != nil {
		t.Fatal(err)
	}
	want := roundView(most + 4)
	if d := cmp.Diff(replay.Round{Schema: 1, Snapshot: want.Snapshot, Plan: want.LastPlan}, got); d != "" {
		t.Error(d)
	}
	if fi, err := os.Stat(filepath.Join(dir, last)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Error(fi, err)
	}
}

// TestRoundsFail: a folder that cannot be written costs a warning a cycle, nothing else.
func TestRoundsFail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var told []error
	beats := 0
	done := withRounds(filepath.Join(file, "rounds"), func() *bridge.View { return roundView(1) }, func(time.Time, error) { beats++ }, func(err error) { told = append(told, err) })
	done(time.Time{}, nil)
	done(time.Time{}, errors.New("cycle failed"))
	if beats != 2 || len(told) != 2 {
		t.Errorf("%d beats, errors %v", beats, told)
	}
}
