package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/bridge/siteconfig"
	"unisched/planner/lease"
	"unisched/planner/milp/highs"
	"unisched/slurm"
)

// newPolicy makes the daemon's policy for plan --dry-run.
func newPolicy(site siteconfig.Site, now func() time.Time) bridge.Policy {
	return lease.New(site.Lease(now), highs.New(highs.Options{}))
}

type releaseDoc struct {
	Schema int `json:"schema_version"`
	bridge.ReleaseReport
}

// releaseDead is the daemon's own clean-up, run from its journal in its place.
func releaseDead(ctx context.Context, site siteconfig.Site, now time.Time) (any, string, error) {
	j, found, err := journal.Open(site.Daemon.StateDir)
	if errors.Is(err, journal.ErrLocked) {
		return nil, "", coded{exitDegraded, fmt.Errorf("a daemon holds the journal but has finished no cycle lately: systemctl restart unischedd (%w)", err)}
	}
	if err != nil {
		return nil, "", err
	}
	defer j.Close()
	cluster, err := slurm.New(site.Slurm.Options())
	if err != nil {
		return nil, "", err
	}
	r, err := bridge.ReleaseDead(ctx, site.Bridge, cluster, j, found.Latest, now)
	text := fmt.Sprintf("%d changes undone, %d jobs not done yet", r.Released, r.Waiting)
	if found.Damaged != "" {
		text += "; the journal is damaged and kept as " + found.Damaged + " (" + found.Why + "): look at held jobs yourself (squeue -t PD -o '%i %r', scontrol release ID)"
	}
	if err == nil && len(r.Failed) > 0 {
		err = fmt.Errorf("%d jobs could not be given back: %v", len(r.Failed), r.Failed)
	}
	return releaseDoc{bridge.ViewSchema, r}, text, err
}
