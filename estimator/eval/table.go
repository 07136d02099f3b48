// Package eval measures the estimator on published tables: how well step times are extrapolated from a profile ([Speed]), and how well the
// iterations to a target are extrapolated from the beginning of a learning curve ([Curves]).
//
// It reads tables from readers that its callers opened, and opens nothing itself. What is learnt from other models never includes the model
// being predicted. The commands "unisched eval speed" and "unisched eval curves" print its reports.
package eval

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// File is one table: Name is its base name without folder, as it serves as the name of the model or run.
type File struct {
	Name string
	R    io.Reader
}

// ErrFormat is returned for an unknown format or a table that lacks a column.
var ErrFormat = errors.New("unknown format or missing column")

// maxRows bounds the rows read of one table.
const maxRows = 1 << 20

// table is a CSV file with a header.
type table struct {
	col  map[string]int
	rows [][]string
}

// readTable reads a CSV file whose header holds all the columns needed. Lines of another length than the header are dropped and counted.
func readTable(f File, need ...string) (table, int, error) {
	r := csv.NewReader(f.R)
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	head, err := r.Read()
	if err != nil {
		return table{}, 0, fmt.Errorf("header of %s: %w", f.Name, err)
	}
	t := table{col: make(map[string]int, len(head))}
	for i, h := range head {
		t.col[strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))] = i
	}
	for _, n := range need {
		if _, ok := t.col[n]; !ok {
			return table{}, 0, fmt.Errorf("%w: %s has no column %q", ErrFormat, f.Name, n)
		}
	}
	bad := 0
	for len(t.rows) < maxRows {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return t, bad, nil
		}
		if err != nil || len(row) != len(head) {
			bad++
			if err != nil && bad > 1000 {
				return table{}, bad, fmt.Errorf("rows of %s: %w", f.Name, err)
			}
			continue
		}
		t.rows = append(t.rows, row)
	}
	return t, bad, nil
}

// text of a column; "" when the table lacks it.
func (t table) text(row []string, col string) string {
	if i, ok := t.col[col]; ok {
		return strings.TrimSpace(row[i])
	}
	return ""
}

// number of a column; NaN when it is none.
func (t table) number(row []string, col string) float64 {
	v, err := strconv.ParseFloat(t.text(row, col), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
