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
	"path"
	"strconv"
	"strings"
)

// File is one table. Its Name, without folder and ".csv", serves as the name of the model or run.
type File struct {
	Name string
	R    io.Reader
}

// base is the name of the model or run.
func (f File) base() string { return strings.TrimSuffix(path.Base(f.Name), ".csv") }

// Figure is a measured figure; NaN, for want of data, is null in JSON.
type Figure float64

// MarshalJSON writes null for what is no number.
func (f Figure) MarshalJSON() ([]byte, error) {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 6, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Figure) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	*f = Figure(v)
	return nil
}

// mean of the values; NaN without any.
func mean(v []float64) Figure {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return Figure(s / float64(len(v)))
}

// quantile of sorted values, by the nearest rank above; NaN without any.
func quantile(v []float64, q float64) Figure {
	if len(v) == 0 {
		return Figure(math.NaN())
	}
	return Figure(v[min(int(math.Ceil(q*float64(len(v))))-1, len(v)-1)])
}

// ErrOption is returned for options that make no sense: an unknown format, a target or a fraction out of range.
var ErrOption = errors.New("option")

// ErrFormat is returned for a table that lacks a column.
var ErrFormat = errors.New("missing column")

// maxRows bounds the rows read of one table.
const maxRows = 1 << 20

// table is a CSV file with a header.
type table struct {
	col  map[string]int
	rows [][]string
}

// readTable reads a CSV file whose header holds all the columns needed. Lines of another length than the header are dropped and counted; a table of
// nothing else is an error that names the first of them.
func readTable(f File, need ...string) (table, int, error) {
	r := csv.NewReader(f.R)
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	head, err := r.Read()
	if err != nil {
		return table{}, 0, fmt.Errorf("%s:1: header: %w", f.Name, err)
	}
	t := table{col: make(map[string]int, len(head))}
	for i, h := range head {
		t.col[strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))] = i
	}
	for _, n := range need {
		if _, ok := t.col[n]; !ok {
			return table{}, 0, fmt.Errorf("%s:1: %w %q (the header is %.200q)", f.Name, ErrFormat, n, strings.Join(head, ","))
		}
	}
	bad := 0
	var first error
	for len(t.rows) < maxRows {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			if len(t.rows) == 0 && first != nil {
				return table{}, bad, first
			}
			return t, bad, nil
		}
		if err == nil && len(row) == len(head) {
			t.rows = append(t.rows, row)
			continue
		}
		line, _ := r.FieldPos(0)
		if err == nil {
			err = fmt.Errorf("%d fields, the header has %d", len(row), len(head))
		} else if p, ok := errors.AsType[*csv.ParseError](err); ok {
			line, err = p.Line, p.Err
		}
		if first == nil {
			first = fmt.Errorf("%s:%d: %w", f.Name, line, err)
		}
		if bad++; bad > maxBad {
			return table{}, bad, first
		}
	}
	return t, bad, nil
}

// maxBad bounds the lines dropped of one table: beyond it the file is something else.
const maxBad = 1000

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
