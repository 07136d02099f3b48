package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// The text chart: a row per GPU, a column per so many seconds.
const chartColumns = 72

// gantt prints who held which GPUs when.
func (r *result) gantt(w io.Writer) {
	bars := r.bars()
	const step = time.Second / 2
	per := (r.span(bars)/chartColumns/step + 1) * step
	column := func(t time.Time) int { return min(max(int(t.Sub(r.began)/per), 0), chartColumns) }
	fmt.Fprintf(w, "\nWho held which GPUs (a column is %v; small letters: a profile run)\n\n", per)
	node := ""
	for _, l := range r.lanes(bars) {
		if l.node != node && node != "" {
			fmt.Fprintln(w)
		}
		node = l.node
		row := bytes.Repeat([]byte{'.'}, chartColumns)
		for _, b := range l.bars {
			c := b.job.letter
			if b.profile {
				c |= 0x20
			}
			for i := column(b.from); i < chartColumns && i < max(column(b.to), column(b.from)+1); i++ {
				row[i] = c
			}
		}
		fmt.Fprintf(w, "  %s.%d %s\n", l.node, l.gpu, row)
	}
	axis := []byte(strings.Repeat(" ", chartColumns+8))
	ticks := bytes.Clone(axis)
	for t := time.Duration(0); ; t += 30 * time.Second {
		c := int(t / per)
		if c >= chartColumns {
			break
		}
		ticks[c] = '|'
		if c+len(clock(t)) <= chartColumns {
			copy(axis[c:], clock(t))
		}
	}
	fmt.Fprintf(w, "       %s\n       %s\n", bytes.TrimRight(ticks, " "), bytes.TrimRight(axis, " "))
	for _, o := range r.jobs {
		if d := o.deadline(); !d.IsZero() {
			fmt.Fprintf(w, "       %s^ deadline of %c (%s)\n", strings.Repeat(" ", min(column(d), chartColumns-28)), o.letter, r.since(d))
		}
	}
}
