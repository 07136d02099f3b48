package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/control"
)

const stageLong = `Without an argument: the stages in force. With one: sets the stage of all partitions, or of the one that --partition names.

Moving up asks unisched replay whether the stage is ready; when it is not, the order is refused unless --force is given, which the daemon's log and journal keep.
Moving down is always possible. The order holds over restarts, until bridge.stage or bridge.partition_stages in the configuration say something else than now.`

func (a *app) stageCommand() *cobra.Command {
	var partition string
	var force bool
	c := &cobra.Command{
		Use: "stage [STAGE]", Short: "For whom the daemon acts: shadow, canary, besteffort, soft or strict", Long: stageLong, Args: cobra.MaximumNArgs(1),
		ValidArgs: []string{"shadow", "canary", "besteffort", "soft", "strict"},
		Example:   "  unisched stage\n  unisched stage canary\n  unisched stage besteffort --partition a100\n  unisched stage strict --force",
	}
	c.Flags().StringVar(&partition, "partition", "", "only this `partition`")
	c.Flags().BoolVar(&force, "force", false, "although replay does not call it ready")
	c.RunE = do(func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if force || partition != "" {
				return coded{exitUsage, errors.New("stage: name a stage")}
			}
			return a.show(cmd, control.PathStatus, func(raw []byte) error {
				v, err := decode[bridge.View](raw)
				if err == nil {
					a.stages(v)
				}
				return err
			})
		}
		stage := bridge.Stage(args[0])
		if stage.Level() < 0 {
			return coded{exitUsage, fmt.Errorf("stage %q is none of %v", args[0], bridge.Stages())}
		}
		return a.setStage(cmd, bridge.Order{Kind: bridge.OrderStage, Stage: stage, Partition: partition, Force: force})
	})
	return c
}

func (a *app) stages(v bridge.View) {
	item(a.out, "Stage", "%s", v.Stage)
	for i, p := range v.Stages {
		item(a.out, label(i == 0, "Partitions"), "%s: %s", p.Partition, p.Stage)
	}
}

// setStage asks replay about a higher stage, unless somebody insists, and gives the order.
func (a *app) setStage(cmd *cobra.Command, o bridge.Order) error {
	if o.Stage != bridge.Shadow && !o.Force {
		site, _, err := a.site()
		if err != nil {
			return err
		}
		doc, err := a.judgeStage(cmd.Context(), replayFlags{policies: []string{"unisched"}, seed: 1, noise: 0.05, quiet: true}, site, o.Stage)
		if err != nil {
			fmt.Fprintf(a.err, "replay: %s\n", clean(err.Error(), false))
		}
		o.Ready = err == nil && doc.Ready
	}
	err := a.order(cmd, o)
	if err != nil && o.Stage != bridge.Shadow && !o.Ready && !o.Force {
		return coded{exitRisk, fmt.Errorf("%w\nSee `unisched replay --for %s`, or insist with --force", err, o.Stage)}
	}
	return err
}
