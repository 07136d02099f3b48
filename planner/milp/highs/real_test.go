//go:build cgo

package highs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/planner/milp"
)

var exact = milp.Limits{Time: 10 * time.Second, Gap: 1e-9}

// bruteForce returns the best objective over all integer points, or false when none is feasible. Every column must
// be integer with small finite bounds.
func bruteForce(m *milp.Model) (float64, bool) {
	x := slices.Clone(m.ColLo)
	best, found := math.Inf(-1), false
	for {
		if m.Feasible(x, 1e-9) == nil {
			best, found = max(best, m.Objective(x)), true
		}
		j := 0
		for ; j < len(x); j++ {
			if x[j]++; x[j] <= m.ColHi[j] {
				break
			}
			x[j] = m.ColLo[j]
		}
		if j == len(x) {
			return best, found
		}
	}
}

func drawModel(t *rapid.T) *milp.Model {
	m := &milp.Model{}
	for range rapid.IntRange(1, 6).Draw(t, "cols") {
		lo := rapid.IntRange(-2, 1).Draw(t, "lo")
		hi := lo + rapid.IntRange(0, 3).Draw(t, "width")
		m.AddCol(float64(rapid.IntRange(-9, 9).Draw(t, "cost")), float64(lo), float64(hi), true)
	}
	for range rapid.IntRange(0, 5).Draw(t, "rows") {
		var idx []int32
		var val []float64
		for j := range m.Cols() {
			idx = append(idx, int32(j))
			val = append(val, float64(rapid.IntRange(-3, 3).Draw(t, "coefficient"))/2)
		}
		lo, hi := math.Inf(-1), math.Inf(1)
		if rapid.Bool().Draw(t, "has lower") {
			lo = float64(rapid.IntRange(-6, 3).Draw(t, "row lo"))
		}
		if rapid.Bool().Draw(t, "has upper") {
			hi = max(lo, 0) + float64(rapid.IntRange(0, 6).Draw(t, "row width"))
		}
		m.AddRow(lo, hi, idx, val)
	}
	return m
}

func TestAgainstBruteForce(t *testing.T) {
	solve := New(Options{TempDir: t.TempDir()})
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		if err := m.Validate(); err != nil {
			return // a row without entries that cannot hold: never reaches the solver
		}
		want, feasible := bruteForce(m)
		sol, err := solve(context.Background(), m, exact)
		switch {
		case !feasible:
			if !errors.Is(err, ErrInfeasible) || sol.Status != milp.Infeasible || sol.X != nil {
				t.Fatalf("infeasible model: %+v, %v", sol, err)
			}
		case err != nil:
			t.Fatal(err)
		case sol.Status != milp.Optimal || math.Abs(sol.Objective-want) > 1e-6 || math.Abs(sol.Bound-want) > 1e-5:
			t.Fatalf("%+v, brute force %v", sol, want)
		case m.Feasible(sol.X, 1e-6) != nil || sol.Objective != m.Objective(sol.X):
			t.Fatalf("%+v: %v", sol, m.Feasible(sol.X, 1e-6))
		}
	})
}

func TestKnown(t *testing.T) {
	knapsack := &milp.Model{}
	for _, v := range []float64{60, 100, 120} {
		knapsack.AddCol(v, 0, 1, true)
	}
	knapsack.AddRow(math.Inf(-1), 50, []int32{0, 1, 2}, []float64{10, 20, 30})
	relaxed := exact
	relaxed.Relax = true

	assignment := &milp.Model{} // cost of worker i on task k; the best of the 24 is 2 + 6 + 1 + 4
	cost := [4][4]float64{{9, 2, 7, 8}, {6, 4, 3, 7}, {5, 8, 1, 8}, {7, 6, 9, 4}}
	for i := range cost {
		for k := range cost[i] {
			assignment.AddCol(-cost[i][k], 0, 1, true)
		}
	}
	for i := range int32(4) {
		assignment.AddRow(1, 1, []int32{4 * i, 4*i + 1, 4*i + 2, 4*i + 3}, []float64{1, 1, 1, 1})
		assignment.AddRow(1, 1, []int32{i, i + 4, i + 8, i + 12}, []float64{1, 1, 1, 1})
	}

	rowless := &milp.Model{}
	rowless.AddCol(1, 0, 2.5, true)
	rowless.AddCol(-1, 0.5, 2, false)

	continuous := &milp.Model{}
	continuous.AddCol(1, 0, math.Inf(1), false)
	continuous.AddRow(math.Inf(-1), 2.5, []int32{0}, []float64{2})

	unbounded := &milp.Model{}
	unbounded.AddCol(1, 0, math.Inf(1), false)

	tests := []struct {
		name string
		m    *milp.Model
		lim  milp.Limits
		want milp.Solution
		err  error
	}{
		{"knapsack", knapsack, exact, milp.Solution{Status: milp.Optimal, X: []float64{0, 1, 1}, Objective: 220, Bound: 220}, nil},
		{"knapsack, relaxed", knapsack, relaxed, milp.Solution{Status: milp.Optimal, X: []float64{1, 1, 2. / 3}, Objective: 240, Bound: 240}, nil},
		{"assignment", assignment, exact, milp.Solution{Status: milp.Optimal,
			X: []float64{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, Objective: -13, Bound: -13}, nil},
		{"no rows", rowless, exact, milp.Solution{Status: milp.Optimal, X: []float64{2, 0.5}, Objective: 1.5, Bound: 1.5}, nil},
		{"no integers", continuous, exact, milp.Solution{Status: milp.Optimal, X: []float64{1.25}, Objective: 1.25, Bound: 1.25}, nil},
		{"unbounded", unbounded, exact, milp.Solution{Bound: math.Inf(1)}, ErrNoSolution},
	}
	solve := New(Options{TempDir: t.TempDir()})
	near := cmp.Comparer(func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9 })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sol, err := solve(context.Background(), tt.m, tt.lim)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			sol.Wall, sol.Note = 0, ""
			if d := cmp.Diff(tt.want, sol, near); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// hard returns a multi-dimensional knapsack with profits close to the weights: easy to fill, hard to prove.
func hard(cols, rows int) *milp.Model {
	rng := rand.New(rand.NewPCG(1, 2))
	m := &milp.Model{}
	weights := make([][]float64, rows)
	for i := range weights {
		weights[i] = make([]float64, cols)
	}
	idx := make([]int32, cols)
	for j := range cols {
		idx[j] = int32(j)
		sum := 0.0
		for i := range weights {
			weights[i][j] = float64(1 + rng.IntN(1000))
			sum += weights[i][j]
		}
		m.AddCol(math.Round(sum/float64(rows)+500*rng.Float64()), 0, 1, true)
	}
	for i := range weights {
		total := 0.0
		for _, w := range weights[i] {
			total += w
		}
		m.AddRow(math.Inf(-1), math.Floor(total/2), idx, weights[i])
	}
	return m
}

// case 40: every way in which a real search is cut short leaves its incumbent and a finite bound.
func TestCutShort(t *testing.T) {
	m := hard(200, 20)
	tests := []struct {
		name      string
		o         Options
		lim       milp.Limits
		cancel    time.Duration
		want      milp.Status
		noteParts string
	}{
		{"time limit", Options{}, milp.Limits{Time: time.Second, Gap: 1e-9}, 0, milp.TimeLimit, "time limit"},
		{"node limit", Options{}, milp.Limits{Time: time.Minute, Nodes: 2, Gap: 1e-9}, 0, milp.NodeLimit, "node limit"},
		{"killed at the hard deadline", Options{childTime: time.Hour}, milp.Limits{Time: 800 * time.Millisecond, Gap: 1e-9}, 0, milp.TimeLimit, "hard deadline"},
		{"cancelled", Options{}, milp.Limits{Time: time.Minute, Gap: 1e-9}, 1500 * time.Millisecond, milp.TimeLimit, "killed"},
		{"nice", Options{Nice: 5}, milp.Limits{Time: time.Second, Gap: 1e-9}, 0, milp.TimeLimit, "time limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.TempDir = t.TempDir()
			ctx := context.Background()
			if tt.cancel > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.cancel)
				defer cancel()
			}
			sol, err := New(tt.o)(ctx, m, tt.lim)
			if err != nil {
				t.Fatal(err)
			}
			if sol.Status != tt.want || !sol.Incumbent || !strings.Contains(sol.Note, tt.noteParts) {
				t.Errorf("status %v, incumbent %v, note %q", sol.Status, sol.Incumbent, sol.Note)
			}
			if err := m.Feasible(sol.X, 0); err != nil || sol.Objective <= 0 || sol.Gap() <= 0 || sol.Gap() > 0.2 {
				t.Errorf("objective %v, bound %v: %v", sol.Objective, sol.Bound, err)
			}
			if left, err := os.ReadDir(tt.o.TempDir); err != nil || len(left) > 0 {
				t.Errorf("left in the folder: %v %v", left, err)
			}
		})
	}
}

// case 40: two rows and three unbounded integers without a solution, on which HiGHS searches without end; some
// versions do so without a look at the clock (HiGHS issue 2226).
func TestEndlessSearch(t *testing.T) {
	m := &milp.Model{}
	for range 3 {
		m.AddCol(0, math.Inf(-1), math.Inf(1), true)
	}
	m.AddRow(0, 0, []int32{1, 2}, []float64{4, -1})
	m.AddRow(-19, -19, []int32{0, 2}, []float64{8, 1})
	sol, err := New(Options{TempDir: t.TempDir()})(context.Background(), m, milp.Limits{Time: 200 * time.Millisecond})
	if err == nil || sol.X != nil {
		t.Errorf("a solution to a model without one: %+v", sol)
	}
}

func TestMemoryLimit(t *testing.T) {
	sol, err := New(Options{TempDir: t.TempDir()})(context.Background(), hard(5000, 60),
		milp.Limits{Time: 10 * time.Second, MemoryMB: 8})
	if !errors.Is(err, ErrCrashed) {
		t.Errorf("solution %v, error %v, want %v", sol.Status, err, ErrCrashed)
	}
}

// TestHistoryDoesNotCount: a model has the same answer, to the last bit, whatever the child solved before, so that a replayed round is the same round.
func TestHistoryDoesNotCount(t *testing.T) {
	var models []*milp.Model
	for k := range 12 {
		models = append(models, hard(20+4*k, 2+k%3))
	}
	lim := milp.Limits{Time: time.Minute, Gap: 1e-3, Nodes: 100}
	seasoned := New(Options{TempDir: t.TempDir()})
	for round := range 2 {
		for k, m := range models {
			lim.Relax = k%3 == round
			fresh, err1 := New(Options{TempDir: t.TempDir()})(context.Background(), m, lim)
			again, err2 := seasoned(context.Background(), m, lim)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			fresh.Wall, again.Wall = 0, 0
			if d := cmp.Diff(fresh, again); d != "" {
				t.Errorf("model %d (-fresh +seasoned):\n%s", k, d)
			}
		}
	}
}

// BenchmarkTiny measures a whole call on a model of one column: the cost of asking; with a cold process besides.
func BenchmarkTiny(b *testing.B) {
	m := &milp.Model{}
	m.AddCol(1, 0, 1, true)
	b.Run("warm", func(b *testing.B) { benchmark(b, m, exact) })
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(Options{TempDir: b.TempDir()})(context.Background(), m, exact); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkKnapsack(b *testing.B) {
	for _, size := range [][2]int{{1000, 10}, {7000, 8}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			benchmark(b, hard(size[0], size[1]), milp.Limits{Time: 5 * time.Second, Gap: 1e-3})
		})
	}
}

func benchmark(b *testing.B, m *milp.Model, lim milp.Limits) {
	solve := New(Options{TempDir: b.TempDir()})
	for b.Loop() {
		if _, err := solve(context.Background(), m, lim); err != nil {
			b.Fatal(err)
		}
	}
}
