package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"unisched/bridge"
)

// width is what tables keep to.
const width = 80

// clean makes text from users and from Slurm harmless for a terminal: control characters and broken UTF-8 become '?'. Colour is used
// by gantt alone, on a terminal.
func clean(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines:
			return r
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return '?'
		}
		return r
	}, s)
}

// columns counts terminal cells: East Asian characters take two, combining marks none.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

func cells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// cut shortens s to at most n cells, and marks that with '~'.
func cut(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		if used += cells(r); used > n-1 {
			return s[:i] + "~"
		}
	}
	return s
}

// table is columns of text; each is as wide as its widest cell, up to its bound. The column flex gives way when a line would be too long.
type table struct {
	head  []string
	bound []int
	flex  int
	rows  [][]string
	wide  int // columns to keep to, 0: width
}

// print writes a table as wide as the terminal.
func (a *app) print(t *table) {
	t.wide = a.columnsOf()
	t.write(a.out)
}

func (t *table) add(cellsOf ...string) { t.rows = append(t.rows, cellsOf) }

func (t *table) write(w io.Writer) {
	if t.wide == 0 {
		t.wide = width
	}
	widths := make([]int, len(t.head))
	for i := range t.head {
		widths[i] = columns(t.head[i])
		for _, r := range t.rows {
			widths[i] = max(widths[i], min(columns(clean(r[i], false)), t.bound[i]))
		}
	}
	total := len(widths) - 1
	for _, n := range widths {
		total += n
	}
	widths[t.flex] = max(3, widths[t.flex]-max(0, total-max(t.wide, 40)))
	line := func(cells []string) {
		var b strings.Builder
		for i, c := range cells {
			c = cut(clean(c, false), widths[i])
			b.WriteString(c)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-columns(c)+1))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	line(t.head)
	for _, r := range t.rows {
		line(r)
	}
}

// item writes a label and its text, wrapped to the width with the text hanging under itself.
func item(w io.Writer, label, format string, args ...any) {
	const indent = 13
	text := clean(fmt.Sprintf(format, args...), false)
	first := true
	for len(text) > 0 || first {
		line := text
		if columns(text) > width-indent {
			line = head(text, width-indent)
		}
		text = strings.TrimLeft(text[len(line):], " ")
		fmt.Fprintf(w, "%-*s%s\n", indent, label, strings.TrimRight(line, " "))
		label, first = "", false
	}
}

// head is the start of s that fits n cells, cut at a space where there is one.
func head(s string, n int) string {
	used, space := 0, 0
	for i, r := range s {
		if r == ' ' {
			space = i + 1
		}
		if used += cells(r); used > n {
			if space > 0 {
				return s[:space]
			}
			return s[:i]
		}
	}
	return s
}

func span(d time.Duration) string { return bridge.Span(d) }

// moment writes an instant in the user's zone with how far it is from now.
func (a *app) moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := t.Sub(a.now())
	rel := "in " + span(d)
	if d < 0 {
		rel = span(-d) + " ago"
	}
	return fmt.Sprintf("%s (%s)", a.stamp(t), rel)
}

// stamp writes an instant in the user's zone, with that zone's offset.
func (a *app) stamp(t time.Time) string {
	t = t.In(a.zone)
	if name, _ := t.Zone(); name == "UTC" {
		return t.Format("2006-01-02 15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 -07:00")
}

// ahead writes how far an instant lies ahead, for tables.
func (a *app) ahead(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(t.Sub(a.now()))
}
