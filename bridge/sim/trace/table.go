package trace

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxLine bounds a row in bytes.
const maxLine = 64 << 10

// table reads rows of fields under a header, and keeps account of odd rows. Fields hold no quotes in any of the formats; one that begins with a quote
// loses the pair.
type table struct {
	sep    byte
	scan   *bufio.Scanner
	head   map[string]int
	width  int // columns of the header
	line   int
	rows   int
	fields []string

	jobs []Job
	odd  map[string]*Odd
}

// open reads the header.
func (t *table) open(r io.Reader) error {
	t.lines(r)
	if !t.scan.Scan() {
		if err := t.scan.Err(); err != nil {
			return fmt.Errorf("line 1: %w", err)
		}
		return fmt.Errorf("line 1: empty file: %w", ErrFormat)
	}
	t.line = 1
	t.head = map[string]int{}
	for i, name := range t.split(strings.TrimPrefix(t.scan.Text(), "\ufeff")) {
		if _, twice := t.head[name]; !twice {
			t.head[name] = i
		}
	}
	t.width = len(t.fields)
	return nil
}

func (t *table) lines(r io.Reader) {
	t.scan = bufio.NewScanner(r)
	t.scan.Buffer(make([]byte, 0, 4096), maxLine)
	t.odd = map[string]*Odd{}
}

func (t *table) split(line string) []string {
	t.fields = t.fields[:0]
	for _, f := range strings.Split(strings.TrimRight(line, "\r"), string(t.sep)) {
		f = strings.TrimSpace(f)
		if len(f) >= 2 && f[0] == '"' && f[len(f)-1] == '"' {
			f = f[1 : len(f)-1]
		}
		t.fields = append(t.fields, f)
	}
	return t.fields
}

// need fails when a column is missing.
func (t *table) need(names ...string) error {
	for _, n := range names {
		if _, ok := t.head[n]; !ok {
			return fmt.Errorf("line 1: no column %q: %w", n, ErrFormat)
		}
	}
	return nil
}

func (t *table) has(name string) bool {
	_, ok := t.head[name]
	return ok
}

// next goes to the next row that is not empty; false at the end.
func (t *table) next() (bool, error) {
	for t.scan.Scan() {
		t.line++
		text := t.scan.Text()
		if strings.TrimSpace(text) == "" {
			continue
		}
		if t.rows++; t.rows > maxRows {
			return false, fmt.Errorf("line %d: more than %d rows", t.line, maxRows)
		}
		t.split(text)
		return true, nil
	}
	if err := t.scan.Err(); err != nil {
		return false, fmt.Errorf("line %d: %w", t.line+1, err)
	}
	return false, nil
}

// get is a field of the row, "" when the row ends before it.
func (t *table) get(name string) string {
	if i, ok := t.head[name]; ok && i < len(t.fields) {
		return strings.Clone(t.fields[i])
	}
	return ""
}

// wrong is an error about a field of this row.
func (t *table) wrong(name, format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %s", t.line, name, fmt.Sprintf(format, args...))
}

// number reads a field as a finite number.
func (t *table) number(name string) (float64, error) {
	v := t.get(name)
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, t.wrong(name, "%q is no number", clip(v))
	}
	return n, nil
}

// count reads a field as a whole number within 0..most.
func (t *table) count(name string, most float64) (int64, error) {
	n, err := t.number(name)
	if err != nil {
		return 0, err
	}
	if n < 0 || n > most || n != math.Trunc(n) {
		return 0, t.wrong(name, "%q is not a whole number within 0..%g", clip(t.get(name)), most)
	}
	return int64(n), nil
}

// span reads a field as a time span in the unit.
func (t *table) span(name string, unit time.Duration) (time.Duration, error) {
	n, err := t.number(name)
	if err != nil {
		return 0, err
	}
	d := n * float64(unit)
	if d < 0 || d > float64(maxDuration) {
		return 0, t.wrong(name, "%q is not within 0..10 years", clip(t.get(name)))
	}
	return time.Duration(d), nil
}

// clip keeps a stranger's text short in messages.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// skip counts a row that is left out or mended.
func (t *table) skip(what string) {
	o := t.odd[what]
	if o == nil {
		o = &Odd{What: what, First: t.line}
		t.odd[what] = o
	}
	o.Rows++
}

func (t *table) odds() []Odd {
	out := make([]Odd, 0, len(t.odd))
	for _, o := range t.odd {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Odd) int { return strings.Compare(a.What, b.What) })
	return out
}

// add takes a job unless there is nothing to run.
func (t *table) add(j Job) {
	switch {
	case j.GPUs <= 0:
		t.skip("no GPUs: left out")
		return
	case j.GPUs > maxGPUs:
		t.skip("more than 65,536 GPUs: left out")
		return
	case j.Duration <= 0:
		t.skip("no run time: left out")
		return
	}
	refine(&j)
	t.jobs = append(t.jobs, j)
}

// each calls f for every row.
func (t *table) each(f func() error) error {
	for {
		ok, err := t.next()
		if err != nil || !ok {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}
