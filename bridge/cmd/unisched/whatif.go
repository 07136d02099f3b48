package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"unisched/bridge/ask"
	"unisched/planner"
)

// whatIfFlags are those of the question that sbatch has as well, and the deadline.
type whatIfFlags struct {
	gpus, partition, account, qos, comment, deadline, limit string
	nodes, perNode                                          int
}

func (a *app) whatIfCommand() *cobra.Command {
	var f whatIfFlags
	c := &cobra.Command{
		Use: "whatif [SCRIPT]", Short: "What would become of a job before you submit it", Args: cobra.MaximumNArgs(1),
		Long: "Reads the #SBATCH lines of a job script, lets flags overrule them, and has the daemon's planner solve what would happen if the job were submitted now:\n" +
			"would it be managed, when would it start, how likely does it meet its deadline, and who would lose one. Nothing is submitted or changed.\n" +
			"Exit code 2 when it would not be accepted, or its deadline would be at risk.",
		Example: "  unisched whatif train.sh\n  unisched whatif --gpus 4 --deadline now+6h train.sh\n" +
			"  unisched whatif --gpus 8 --comment 'unisched:class=strict,deadline=now+3h,stop=iters:90000,ckpt=USR1'",
		RunE: do(func(cmd *cobra.Command, args []string) error {
			script := ""
			if len(args) == 1 {
				script = args[0]
			}
			q, err := a.question(f, script)
			if err != nil {
				return err
			}
			return a.whatIf(cmd, q)
		}),
	}
	fs := c.Flags()
	fs.StringVarP(&f.gpus, "gpus", "G", "", "GPUs in all, `[TYPE:]N`")
	fs.IntVarP(&f.nodes, "nodes", "N", 0, "nodes")
	fs.IntVar(&f.perNode, "gpus-per-node", 0, "GPUs on each node")
	fs.StringVarP(&f.partition, "partition", "p", "", "partition (default: the first managed one)")
	fs.StringVarP(&f.account, "account", "A", "", "account")
	fs.StringVarP(&f.qos, "qos", "q", "", "QOS")
	fs.StringVarP(&f.limit, "time", "t", "", "time limit, as sbatch has it")
	fs.StringVar(&f.comment, "comment", "", "the whole comment")
	fs.StringVar(&f.deadline, "deadline", "", "deadline, such as now+6h: replaces the comment's, and makes the job strict when it has no class")
	return c
}

// question puts script and flags together.
func (a *app) question(f whatIfFlags, script string) (ask.Question, error) {
	q := ask.Question{Name: "new job", User: cmp.Or(a.env("USER"), a.env("LOGNAME"))}
	if script != "" {
		raw, err := a.read(script, maxLintBytes)
		if err != nil {
			return q, err
		}
		if script != "-" {
			q.Name = filepath.Base(script)
			if path, err := filepath.Abs(script); err == nil {
				q.Command = path
			}
		}
		if err := fromScript(&q, string(raw)); err != nil {
			return q, fmt.Errorf("%s: %w", script, err)
		}
	}
	for _, o := range []struct{ key, value string }{{"--gpus", f.gpus}, {"--partition", f.partition}, {"--account", f.account}, {"--qos", f.qos}, {"--time", f.limit},
		{"--comment", f.comment}, {"--nodes", number(f.nodes)}, {"--gpus-per-node", number(f.perNode)}} {
		if o.value == "" {
			continue
		}
		if o.key == "--gpus" || o.key == "--gpus-per-node" { // one replaces the other
			q.GPUs, q.GPUsPerNode = 0, 0
		}
		if err := option(&q, o.key, o.value); err != nil {
			return q, coded{exitUsage, err}
		}
	}
	if f.deadline != "" {
		q.Comment = withDeadline(q.Comment, f.deadline)
	}
	if q.Comment == "" {
		return q, coded{exitUsage, errors.New("there is no comment to plan by: give --comment 'unisched:...', --deadline, or a script with #SBATCH --comment")}
	}
	return q, nil
}

func (a *app) whatIf(cmd *cobra.Command, q ask.Question) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	raw, err := c.WhatIf(cmd.Context(), q)
	if err != nil {
		return hint(err)
	}
	ans, err := decode[ask.Answer](raw)
	if err != nil {
		return err
	}
	if a.output == "json" {
		if err := a.json(json.RawMessage(raw)); err != nil {
			return err
		}
	} else {
		a.answer(q, ans)
	}
	if !ans.Accepted || ans.AtRisk {
		return coded{exitRisk, nil}
	}
	return nil
}

// answer is a what-if for people.
func (a *app) answer(q ask.Question, ans ask.Answer) {
	verdict := "accepted"
	switch {
	case !ans.Accepted:
		verdict = "not accepted"
	case ans.AtRisk:
		verdict = "accepted, deadline at risk"
	}
	rest := fmt.Sprintf(" were submitted now, with %d GPUs: %s", ans.Job.GPUs, verdict)
	name := cut(clean(q.Name, false), max(width-len(`What if ""`+rest), 8)) // the name gives way, never the verdict
	fmt.Fprintf(a.out, "What if %q%s\n", name, rest)
	item(a.out, "In short", "%s", ans.Verdict)
	item(a.out, "Why", "%s", ans.Cause.Text)
	if ans.Cause.Do != "" && !ans.Accepted {
		item(a.out, "To do", "%s", ans.Cause.Do)
	}
	a.expected(ans.Explanation)
	if ans.Measured != "" {
		item(a.out, "Measured", "%s", ans.Measured)
	}
	if len(ans.Job.Estimate.Speeds) > 0 {
		basis := cmp.Or(ans.Job.Estimate.Basis, "nothing measured")
		item(a.out, "Run time", "%s to %s (80 %%), from: %s", span(planner.Seconds(ans.Job.Left.Low)), span(planner.Seconds(ans.Job.Left.High)), basis)
	}
	if n := len(ans.Hurts); n > 0 {
		item(a.out, "Others", "%d jobs would lose a deadline by it: %s", n, strings.Join(ans.Hurts[:min(n, 8)], ", "))
	}
	item(a.out, "", "solved on the newest snapshot (%s), seen %s; nothing was submitted", cmp.Or(ans.Solver, "not planned"), a.moment(ans.At))
}
