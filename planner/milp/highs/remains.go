package highs

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"unisched/planner/milp"
)

// Files that HiGHS writes during a solve, as the child finds them.
const (
	incumbentFile = "/proc/self/fd/3"
	logFile       = "/proc/self/fd/4"
	// maxRemains bounds what is read of, and written to, either file.
	maxRemains = 256 << 20
)

// remains is what a child left in its files; a dead one as well as one that ended well.
type remains struct {
	incumbents [][]float64 // whole ones, newest first, at most keepIncumbents
	bound      float64     // the best dual bound of the log, +Inf when there is none
	status     milp.Status // what the log's report says, Failed when it has none
}

const keepIncumbents = 3

// readRemains reads the files of a child that no longer runs or does nothing.
func readRemains(incumbents, log io.ReaderAt, cols int) remains {
	left := remains{incumbents: readIncumbents(fromStart(incumbents), cols)}
	left.bound, left.status = readLog(fromStart(log))
	return left
}

// fromStart reads the first maxRemains bytes of a file.
func fromStart(f io.ReaderAt) *bufio.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(f, 0, maxRemains), 1<<16)
}

// readLine returns the next line that ends in a newline; a torn or overlong one ends the file.
func readLine(r *bufio.Reader) (string, bool) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", false
	}
	return string(line[:len(line)-1]), true
}

// readIncumbents reads HiGHS's file of improving solutions in its sparse form: per solution a line
// "Objective V", a line "# Columns -K" and K lines "name value index". A solution counts only when it is whole; the
// first line that does not fit ends the file.
func readIncumbents(r *bufio.Reader, cols int) [][]float64 {
	var found [][]float64 // oldest first
	for {
		line, ok := readLine(r)
		if !ok {
			break
		}
		count, isHead := strings.CutPrefix(line, "# Columns ")
		if !isHead {
			continue
		}
		k, err := strconv.Atoi(strings.TrimPrefix(count, "-"))
		if err != nil || k < 0 || k > cols {
			break
		}
		x := readSparse(r, k, cols)
		if x == nil {
			break
		}
		if len(found) == keepIncumbents {
			found = append(found[:0], found[1:]...)
		}
		found = append(found, x)
	}
	for a, b := 0, len(found)-1; a < b; a, b = a+1, b-1 {
		found[a], found[b] = found[b], found[a]
	}
	return found
}

// readSparse reads k lines "name value index" into a vector, or returns nil.
func readSparse(r *bufio.Reader, k, cols int) []float64 {
	x := make([]float64, cols)
	for range k {
		line, ok := readLine(r)
		if !ok {
			return nil
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil
		}
		v, errV := strconv.ParseFloat(f[1], 64)
		j, errJ := strconv.Atoi(f[2])
		if errors.Join(errV, errJ) != nil || j < 0 || j >= cols {
			return nil
		}
		x[j] = v
	}
	return x
}

// readLog finds the dual bound of a maximisation and the status in HiGHS's log: in the report at its end, else the
// bound in the last row of the progress table. Printed bounds are rounded, so each is moved up by what rounding may
// have taken: the table has ten digits, the report twelve.
func readLog(r *bufio.Reader) (float64, milp.Status) {
	bound, status := math.Inf(1), milp.Failed
	for {
		line, ok := readLine(r)
		if !ok {
			return bound, status
		}
		if text, ok := strings.CutPrefix(line, "  Dual bound "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && !math.IsNaN(v) {
				bound = v + 1e-11*math.Abs(v)
			}
		} else if text, ok := strings.CutPrefix(line, "  Status  "); ok {
			status = reportStatus(strings.TrimSpace(text))
		} else if text, ok := strings.CutPrefix(line, "Model status "); ok { // the report of a linear program
			status = reportStatus(strings.TrimLeft(text, " :"))
		} else if v, ok := tableBound(line); ok {
			bound = v + 1e-9*math.Abs(v)
		}
	}
}

func reportStatus(s string) milp.Status {
	switch s {
	case "Optimal":
		return milp.Optimal
	case "Time limit reached":
		return milp.TimeLimit
	case "Solution limit reached", "Iteration limit reached": // 1.10 calls the node limit a solution limit
		return milp.NodeLimit
	case "Infeasible":
		return milp.Infeasible
	default:
		return milp.Failed
	}
}

// tableBound reads the BestBound column of a row of the progress table:
//
//	Src  Proc. InQueue |  Leaves   Expl. | BestBound       BestSol              Gap |   Cuts   InLp Confl. | LpIters  Time
//	 L       0       0         0   0.00%   41.5            40                3.75%        9      5      0        12   0.0s
func tableBound(line string) (float64, bool) {
	before, after, ok := strings.Cut(line, "%")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 4 || len(left) > 5 || len(right) != 8 || !strings.HasSuffix(right[7], "s") {
		return 0, false
	}
	if _, err := strconv.ParseFloat(left[len(left)-1], 64); err != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(right[0], 64)
	if err != nil || math.IsNaN(v) {
		return 0, false
	}
	return v, true
}
