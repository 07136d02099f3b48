package milp

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var (
	inf  = math.Inf(1)
	ninf = math.Inf(-1)
)

// example is: maximise 3 x0 + 2 x1, x0 in {0, 1}, x1 >= 0, x0 + 2 x1 <= 4, x1 = 1.5.
func example() *Model {
	m := &Model{}
	m.AddCol(3, 0, 1, true)
	m.AddCol(2, 0, inf, false)
	m.AddRow(ninf, 4, []int32{0, 1}, []float64{1, 2})
	m.AddRow(1.5, 1.5, []int32{0, 1}, []float64{0, 1})
	return m
}

func TestBuild(t *testing.T) {
	m := example()
	if i := m.AddRow(-1, 2, []int32{0}, []float64{0}); i != -1 {
		t.Errorf("empty row got index %d", i)
	}
	if i := m.AddRow(0, inf, []int32{1}, []float64{-1}); i != 2 {
		t.Errorf("third row got index %d", i)
	}
	want := &Model{
		Obj: []float64{3, 2}, ColLo: []float64{0, 0}, ColHi: []float64{1, inf}, Int: []bool{true, false},
		RowLo: []float64{ninf, 1.5, 0}, RowHi: []float64{4, 1.5, inf},
		Start: []int32{0, 2, 3, 4}, Index: []int32{0, 1, 1, 1}, Value: []float64{1, 2, 1, -1},
	}
	if d := cmp.Diff(want, m, cmpopts.IgnoreUnexported(Model{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name  string
		spoil func(*Model)
		want  string
	}{
		{"valid", func(*Model) {}, ""},
		{"empty row that cannot hold", func(m *Model) { m.AddRow(1, 2, nil, nil) }, "row without entries"},
		{"empty row of NaN", func(m *Model) { m.AddRow(nan, nan, nil, nil) }, "row without entries"},
		{"row of two lengths", func(m *Model) { m.AddRow(0, 1, []int32{0}, nil) }, "1 indices and 0 values"},
		{"missing bound", func(m *Model) { m.ColHi = m.ColHi[:1] }, "columns:"},
		{"missing start", func(m *Model) { m.Start = m.Start[:2] }, "rows:"},
		{"cost NaN", func(m *Model) { m.Obj[1] = nan }, "column 1: cost"},
		{"cost infinite", func(m *Model) { m.Obj[1] = inf }, "column 1: cost"},
		{"bounds crossed", func(m *Model) { m.ColLo[0] = 2 }, "column 0: bounds 2..1"},
		{"bound NaN", func(m *Model) { m.ColHi[0] = nan }, "column 0: bounds"},
		{"lower bound infinite", func(m *Model) { m.ColLo[1] = inf }, "column 1: bounds"},
		{"row bounds crossed", func(m *Model) { m.RowHi[1] = 1 }, "row 1: bounds"},
		{"column out of range", func(m *Model) { m.Index[2] = 2 }, "row 1: column 2 of 2"},
		{"column negative", func(m *Model) { m.Index[0] = -1 }, "row 0: column -1"},
		{"column twice", func(m *Model) { m.Index[0] = 1 }, "row 0: column 1 occurs twice"},
		{"coefficient NaN", func(m *Model) { m.Value[0] = nan }, "row 0: column 0: coefficient"},
		{"starts fall", func(m *Model) { m.Start[1] = 0 }, "row 0: entries"},
		{"starts beyond the entries", func(m *Model) { m.Start[1] = 9 }, "row 0: entries"},
		{"starts do not begin at 0", func(m *Model) { m.Start[0] = 1 }, "starts run"},
		{"entries without rows", func(m *Model) { m.RowLo, m.RowHi = nil, nil }, "rows:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := example()
			tt.spoil(m)
			err := m.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.Is(err, ErrModel) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFeasible(t *testing.T) {
	tests := []struct {
		name string
		x    []float64
		want string
	}{
		{"feasible", []float64{1, 1.5}, ""},
		{"within the tolerance", []float64{1 + 1e-7, 1.5 - 1e-7}, ""},
		{"too short", []float64{1}, "1 values for 2 columns"},
		{"NaN", []float64{1, math.NaN()}, "column 1: value"},
		{"infinite", []float64{1, inf}, "column 1: value"},
		{"below a bound", []float64{-0.1, 1.5}, "column 0: -0.1 outside 0..1"},
		{"above a bound", []float64{2, 1.5}, "column 0: 2 outside"},
		{"fraction", []float64{0.5, 1.5}, "column 0: 0.5 is not an integer"},
		{"first violated row", []float64{1, 2}, "row 0: 5 outside -Inf..4"},
		{"second row", []float64{0, 1}, "row 1: 1 outside 1.5..1.5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := example().Feasible(tt.x, 1e-6)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.Is(err, ErrViolated) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if got := example().Objective([]float64{1, 1.5}); got != 6 {
		t.Errorf("objective %v, want 6", got)
	}
}

// TestFeasibleDense compares the compressed rows with plain sums over a dense matrix.
func TestFeasibleDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "cols")
		small := rapid.IntRange(-3, 3)
		m := &Model{}
		x := make([]float64, n)
		idx := make([]int32, n)
		for j := range n {
			m.AddCol(0, -3, 3, true)
			x[j], idx[j] = float64(small.Draw(t, "x")), int32(j)
		}
		want := true
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			row, sum := make([]float64, n), 0.0
			for j := range row {
				row[j] = float64(small.Draw(t, "a"))
				sum += row[j] * x[j]
			}
			hi := float64(rapid.IntRange(-5, 12).Draw(t, "hi"))
			m.AddRow(ninf, hi, idx, row)
			want = want && sum <= hi
		}
		if m.Validate() != nil {
			if want {
				t.Fatal("a model with a solution is malformed")
			}
			return
		}
		if got := m.Feasible(x, 1e-9) == nil; got != want {
			t.Fatalf("feasible %v, want %v", got, want)
		}
	})
}
