package ask

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"unisched/bridge"
	"unisched/slurm"
)

// maxText bounds each text of a Question, in bytes; maxCount each number.
const (
	maxText  = 4 << 10
	maxCount = 1 << 16
)

// job is the question as Slurm would show the job.
func (q Question) job(v *bridge.View) (slurm.Job, error) {
	for _, s := range []string{q.Name, q.User, q.Account, q.QOS, q.Partition, q.Command, q.Comment, q.Constraint, q.GPUType} {
		if len(s) > maxText {
			return slurm.Job{}, fmt.Errorf("%w: a text of %d bytes", ErrQuestion, len(s))
		}
	}
	for _, n := range []int{q.GPUs, q.GPUsPerNode, q.Nodes, q.Tasks, q.CPUsPerTask} {
		if n < 0 || n > maxCount {
			return slurm.Job{}, fmt.Errorf("%w: %d is not within 0..%d", ErrQuestion, n, maxCount)
		}
	}
	if q.MemMB < 0 || q.LimitS < 0 || q.LimitS > 10*366*86400 || q.MemMB > 1<<40 {
		return slurm.Job{}, fmt.Errorf("%w: memory or time limit out of range", ErrQuestion)
	}
	if q.GPUsPerNode > 0 {
		q.Nodes = max(q.Nodes, 1)
		if q.GPUs == 0 {
			q.GPUs = q.GPUsPerNode * q.Nodes
		}
	}
	if q.GPUs <= 0 {
		return slurm.Job{}, fmt.Errorf("%w: how many GPUs? (--gpus, or #SBATCH --gpus in the script)", ErrQuestion)
	}
	kind := ":"
	if q.GPUType != "" {
		kind = ":" + q.GPUType + ":"
	}
	tasks := max(q.Tasks, q.Nodes, 1)
	j := slurm.Job{
		Name: q.Name, User: q.User, Account: q.Account, QOS: q.QOS, Partition: q.Partition, Command: q.Command, Comment: q.Comment, Constraint: q.Constraint,
		ArrayTask: -1, Requeue: !q.NoRequeue, TimeLimit: time.Duration(q.LimitS) * time.Second, Unlimited: q.LimitS == 0,
		Request: slurm.Request{GPUs: q.GPUs, GPUType: q.GPUType, Nodes: slurm.MinMax{Min: q.Nodes, Max: q.Nodes}, Tasks: tasks, CPUsPerTask: max(q.CPUsPerTask, 1),
			CPUs: tasks * max(q.CPUsPerTask, 1), MemPerNodeMB: q.MemMB},
	}
	if q.GPUsPerNode > 0 {
		j.Request.TRESPerNode = fmt.Sprintf("gres/gpu%s%d", kind, q.GPUsPerNode)
	} else {
		j.Request.TRESPerJob = fmt.Sprintf("gres/gpu%s%d", kind, q.GPUs)
	}
	if j.Partition == "" {
		j.Partition = v.Partition()
	}
	if strings.ContainsAny(q.Partition, "\x00\n") {
		return j, fmt.Errorf("%w: a partition of several lines", ErrQuestion)
	}
	return j, nil
}

// gate lets one question in at a time, and not too many in a minute.
type gate struct {
	once sync.Once
	slot chan struct{}
	mu   sync.Mutex
	left float64 // questions that may be asked at once
	last time.Time
}

// The bounds of a gate: a burst, then one question every few seconds.
const (
	burst   = 20
	refill  = 2 * time.Second
	waitFor = 5 * time.Second
)

func (g *gate) enter(ctx context.Context, clock func() time.Time) error {
	g.once.Do(func() { g.slot, g.left = make(chan struct{}, 1), burst })
	g.mu.Lock()
	now := clock()
	if !g.last.IsZero() {
		g.left = min(burst, g.left+now.Sub(g.last).Seconds()/refill.Seconds())
	}
	g.last = now
	enough := g.left >= 1
	if enough {
		g.left--
	}
	g.mu.Unlock()
	if !enough {
		return ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	select {
	case g.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ErrBusy
	}
}

func (g *gate) leave() { <-g.slot }
