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

// notch is the torn edge of a bar that was cut: white teeth along its end at x.
func notch(x float64, y, height int) string {
	teeth := max(2*height/laneHeight, 2)
	h := float64(height) / float64(2*teeth)
	return fmt.Sprintf(`<path d="M%.1f,%d%sz" fill="#ffffff"/>`, x+0.6, y, strings.Repeat(fmt.Sprintf(" l-3.4,%.2f l3.4,%.2f", h, h), teeth))
}

// chart draws one of the two.
func (p *picture) chart(top int, title string, bars []bar, ended func(*outcome) time.Time) {
	p.f(`<text x="%d" y="%d" font-size="14" font-weight="bold" fill="#1c2430">%s</text>`, picLeft, top+16, html.EscapeString(title))
	y0 := top + chartHead
	bottom := y0 + p.r.lanesHeight()
	p.axis(y0, bottom)
	y, node := y0, ""
	spots := map[bar][]int{} // y of a bar's lanes, falling down the picture; looked up only
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
			spots[b] = append(spots[b], y)
		}
		y += laneHeight + laneGap
	}
	for _, b := range bars {
		p.bar(b, spots[b])
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

// block is a piece of a bar on neighbouring lanes.
type block struct{ y, height int }

// blocks joins lanes that lie next to each other, so that a bar is one shape where it can be.
func blocks(lanes []int) []block {
	var out []block
	for _, y := range lanes {
		if n := len(out); n > 0 && out[n-1].y+out[n-1].height+laneGap == y {
			out[n-1].height += laneGap + laneHeight
			continue
		}
		out = append(out, block{y, laneHeight})
	}
	return out
}

// bar draws a stay, with its name on its biggest piece.
func (p *picture) bar(b bar, lanes []int) {
	x, w := p.x(b.from), max(p.x(b.to)-p.x(b.from)-0.8, 1.5)
	tip := fmt.Sprintf("%s (%s): %s to %s on %d GPUs of %s", b.job.name, b.job.class, p.r.since(b.from), p.r.since(b.to), b.gpus, b.node)
	if b.profile {
		tip += ", profile run"
	}
	p.f(`<g><title>%s</title>`, html.EscapeString(tip))
	var biggest block
	for _, k := range blocks(lanes) {
		if k.height > biggest.height {
			biggest = k
		}
		p.f(`<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`, x, k.y, w, k.height, p.color[b.job])
		for y := k.y + laneHeight; y < k.y+k.height; y += laneHeight + laneGap { // the lanes shine through
			p.f(`<path d="M%.1f,%.1fh%.1f" stroke="#ffffff" stroke-opacity="0.25"/>`, x, float64(y)+laneGap/2.0, w)
		}
		if b.profile {
			p.f(`<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="url(#hatch)"/>`, x, k.y, w, k.height)
		}
		if b.cut {
			p.f("%s", notch(x+w, k.y, k.height))
		}
	}
	p.name(b, biggest)
	p.f(`</g>`)
}

// name writes the job's name, or its letter where only that fits.
func (p *picture) name(b bar, k block) {
	w := p.x(b.to) - p.x(b.from)
	text := b.job.name
	if w < float64(7*len(text)+6) {
		if text = string(b.job.letter); w < 13 {
			return
		}
	}
	ink, halo := colours[b.job.class][1], ""
	if b.profile {
		ink, halo = "#1c2430", ` stroke="#ffffff" stroke-width="3" paint-order="stroke"`
	}
	p.f(`<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s"%s pointer-events="none">%s</text>`, p.x(b.from)+w/2, float64(k.y)+float64(k.height)/2+4.3, ink, halo,
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
		x := p.x(d)
		anchor, dx := "end", -5.0
		if row%2 == 1 {
			anchor, dx = "start", 5
		}
		p.f(`<path d="M%.1f,%dV%d" stroke="%s" stroke-width="1.8" stroke-dasharray="5 3"/>`, x, top-24, bottom+3, p.color[o])
		p.f(`<text x="%.1f" y="%d" text-anchor="%s" font-size="12" font-weight="bold" fill="%s">%s: due %s, %s</text>`, x+dx, top-14, anchor, p.color[o], html.EscapeString(o.name),
			p.r.since(d), verdict)
		row++
	}
}
