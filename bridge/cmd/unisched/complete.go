package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeFor bounds how long a shell waits for the daemon.
const completeFor = time.Second

// completeJobs offers the daemon's job ids, those that it steers first, each with its name.
func (a *app) completeJobs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.Timeout = completeFor
	jobs, err := c.Jobs(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ours, others []string
	for _, j := range jobs {
		if !strings.HasPrefix(j.Ref, begun) {
			continue
		}
		line := fmt.Sprintf("%s\t%s, %s, %s", j.Ref, cut(clean(j.Name, false), 30), clean(j.User, false), j.Phase)
		if j.Phase.Ours() {
			ours = append(ours, line)
		} else {
			others = append(others, line)
		}
	}
	return append(ours, others...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
