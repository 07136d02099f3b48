//go:build !cgo

package highs

import (
	"context"
	"errors"
	"testing"

	"unisched/planner/milp"
)

func TestWithoutHiGHS(t *testing.T) {
	sol, err := New(Options{TempDir: t.TempDir()})(context.Background(), small(), milp.Limits{})
	if !errors.Is(err, ErrUnavailable) || sol.X != nil {
		t.Errorf("solution %v, error %v, want %v", sol, err, ErrUnavailable)
	}
}
