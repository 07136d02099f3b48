package main

import (
	"context"
	"errors"
	"time"

	"unisched/bridge"
	"unisched/bridge/siteconfig"
	"unisched/planner"
)

// newPolicy makes the daemon's policy for plan --dry-run.
func newPolicy(siteconfig.Site, func() time.Time) bridge.Policy { return keep{} }

type keep struct{}

func (keep) Plan(context.Context, planner.Snapshot) planner.Plan { return planner.Plan{} }

// releaseDead is the daemon's own clean-up, run from its journal.
var releaseDead releaser = func(context.Context, siteconfig.Site, time.Time) (any, string, error) {
	return nil, "", errors.New("not part of this build")
}
