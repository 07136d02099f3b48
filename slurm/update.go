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

// Opt is an optional value; its zero value is unset.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some is a set value.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Update is one change of one job; unset fields stay as they are. An update is
// not atomic: after an error some fields may have changed, so read the job
// again. Update.Check says which combinations cannot be written.
type Update struct {
	// SeenPending is the caller's word that the job was just read as pending.
	// RequiredNodes and Nodes are refused without it, because on a running job
	// they are a request to shrink that kills nodes.
	SeenPending bool

	Hold Opt[bool]
	// BeginTime is the earliest start; any instant in the past means now, and
	// the zero time is written as one second after the epoch.
	BeginTime Opt[time.Time]
	Nice      Opt[int64] // -2147483645..2147483645
	// Priority pins the job and cannot be set together with Hold.
	Priority Opt[int64]

	// RequiredNodes pins the job to exactly these nodes. It cannot be emptied
	// this way; see Client.ClearRequiredNodes.
	RequiredNodes []string
	ExcludedNodes Opt[[]string] // empty clears
	// Nodes is the exact number of nodes; with RequiredNodes it is their
	// number and may be left out.
	Nodes Opt[int]
	// NodesTo makes Nodes the least of a range that ends here.
	NodesTo Opt[int]
	Tasks   Opt[int]
	// CPUsPerTask sets the CPUs. There is no total of CPUs here: set after a
	// change of tasks it leaves the job in BadConstraints.
	CPUsPerTask Opt[int]
	// TRESPerNode and TRESPerJob are "gres/gpu:4"; empty clears.
	TRESPerNode, TRESPerJob Opt[string]

	Partition, QOS Opt[string]
	// TimeLimit is written in whole minutes, rounded up.
	TimeLimit Opt[time.Duration]
	Requeue   Opt[bool]
}

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
