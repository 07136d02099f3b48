package main

import (
	"strings"
	"time"

	"unisched/bridge"
	"unisched/slurm"
)

// newCluster is the loop's way to Slurm: quick clusters are read whole at each cycle, large ones by their changes. What is ours, or says it wants to
// be, is read anew at every cycle in either case.
func newCluster(options slurm.Options) (bridge.Cluster, error) {
	client, err := slurm.New(options)
	if err != nil {
		return nil, err
	}
	return slurm.NewPoller(client, slurm.PollOptions{Clock: time.Now, Fresh: func(j *slurm.Job) bool { return strings.Contains(j.Comment, "unisched") }}), nil
}
