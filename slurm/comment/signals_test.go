package comment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"unisched/slurm"
	"unisched/slurm/comment"
)

// What a user may ask for is what the client can send.
func TestSignalsAreThoseOfTheClient(t *testing.T) {
	var names []string
	for _, s := range slurm.SignalNames() {
		names = append(names, string(s))
	}
	if d := cmp.Diff(names, comment.Signals); d != "" {
		t.Error(d)
	}
}
