package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"unisched/bridge/ask"
)

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
		return errors.New("the waiting tasks of a job array are left to Slurm: ask about one task")
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
