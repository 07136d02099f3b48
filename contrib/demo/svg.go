package main

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// The picture: two charts on one time axis, what happened above, what plain Slurm would have done below. Sizes in pixels.
const (
	picWidth   = 1200
	picLeft    = 74
	picRight   = 24
	laneHeight = 17
	laneGap    = 2
	nodeGap    = 10
	headHeight = 92
	chartHead  = 46
	axisHeight = 30
)

// colours by class: the bar, and the text on it.
var colours = map[string][2]string{
	"strict":     {"#c2263a", "#ffffff"},
	"soft":       {"#e08a1e", "#2b1a00"},
	"besteffort": {"#3f74b5", "#ffffff"},
	"plain":      {"#8a8f98", "#ffffff"},
}

// shades tell best-effort jobs apart; used in the order of submission.
var shades = []string{"#2f5f9e", "#4b8f8c", "#6f7fc4", "#5aa0c8", "#3d7f6b"}

type picture struct {
	strings.Builder
	r     *result
	total time.Duration
	color map[*outcome]string
}

func (p *picture) f(format string, args ...any) { fmt.Fprintf(&p.Builder, format+"\n", args...) }

// x is the place of an instant.
func (p *picture) x(t time.Time) float64 {
	return picLeft + float64(t.Sub(p.r.began))/float64(p.total)*(picWidth-picLeft-picRight)
}

// svg draws the picture.
func (r *result) svg() string {
	ours, plain := r.bars(), r.plainBars()
	p := &picture{r: r, total: max(r.span(ours), r.span(plain)) + 8*time.Second, color: map[*outcome]string{}}
	best := 0
	for _, o := range r.jobs {
		p.color[o] = colours[o.class][0]
		if o.class == "besteffort" {
			p.color[o] = shades[best%len(shades)]
			best++
		}
	}
	chart := chartHead + r.lanesHeight() + axisHeight
	height := headHeight + 2*chart + 12
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="12">`, picWidth, height, picWidth, height)
	p.f(`<title>UniSched demo: who held which GPUs</title>`)
	p.f(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	p.patterns()
	p.head()
	p.chart(headHeight, "UniSched, as it happened", ours, func(o *outcome) time.Time { return o.Ended })
	p.chart(headHeight+chart, "Plain Slurm, replayed: first come first served, with backfill", plain, func(o *outcome) time.Time { return o.PlainEnd })
	p.f(`</svg>`)
	return p.String()
}

func (r *result) lanesHeight() int {
	h := 0
	for _, n := range r.nodes {
		h += n.GPUs*(laneHeight+laneGap) + nodeGap
	}
	return h - nodeGap
}

// patterns hatches profile runs: stripes of white over the job's colour.
func (p *picture) patterns() {
	p.f(`<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2.6" height="6" fill="#ffffff" fill-opacity="0.62"/></pattern></defs>`)
}

// head is the title and the legend.
func (p *picture) head() {
	p.f(`<text x="%d" y="30" font-size="19" font-weight="bold" fill="#1c2430">%d training jobs on %d nodes of %d GPUs</text>`, picLeft, len(p.r.jobs), len(p.r.nodes), p.r.nodes[0].GPUs)
	x := picLeft
	item := func(draw, text string) {
		p.f(`<g transform="translate(%d,48)">%s<text x="22" y="11" fill="#3b4452">%s</text></g>`, x, draw, html.EscapeString(text))
		x += 40 + 7*len(text)
	}
	box := func(c string) string { return fmt.Sprintf(`<rect width="16" height="13" rx="2" fill="%s"/>`, c) }
	item(box(colours["strict"][0]), "strict deadline")
	item(box(colours["soft"][0]), "soft deadlines")
	item(box(shades[0])+fmt.Sprintf(`<rect x="8" width="8" height="13" fill="%s"/>`, shades[1]), "best effort")
	item(box(colours["plain"][0]), "plain Slurm job")
	item(box(shades[0])+`<rect width="16" height="13" rx="2" fill="url(#hatch)"/>`, "profile run")
	item(fmt.Sprintf(`<rect width="10" height="13" fill="%s"/>%s`, shades[0], notch(10, 0, 13)), "preempted")
	item(`<path d="M8,0V13" stroke="#c2263a" stroke-width="1.6" stroke-dasharray="3 2"/>`, "first deadline")
}

// notch is the torn edge of a bar that was cut: white triangles at x.
func notch(x, y, h float64) string {
	return fmt.Sprintf(`<path d="M%.1f,%.1f l-3.4,%.1f l3.4,%.1f l-3.4,%.1f l3.4,%.1f z" fill="#ffffff"/>`, x+0.4, y, h/4, h/4, h/4, h/4)
}

// chart draws one of the two.
func (p *picture) chart(top int, title string, bars []bar, ended func(*outcome) time.Time) {
	p.f(`<text x="%d" y="%d" font-size="14" font-weight="bold" fill="#1c2430">%s</text>`, picLeft, top+16, html.EscapeString(title))
	y0 := top + chartHead
	bottom := y0 + p.r.lanesHeight()
	p.axis(y0, bottom)
	y, node := y0, ""
	type place struct{ top, bottom int }
	spots := map[bar]place{} // where a bar's lanes lie, for its name
	var named []bar
	for _, l := range p.r.lanes(bars) {
		if l.node != node {
			if node != "" {
				y += nodeGap
			}
			node = l.node
			p.f(`<text x="%d" y="%d" text-anchor="end" font-weight="bold" fill="#1c2430">%s</text>`, picLeft-26, y+2*(laneHeight+laneGap)+4, html.EscapeString(node))
		}
		p.f(`<rect x="%d" y="%d" width="%d" height="%d" fill="#eef1f5"/>`, picLeft, y, picWidth-picLeft-picRight, laneHeight)
		p.f(`<text x="%d" y="%d" text-anchor="end" font-size="10" fill="#8a93a0">%d</text>`, picLeft-8, y+laneHeight-4, l.gpu)
		for _, b := range l.bars {
			p.bar(b, y)
			at, seen := spots[b]
			if !seen || at.bottom != y {
				at.top = y
				named = append(named, b)
			}
			if seen && at.bottom == y {
				named[len(named)-1] = b
			}
			at.bottom = y + laneHeight + laneGap
			spots[b] = at
		}
		y += laneHeight + laneGap
	}
	written := map[bar]bool{}
	for _, b := range named {
		if !written[b] {
			written[b] = true
			p.name(b, spots[b].top, spots[b].bottom-laneGap)
		}
	}
	p.deadlines(y0, bottom, ended)
}

// axis draws the time.
func (p *picture) axis(top, bottom int) {
	for t := time.Duration(0); t <= p.total; t += 30 * time.Second {
		x := p.x(p.r.began.Add(t))
		p.f(`<path d="M%.1f,%dV%d" stroke="#d5dbe3" stroke-width="1"/>`, x, top-4, bottom+5)
		p.f(`<text x="%.1f" y="%d" text-anchor="middle" font-size="11" fill="#5b6572">%s</text>`, x, bottom+18, clock(t))
	}
}

func (p *picture) bar(b bar, y int) {
	x, w := p.x(b.from), max(p.x(b.to)-p.x(b.from)-0.8, 1.5)
	tip := fmt.Sprintf("%s (%s): %s to %s on %d GPUs of %s", b.job.name, b.job.class, p.r.since(b.from), p.r.since(b.to), b.gpus, b.node)
	if b.profile {
		tip += ", profile run"
	}
	p.f(`<g><title>%s</title><rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`, html.EscapeString(tip), x, y, w, laneHeight, p.color[b.job])
	if b.profile {
		p.f(`<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="url(#hatch)"/>`, x, y, w, laneHeight)
	}
	if b.cut {
		p.f("%s", notch(x+w, float64(y), laneHeight))
	}
	p.f(`</g>`)
}

// name writes the job's name across the lanes of a bar, where it fits.
func (p *picture) name(b bar, top, bottom int) {
	w := p.x(b.to) - p.x(b.from)
	text := b.job.name
	if w < float64(7*len(text)+4) {
		if w < 9 || b.profile && w < 14 {
			return
		}
		text = string(b.job.letter)
	}
	ink, halo := colours[b.job.class][1], ""
	if b.profile {
		ink, halo = "#1c2430", ` stroke="#ffffff" stroke-width="2.5" paint-order="stroke"`
	}
	p.f(`<text x="%.1f" y="%.1f" text-anchor="middle" font-size="12" fill="%s"%s pointer-events="none">%s</text>`, p.x(b.from)+w/2, float64(top+bottom)/2+4.3, ink, halo,
		html.EscapeString(text))
}

// deadlines draws the first deadline of each job, and says how it came out.
func (p *picture) deadlines(top, bottom int, ended func(*outcome) time.Time) {
	row := 0
	for _, o := range p.r.jobs {
		d := o.deadline()
		if d.IsZero() {
			continue
		}
		verdict := "met at " + p.r.since(ended(o))
		if o.tierMet(ended(o)) != 0 {
			verdict = "missed, ended at " + p.r.since(ended(o))
		}
		x, y := p.x(d), top-20+13*row
		anchor, dx := "end", -5.0
		if row%2 == 1 {
			anchor, dx = "start", 5
		}
		p.f(`<path d="M%.1f,%dV%d" stroke="%s" stroke-width="1.8" stroke-dasharray="5 3"/>`, x, top-24, bottom+3, p.color[o])
		p.f(`<text x="%.1f" y="%d" text-anchor="%s" font-size="12" font-weight="bold" fill="%s">%s: due %s, %s</text>`, x+dx, top-14, anchor, p.color[o], html.EscapeString(o.name),
			p.r.since(d), verdict)
		row, _ = row+1, y
	}
}
