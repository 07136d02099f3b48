package bridge

import (
	"testing"

	"unisched/slurm"
)

// A request may ask for more than GPUs: the count is that of the GPUs, and it is never rewritten, which would lose the rest.
func TestGPUsOfARequest(t *testing.T) {
	for tres, want := range map[string]int{
		"gres/gpu:4": 4, "gres:gpu:4": 4, "gres/gpu:v100:2": 2, "gres/gpu=1": 1, "gres/gpu": 1, "": 0, "(null)": 0, "gres/shard:3": 0,
		"gres/gpu:4,gres/tmpfs:2": 4, "gres/tmpfs:2,gres/gpu:4": 4, "gres/gpu:a:1,gres/gpu:b:2": 3, "gres/gpu:x:y:z": 0,
	} {
		if got := gresCount(tres); got != want {
			t.Errorf("%q: %d GPUs, want %d", tres, got, want)
		}
	}
	for tres, want := range map[string]bool{"gres/gpu:4": true, "gres/gpu:4,gres/tmpfs:2": false, "": false} {
		if got := reshapable(Original{TRESPerNode: tres, Nodes: slurm.MinMax{Min: 1}}); got != want {
			t.Errorf("%q: reshapable %v, want %v", tres, got, want)
		}
	}
}
