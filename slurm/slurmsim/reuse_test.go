package slurmsim

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/slurm"
)

// An answer that is written over an older one is the answer made anew, whatever came and went in between.
func TestReuse(t *testing.T) {
	ctx := context.Background()
	plain, again := New(Config{Seed: 3}, Nodes(3, 4), Partition{Name: "gpu"}), New(Config{Seed: 3, Reuse: true}, Nodes(3, 4), Partition{Name: "gpu"})
	rng := rand.New(rand.NewPCG(7, 7))
	for step := range 300 {
		gpus, long, victim, drain := 1+rng.IntN(4), int64(20+rng.IntN(400)), slurm.JobID(1+rng.IntN(step+1)), rng.IntN(40) == 0
		for _, c := range []*Cluster{plain, again} {
			if step%3 == 0 {
				c.Submit(Submission{Name: "j", UID: 1000, Partition: "gpu", GPUs: gpus, Body: Body{Iterations: long}})
			}
			_ = c.Update(ctx, slurm.Ref{ID: victim}, slurm.Update{Nice: slurm.Some(int64(step))})
			_ = c.Requeue(ctx, slurm.Ref{ID: victim})
			if drain {
				c.Drain("n2", "test")
			}
			c.Advance(c.Now().Add(7 * time.Second))
		}
		want, _ := plain.State(ctx, plain.Now())
		got, _ := again.State(ctx, again.Now())
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("step %d: %s", step, d)
		}
	}
}
