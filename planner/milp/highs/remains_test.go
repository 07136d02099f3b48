package highs

import (
	"bufio"
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/planner/milp"
)

func lines(s string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), 1<<16) }

func TestReadIncumbents(t *testing.T) {
	one := "Objective 2\n# Columns -1\nC1 1 1\n"
	two := "Objective 3\n# Columns -2\nC0 1 0\nC2 -1.5e-3 2\n"
	x1, x2 := []float64{0, 1, 0}, []float64{1, 0, -1.5e-3}
	tests := []struct {
		name, text string
		want       [][]float64
	}{
		{"empty", "", nil},
		{"newest first", one + two, [][]float64{x2, x1}},
		{"only the last three", one + two + two + one, [][]float64{x1, x2, x2}},
		{"torn inside", one + two[:len(two)-8], [][]float64{x1}},
		{"torn before the newline", one + two[:len(two)-1], [][]float64{x1}},
		{"all zero", "Objective 0\n# Columns 0\n", [][]float64{{0, 0, 0}}},
		{"index out of range", one + "# Columns -1\nC9 1 9\n" + one, [][]float64{x1}},
		{"more values than columns", "# Columns -4\n", nil},
		{"not a number", one + "# Columns -1\nC1 x 1\n", [][]float64{x1}},
		{"overlong line", one + strings.Repeat("x", 1<<17), [][]float64{x1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, readIncumbents(lines(tt.text), 3)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

const logTable = `
        Nodes      |    B&B Tree     |            Objective Bounds              |  Dynamic Constraints |       Work      
Src  Proc. InQueue |  Leaves   Expl. | BestBound       BestSol              Gap |   Cuts   InLp Confl. | LpIters     Time

         0       0         0   0.00%   109743.4852     -inf                 inf        0      0      0         0     0.0s
 S       0       0         0   0.00%   109743.4852     108930             0.75%        0      0      0        30     0.0s
       256      12        38   0.04%   109240.5        108999             0.22%       80      9    100      3560     0.1s
`

func TestReadLog(t *testing.T) {
	report := "\nSolving report\n  Status            Time limit reached\n  Primal bound      108999\n  Dual bound        109200\n"
	tests := []struct {
		name, text string
		bound      float64
		status     milp.Status
	}{
		{"empty", "", math.Inf(1), milp.Failed},
		{"killed during the search", logTable, 109240.5, milp.Failed},
		{"killed while writing a row", logTable + "       300      12        38   0.04%   1.0   ", 109240.5, milp.Failed},
		{"time limit", logTable + report, 109200, milp.TimeLimit},
		{"node limit", strings.Replace(report, "Time", "Solution", 1), 109200, milp.NodeLimit},
		{"hostile", "  Dual bound        NaN\n  Status  x\n % \n", math.Inf(1), milp.Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bound, status := readLog(lines(tt.text))
			if status != tt.status || !(bound >= tt.bound) || bound > tt.bound*(1+1e-8) {
				t.Errorf("bound %v, status %v; want %v, %v", bound, status, tt.bound, tt.status)
			}
		})
	}
}

func TestRequestRoundTrip(t *testing.T) {
	for _, m := range []*milp.Model{small(), {Obj: []float64{1}, ColLo: []float64{0}, ColHi: []float64{1}, Int: []bool{true}}} {
		want := request{Limits: milp.Limits{Time: time.Second, Nodes: 7, Gap: 0.5, MemoryMB: 9, Relax: true}, Nice: 3, Model: m}
		p, err := readFrame(bytes.NewReader(encodeRequest(want)), requestMagic, maxRequest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeRequest(p)
		if err != nil || got.Limits != want.Limits || got.Nice != want.Nice {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		a, b := *want.Model, *got.Model
		for _, pair := range [][2]any{{a.Obj, b.Obj}, {a.ColLo, b.ColLo}, {a.ColHi, b.ColHi}, {a.Int, b.Int}} {
			if d := cmp.Diff(pair[0], pair[1]); d != "" {
				t.Errorf("columns (-want +got):\n%s", d)
			}
		}
		if a.Rows() != b.Rows() || len(a.Index) != len(b.Index) {
			t.Errorf("rows: %+v, want %+v", b, a)
		}
	}
}

func FuzzRemains(f *testing.F) {
	f.Add([]byte(incumbents))
	f.Add([]byte(logTable))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, x := range readIncumbents(lines(string(text)), 5) {
			if len(x) != 5 {
				t.Errorf("%d values", len(x))
			}
		}
		if bound, _ := readLog(lines(string(text))); math.IsNaN(bound) {
			t.Error("NaN as bound")
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(encodeAnswer(fakeAnswers["optimal"]))
	f.Add(encodeAnswer(fakeAnswers["infeasible"]))
	m := small()
	f.Fuzz(func(t *testing.T, frame []byte) {
		// The checksum would stop nearly everything, so the payload is sealed again.
		for _, out := range [][]byte{frame, seal(answerMagic, frame)} {
			sol, _, err := judge(m, milp.Limits{}, fate{output: out}, func() remains { return remains{bound: math.Inf(1)} })
			if (sol.X == nil) != (err != nil) {
				t.Errorf("solution %v with error %v", sol, err)
			}
			if sol.X != nil && m.Feasible(sol.X, 1e-6) != nil {
				t.Errorf("accepted %v", sol.X)
			}
		}
	})
}

func FuzzRequest(f *testing.F) {
	p, err := readFrame(bytes.NewReader(encodeRequest(request{Model: small()})), requestMagic, maxRequest)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		if q, err := decodeRequest(p); err == nil && q.Model.Validate() != nil {
			t.Error("accepted a malformed model")
		}
	})
}
