package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// withDeadline puts a deadline into our part of a comment.
func withDeadline(text, deadline string) string {
	const begin = "unisched:"
	i := strings.Index(text, begin)
	if i < 0 {
		return strings.TrimSpace(text + " " + begin + "class=strict,deadline=" + deadline)
	}
	end := len(text)
	if k := strings.IndexAny(text[i:], " \t\n;"); k >= 0 {
		end = i + k
	}
	keep := []string{}
	class := ""
	for _, kv := range strings.Split(text[i+len(begin):end], ",") {
		key, value, _ := strings.Cut(kv, "=")
		switch {
		case kv == "" || key == "deadline" || key == "deadlines":
		case key == "class":
			if class = value; value == "strict" {
				keep = append(keep, kv)
			}
		default:
			keep = append(keep, kv)
		}
	}
	if class != "strict" {
		keep = append([]string{"class=strict"}, keep...)
	}
	return text[:i] + begin + strings.Join(append(keep, "deadline="+deadline), ",") + text[end:]
}

// fromScript reads the #SBATCH lines before the first command, as sbatch does; the last of a kind wins. What the plan does not depend on is passed over.
func fromScript(q *ask.Question, text string) error {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		switch {
		case ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t'):
			words := split(rest)
			for k := 0; k < len(words); k++ {
				key, value, has := strings.Cut(words[k], "=")
				if !has && len(words[k]) > 2 && words[k][0] == '-' && words[k][1] != '-' { // -N2
					key, value, has = words[k][:2], words[k][2:], true
				}
				if !has && k+1 < len(words) && !strings.HasPrefix(words[k+1], "-") {
					k++
					value = words[k]
				}
				if err := option(q, key, value); err != nil {
					return fmt.Errorf("line %d: %w", i+1, err)
				}
			}
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		default:
			return nil
		}
	}
	return nil
}

// option takes one of sbatch's options.
func option(q *ask.Question, key, value string) error {
	count := func(at *int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%s %.40q: want a number", key, value)
		}
		*at = n
		return nil
	}
	switch key {
	case "--gpus", "-G":
		return gpuCount(key, value, &q.GPUs, &q.GPUType)
	case "--gpus-per-node":
		return gpuCount(key, value, &q.GPUsPerNode, &q.GPUType)
	case "--gres":
		value, _, _ = strings.Cut(value, ",")
		value, _, _ = strings.Cut(value, "(")
		if v, ok := strings.CutPrefix(value, "gpu"); ok {
			return gpuCount(key, strings.TrimPrefix(cmp.Or(v, ":1"), ":"), &q.GPUsPerNode, &q.GPUType)
		}
	case "--nodes", "-N":
		value, _, _ = strings.Cut(value, "-")
		return count(&q.Nodes)
	case "--ntasks", "-n":
		return count(&q.Tasks)
	case "--cpus-per-task", "-c":
		return count(&q.CPUsPerTask)
	case "--mem":
		mb, err := megabytes(value)
		q.MemMB = mb
		return err
	case "--time", "-t":
		d, err := timeLimit(value)
		q.LimitS = int64(d / time.Second)
		return err
	case "--partition", "-p":
		q.Partition, _, _ = strings.Cut(value, ",")
	case "--account", "-A":
		q.Account = value
	case "--qos", "-q":
		q.QOS = value
	case "--constraint", "-C":
		q.Constraint = value
	case "--job-name", "-J":
		q.Name = value
	case "--comment":
		q.Comment = value
	case "--no-requeue":
		q.NoRequeue = true
	case "--array", "-a":
		return errors.New("job arrays are not managed yet: ask about one task")
	}
	return nil
}

func gpuCount(key, value string, at *int, kind *string) error {
	typ, n, typed := strings.Cut(value, ":")
	if !typed {
		typ, n = "", value
	}
	v, err := strconv.Atoi(n)
	if err != nil || v < 1 {
		return fmt.Errorf("%s %.40q: want N or TYPE:N", key, value)
	}
	*at = v
	if typ != "" {
		*kind = typ
	}
	return nil
}

// megabytes reads sbatch's --mem: MiB, or with K, M, G, T.
func megabytes(s string) (int64, error) {
	scale, num := 1.0, s
	if n := len(s); n > 0 {
		if f, ok := map[byte]float64{'K': 1.0 / 1024, 'M': 1, 'G': 1024, 'T': 1024 * 1024}[s[n-1]&^0x20]; ok {
			scale, num = f, s[:n-1]
		}
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || !(v >= 0) || v*scale > 1<<40 {
		return 0, fmt.Errorf("--mem %.40q: want a size such as 64G", s)
	}
	return int64(v * scale), nil
}

// timeLimit reads sbatch's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
func timeLimit(s string) (time.Duration, error) {
	bad := fmt.Errorf("--time %.40q: want minutes, hours:minutes:seconds or days-hours", s)
	if strings.EqualFold(s, "unlimited") || strings.EqualFold(s, "infinite") {
		return 0, nil
	}
	days, rest, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, rest = "0", s
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 {
		return 0, bad
	}
	var n [4]int64
	for i, p := range append([]string{days}, parts...) {
		v, err := strconv.ParseInt(p, 10, 32)
		if err != nil || v < 0 || v > 1e6 {
			return 0, bad
		}
		n[i] = v
	}
	h, m, sec := n[1], n[2], n[3]
	if !hasDays && len(parts) == 1 {
		h, m, sec = 0, n[1], 0
	} else if !hasDays && len(parts) == 2 {
		h, m, sec = 0, n[1], n[2]
	}
	return time.Duration(n[0])*24*time.Hour + time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(sec)*time.Second, nil
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
		verdict = "accepted, but its deadline is at risk"
	}
	fmt.Fprintln(a.out, cut(clean(fmt.Sprintf("What if %q were submitted now, with %d GPUs: %s", q.Name, ans.Job.GPUs, verdict), false), width))
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
