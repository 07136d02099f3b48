package slurm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/slurm/gres"
	"unisched/slurm/hostlist"
)

// Slurm's ranges.
const (
	maxNice     = math.MaxInt32 - 2
	maxPriority = noVal32 - 1
	maxNodes    = 1 << 16
	maxTasks    = 1 << 22
	maxLimit    = 10 * 366 * 24 * time.Hour
)

// Check says whether the update can be written; the error matches ErrInvalid.
func (u Update) Check() error {
	for _, check := range []func() error{u.checkHold, u.checkNodes, u.checkSize, u.checkTRES, u.checkNames} {
		if err := check(); err != nil {
			return &Error{Kind: ErrInvalid, Op: "update job", Msg: err.Error(), Err: err}
		}
	}
	return nil
}

func (u Update) checkHold() error {
	switch {
	case len(u.body()) == 0:
		return errors.New("nothing to change")
	case u.Priority.Set && u.Hold.Set:
		return errors.New("priority together with hold: Slurm refuses it half-way")
	case u.Priority.Set && (u.Priority.Value < 1 || u.Priority.Value > maxPriority):
		return errors.New("priority out of range (0 would be a hold)")
	case u.Nice.Set && (u.Nice.Value < -maxNice || u.Nice.Value > maxNice):
		return errors.New("nice out of range")
	case u.BeginTime.Set && !u.BeginTime.Value.IsZero() && (u.BeginTime.Value.Unix() < 1 || u.BeginTime.Value.Unix() >= noVal32):
		return errors.New("begin time out of range")
	case u.TimeLimit.Set && (u.TimeLimit.Value <= 0 || u.TimeLimit.Value > maxLimit):
		return errors.New("time limit out of range")
	}
	return nil
}

func (u Update) checkNodes() error {
	pinned := u.RequiredNodes != nil
	switch {
	case pinned && len(u.RequiredNodes) == 0:
		return errors.New("required nodes cannot be emptied by an update")
	case (pinned || u.Nodes.Set) && !u.SeenPending:
		return errors.New("nodes of a job that was not seen pending: on a running job this kills nodes")
	case pinned && u.Nodes.Set && u.Nodes.Value != len(u.RequiredNodes):
		return fmt.Errorf("%d required nodes, but nodes=%d", len(u.RequiredNodes), u.Nodes.Value)
	case u.NodesTo.Set && (!u.Nodes.Set || pinned || u.NodesTo.Value < u.Nodes.Value || u.NodesTo.Value > maxNodes):
		return errors.New("a range of nodes needs its least number, a rising order and no required nodes")
	case u.Nodes.Set && (u.Nodes.Value < 1 || u.Nodes.Value > maxNodes) || len(u.RequiredNodes) > maxNodes:
		return errors.New("number of nodes out of range")
	}
	for _, list := range [][]string{u.RequiredNodes, u.ExcludedNodes.Value} {
		for _, name := range list {
			if !hostlist.ValidName(name) {
				return fmt.Errorf("node name %q", name)
			}
		}
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
			return errors.New("a node is named twice")
		}
	}
	for _, name := range u.RequiredNodes {
		if slices.Contains(u.ExcludedNodes.Value, name) {
			return fmt.Errorf("node %s is both required and excluded", name)
		}
	}
	return nil
}

func (u Update) checkSize() error {
	for _, n := range []struct {
		name string
		v    Opt[int]
	}{{"tasks", u.Tasks}, {"cpus per task", u.CPUsPerTask}} {
		if n.v.Set && (n.v.Value < 1 || n.v.Value > maxTasks) {
			return fmt.Errorf("%s out of range", n.name)
		}
	}
	return nil
}

func (u Update) checkTRES() error {
	for _, o := range []struct {
		name        string
		this, other Opt[string]
	}{{"tres per node", u.TRESPerNode, u.TRESPerJob}, {"tres per job", u.TRESPerJob, u.TRESPerNode}} {
		switch {
		case !o.this.Set:
		case o.this.Value == "":
			// Alone this leaves a job with GPUs that it no longer shows (24.11).
			if !o.other.Set || o.other.Value == "" {
				return fmt.Errorf("%s is cleared without setting the other form", o.name)
			}
		case !strings.HasPrefix(o.this.Value, "gres/gpu:") && !strings.HasPrefix(o.this.Value, "gres:gpu:"):
			return fmt.Errorf("%s %q: want gres/gpu:N", o.name, o.this.Value)
		default:
			entries, err := gres.Parse(o.this.Value)
			if err != nil || len(entries) != 1 || !entries[0].GPU() || entries[0].Count < 1 {
				return fmt.Errorf("%s %q: want gres/gpu:N", o.name, o.this.Value)
			}
		}
	}
	return nil
}

func (u Update) checkNames() error {
	for _, n := range []struct {
		name string
		v    Opt[string]
	}{{"partition", u.Partition}, {"qos", u.QOS}} {
		if !n.v.Set {
			continue
		}
		if n.v.Value == "" || n.v.Value[0] == '-' || len(n.v.Value) > 255 || strings.ContainsFunc(n.v.Value, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r))
		}) {
			return fmt.Errorf("%s %q", n.name, n.v.Value)
		}
	}
	return nil
}

// nodeRange is "2" or "1-2".
func (u Update) nodeRange() string {
	text := strconv.Itoa(u.Nodes.Value)
	if u.NodesTo.Set && u.NodesTo.Value > u.Nodes.Value {
		text += "-" + strconv.Itoa(u.NodesTo.Value)
	}
	return text
}

// body is the JSON of the request.
func (u Update) body() map[string]any {
	b := map[string]any{}
	put(b, "hold", u.Hold, func(v bool) any { return v })
	put(b, "begin_time", u.BeginTime, func(t time.Time) any { return boxed(beginSecond(t)) })
	put(b, "nice", u.Nice, func(v int64) any { return v })
	put(b, "priority", u.Priority, func(v int64) any { return boxed(v) })
	put(b, "nodes", u.Nodes, func(int) any { return u.nodeRange() })
	if len(u.RequiredNodes) > 0 {
		b["required_nodes"] = u.RequiredNodes
		b["nodes"] = strconv.Itoa(len(u.RequiredNodes))
	}
	put(b, "excluded_nodes", u.ExcludedNodes, func(v []string) any {
		if len(v) == 0 {
			return "" // an empty list is ignored
		}
		return v
	})
	put(b, "tasks", u.Tasks, func(v int) any { return v })
	put(b, "cpus_per_task", u.CPUsPerTask, func(v int) any { return v })
	put(b, "tres_per_node", u.TRESPerNode, func(v string) any { return v })
	put(b, "tres_per_job", u.TRESPerJob, func(v string) any { return v })
	put(b, "partition", u.Partition, func(v string) any { return v })
	put(b, "qos", u.QOS, func(v string) any { return v })
	put(b, "time_limit", u.TimeLimit, func(d time.Duration) any { return boxed(minutesUp(d)) })
	put(b, "requeue", u.Requeue, func(v bool) any { return v })
	return b
}

func put[T any](b map[string]any, key string, o Opt[T], form func(T) any) {
	if o.Set {
		b[key] = form(o.Value)
	}
}

// boxed is Slurm's form of a number that may be unset.
func boxed(n int64) any { return map[string]any{"set": true, "number": n} }

// beginSecond is 1 for now: Slurm takes 0 for not set.
func beginSecond(t time.Time) int64 {
	if t.IsZero() {
		return 1
	}
	return max(t.Unix(), 1)
}

func minutesUp(d time.Duration) int64 { return int64((d + time.Minute - 1) / time.Minute) }

// arguments is the update as scontrol takes it, without the hold.
func (u Update) arguments() []string {
	var args []string
	add := func(set bool, key, value string) {
		if set {
			args = append(args, key+"="+value)
		}
	}
	add(u.BeginTime.Set, "StartTime", "uts"+strconv.FormatInt(beginSecond(u.BeginTime.Value), 10))
	add(u.Nice.Set, "Nice", strconv.FormatInt(u.Nice.Value, 10))
	add(u.Priority.Set, "Priority", strconv.FormatInt(u.Priority.Value, 10))
	add(u.Nodes.Set && len(u.RequiredNodes) == 0, "NumNodes", u.nodeRange())
	add(len(u.RequiredNodes) > 0, "ReqNodeList", strings.Join(u.RequiredNodes, ","))
	add(len(u.RequiredNodes) > 0, "NumNodes", strconv.Itoa(len(u.RequiredNodes)))
	add(u.ExcludedNodes.Set, "ExcNodeList", strings.Join(u.ExcludedNodes.Value, ","))
	add(u.Tasks.Set, "NumTasks", strconv.Itoa(u.Tasks.Value))
	add(u.CPUsPerTask.Set, "CPUsPerTask", strconv.Itoa(u.CPUsPerTask.Value))
	add(u.TRESPerNode.Set, "TresPerNode", u.TRESPerNode.Value)
	add(u.TRESPerJob.Set, "TresPerJob", u.TRESPerJob.Value)
	add(u.Partition.Set, "Partition", u.Partition.Value)
	add(u.QOS.Set, "QOS", u.QOS.Value)
	add(u.TimeLimit.Set, "TimeLimit", strconv.FormatInt(minutesUp(u.TimeLimit.Value), 10))
	if u.Requeue.Set {
		add(true, "Requeue", map[bool]string{true: "1", false: "0"}[u.Requeue.Value])
	}
	return args
}
