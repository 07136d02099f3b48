package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"unisched/planner/lease"
	"unisched/planner/milp"
)

// writeLP writes a model in the CPLEX LP format, variables x0, x1, ...
func writeLP(m *milp.Model) []byte {
	var b bytes.Buffer
	terms := func(idx []int32, val []float64) {
		for k, j := range idx {
			fmt.Fprintf(&b, " %+.17g x%d", val[k], j)
			if k%8 == 7 {
				b.WriteByte('\n')
			}
		}
	}
	all := make([]int32, m.Cols())
	for j := range all {
		all[j] = int32(j)
	}
	b.WriteString("Maximize\n obj:")
	terms(all, m.Obj)
	b.WriteString("\nSubject To\n")
	for i := range m.Rows() {
		idx, val := m.Index[m.Start[i]:m.Start[i+1]], m.Value[m.Start[i]:m.Start[i+1]]
		side := func(op string, v float64) {
			fmt.Fprintf(&b, " r%d%s:", i, map[string]string{"<=": "u", ">=": "l", "=": "e"}[op])
			terms(idx, val)
			fmt.Fprintf(&b, " %s %.17g\n", op, v)
		}
		switch lo, hi := m.RowLo[i], m.RowHi[i]; {
		case lo == hi:
			side("=", lo)
		default:
			if !math.IsInf(hi, 1) {
				side("<=", hi)
			}
			if !math.IsInf(lo, -1) {
				side(">=", lo)
			}
		}
	}
	b.WriteString("Bounds\n")
	for j := range m.Cols() {
		fmt.Fprintf(&b, " %.17g <= x%d <= %.17g\n", m.ColLo[j], j, m.ColHi[j])
	}
	b.WriteString("General\n")
	for j, integer := range m.Int {
		if integer {
			fmt.Fprintf(&b, " x%d\n", j)
		}
	}
	b.WriteString("End\n")
	return b.Bytes()
}

// glpk solves a model with glpsol and returns its objective.
func glpk(t *testing.T, m *milp.Model, gap float64) float64 {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "m.lp"), filepath.Join(dir, "m.sol")
	if err := os.WriteFile(in, writeLP(m), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("glpsol", "--lp", in, "--mipgap", strconv.FormatFloat(gap, 'g', -1, 64), "--cuts", "--tmlim", "300", "-w", out).CombinedOutput()
	if err != nil {
		t.Fatalf("glpsol: %v\n%s", err, text)
	}
	answer, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(answer)) {
		// s mip ROWS COLUMNS STATUS OBJECTIVE
		if f := strings.Fields(line); len(f) == 6 && f[0] == "s" {
			v, err := strconv.ParseFloat(f[5], 64)
			// f: feasible; that is also what it says when it stopped at the gap.
			ended := f[4] == "o" || f[4] == "f" && bytes.Contains(text, []byte("MIP GAP TOLERANCE REACHED"))
			if err != nil || !ended {
				t.Fatalf("glpsol says %q, %v", line, err)
			}
			return v
		}
	}
	t.Fatalf("glpsol left no solution\n%s", text)
	return 0
}

// TestCrossCheck: another solver, GLPK, finds the same objective within the gap for the very models that HiGHS solves, on 54 instances.
func TestCrossCheck(t *testing.T) {
	solve := solver(t)
	if _, err := exec.LookPath("glpsol"); err != nil {
		t.Skip("glpsol is not installed (Debian: glpk-utils)")
	}
	const gap = 1e-3
	cfg := generous()
	n := 0
	for _, mix := range []string{"strict", "mix1", "mix2"} {
		for _, shape := range []string{"philly", "helios"} {
			for seed := range uint64(9) {
				s, err := Spec{GPUs: 32, Jobs: 36, Mix: mix, Shape: shape, Seed: seed + 1}.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				var m *milp.Model
				lease.New(cfg, func(ctx context.Context, first *milp.Model, lim milp.Limits) (milp.Solution, error) {
					if m == nil {
						m = first
					}
					return solve(ctx, first, lim)
				}).Plan(context.Background(), s)
				ours, err := solve(context.Background(), m, milp.Limits{Time: time.Minute, Gap: gap / 10})
				if err != nil {
					t.Fatal(err)
				}
				theirs := glpk(t, m, gap)
				n++
				if d := math.Abs(ours.Objective-theirs) / math.Abs(theirs); d > 1.1*gap {
					t.Errorf("%s %s %d: HiGHS %.6f, GLPK %.6f: %.5f apart", mix, shape, seed+1, ours.Objective, theirs, d)
				}
			}
		}
	}
	t.Logf("%d instances", n)
}
